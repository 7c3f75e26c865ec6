/**
 * The completion of bash, zsh and fish: build/fieldpost.*-completion follow the table of commands, which FIELDPOST_TEST_WRITE=1
 * writes, and the real shells complete with them: zsh and fish where they are installed (scripts/peers).
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { LANGS } from '../../src/base/langs.js';
import { STATUSES } from '../../src/base/views.js';
import { COMMON } from '../../src/cli/cli.js';
import { DEVICE_PROGRAM } from '../../src/cli/device.js';
import { json, TYPE_NAMES } from '../../src/cli/words.js';
import { DEVICE_SETTINGS } from '../../src/device/settings.js';
import { sameFile } from '../support/pages.js';

const FILE = 'build/fieldpost.bash-completion';
const ZSH_FILE = 'build/fieldpost.zsh-completion';
const FISH_FILE = 'build/fieldpost.fish-completion';
/** The values of options that have few. */
const VALUES = {
  lang: LANGS,
  night: ['drop', 'line'],
  priority: ['high', 'normal'],
  status: STATUSES,
  step: ['10m', '1h'],
  type: TYPE_NAMES,
};
/** Options with a file. */
const FILES = ['attach', 'env-file', 'out'];

/** What the files need of the table of commands. */
async function readTable() {
  const commands = await Promise.all(Object.values(DEVICE_PROGRAM.commands).map((load) => load()));
  const names = commands.map(({ name }) => name);
  /** The options of each command, as [name, takes a value]. */
  const options = new Map(
    commands.map(({ name, options }) => [
      name,
      Object.entries({ ...options, ...COMMON }).map(
        ([option, { type }]) => [option, type === 'string'] as const,
      ),
    ]),
  );
  const takers = [...options.values()].flat().flatMap(([name, takes]) => (takes ? name : []));
  return {
    commands,
    names,
    options,
    helpWords: [...names, ...DEVICE_SETTINGS.secretByKey.keys()],
    /** Options with any value. */
    free: [...new Set(takers)].filter((name) => !FILES.includes(name) && !Object.hasOwn(VALUES, name)),
    /** The verbs with ids behind them, as the help says. */
    idVerbs: commands.flatMap(({ name, help, verbs = [] }) =>
      verbs.filter((verb) => new RegExp(`\\b${verb} ID\\b`).test(help)).map((verb) => `${name} ${verb}`),
    ),
  };
}

type Table = Awaited<ReturnType<typeof readTable>>;

const LISTS: Readonly<Record<string, string>> = {
  queue: 'fieldpost queue list --json --limit 100; fieldpost queue list --json --limit 100 --status failed',
  destinations: 'fieldpost destinations list --json',
};
/** The lines of a list in JSON that have an id, as sed takes them. */
const ID_LINE = `s/^    "id": "\\{0,1\\}\\([A-Za-z0-9-]*\\)"\\{0,1\\},*$/\\1/p`;
const flags = (list: readonly string[]) => list.map((name) => `--${name}`);

/** The function of bash and zsh that prints the ids for a command and a verb. */
function idFunction({ idVerbs }: Table): string {
  const cases = Object.entries(LISTS).map(([name, call]) => {
    const verbs = idVerbs.filter((one) => one.startsWith(`${name} `)).map((one) => `'${one}'`);
    return `    ${verbs.join(' | ')}) ${call} ;;`;
  });
  return `_fieldpost_ids() {
  case "$1 $2" in
${cases.join('\n')}
  esac 2> /dev/null < /dev/null | sed -n '${ID_LINE}'
}`;
}

/** For bash and zsh: verbs and options by command. */
function commandCases(
  { commands, options, helpWords }: Table,
  list: (words: readonly string[]) => string,
  asFiles: string,
): string {
  const cases = commands.map(({ name, verbs = [], readsArguments }) => {
    if (readsArguments) return `    ${name}) ${asFiles}; return ;;`;
    const words = name === 'help' ? helpWords : verbs;
    return `    ${name}) verbs=${list(words)} options=${list(flags((options.get(name) ?? []).map(([option]) => option)))} ;;`;
  });
  return cases.join('\n');
}

function valueCases(list: (words: readonly string[]) => string): string {
  return Object.entries(VALUES)
    .map(([option, words]) => `    --${option}) values=${list(words)} ;;`)
    .join('\n');
}

const HEAD = (shell: string) =>
  `# Completion of ${shell} for fieldpost(1). Generated from the table of commands by test/docs/completion.test.ts.`;

function bashFile(table: Table): string {
  const list = (words: readonly string[]) => `'${words.join(' ')}'`;
  return `${HEAD('bash')}
${idFunction(table)}
_fieldpost() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]} values='' verbs='' options='' word
  COMPREPLY=()
  # bash takes the = of --option=value for a word.
  if [[ $cur == = ]]; then
    cur=''
  elif [[ $prev == = ]]; then
    prev=\${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $prev in
${valueCases(list)}
    ${flags(FILES).join(' | ')})
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      return
      ;;
    ${flags(table.free).join(' | ')}) return ;;
  esac
  if [[ -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
    return
  fi
  case \${COMP_WORDS[1]} in
${commandCases(table, list, 'compopt -o default')}
  esac
  if ((COMP_CWORD == 1)); then
    values='${table.names.join(' ')} --help --version'
  elif [[ $cur == -* ]]; then
    values=$options
  else
    values=$verbs
    # A verb is the first word behind the command.
    for word in "\${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
      if [[ $word != -* ]]; then
        values=$(_fieldpost_ids "\${COMP_WORDS[1]}" "$word")
        break
      fi
    done
  fi
  mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
}
complete -F _fieldpost fieldpost
`;
}

function zshFile(table: Table): string {
  const list = (words: readonly string[]) => `(${words.join(' ')})`;
  const described = table.commands.map(
    ({ name, summary }) => `      '${name}:${summary.replaceAll("'", "'\\\\''")}'`,
  );
  return `#compdef fieldpost
${HEAD('zsh')}
${idFunction(table)}
_fieldpost() {
  local prev=\${words[CURRENT-1]} word
  local -a values verbs options
  if [[ $PREFIX == --*=* ]]; then
    prev=\${PREFIX%%=*}
    compset -P '*='
  fi
  case $prev in
${valueCases(list)}
    ${flags(FILES).join(' | ')}) _files; return ;;
    ${flags(table.free).join(' | ')}) return ;;
  esac
  if (( $#values )); then
    compadd -a values
    return
  fi
  if (( CURRENT == 2 )); then
    values=(
${described.join('\n')}
    )
    _describe command values
    compadd -- --help --version
    return
  fi
  case \${words[2]} in
${commandCases(table, list, '_default')}
  esac
  if [[ $PREFIX == -* ]]; then
    compadd -a options
    return
  fi
  values=($verbs)
  # A verb is the first word behind the command.
  for word in \${words[3,CURRENT-1]}; do
    if [[ $word != -* ]]; then
      values=(\${(f)"$(_fieldpost_ids "\${words[2]}" "$word")"})
      break
    fi
  done
  compadd -a values
}
_fieldpost "$@"
`;
}

function fishFile(table: Table): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "\\\\'")}'`;
  const lines = table.commands.flatMap(({ name, summary, verbs = [], readsArguments }) => {
    const seen = `__fish_seen_subcommand_from ${name}`;
    const start = `complete -c fieldpost -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`;
    if (readsArguments) return [start, `complete -c fieldpost -n ${quoted(seen)} -F`];
    const options = (table.options.get(name) ?? []).map(([option, takes]) => {
      const words = Object.entries(VALUES).find(([one]) => one === option)?.[1];
      const value = words
        ? ` -x -a ${quoted(words.join(' '))}`
        : FILES.includes(option)
          ? ' -r -F'
          : takes
            ? ' -x'
            : '';
      return `complete -c fieldpost -n ${quoted(seen)} -l ${option}${value}`;
    });
    const firsts = name === 'help' ? table.helpWords : verbs;
    const none = `${seen}; and not __fish_seen_subcommand_from ${verbs.join(' ')}`;
    const when = name === 'help' ? seen : none;
    const own = table.idVerbs
      .filter((one) => one.startsWith(`${name} `))
      .map((one) => one.split(' ')[1] ?? '');
    return [
      start,
      ...options,
      ...(firsts.length > 0
        ? [`complete -c fieldpost -n ${quoted(when)} -a ${quoted(firsts.join(' '))}`]
        : []),
      ...(own.length > 0
        ? [
            `complete -c fieldpost -n ${quoted(`${seen}; and __fish_seen_subcommand_from ${own.join(' ')}`)} -a '(__fieldpost_ids ${name})'`,
          ]
        : []),
    ];
  });
  const cases = Object.entries(LISTS).map(([name, call]) => {
    const calls = call.split('; ').map((one) => `            ${one} 2> /dev/null < /dev/null`);
    return `        case ${name}\n${calls.join('\n')}`;
  });
  return `${HEAD('fish')}
function __fieldpost_ids
    begin
        switch $argv[1]
${cases.map((one) => one.replace(/^/gm, '    ')).join('\n')}
        end
    end | sed -n '${ID_LINE.replaceAll('\\', '\\\\')}'
end
complete -c fieldpost -f
complete -c fieldpost -n __fish_use_subcommand -l help
complete -c fieldpost -n __fish_use_subcommand -l version
${lines.join('\n')}
`;
}

t.test('the completion of each shell follows the table of commands', async (t) => {
  const table = await readTable();
  t.strictSame(table.idVerbs, [
    'queue show',
    'queue retry',
    'queue cancel',
    'destinations update',
    'destinations remove',
    'destinations test',
  ]);
  sameFile(t, FILE, bashFile(table));
  sameFile(t, ZSH_FILE, zshFile(table));
  sameFile(t, FISH_FILE, fishFile(table));
});

/** A program that has the ids a1 and a2 in the queue, f1 among the failed messages, and destinations 3 and 4. */
function fakeFieldpost(t: Test): string {
  const directory = t.testdir();
  const path = join(directory, 'fieldpost');
  const answer = (ids: readonly unknown[]) => json(ids.map((id) => ({ id, attachments: [{ id: 'x' }] })));
  writeFileSync(
    path,
    `#!/bin/sh
case "$*" in
  *'--status failed'*) echo '${answer(['f1'])}' ;;
  queue*) echo '${answer(['a1', 'a2'])}' ;;
  destinations*) echo '${answer([3, 4])}' ;;
esac
echo noise >&2
`,
    { mode: 0o755 },
  );
  return `${directory}:${process.env.PATH}`;
}

/** What bash offers for the last word of a line, sorted. */
function offered(...words: string[]): string[] {
  return offeredWith(process.env.PATH, ...words);
}

function offeredWith(PATH: string | undefined, ...words: string[]): string[] {
  // compopt works only while somebody types.
  const script = `set -eu; compopt() { :; }; . ${FILE}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _fieldpost; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const output = execFileSync('bash', ['--norc', '-c', script, 'bash', ...words], {
    encoding: 'utf8',
    env: { ...process.env, PATH },
  });
  return sorted(output);
}

/** The lines of a text, sorted. */
function sorted(text: string): string[] {
  return text
    .split('\n')
    .filter((word) => word !== '')
    .sort();
}

t.test('bash offers commands, verbs, options and values', async (t) => {
  t.strictSame(offered('fieldpost', 'd'), ['destinations', 'drill']);
  t.strictSame(offered('fieldpost', 'send'), ['send', 'sendmail']);
  t.strictSame(offered('fieldpost', '--v'), ['--version']);
  t.strictSame(offered('fieldpost', 'help', 'ch'), ['check']);
  t.strictSame(offered('fieldpost', 'help', 'FIELDPOST_LO'), ['FIELDPOST_LOCAL_MAIL', 'FIELDPOST_LOG']);
  t.strictSame(offered('fieldpost', 'queue', 'r'), ['release', 'retry']);
  t.strictSame(offered('fieldpost', 'queue', '--json', 'r'), ['release', 'retry']);
  const PATH = fakeFieldpost(t);
  t.strictSame(offeredWith(PATH, 'fieldpost', 'queue', 'retry', ''), ['a1', 'a2', 'f1']);
  t.strictSame(offeredWith(PATH, 'fieldpost', 'queue', 'show', 'a1', 'f'), ['f1']);
  t.strictSame(offeredWith(PATH, 'fieldpost', 'queue', 'hold', ''), [], 'it takes none');
  t.strictSame(offeredWith(PATH, 'fieldpost', 'destinations', 'remove', ''), ['3', '4']);
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

function isMissing(shell: string): boolean {
  return spawnSync(shell, ['-c', 'true']).error !== undefined;
}

t.test('fish offers the same', { skip: isMissing('fish') && 'fish is not installed' }, async (t) => {
  const PATH = fakeFieldpost(t);
  const asked = (line: string) => {
    const script = `source ${FISH_FILE}; complete -C ${JSON.stringify(line)}`;
    const text = execFileSync('fish', ['--no-config', '-c', script], {
      encoding: 'utf8',
      env: { ...process.env, PATH },
    });
    return sorted(text.replaceAll(/\t.*/g, ''));
  };
  t.strictSame(asked('fieldpost d'), ['destinations', 'drill']);
  t.strictSame(asked('fieldpost queue r'), ['release', 'retry']);
  t.strictSame(asked('fieldpost queue retry '), ['a1', 'a2', 'f1']);
  t.strictSame(asked('fieldpost destinations remove '), ['3', '4']);
  t.strictSame(asked('fieldpost queue --status de'), ['deferred']);
  t.strictSame(asked('fieldpost check --r'), ['--relay']);
  t.strictSame(asked('fieldpost help FIELDPOST_LO'), ['FIELDPOST_LOCAL_MAIL', 'FIELDPOST_LOG']);
});

t.test('zsh offers the same', { skip: isMissing('zsh') && 'zsh is not installed' }, async (t) => {
  const PATH = fakeFieldpost(t);
  // The builtins of completion work only while somebody types.
  const stubs = `
compset() { PREFIX=\${PREFIX#*=}; }
compadd() { if [[ $1 == -a ]]; then print -rl -- \${(P)2}; else shift; print -rl -- "$@"; fi; }
_describe() { print -rl -- \${\${(P)2}%%:*}; }
_files() { print FILES; }
_default() { print FILES; }
`;
  const asked = (...all: string[]) => {
    const script = `${stubs}words=("$@"); CURRENT=$#; PREFIX=\${words[-1]}; source ${ZSH_FILE}`;
    const output = execFileSync('zsh', ['-f', '-c', script, 'zsh', ...all], {
      encoding: 'utf8',
      env: { ...process.env, PATH },
    });
    const last = (all.at(-1) ?? '').replace(/^--[^=]*=/, '');
    return sorted(output).filter((word) => word.startsWith(last));
  };
  t.strictSame(asked('fieldpost', 'd'), ['destinations', 'drill']);
  t.strictSame(asked('fieldpost', 'queue', 'r'), ['release', 'retry']);
  t.strictSame(asked('fieldpost', 'queue', 'retry', ''), ['a1', 'a2', 'f1']);
  t.strictSame(asked('fieldpost', 'destinations', 'remove', ''), ['3', '4']);
  t.strictSame(asked('fieldpost', 'queue', '--status', 'de'), ['deferred']);
  t.strictSame(asked('fieldpost', 'queue', '--status=de'), ['deferred']);
  t.strictSame(asked('fieldpost', 'check', '--r'), ['--relay']);
  t.strictSame(asked('fieldpost', 'help', 'FIELDPOST_LO'), ['FIELDPOST_LOCAL_MAIL', 'FIELDPOST_LOG']);
  t.strictSame(asked('fieldpost', 'send', '--attach', ''), ['FILES']);
});
