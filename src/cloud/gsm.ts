/**
 * The alphabet of SMS (GSM 03.38). One SMS has 160 septets of it, or 70 UTF-16 units as soon as one character is outside.
 */

const SEPTETS_MAX = 160;
const UNITS_MAX = 70;

/** One septet each. */
const BASIC = new Set(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà',
);
/** Two septets each: the escape and the character. */
const EXTENDED = new Set('\f^{}\\[~]|€');

/** Spellings that do not follow from Unicode's decompositions. */
const SPELLINGS: Readonly<Record<string, string>> = {
  '‘': "'",
  '’': "'",
  '‚': "'",
  '“': '"',
  '”': '"',
  '„': '"',
  '«': '"',
  '»': '"',
  '‹': "'",
  '›': "'",
  '′': "'",
  '`': "'",
  '´': "'",
  '‐': '-',
  '‑': '-',
  '–': '-',
  '—': '-',
  '−': '-',
  '…': '...',
  '·': '-',
  '•': '-',
  '×': 'x',
  º: 'o',
  ª: 'a',
  œ: 'oe',
  Œ: 'OE',
  ł: 'l',
  Ł: 'L',
  đ: 'd',
  Đ: 'D',
  ı: 'i',
  ẞ: 'SS',
};

/**
 * The text in the alphabet, as people write SMS: `urządzenie` becomes `urzadzenie`. Characters without an accepted plain
 * spelling stay as they are.
 */
export function folded(text: string): string {
  return [...text.normalize('NFC')].map(foldedCharacter).join('');
}

function foldedCharacter(character: string): string {
  if (isInAlphabet(character)) return character;
  const spelling = SPELLINGS[character];
  if (spelling !== undefined) return spelling;
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
