/**
 * The completion of bash: build/fieldpost.bash-completion follows the table of commands, which FIELDPOST_TEST_WRITE=1 writes,
 * and a real bash completes with it.
 */
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { LANGS } from '../../src/base/langs.js';
import { STATUSES } from '../../src/base/views.js';
import { COMMON } from '../../src/cli/cli.js';
import { DEVICE_PROGRAM } from '../../src/cli/device.js';
import { TYPE_NAMES } from '../../src/cli/words.js';
import { DEVICE_SETTINGS } from '../../src/device/settings.js';
import { sameFile } from '../support/pages.js';

const FILE = 'build/fieldpost.bash-completion';
/** The values of options that have few. */
const VALUES = {
  lang: LANGS,
  priority: ['high', 'normal'],
  status: STATUSES,
  step: ['10m', '1h'],
  type: TYPE_NAMES,
};
/** Options with a file. */
const FILES = ['attach', 'env-file', 'out'];

/** The completion file. */
async function completion(): Promise<string> {
  const commands = await Promise.all(Object.values(DEVICE_PROGRAM.commands).map((load) => load()));
  const names = commands.map(({ name }) => name);
  const takers = new Set<string>();
  const cases = commands.map(({ name, options, verbs = [], readsArguments }) => {
    if (name === 'help')
      return `    help) verbs='${[...names, ...DEVICE_SETTINGS.secretByKey.keys()].join(' ')}' options='--help' ;;`;
    if (readsArguments) return `    ${name}) compopt -o default; return ;;`;
    const all = Object.entries({ ...options, ...COMMON });
    for (const [option, { type }] of all) if (type === 'string') takers.add(option);
    const flags = all.map(([option]) => `--${option}`).join(' ');
    return `    ${name}) verbs='${verbs.join(' ')}' options='${flags}' ;;`;
  });
  const values = Object.entries(VALUES).map(
    ([option, words]) => `    --${option}) words='${words.join(' ')}' ;;`,
  );
  const others = [...takers].filter((name) => !FILES.includes(name) && !Object.hasOwn(VALUES, name));
  const asOptions = (list: readonly string[]) => list.map((name) => `--${name}`).join(' | ');
  return `# Completion of bash for fieldpost(1). Generated from the table of commands by test/docs/completion.test.ts.
_fieldpost() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]} words='' verbs='' options='' word
  COMPREPLY=()
  # bash takes the = of --option=value for a word.
  if [[ $cur == = ]]; then
    cur=''
  elif [[ $prev == = ]]; then
    prev=\${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $prev in
${values.join('\n')}
    ${asOptions(FILES)})
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      return
      ;;
    ${asOptions(others)}) return ;;
  esac
  if [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
  esac
  if ((COMP_CWORD == 1)); then
    words='${names.join(' ')} --help --version'
  elif [[ $cur == -* ]]; then
    words=$options
  else
    words=$verbs
    # A verb is the first word behind the command.
    for word in "\${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
      if [[ $word != -* ]]; then words=''; fi
    done
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _fieldpost fieldpost
`;
}

t.test('the completion of bash follows the table of commands', async (t) => {
  sameFile(t, FILE, await completion());
});

/** What bash offers for the last word of a line, sorted. */
function offered(...words: string[]): string[] {
  // compopt works only while somebody types.
  const script = `set -eu; compopt() { :; }; . ${FILE}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _fieldpost; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const output = execFileSync('bash', ['--norc', '-c', script, 'bash', ...words], { encoding: 'utf8' });
  return output
    .split('\n')
    .filter((word) => word !== '')
    .sort();
}

t.test('bash offers commands, verbs, options and values', async (t) => {
  t.strictSame(offered('fieldpost', 'd'), ['destinations']);
  t.strictSame(offered('fieldpost', 'send'), ['send', 'sendmail']);
  t.strictSame(offered('fieldpost', '--v'), ['--version']);
  t.strictSame(offered('fieldpost', 'help', 'ch'), ['check']);
  t.strictSame(offered('fieldpost', 'help', 'FIELDPOST_LO'), ['FIELDPOST_LOCAL_MAIL', 'FIELDPOST_LOG']);
  t.strictSame(offered('fieldpost', 'queue', 'r'), ['release', 'retry']);
  t.strictSame(offered('fieldpost', 'queue', '--json', 'r'), ['release', 'retry']);
  t.strictSame(offered('fieldpost', 'queue', 'retry', ''), [], 'an id is not known');
  t.strictSame(offered('fieldpost', 'queue', '--status', 'de'), ['deferred']);
  t.strictSame(offered('fieldpost', 'queue', '--status', '=', 'de'), ['deferred']);
  t.ok(offered('fieldpost', 'queue', '--status', '=').includes('expired'));
  t.strictSame(offered('fieldpost', 'check', '--r'), ['--relay']);
  t.strictSame(offered('fieldpost', 'send', '--att'), ['--attach']);
  t.strictSame(offered('fieldpost', 'send', '--attach', 'LIC'), ['LICENSE']);
  t.strictSame(offered('fieldpost', 'send', '--subject', ''), [], 'free text');
  t.strictSame(offered('fieldpost', 'send', '--priority', ''), ['high', 'normal']);
  t.strictSame(offered('fieldpost', 'destinations', 'add', '--lang', 'd'), ['de']);
  t.strictSame(offered('fieldpost', 'nothing', ''), []);
});
