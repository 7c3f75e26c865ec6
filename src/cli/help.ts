/**
 * `fieldpost help`, and that of the cloud: lists the commands, gives the help of one, explains a setting from the table of
 * settings, or searches both for a word.
 */
import { guessOf } from '../base/config/nearest.js';
import type { Row } from '../base/config/row.js';
import { EXIT } from '../base/errors.js';
import { oneSpaced, visible } from '../base/text.js';
import type { Program } from './cli.js';
import { type Command, CommandError, helpText, type ProgramContext } from './command.js';
import { terms, widthOf, wrapped } from './words.js';

const LINE_CHARS_MAX = 80;
/** The value of each fact begins here. */
const FACTS_AT = 13;

/** The command of a program, which lists the commands of the same. */
export function helpOf<C extends ProgramContext>(program: Program<C>): Command<ProgramContext> {
  const { name } = program;
  return {
    name: 'help',
    group: name === 'fieldpost' ? 'More' : '',
    summary: 'find a command or a setting',
    help: `${name} help [COMMAND | SETTING | WORD...]

Lists the commands; or gives the help of a command; or explains a setting, such
as FIELDPOST_LOG; or searches the texts of all commands and settings for words
that begin so. Exit status: 0 found, 64 nothing found.`,
    examples: [
      [`${name} help log`, 'which settings and commands are about logs?'],
      [`${name} help FIELDPOST_LOG`, 'what does this setting do?'],
    ],
    options: {},
    takesWords: true,
    asksService: false,
    async run({ words }, { settings, stdout }) {
      const [word = ''] = words;
      const exact = [program.commands, program.aliases ?? {}].find((some) => Object.hasOwn(some, word));
      const rows = settings.rows.map(([, row]) => row);
      const row = rows.find((one) => keyOf(one, word.toUpperCase()) !== null);
      const other = settings.programOf(word.toUpperCase());
      if (word === '') stdout.write(await overview(program, widthOf(stdout)));
      else if (exact !== undefined)
        stdout.write(helpText(await (exact[word] as () => Promise<Command<C>>)()));
      else if (row !== undefined) stdout.write(explained(word.toUpperCase(), row));
      else if (other !== null) {
        const key = word.toUpperCase();
        throw new CommandError(EXIT.usage, `${key} is for ${other}`, `${other} help ${key} tells more.`);
      } else
        stdout.write(
          `${terms(found(words, await commandsOf(program), rows, name), widthOf(stdout)).join('\n')}\n`,
        );
      return EXIT.ok;
    },
  };
}

function commandsOf<C extends ProgramContext>({ commands }: Program<C>): Promise<Command<C>[]> {
  return Promise.all(Object.values(commands).map((load) => load()));
}

/** All commands below the headings of their groups. */
async function overview<C extends ProgramContext>(program: Program<C>, cells: number): Promise<string> {
  const all = await commandsOf(program);
  const width = Math.max(...all.map(({ name }) => name.length));
  const parts = [...new Set(all.map(({ group }) => group))].map((group) => {
    const own = all.filter((command) => command.group === group);
    const rows = own.map(({ name, summary }) => [`  ${name.padEnd(width)}`, summary] as const);
    return [...(group === '' ? [] : [group]), ...terms(rows, cells)].join('\n');
  });
  return [`${program.name} <command> [options]`, ...parts, program.guide].join('\n\n');
}

/** In lower case, with one blank before each word: so the beginning of a word is found, and not its middle. */
function spaced(text: string): string {
  return ` ${text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, ' ')
    .trim()}`;
}

/** What has all of these words. Throws CommandError (64) with the nearest word if nothing has. */
function found<C extends ProgramContext>(
  words: readonly string[],
  commands: readonly Command<C>[],
  rows: readonly Row<unknown>[],
  program: string,
): (readonly [name: string, words: string])[] {
  const sought = words.map(spaced);
  const hasAll = (text: string) => sought.every((word) => word !== ' ' && spaced(text).includes(word));
  /** The first of these lines that has a word. */
  const tellingOf = (lines: readonly string[]) =>
    lines.find(hasAll) ??
    lines.find((line) => sought.some((word) => spaced(line).includes(word))) ??
    lines[0] ??
    '';
  const all = [
    ...commands.map(({ name, summary, help }) => [name, [summary, ...partsOf(help)]] as const),
    ...rows.map(({ key, about, allowed }) => [key, [...sentencesOf(plain(about)), allowed]] as const),
  ];
  const named = all.filter(([name]) => hasAll(name));
  const others = all.filter(([name, lines]) => !hasAll(name) && hasAll([name, ...lines].join(' ')));
  if (named.length + others.length > 0)
    return [...named, ...others].map(([name, lines]) => [name, tellingOf(lines).trim()]);
  const names = all.flatMap(([name]) => [name, ...name.toLowerCase().split('_')]);
  const verbs = commands.flatMap(({ verbs = [] }) => verbs);
  const guess = guessOf(words.join('_'), [...names, ...verbs]);
  throw new CommandError(
    EXIT.usage,
    `nothing is found for ${visible(words.join(' '))}${guess}`,
    `${program} help lists the commands, and ${program} check --all the settings.`,
  );
}

function sentencesOf(text: string): string[] {
  return text.split(/(?<=\.) /);
}

/** The sentences and the list entries of a help, and then the lines of its usage. */
function partsOf(help: string): string[] {
  const [usage = '', ...paragraphs] = help.split('\n\n');
  const parts = paragraphs.flatMap((one) => one.split(/\n {2}(?=\S)/)).map(oneSpaced);
  return [...parts.flatMap(sentencesOf), ...usage.split('\n').map(oneSpaced)];
}

/** The text for this key of the row. */
function explained(key: string, row: Row<unknown>): string {
  const facts = [
    ['value', keyOf(row, key) === 'file' ? (row.file?.allowed ?? '') : row.allowed],
    ['default', plain(row.fallbackWords)],
    ['changes', row.follows === 'restart' ? 'take effect after a restart' : 'take effect at a reload'],
    ...(row.credential === null || key.endsWith('_FILE')
      ? []
      : [['note', `other programs may see it in the environment: ${row.key}_FILE is better`]]),
  ] as const;
  const lines = facts.flatMap(([title, text]) => {
    const [first = '', ...more] = wrapped(text, LINE_CHARS_MAX - FACTS_AT);
    return [title.padEnd(FACTS_AT) + first, ...more.map((line) => ' '.repeat(FACTS_AT) + line)];
  });
  return `${[key, '', ...wrapped(plain(row.about), LINE_CHARS_MAX), '', ...lines].join('\n')}\n`;
}

/** Whether the row has this key: for its value, or for a file with a secret; null: it has not. */
function keyOf({ key, credential }: Row<unknown>, asked: string): 'value' | 'file' | null {
  if (asked === key) return 'value';
  return credential !== null && asked === `${key}_FILE` ? 'file' : null;
}

/** Markdown as text. */
function plain(text: string): string {
  return text.replaceAll('`', '');
}
