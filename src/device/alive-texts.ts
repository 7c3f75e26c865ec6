/**
 * The words of the messages about programs that give no sign, in the languages of the address book. Loaded with the first
 * such message. Pure.
 */
import type { Lang } from '../base/langs.js';
import { span } from '../base/text.js';

/** `name` has given no sign for `length`; it gives signs again, after `length`. `day`: the unit, short. */
interface Words {
  readonly late: (name: string, length: string) => string;
  readonly back: (name: string, length: string) => string;
  readonly day: string;
}

// Short, and without letters that GSM 03.38 lacks: with one, an SMS holds 70 characters and not 160.
const WORDS: Readonly<Record<Lang, Words>> = {
  en: {
    late: (name, length) => `${name} has given no sign for ${length}`,
    back: (name, length) => `${name} gives signs again, after ${length}`,
    day: 'd',
  },
  de: {
    late: (name, length) => `${name} gibt seit ${length} kein Lebenszeichen`,
    back: (name, length) => `${name} gibt wieder Lebenszeichen, nach ${length}`,
    day: 'd',
  },
  nl: {
    late: (name, length) => `${name} geeft al ${length} geen teken van leven`,
    back: (name, length) => `${name} geeft weer tekens van leven, na ${length}`,
    day: 'd',
  },
  fr: {
    late: (name, length) => `${name} ne donne plus signe de vie depuis ${length}`,
    back: (name, length) => `${name} donne de nouveau signe de vie, après ${length}`,
    day: 'j',
  },
  it: {
    late: (name, length) => `${name} non dà segni di vita da ${length}`,
    back: (name, length) => `${name} dà di nuovo segni di vita, dopo ${length}`,
    day: 'g',
  },
  pl: {
    late: (name, length) => `${name} nie daje znaku od ${length}`,
    back: (name, length) => `${name} znowu daje znak, po ${length}`,
    day: 'd',
  },
  es: {
    late: (name, length) => `${name} no da señales de vida desde hace ${length}`,
    back: (name, length) => `${name} vuelve a dar señales de vida tras ${length}`,
    day: 'd',
  },
};

/** What a message says; at most this long was it silent if `isAtLeast` is false. */
export interface Silence {
  readonly kind: 'late' | 'back';
  readonly program: string;
  readonly silentMs: number;
  /** True: perhaps longer. */
  readonly isAtLeast: boolean;
}

/** The one sentence of a message, without its full stop. */
export function aliveText(lang: Lang, { kind, program, silentMs, isAtLeast }: Silence): string {
  const { day, ...words } = WORDS[lang];
  const length = span(silentMs).replace(/(?<=\d )d\b/, day);
  return words[kind](program, `${isAtLeast ? '> ' : ''}${length}`);
}
