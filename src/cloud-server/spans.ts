/**
 * Lengths of time and moments in words, in each language. Plurals and dates are tables of ours: they are the
 * same on every build of Node, and loading Intl takes 8 MB. Used by texts.ts.
 */
import type { Lang } from '../destinations/destination.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../limits.js';

/** The forms of a noun behind a number: for one; for several; and where those differ, for many (Polish 5, 12, 25). */
type Noun = readonly [one: string, few: string, many?: string];

interface Words {
  /** Day, hour, minute, second. */
  readonly units: readonly [Noun, Noun, Noun, Noun];
  readonly and: string;
  /** January to December, as they stand in a date. */
  readonly months: string;
  readonly date: (day: number, month: string, year: number) => string;
  /** Behind the date. */
  readonly time: (time: string) => string;
}

const asIs = (time: string) => `, ${time}`;
const dayMonthYear: Words['date'] = (day, month, year) => `${day} ${month} ${year}`;

const WORDS: Readonly<Record<Lang, Words>> = {
  nl: {
    units: [
      ['dag', 'dagen'],
      ['uur', 'uur'],
      ['minuut', 'minuten'],
      ['seconde', 'seconden'],
    ],
    and: 'en',
    months: 'januari februari maart april mei juni juli augustus september oktober november december',
    date: dayMonthYear,
    time: (time) => ` om ${time} uur`,
  },
  fr: {
    units: [
      ['jour', 'jours'],
      ['heure', 'heures'],
      ['minute', 'minutes'],
      ['seconde', 'secondes'],
    ],
    and: 'et',
    months: 'janvier février mars avril mai juin juillet août septembre octobre novembre décembre',
    date: (day, month, year) => `${day === 1 ? '1er' : day} ${month} ${year}`,
    time: (time) => ` à ${time}`,
  },
  de: {
    units: [
      ['Tag', 'Tage'],
      ['Stunde', 'Stunden'],
      ['Minute', 'Minuten'],
      ['Sekunde', 'Sekunden'],
    ],
    and: 'und',
    months: 'Januar Februar März April Mai Juni Juli August September Oktober November Dezember',
    date: (day, month, year) => `${day}. ${month} ${year}`,
    time: (time) => `, ${time} Uhr`,
  },
  en: {
    units: [
      ['day', 'days'],
      ['hour', 'hours'],
      ['minute', 'minutes'],
      ['second', 'seconds'],
    ],
    and: 'and',
    months: 'January February March April May June July August September October November December',
    date: dayMonthYear,
    time: asIs,
  },
  it: {
    units: [
      ['giorno', 'giorni'],
      ['ora', 'ore'],
      ['minuto', 'minuti'],
      ['secondo', 'secondi'],
    ],
    and: 'e',
    months: 'gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre',
    date: (day, month, year) => `${day === 1 ? '1º' : day} ${month} ${year}`,
    time: (time) => `, ore ${time}`,
  },
  pl: {
    units: [
      ['dzień', 'dni', 'dni'],
      ['godzina', 'godziny', 'godzin'],
      ['minuta', 'minuty', 'minut'],
      ['sekunda', 'sekundy', 'sekund'],
    ],
    and: 'i',
    months:
      'stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia',
    date: (day, month, year) => `${day} ${month} ${year} r.`,
    time: (time) => `, godz. ${time}`,
  },
  es: {
    units: [
      ['día', 'días'],
      ['hora', 'horas'],
      ['minuto', 'minutos'],
      ['segundo', 'segundos'],
    ],
    and: 'y',
    months: 'enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre',
    date: (day, month, year) => `${day} de ${month} de ${year}`,
    time: (time) => `, ${time} h`,
  },
};

const UNITS_MS = [DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS] as const;

/** `ms` in its largest unit and the next smaller one, rounded down: `2 hours and 5 minutes`, `1 minuta`. */
export function spanIn(lang: Lang, ms: number): string {
  const { units, and } = WORDS[lang];
  const wholeMs = Math.max(ms, SECOND_MS);
  const largest = UNITS_MS.findIndex((unitMs) => wholeMs >= unitMs);
  const say = (index: number, count: number) => `${count} ${nounFor(count, units[index] as Noun)}`;
  const unitMs = UNITS_MS[largest] as number;
  const count = Math.floor(wholeMs / unitMs);
  const restUnitMs = UNITS_MS[largest + 1];
  const rest = restUnitMs === undefined ? 0 : Math.floor((wholeMs % unitMs) / restUnitMs);
  return rest === 0 ? say(largest, count) : `${say(largest, count)} ${and} ${say(largest + 1, rest)}`;
}

/** Polish alone tells 2 to 4 (but not 12 to 14) from the rest; in all others every number but 1 is a plural. */
function nounFor(count: number, [one, few, many = few]: Noun): string {
  if (count === 1) return one;
  const isFew = count % 10 >= 2 && count % 10 <= 4 && !(count % 100 >= 12 && count % 100 <= 14);
  return isFew ? few : many;
}

/** A moment with its time zone: `20 November 2026, 09:41 (UTC)`. Throws RangeError for a zone that is none. */
export function momentIn(lang: Lang, wallMs: number, timeZone: string): string {
  const { months, date, time } = WORDS[lang];
  const { year, month, day, clock, offset } = timeZone === 'UTC' ? inUtc(wallMs) : inZone(wallMs, timeZone);
  return `${date(day, months.split(' ')[month - 1] as string, year)}${time(clock)} (${offset})`;
}

interface Local {
  readonly year: number;
  /** From 1. */
  readonly month: number;
  readonly day: number;
  /** `09:41` */
  readonly clock: string;
  /** `UTC`, `UTC+01:00` */
  readonly offset: string;
}

function inUtc(wallMs: number): Local {
  const date = new Date(wallMs);
  return {
    year: date.getUTCFullYear(),
    month: date.getUTCMonth() + 1,
    day: date.getUTCDate(),
    clock: date.toISOString().slice(11, 16),
    offset: 'UTC',
  };
}

function inZone(wallMs: number, timeZone: string): Local {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    timeZoneName: 'longOffset',
  });
  const parts = Object.fromEntries(format.formatToParts(wallMs).map(({ type, value }) => [type, value]));
  return {
    year: Number(parts.year),
    month: Number(parts.month),
    day: Number(parts.day),
    clock: `${parts.hour}:${parts.minute}`,
    offset: String(parts.timeZoneName).replace('GMT', 'UTC'),
  };
}
