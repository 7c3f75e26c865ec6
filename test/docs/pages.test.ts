/**
 * The pages that people read agree with the code in both directions: commands, calls, errors, metrics, log lines, exit
 * statuses. The README is short, and every link has its target.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import t from 'tap';
import { EXIT, FieldpostError } from '../../src/base/errors.js';
import { PROBLEMS, problemOf } from '../../src/base/http/problem.js';
import { COMMON } from '../../src/cli/cli.js';
import { CLOUD_PROGRAM } from '../../src/cli/cloud.js';
import { type Command, helpText } from '../../src/cli/command.js';
import { DEVICE_PROGRAM } from '../../src/cli/device.js';
import { readSendmailCall } from '../../src/cli/sendmail.js';
import { CLOUD_ROUTES } from '../../src/cloud/routes.js';
import { ROUTES } from '../../src/device/api/routes.js';
import { startApi } from '../support/api.js';
import { MAIN } from '../support/daemon.js';
import { firstCells, PAGES, sameBlock, sectionOf } from '../support/pages.js';
import { startCloud } from '../support/reference-cloud.js';
import { logEventsOf, parse, readTree } from '../support/source.js';

const HELP_CHARS_MAX = 80;
const README_BYTES_MAX = 12 * 1024;

/** What a command tells of itself. */
type CommandText = Pick<Command, 'name' | 'summary' | 'help' | 'examples' | 'options'>;

/** Help as Markdown: usage and lists of options as code, sentences as text. */
function helpAsMarkdown(program: string, { name, summary, help }: CommandText): string[] {
  const parts = help.split(/\n{2,}/).flatMap((part, index) => {
    if (index === 0 || part.startsWith('  ')) return ['', '```', part, '```'];
    return ['', part.replaceAll(/--[a-z-]+|\bFIELDPOST_[A-Z_]+/g, '`$&`')];
  });
  return [`### ${program} ${name}`, '', `${summary[0]?.toUpperCase()}${summary.slice(1)}.`, ...parts, ''];
}

for (const [page, { name, commands }] of [
  ['build/man/fieldpost.1.md', DEVICE_PROGRAM],
  ['build/man/fieldpost-cloud.8.md', CLOUD_PROGRAM],
] as const) {
  t.test(`${page} has the help of every command`, async (t) => {
    const all: CommandText[] = await Promise.all(Object.values(commands).map((load) => load()));
    t.ok(all.length >= 3);
    sameBlock(t, page, 'commands', ['', ...all.flatMap((command) => helpAsMarkdown(name, command))]);
    sameBlock(t, page, 'examples', ['', '```sh', ...all.flatMap(exampleLines).slice(1), '```', '']);
  });

  t.test(`the examples of ${name} are commands with options that they have`, async (t) => {
    for (const load of Object.values(commands as typeof DEVICE_PROGRAM.commands)) {
      const command = await load();
      t.ok(command.examples.length > 0 && helpText(command).includes('\n\nExamples:\n  # '), command.name);
      for (const [call, what] of command.examples) {
        t.ok(`  # ${what}`.length <= HELP_CHARS_MAX && `  ${call}`.length <= HELP_CHARS_MAX, call);
        const [, args = ''] = call.split(`${name} ${command.name}`);
        t.ok(call.includes(`${name} ${command.name}`), call);
        // As a shell reads them: no word here has an escape.
        const [own = ''] = args.split(/ [|<>] /);
        const words = [...own.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
        if (command.readsArguments) t.ok(readSendmailCall(words), call);
        else {
          const { positionals } = parseArgs({
            args: words,
            options: { ...COMMON, ...command.options },
            allowPositionals: true,
          });
          t.ok(positionals.length === 0 || command.takesWords, call);
          // A duration stands where others have a verb.
          if (command.verbs && positionals.length > 0 && !/^\d/.test(positionals[0] ?? ''))
            t.ok(command.verbs.includes(positionals[0] ?? ''), call);
        }
      }
    }
  });
}

/** The examples of a command, as a shell script. */
function exampleLines({ examples }: CommandText): string[] {
  return ['', ...examples.flatMap(([call, what]) => [`# ${what}`, call])];
}

t.test('each command of the device has its heading, and each help fits a terminal', async (t) => {
  for (const { commands } of [DEVICE_PROGRAM, CLOUD_PROGRAM])
    for (const load of Object.values(commands as typeof DEVICE_PROGRAM.commands)) {
      const command = await load();
      const long = helpText(command)
        .split('\n')
        .filter((line) => line.length > HELP_CHARS_MAX);
      t.strictSame(long, [], command.name);
      t.equal(command.group === '', commands === CLOUD_PROGRAM.commands, command.name);
    }
});

t.test('the help of a command names its options and verbs, and no others', async (t) => {
  for (const load of Object.values(DEVICE_PROGRAM.commands)) {
    const { name, help, options, verbs = [], readsArguments } = await load();
    if (readsArguments) continue;
    const named = [...help.matchAll(/--([a-z-]+)/g)].map(([, option]) => option);
    t.strictSame(
      new Set([...named, 'help', 'env-file'].sort()),
      new Set([...Object.keys({ ...COMMON, ...options })].sort()),
      name,
    );
    // In the usage, or at the start of a line of the list below it.
    const called = [...help.matchAll(new RegExp(`^(?:fieldpost ${name} \\[?| {2})([a-z]+)\\b`, 'gm'))].map(
      ([, verb]) => verb,
    );
    t.strictSame([...new Set(called)].sort(), [...verbs].sort(), `fieldpost ${name}`);
  }
});

t.test('fieldpost-api(7) has the code of every refusal', async (t) => {
  const rows = Object.entries(PROBLEMS).map(
    ([code, [status, title]]) => `| \`${code}\` | ${status} | ${title} |`,
  );
  const head = ['| code | status | title |', '|---|---|---|'];
  sameBlock(t, 'build/man/fieldpost-api.7.md', 'errors', [...head, ...rows]);
});

/** The rows of a table of metrics. */
function metricRows(text: string): string[] {
  const rows = [...text.matchAll(/^# HELP (\w+) (.*)\n# TYPE \w+ (\w+)$/gm)].map(
    ([, name, help, kind]) => `| \`${name}\` | ${kind}: ${help} |`,
  );
  return ['| metric | what it tells |', '|---|---|', ...rows];
}

t.test('fieldpost-api(7) has every metric', async (t) => {
  await using api = await startApi();
  const rows = metricRows((await api.call('GET', '/metrics')).body);
  t.ok(rows.length > 22);
  sameBlock(t, 'build/man/fieldpost-api.7.md', 'metrics', rows);
});

t.test('fieldpost-cloud(8) has every metric of the reference cloud', async (t) => {
  await using cloud = await startCloud();
  const rows = metricRows((await cloud.call('GET', '/metrics')).text);
  t.ok(rows.length > 22);
  sameBlock(t, 'build/man/fieldpost-cloud.8.md', 'metrics', rows);
});

t.test('the page of the reference cloud has the configuration of each proxy in front of it', async (t) => {
  const page = PAGES.find((path) => /fieldpost-cloud\.\d\.md$/.test(path)) ?? '';
  for (const name of readdirSync('build/front')) {
    const lines = readFileSync(`build/front/${name}`, 'utf8').trimEnd().split('\n');
    sameBlock(t, page, name, ['', '```', ...lines, '```', '']);
  }
});

for (const [page, heading, routes] of [
  ['build/man/fieldpost-api.7.md', '## Calls', ROUTES],
  ['build/man/fieldpost-cloud.8.md', '## Calls of the reference cloud', CLOUD_ROUTES],
] as const) {
  t.test(`${page} has every call, and no other`, async (t) => {
    const told = firstCells(sectionOf(page, heading)).map((call) =>
      call.replace(/\?.*/, '').replace(/(?<=\/)[A-Z]+\b/g, (name) => `{${name.toLowerCase()}}`),
    );
    t.strictSame([...new Set(told)].sort(), routes.map(({ method, path }) => `${method} ${path}`).sort());
  });
}

t.test('fieldpost(1) and fieldpost-cloud(8) have every log line with its level, and no other', async (t) => {
  const tables = ['build/man/fieldpost.1.md', 'build/man/fieldpost-cloud.8.md'].map((page) =>
    [...sectionOf(page, '## Log lines').matchAll(/^\| `(.+?)` \| (\w+) \|/gm)].map(
      ([, event, level]) => `${event}: ${level}`,
    ),
  );
  const [, ofCloud = []] = tables;
  const told = tables.flat();
  const source = [...readTree(['src'], ['.ts'])];
  const logged = source
    .flatMap(([path, text]) => logEventsOf(parse(path, text)))
    .flatMap(({ event, level }) => (event === null ? [] : `${event}: ${level}`));
  t.ok(logged.length > 0, 'there are events');
  t.strictSame(
    logged.filter((line) => !told.includes(line)),
    [],
    'an operator who meets a line in the log finds what it means and what to do',
  );
  // Some are handed to the log by another name.
  const placesOf = (line: string) =>
    source.flatMap(([path, text]) => (text.includes(`'${line.replace(/: .*/, '')}'`) ? path : []));
  t.strictSame(
    told.filter((line) => placesOf(line).length === 0),
    [],
  );
  t.strictSame(
    told.filter((line) => placesOf(line).every((path) => path.startsWith('src/cloud/'))),
    ofCloud,
    'those that only the cloud writes are in its page',
  );
  t.equal(new Set(told).size, told.length, 'each once');
});

t.test('sendmail(8) has every option, and no other', async (t) => {
  const [options, rest] = sectionOf('build/man/sendmail.8.md', '## Options').split(
    'accepted and do nothing:',
  );
  const told = [...`${options}${rest?.slice(0, rest.indexOf(';'))}`.matchAll(/`-([A-Za-z])/g)].map(
    ([, letter = '']) => letter,
  );
  const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'];
  const taken = letters.filter((letter) => {
    const value = { b: 'm', f: 'a@example.com', r: 'a@example.com' }[letter] ?? '';
    try {
      return readSendmailCall([`-${letter}${value}`, 'value', 'a@example.com']) !== null;
    } catch {
      return false;
    }
  });
  t.strictSame([...new Set(told)].sort(), taken);
});

t.test('fieldpost(1) has every exit status, and no other', async (t) => {
  const all = firstCells(sectionOf('build/man/fieldpost.1.md', '## Exit status'));
  t.strictSame(all.map(Number), Object.values(EXIT));
});

t.test('the README lists every page, and the size of the program', async (t) => {
  const links = [...sectionOf('README.md', '## Pages').matchAll(/\]\((build\/man\/[^)#]+)\) \|/g)];
  t.strictSame(
    links.map(([, path]) => path).sort(),
    PAGES.filter((page) => page.startsWith('build/man/')),
  );
  const [, megabytes] = /, (\d\.\d) MB in all/.exec(readFileSync('README.md', 'utf8')) ?? [];
  if (existsSync(MAIN)) t.equal(megabytes, (statSync(MAIN).size / 1e6).toFixed(1));
});

t.test('the file for settings names the page that has them', async (t) => {
  const text = readFileSync('build/fieldpost.env', 'utf8');
  const keys = [...text.matchAll(/FIELDPOST_\w+/g)].map(([key]) => key);
  const named = [...text.matchAll(/\bman ([\w.-]*\w)/g)].map(([, page]) => page);
  t.ok(keys.length > 3 && named.length > 1);
  for (const page of named) {
    const headings = PAGES.filter((path) => path.replace(/\.\d\.md$/, '') === `build/man/${page}`).flatMap(
      anchorsOf,
    );
    t.strictSame(
      keys.filter((key) => !headings.includes(key.toLowerCase())),
      [],
      `man ${page}`,
    );
  }
});

t.test('fieldpost-api(7) names a member of the answer to a mistake', async (t) => {
  const [, member = '', example] =
    /Its `(\w+)` ends in one of\s+these codes, as `(\S+)`/.exec(
      sectionOf('build/man/fieldpost-api.7.md', '### Errors'),
    ) ?? [];
  const answer = JSON.parse(problemOf(new FieldpostError('invalid', 'x')).body);
  t.equal(answer[member], example);
});

t.test('test/README.md has every long variant, and where it runs', async (t) => {
  const rows = readFileSync('test/README.md', 'utf8').match(/^\| `\.ci\/.*$/gm) ?? [];
  const [often = [], seldom = []] = rows.map((row) =>
    [...row.matchAll(/`([\w-]+\/[\w-]+)`/g)].map(([, name]) => `test/${name}.test.ts`),
  );
  // Not as one word: .ci/long looks for it.
  const variant = /FIELDPOST_TEST_LON[G]|\bIS_LON[G]\b/;
  const all = [...readTree(['test'], ['.test.ts'])].flatMap(([path, text]) =>
    variant.test(text) && !path.startsWith('test/runner/') ? path : [],
  );
  t.strictSame([...often, ...seldom].sort(), all.sort());
  // Each command as one line. Not as one word, as above.
  const commands = readFileSync('.ci/run', 'utf8').replaceAll('\\\n', ' ').split('\n');
  const long = commands.filter((command) => /^ *FIELDPOST_TEST_LON[G]=1 /.test(command));
  const asked = long.flatMap((command) => command.match(/\btest\/[\w/.-]+/g) ?? []);
  t.strictSame(
    all.filter((path) => asked.some((one) => path === one || path.startsWith(`${one}/`))),
    often.sort(),
  );
});

t.test('the README can be read in ten minutes', async (t) => {
  const { size } = statSync('README.md');
  t.ok(size <= README_BYTES_MAX, `${size} bytes of ${README_BYTES_MAX}`);
});

t.test('every link has its target', async (t) => {
  for (const page of [...PAGES, 'CHANGELOG.md']) {
    const dead = linksOf(page).filter(({ file, anchor }) => {
      if (!existsSync(file)) return true;
      return anchor !== undefined && !anchorsOf(file).includes(anchor);
    });
    t.strictSame(dead, [], page);
  }
  t.ok(linksOf('README.md').length > 10);
});

/** The relative links of a page, with their targets from the top of the repository. */
function linksOf(page: string) {
  const text = readFileSync(page, 'utf8').replaceAll(/^```.*?^```/gms, '');
  return [...text.matchAll(/\[[^\]]*\]\((?!\w+:)([^)#]*)(?:#([^)]*))?\)/g)].map(([, path = '', anchor]) => ({
    file: path === '' ? page : join(dirname(page), path),
    anchor,
  }));
}

/** The anchors that GitHub gives to the headings of a page. */
function anchorsOf(page: string): string[] {
  const text = readFileSync(page, 'utf8').replaceAll(/^```.*?^```/gms, '');
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, words = '']) =>
    words
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
