/**
 * The file of `--env-file`, read exactly as systemd reads an EnvironmentFile= (systemd.exec(5), since version 254), so
 * that one file serves both. systemd ignores bad lines silently; this reports them.
 */

interface BadLine {
  /** Counted from 1. */
  readonly line: number;
  readonly detail: string;
}

interface EnvFile {
  readonly values: Record<string, string>;
  /** The line of each key that holds. */
  readonly lines: ReadonlyMap<string, number>;
  readonly problems: BadLine[];
}

const KEY = /^[A-Za-z_][A-Za-z0-9_]*$/;
// Within double quotes a backslash escapes these; before anything else it is an ordinary character.
const ESCAPED_IN_QUOTES = new Set(['"', '\\', '`', '$']);

/**
 * Reads `KEY=value` lines. `#` and `;` start a comment line. Blanks around key and value do not count. Quotes at the
 * start of a value, or right after other quotes, keep blanks and line breaks. A backslash at the end of a line
 * continues it. Of two lines with the same key the last holds.
 */
export function parseEnvFile(text: string): EnvFile {
  const values: Record<string, string> = {};
  const lines = new Map<string, number>();
  const problems: BadLine[] = [];
  const source = text.replace(/\r\n?/g, '\n');
  let at = 0;
  let line = 1;
  while (at < source.length) {
    const lineEnd = endOfLine(source, at);
    const head = source.slice(at, lineEnd);
    const isComment = /^\s*(?:[#;]|$)/.test(head);
    const equals = head.indexOf('=');
    const key = head.slice(0, equals).trim();
    if (isComment || equals < 0 || !KEY.test(key)) {
      // The text is not shown: it may be a secret without its key.
      const exported = key.startsWith('export ') ? ' (without the word export)' : '';
      if (!isComment) problems.push({ line, detail: `this is not KEY=value${exported}` });
      at = lineEnd + 1;
      line += 1;
      continue;
    }
    const value = readValue(source, at + equals + 1);
    if (value.unclosed)
      problems.push({ line, detail: `the quote that starts the value of ${key} is never closed` });
    values[key] = value.text;
    lines.set(key, line);
    line += source.slice(at, value.end).split('\n').length - 1;
    at = value.end;
  }
  return { values, lines, problems };
}

function endOfLine(source: string, from: number): number {
  const end = source.indexOf('\n', from);
  return end < 0 ? source.length : end;
}

/** The value that starts at `from`; `end` is where the line after it starts. */
function readValue(source: string, from: number): { text: string; end: number; unclosed: boolean } {
  let text = '';
  // Length of the text that must not be trimmed, because it was quoted or escaped.
  let kept = 0;
  let fresh = true;
  let at = from;
  for (; at < source.length && source[at] !== '\n'; at++) {
    const char = source.charAt(at);
    if (fresh && (char === '"' || char === "'")) {
      const quoted = readQuoted(source, at);
      if (quoted === null) return { text: text + source.slice(at + 1), end: source.length, unclosed: true };
      text += quoted.text;
      kept = text.length;
      at = quoted.end;
    } else if (char === '\\') {
      at += 1;
      fresh = false;
      if (source[at] !== '\n') text += source.charAt(at);
      kept = text.length;
    } else if (!fresh || (char !== ' ' && char !== '\t')) {
      text += char;
      fresh = false;
    }
  }
  return { text: text.slice(0, kept) + text.slice(kept).trimEnd(), end: at + 1, unclosed: false };
}

/** The text between the quote at `from` and the closing quote at `end`; null without a closing quote. */
function readQuoted(source: string, from: number): { text: string; end: number } | null {
  const quote = source[from];
  let text = '';
  for (let at = from + 1; at < source.length; at++) {
    const char = source.charAt(at);
    if (char === quote) return { text, end: at };
    if (char !== '\\' || quote === "'") {
      text += char;
      continue;
    }
    at += 1;
    if (source[at] === '\n') continue;
    text += ESCAPED_IN_QUOTES.has(source.charAt(at)) ? source.charAt(at) : `\\${source.charAt(at)}`;
  }
  return null;
}
