/**
 * One line per event on standard output: the event's words, then `key=value` fields. Under journald a `<priority>` prefix
 * tells the level, so that `journalctl -p warning` works.
 */
import { isoOf, PRINTABLE, visible } from '../text.js';

/** How much an operator needs to see a line. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
/** The fields of an event. Null and undefined are left out. */
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** One method per level. */
export interface Log {
  debug(event: string, fields?: LogFields): void;
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
}

const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error'];
// syslog(3) priorities, as sd-daemon(3) reads them at the start of a line.
const PRIORITY: Record<LogLevel, string> = { debug: '<7>', info: '<6>', warn: '<4>', error: '<3>' };

/**
 * A log that hands each whole line to `write`, but none below `level`, which may change. With `priorities` a line starts
 * with its syslog priority, otherwise with the time and the level.
 */
export function createLog(options: {
  level: LogLevel;
  priorities: boolean;
  write: (line: string) => void;
  wallMs: () => number;
}): Log {
  const at =
    (level: LogLevel) =>
    (event: string, fields: LogFields = {}) => {
      if (LEVELS.indexOf(level) < LEVELS.indexOf(options.level)) return;
      const head = options.priorities ? PRIORITY[level] : `${isoOf(options.wallMs())} ${level.padEnd(5)} `;
      options.write(`${head}${event}${formatFields(fields)}\n`);
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** ` key=value` for each field that is set; a value with blanks, quotes or controls is a JSON string. */
function formatFields(fields: LogFields): string {
  let text = '';
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined || value === null) continue;
    const words = String(value);
    // A stranger's value can neither begin a line nor command the terminal that shows it.
    const isWord = PRINTABLE.test(words) ? /^[^ "=]+$/.test(words) : /^[^\s"=\p{C}]+$/u.test(words);
    text += ` ${key}=${isWord ? words : visible(JSON.stringify(words))}`;
  }
  return text;
}
