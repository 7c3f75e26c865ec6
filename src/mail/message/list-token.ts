/**
 * The tokens of an address list (RFC 5322 §3.2): atoms, quoted strings, comments, domain literals and separators. Pure.
 */

/** A token, and its place in the text. */
export interface ListToken {
  readonly kind: 'atom' | 'quoted' | 'comment' | 'literal' | 'special';
  /** Without the quotes or parentheses around it, and without their backslashes. */
  readonly text: string;
  /** True if blanks or a comment stand before it. */
  readonly isApart: boolean;
  /** False if its end is missing. */
  readonly isWhole: boolean;
  readonly start: number;
  readonly end: number;
}

const QUOTED = /"((?:[^"\\]|\\[\s\S])*)("?)/y;
const LITERAL = /\[[^\]]*(\]?)/y;
const BLANKS = ' \t\r\n';
const SPECIALS = '"(),:;<>[]';

/** All tokens of the text, in linear time. */
export function tokensOf(text: string): ListToken[] {
  const tokens: ListToken[] = [];
  let isApart = false;
  for (let at = 0; at < text.length; ) {
    if (BLANKS.includes(text[at] as string)) {
      isApart = true;
      at++;
      continue;
    }
    const token = tokenAt(text, at, isApart);
    tokens.push(token);
    isApart = token.kind === 'comment';
    at = token.end;
  }
  return tokens;
}

function tokenAt(text: string, start: number, isApart: boolean): ListToken {
  const character = text[start] as string;
  if (character === '"') {
    const [all, inside = '', quote] = matchAt(QUOTED, text, start);
    const end = start + all.length;
    return { kind: 'quoted', text: unescaped(inside), isApart, isWhole: quote === '"', start, end };
  }
  if (character === '[') {
    const [all, bracket] = matchAt(LITERAL, text, start);
    return { kind: 'literal', text: all, isApart, isWhole: bracket === ']', start, end: start + all.length };
  }
  if (character === '(') return commentAt(text, start, isApart);
  let end = start + 1;
  if (SPECIALS.includes(character)) {
    return { kind: 'special', text: character, isApart, isWhole: true, start, end };
  }
  while (
    end < text.length &&
    !SPECIALS.includes(text[end] as string) &&
    !BLANKS.includes(text[end] as string)
  )
    end++;
  return { kind: 'atom', text: text.slice(start, end), isApart, isWhole: true, start, end };
}

/** Comments may hold comments. */
function commentAt(text: string, start: number, isApart: boolean): ListToken {
  let depth = 1;
  let end = start + 1;
  for (; end < text.length && depth > 0; end++) {
    const character = text[end];
    if (character === '\\') end++;
    else if (character === '(') depth++;
    else if (character === ')') depth--;
  }
  const isWhole = depth === 0;
  const inside = unescaped(text.slice(start + 1, isWhole ? end - 1 : text.length));
  return { kind: 'comment', text: inside, isApart, isWhole, start, end };
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray {
  pattern.lastIndex = at;
  // Both patterns match wherever their first character stands.
  return pattern.exec(text) as RegExpExecArray;
}

/** The text without the backslashes of quoted pairs, and unfolded. */
function unescaped(text: string): string {
  return text.replace(/\r\n([ \t])/g, '$1').replace(/\\([\s\S])/g, '$1');
}
