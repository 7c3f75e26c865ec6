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

/** The SMS with as many of `names` as fit: `37 devices are offline: Pump 1, Pump 2 and 35 more.` */
export function smsList(
  head: string,
  colon: string,
  names: readonly string[],
  more: (named: number) => string,
): string {
  const shown = names.map((name) => shortened(folded(name), LISTED_CHARS_MAX));
  for (let named = shown.length; named > 0; named--) {
    const text = folded(`${head}${colon}${shown.slice(0, named).join(', ')}${more(named)}.`);
    if (isOneSms(text)) return text;
  }
  return folded(`${head}.`);
}

/** The longest beginning of `name` with which the text fits. */
export function cutToFit(name: string, textWith: (name: string) => string): string {
  const longest = [...name].length;
  for (let chars = longest; chars > 0; chars--) {
    const text = textWith(shortened(name, chars));
    if (isOneSms(text)) return text;
  }
  return textWith('...');
}

/** The first `charsMax` characters, and three dots for the others. */
function shortened(text: string, charsMax: number): string {
  const characters = [...text];
  return characters.length <= charsMax ? text : `${characters.slice(0, charsMax).join('').trimEnd()}...`;
}
