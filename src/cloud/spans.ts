/**
 * Lengths of time and moments in words, in each language.
 */
import type { Lang } from '../base/langs.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../base/limits.js';
import { PHRASES } from './phrases.js';
import { SMS_PHRASES } from './sms-phrases.js';

const UNITS_MS = [DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS] as const;

/** `ms` in its largest unit and the next smaller one, rounded down: `2 hours and 5 minutes`, `1 minuta`. */
export function spanIn(lang: Lang, ms: number): string {
  const { units, and } = PHRASES[lang];
  const wholeMs = Math.max(ms, SECOND_MS);
  const largest = UNITS_MS.findIndex((unitMs) => wholeMs >= unitMs);
  const say = (index: number, count: number) => `${count} ${nounFor(count, units[index] as string)}`;
  const unitMs = UNITS_MS[largest] as number;
  const count = Math.floor(wholeMs / unitMs);
  const restUnitMs = UNITS_MS[largest + 1];
  const rest = restUnitMs === undefined ? 0 : Math.floor((wholeMs % unitMs) / restUnitMs);
  return rest === 0 ? say(largest, count) : `${say(largest, count)} ${and} ${say(largest + 1, rest)}`;
}

/**
 * The form that follows a number; `forms` are separated by blanks. Only Polish has one for 2 to 4 (but not 12 to 14).
 * Elsewhere all numbers but 1 take one plural.
 */
export function nounFor(count: number, forms: string): string {
  const [one = '', few = '', many = few] = forms.split(' ');
  if (count === 1) return one;
  const isFew = count % 10 >= 2 && count % 10 <= 4 && !(count % 100 >= 12 && count % 100 <= 14);
  return isFew ? few : many;
}

/** A moment with its time zone: `20 November 2026, 09:41 (UTC)`. Throws RangeError for an unknown zone. */
export function momentIn(lang: Lang, wallMs: number, timeZone: string): string {
  const { months, date, time } = PHRASES[lang];
  const { year, month, day, clock, offset } = localOf(wallMs, timeZone);
  return `${date(day, months.split(' ')[month - 1] as string, year)}${time(clock)} (${offset})`;
}

/** A moment for a short text, without its year: `24-11 om 09:41`, if wanted with its zone: `24-11 om 09:41 (UTC)`. */
export function shortMomentIn(lang: Lang, wallMs: number, timeZone: string, withZone: boolean): string {
  const { month, day, clock, offset } = localOf(wallMs, timeZone);
  return `${SMS_PHRASES[lang].at(day, month, clock)}${withZone ? ` (${offset})` : ''}`;
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

function localOf(wallMs: number, timeZone: string): Local {
  return timeZone === 'UTC' ? inUtc(wallMs) : inZone(wallMs, timeZone);
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
