/**
 * `fieldpost help FIELDPOST_LOG`: explains a setting, from the table of settings.
 */
import { guessOf } from '../base/config/nearest.js';
import type { Row } from '../base/config/row.js';
import type { Settings } from '../base/config/settings.js';
import { EXIT } from '../base/errors.js';
import type { MailConfig } from '../mail/settings.js';
import { CommandError } from './command.js';

const LINE_CHARS_MAX = 80;
/** The value of each fact begins here. */
const FACTS_AT = 13;

/** The text for this key, in upper or lower case. Throws CommandError (64) with the nearest key for an unknown one. */
export function explained(name: string, program: string, settings: Settings<MailConfig>): string {
  const key = name.toUpperCase();
  const row = settings.rows.map(([, one]) => one).find((one) => keyOf(one, key) !== null);
  if (row === undefined) {
    const other = settings.programOf(key);
    if (other !== null)
      throw new CommandError(EXIT.usage, `${key} is for ${other}`, `${other} help ${key} tells more.`);
    const guess = guessOf(key, settings.secretByKey.keys());
    throw new CommandError(
      EXIT.usage,
      `there is no setting ${key}${guess}`,
      `${program} check lists all settings.`,
    );
  }
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

function wrapped(text: string, chars: number): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) as string;
    if (line === '') lines[lines.length - 1] = word;
    else if (line.length + 1 + word.length <= chars) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}
