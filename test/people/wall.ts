/**
 * Hours and zones for the judge of the simulated people, told by Node's calendar alone: it shares nothing with the program.
 */
import { HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';

const DAYS = ['Mo', 'Tu', 'We', 'Th', 'Fr', 'Sa', 'Su'];
/** No hours are further apart than a week and a change of the clocks. */
const SEARCHED_MS = 8 * 24 * HOUR_MS;

interface Span {
  /** Days of the week from Monday on. */
  readonly days: ReadonlySet<number>;
  /** Minutes of the day. An end before the start is on the next day. */
  readonly from: number;
  readonly to: number;
}

/** How far the zone's wall is ahead of UTC. It changes at whole quarters of an hour only. */
const aheadOf = new Map<string, number>();
const formats = new Map<string, Intl.DateTimeFormat>();

function aheadMs(zone: string, atMs: number): number {
  if (zone === 'UTC') return 0;
  const quarter = Math.floor(atMs / (15 * MINUTE_MS));
  const key = `${zone} ${quarter}`;
  const known = aheadOf.get(key);
  if (known !== undefined) return known;
  const format =
    formats.get(zone) ?? new Intl.DateTimeFormat('en-GB', { timeZone: zone, timeZoneName: 'longOffset' });
  formats.set(zone, format);
  const name = format.formatToParts(quarter * 15 * MINUTE_MS).find(({ type }) => type === 'timeZoneName');
  const [, sign, hours, minutes] = /GMT([+-])(\d\d):(\d\d)/.exec(name?.value ?? '') ?? [];
  const ms = hours === undefined ? 0 : Number(hours) * HOUR_MS + Number(minutes) * MINUTE_MS;
  const ahead = sign === '-' ? -ms : ms;
  aheadOf.set(key, ahead);
  return ahead;
}

const minutesIn = (time: string) => {
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  return hours * 60 + minutes;
};

/** `Mo-Fr 07:00-18:00, Sa 09:00-12:00`. */
function spansIn(hours: string): Span[] {
  return hours.split(',').map((part) => {
    const [, days = '', from = '', to = ''] = /^\s*(\S+) (\d\d:\d\d)-(\d\d:\d\d)\s*$/.exec(part) ?? [];
    const [first = '', last = first] = days.split('-');
    const [low, high] = [DAYS.indexOf(first), DAYS.indexOf(last)];
    const count = ((high - low + 7) % 7) + 1;
    const all = Array.from({ length: count }, (_, n) => (low + n) % 7);
    return { days: new Set(all), from: minutesIn(from), to: minutesIn(to) };
  });
}

/** The day of the week and the minute of the day there. */
function wallIn(zone: string, atMs: number): { readonly day: number; readonly minute: number } {
  const wall = new Date(atMs + aheadMs(zone, atMs));
  return { day: (wall.getUTCDay() + 6) % 7, minute: wall.getUTCHours() * 60 + wall.getUTCMinutes() };
}

/** True within the hours; null: at any time. */
export function isWithin(hours: string | null, zone: string, atMs: number): boolean {
  if (hours === null) return true;
  const { day, minute } = wallIn(zone, atMs);
  return spansIn(hours).some(({ days, from, to }) => {
    if (from < to) return days.has(day) && minute >= from && minute < to;
    return (days.has(day) && minute >= from) || (days.has((day + 6) % 7) && minute < to);
  });
}

/** `atMs` if it is within the hours, else when they begin next. */
export function beginMs(hours: string | null, zone: string, atMs: number): number {
  if (isWithin(hours, zone, atMs)) return atMs;
  const first = Math.floor(atMs / MINUTE_MS) * MINUTE_MS;
  for (let ms = first + MINUTE_MS; ms < atMs + SEARCHED_MS; ms += MINUTE_MS)
    if (isWithin(hours, zone, ms)) return ms;
  throw new Error(`no hours in ${hours}`);
}

/** Monday 07:00 of that zone, each one in the span. */
export function mondaysIn(zone: string, fromMs: number, toMs: number): number[] {
  const found: number[] = [];
  const first = Math.floor(fromMs / (15 * MINUTE_MS)) * 15 * MINUTE_MS;
  for (let ms = first; ms <= toMs; ms += 15 * MINUTE_MS) {
    const { day, minute } = wallIn(zone, ms);
    if (ms >= fromMs && day === 0 && minute === 7 * 60) found.push(ms);
  }
  return found;
}
