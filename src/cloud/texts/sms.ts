/**
 * The alphabet of SMS (GSM 03.38), and texts that are cut to one SMS: 160 septets of the alphabet, or 70 UTF-16 units as
 * soon as one character is outside.
 */

const SEPTETS_MAX = 160;
const UNITS_MAX = 70;

/** One septet each. */
const BASIC = new Set(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà',
);
/** Two septets each: the escape and the character. */
const EXTENDED = new Set('\f^{}\\[~]|€');

/** Most texts: one septet for each character. */
const PLAIN = /^[ -Z_a-z]*$/;

/** Spellings that do not follow from Unicode's decompositions, and the characters that get them. */
const SPELLINGS: readonly (readonly [spelling: string, characters: string])[] = [
  ["'", '‘’‚‹›′`´'],
  ['"', '“”„«»'],
  ['-', '‐‑–—−·•'],
  ['x', '×'],
  ['oe', 'œ'],
  ['OE', 'Œ'],
  ['l', 'ł'],
  ['L', 'Ł'],
  ['d', 'đ'],
  ['D', 'Đ'],
  ['i', 'ı'],
  ['SS', 'ẞ'],
];

/**
 * The text in the alphabet, as people write SMS: `urządzenie` becomes `urzadzenie`. Characters without an accepted plain
 * spelling stay as they are.
 */
export function folded(text: string): string {
  if (PLAIN.test(text)) return text;
  return [...text.normalize('NFC')].map(foldedCharacter).join('');
}

function foldedCharacter(character: string): string {
  if (isInAlphabet(character)) return character;
  const spelling = SPELLINGS.find(([, characters]) => characters.includes(character));
  if (spelling !== undefined) return spelling[0];
  if (/\s/u.test(character)) return ' ';
  // A mark that has no letter of its own, as in x̄.
  if (/[\u0300-\u036f]/.test(character)) return '';
  const base = character.normalize('NFKD').replace(/\p{M}/gu, '');
  return base !== '' && [...base].every(isInAlphabet) ? base : character;
}

/** True if a phone network sends the text as one SMS. */
export function isOneSms(text: string): boolean {
  if (PLAIN.test(text)) return text.length <= SEPTETS_MAX;
  let septets = 0;
  for (const character of text) {
    if (!isInAlphabet(character)) return text.length <= UNITS_MAX;
    septets += EXTENDED.has(character) ? 2 : 1;
  }
  return septets <= SEPTETS_MAX;
}

function isInAlphabet(character: string): boolean {
  return BASIC.has(character) || EXTENDED.has(character);
}

/** The most letters of a name in a list. */
const LISTED_CHARS_MAX = 40;

/** A name in a list. */
export function listedName(name: string): string {
  return shortened(folded(name), LISTED_CHARS_MAX);
}

/** The SMS with as many of `items` as fit: `37 devices are offline: Pump 1, Pump 2 and 35 more.` */
export function smsList(
  head: string,
  colon: string,
  items: readonly string[],
  more: (named: number) => string,
): string {
  for (let named = items.length; named > 0; named--) {
    const text = folded(`${head}${colon}${items.slice(0, named).join(', ')}${more(named)}.`);
    if (isOneSms(text)) return text;
  }
  return folded(`${head}.`);
}

/** A part of an SMS behind its first words. */
export interface SmsPart {
  /** What comes before it: `. Site: ` */
  readonly lead: string;
  /** Its texts, the whole one first. */
  readonly versions: readonly string[];
  /**
   * How important each version is. The least important gives way first: to the next version, the last one to nothing. One
   * without a weight stays.
   */
  readonly weights: readonly number[];
  /** A text of any length: it is cut before it gives way. */
  readonly isCut?: boolean;
}

/** An SMS before it is made to fit: its first words, then the parts. */
interface SmsDraft {
  /** The first words with this name. Like the versions of a part, the whole ones first. */
  readonly heads: readonly ((name: string) => string)[];
  readonly headWeight: number;
  readonly name: string;
  readonly parts: readonly SmsPart[];
}

/** A cut text has at least this many characters, or is left out. */
const CUT_CHARS_MIN = 12;
/** A longer name is cut before a text that may be cut is left out. */
const NAME_CHARS = 40;

/**
 * The SMS with as much of its parts as fits. The least important give way first; then those that fit beside what is left
 * come back. At last the name is cut.
 */
export function fitted({ heads, headWeight, name, parts }: SmsDraft): string {
  const whole = folded(name);
  const first: SmsPart = { lead: '', versions: [], weights: heads.slice(1).map(() => headWeight) };
  /** The version of each part; one past the last: left out. */
  const shown = new Map([first, ...parts].map((part) => [part, 0]));
  const versionOf = (part: SmsPart) => shown.get(part) as number;
  const say = (called: string, cutPart: SmsPart | null = null, text = '') =>
    joined([
      heads[versionOf(first)]?.(called) ?? '',
      ...parts.flatMap((part) => {
        const version = part === cutPart ? text : part.versions[versionOf(part)];
        return version === undefined ? [] : [part.lead, version];
      }),
    ]);
  const steps = [first, ...parts]
    .flatMap((part) => part.weights.map((weight) => ({ part, weight })))
    .sort((a, b) => a.weight - b.weight);
  const given: SmsPart[] = [];
  for (const { part } of steps) {
    if (isOneSms(say(whole))) break;
    if (part.isCut) {
      const found = cutPartToFit(part, whole, (called, text) => say(called, part, text));
      if (found !== null) return found;
    }
    shown.set(part, versionOf(part) + 1);
    given.unshift(part);
  }
  for (const part of given) {
    const version = versionOf(part);
    shown.set(part, version - 1);
    if (!isOneSms(say(whole))) shown.set(part, version);
  }
  return cutToFit(whole, say);
}

/** The SMS with the longest beginning of the part; null: less than CUT_CHARS_MIN characters of it fit. */
function cutPartToFit(
  { versions }: SmsPart,
  name: string,
  say: (name: string, text: string) => string,
): string | null {
  const text = folded(versions[0] as string);
  for (const called of [name, shortened(name, NAME_CHARS), shortened(name, CUT_CHARS_MIN)]) {
    const found = longestFit(text, (cut) => say(called, cut), CUT_CHARS_MIN);
    if (found !== null) return found;
  }
  return null;
}

/** One text of sentences. */
function joined(pieces: readonly string[]): string {
  let text = '';
  for (const piece of pieces) text += piece.startsWith('.') && isSentence(text) ? piece.slice(1) : piece;
  return folded(asSentence(text));
}

/** The text with a full stop, unless a sign ends it already. */
export function asSentence(text: string): string {
  return isSentence(text) ? text : `${text}.`;
}

function isSentence(text: string): boolean {
  return /[.!?\u2026]$/.test(text);
}

/** The text with the longest beginning of `name` with which it fits. If none fits: with `instead`. */
export function cutToFit(name: string, textWith: (name: string) => string, instead = '...'): string {
  return longestFit(name, textWith, 1) ?? textWith(instead);
}

/** The text with the longest beginning of `part`, of at least `charsMin` characters, with which it fits; null: none does. */
function longestFit(part: string, textWith: (part: string) => string, charsMin: number): string | null {
  const whole = textWith(part);
  if (isOneSms(whole)) return whole;
  let fits: string | null = null;
  // With more characters of it a text is never shorter.
  for (let [least, most] = [charsMin, [...part].length - 1]; least <= most; ) {
    const chars = (least + most) >> 1;
    const text = textWith(shortened(part, chars));
    if (isOneSms(text)) [fits, least] = [text, chars + 1];
    else most = chars - 1;
  }
  return fits;
}

/** The first `charsMax` characters, and three dots for the others. */
function shortened(text: string, charsMax: number): string {
  const characters = [...text];
  return characters.length <= charsMax ? text : `${characters.slice(0, charsMax).join('').trimEnd()}...`;
}
