/**
 * Moments and lengths of time as people write them. Intl is loaded for a zone that is not UTC: it takes 8 MB.
 */
import type { Lang } from '../../base/langs.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../base/limits.js';
import { WORDS } from './languages.js';
import { nounFor, type Point } from './words.js';

const UNITS_MS = [DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS] as const;

/** `ms` in its largest unit and the next smaller one, rounded down: `2 hours and 5 minutes`, `1 minuta`. */
export function spanIn(lang: Lang, ms: number): string {
  const { units, and } = WORDS[lang];
  const wholeMs = Math.max(ms, SECOND_MS);
  const largest = UNITS_MS.findIndex((unitMs) => wholeMs >= unitMs);
  const say = (index: number, count: number) => `${count} ${nounFor(count, units[index] as string)}`;
  const unitMs = UNITS_MS[largest] as number;
  const count = Math.floor(wholeMs / unitMs);
  const restUnitMs = UNITS_MS[largest + 1];
  const rest = restUnitMs === undefined ? 0 : Math.floor((wholeMs % unitMs) / restUnitMs);
  return rest === 0 ? say(largest, count) : `${say(largest, count)} ${and} ${say(largest + 1, rest)}`;
}

/** A time zone. */
export interface Zone {
  /** `UTC`, `UTC+01:00` */
  offsetAt(wallMs: number): string;
}

/** The zone of this IANA name, or UTC. Throws RangeError for an unknown one. */
export function zoneOf(name: string): Zone {
  // Without Intl for UTC: it would take 8 MB.
  if (name === 'UTC') return { offsetAt: () => name };
  // One for all moments of a text: making it takes longer than all words.
  const format = new Intl.DateTimeFormat('en', { timeZone: name, timeZoneName: 'longOffset' });
  return {
    offsetAt: (wallMs) => {
      const found = format.formatToParts(wallMs).find(({ type }) => type === 'timeZoneName');
      return String(found?.value).replace('GMT', 'UTC');
    },
  };
}

/** A moment with its time zone: `20 November 2026, 09:41 (UTC)`. */
export function momentIn(lang: Lang, wallMs: number, zone: Zone): string {
  const { months, date, time } = WORDS[lang];
  const { year, month, day, clock, offset } = localOf(wallMs, zone);
  return `${date(day, months.split(' ')[month - 1] as string, year)}${time(clock)} (${offset})`;
}

/** A moment for a short text, without its year: `24-11 om 09:41`. */
export function shortMomentIn(lang: Lang, wallMs: number, zone: Zone): string {
  const { day, time } = pointIn(lang, wallMs, zone, null);
  return WORDS[lang].sms.at(day as string, time);
}

/** The zone at this moment, to follow it: ` (UTC)`. */
export function zoneAt(wallMs: number, zone: Zone): string {
  return ` (${zone.offsetAt(wallMs)})`;
}

/** A moment for a sentence, without its day if that is the day of `knownMs`. */
export function pointIn(lang: Lang, wallMs: number, zone: Zone, knownMs: number | null): Point {
  const { year, month, day, clock } = localOf(wallMs, zone);
  const known = knownMs === null ? null : localOf(knownMs, zone);
  const isKnown = known?.day === day && known.month === month && known.year === year;
  return { day: isKnown ? null : WORDS[lang].sms.day(day, month), time: clock };
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

function localOf(wallMs: number, zone: Zone): Local {
  const offset = zone.offsetAt(wallMs);
  const [, sign = '+', hours = '0', minutes = '0'] = /([+-])(\d\d):(\d\d)$/.exec(offset) ?? [];
  const offsetMs = Number(hours) * HOUR_MS + Number(minutes) * MINUTE_MS;
  const date = new Date(sign === '+' ? wallMs + offsetMs : wallMs - offsetMs);
  return {
    year: date.getUTCFullYear(),
    month: date.getUTCMonth() + 1,
    day: date.getUTCDate(),
    clock: date.toISOString().slice(11, 16),
    offset,
  };
}
