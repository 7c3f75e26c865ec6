/**
 * The hours of the week in which a person wants to hear: their text, and when they begin in a time zone. Intl is asked only
 * for a zone that is not UTC: loading it takes 8 MB. Pure.
 */
import { Recent } from '../../base/collections.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../base/limits.js';
import { isoOf, PRINTABLE } from '../../base/text.js';

/** Hours of the week. They are never empty. */
export interface Hours {
  /** From and until, in milliseconds since Monday 00:00; in their order, none touches another. */
  readonly spans: readonly Span[];
  /** As they were given, for people. */
  readonly parts: readonly Part[];
}

type Span = readonly [fromMs: number, untilMs: number];

interface Part {
  /** Monday is 0. The second may be before the first: `Fr-Mo`. Null: every day. */
  readonly days: readonly [first: number, last: number] | null;
  /** In minutes since 00:00; the second may be before the first: `22:00-06:00`. */
  readonly times: readonly [from: number, until: number];
}

/** What hours look like. */
export const HOURS_EXAMPLE = 'Mo-Fr 07:00-18:00, Sa 09:00-12:00';
export const HOURS_CHARS_MAX = 200;
/** A longer text is no time zone. */
export const ZONE_CHARS_MAX = 64;

const WEEK_MS = 7 * DAY_MS;
const DAY_MINUTES = 24 * 60;
const DAYS = ['Mo', 'Tu', 'We', 'Th', 'Fr', 'Sa', 'Su'];
const DAY_NAMES = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
/** 1970 began on a Thursday. */
const FIRST_MONDAY_MS = 4 * DAY_MS;

const PART = /^(?:([a-z]{2})(?: *- *([a-z]{2}))?)? *(?:\b(\d\d?):(\d\d) *- *(\d\d?):(\d\d))?$/i;

/**
 * The hours of a text such as `Mo-Fr 07:00-18:00, Sa 09:00-12:00`; null for anything else. Days without times are whole
 * days. Times without days are on the days of the part before; in the first part they are on every day.
 */
export function hoursIn(text: unknown): Hours | null {
  if (typeof text !== 'string' || text.length > HOURS_CHARS_MAX) return null;
  // People paste an en dash, too.
  const plain = text.replaceAll('–', '-');
  if (!PRINTABLE.test(plain)) return null;
  const parts: Part[] = [];
  for (const one of plain.split(',')) {
    const part = partIn(one.trim(), parts.at(-1)?.days ?? null);
    if (part === null) return null;
    parts.push(part);
  }
  return { spans: joined(parts.flatMap((part) => [...spansOf(part)])), parts };
}

function partIn(text: string, daysBefore: Part['days']): Part | null {
  const found = PART.exec(text);
  if (text === '' || found === null) return null;
  const [, first, last = first, ...digits] = found;
  const days = first === undefined ? daysBefore : ([dayIn(first), dayIn(last as string)] as const);
  if (days?.includes(-1)) return null;
  if (digits[0] === undefined) return { days, times: [0, DAY_MINUTES] };
  const [hour = 0, minute = 0, untilHour = 0, untilMinute = 0] = digits.map(Number);
  if (minute > 59 || untilMinute > 59) return null;
  const [from, until] = [hour * 60 + minute, untilHour * 60 + untilMinute];
  // `08:00-08:00` may mean no time or all day: it is refused.
  return from < DAY_MINUTES && until <= DAY_MINUTES && from !== until ? { days, times: [from, until] } : null;
}

function dayIn(text: string): number {
  return DAYS.findIndex((day) => day.toLowerCase() === text.toLowerCase());
}

function* spansOf({ days, times: [from, until] }: Part): Generator<Span> {
  const [first, last] = days ?? [0, 6];
  const fromMs = from * MINUTE_MS;
  const lengthMs = until * MINUTE_MS - fromMs + (until < from ? DAY_MS : 0);
  for (let day = first; day <= last + (last < first ? 7 : 0); day++) {
    const beginMs = ((day % 7) * DAY_MS + fromMs) % WEEK_MS;
    const endMs = beginMs + lengthMs;
    yield [beginMs, Math.min(endMs, WEEK_MS)];
    if (endMs > WEEK_MS) yield [0, endMs - WEEK_MS];
  }
}

/** In their order; those that touch become one. */
function joined(spans: readonly Span[]): Span[] {
  const found: Span[] = [];
  for (const [fromMs, untilMs] of [...spans].sort(([a], [b]) => a - b)) {
    const before = found.at(-1);
    if (before === undefined || before[1] < fromMs) found.push([fromMs, untilMs]);
    else found[found.length - 1] = [before[0], Math.max(before[1], untilMs)];
  }
  return found;
}

/** In English: `Monday to Friday 07:00-12:00 and 13:00-18:00, Saturday all day`. */
export function hoursInWords({ parts }: Hours): string {
  let words = '';
  for (const [index, { days, times }] of parts.entries()) {
    const isSameDays = index > 0 && days === parts[index - 1]?.days;
    const [first, last] = (days ?? []).map((day) => DAY_NAMES[day]);
    const when = first === undefined ? 'every day' : first === last ? first : `${first} to ${last}`;
    const isWholeDay = times[0] === 0 && times[1] === DAY_MINUTES;
    const clock = isWholeDay ? 'all day' : times.map(clockOf).join('-');
    words += isSameDays ? ` and ${clock}` : `${words && ', '}${when} ${clock}`;
  }
  return words;
}

function clockOf(minutes: number): string {
  return [Math.floor(minutes / 60), minutes % 60].map((part) => String(part).padStart(2, '0')).join(':');
}

/** True for `UTC` and the names of the tz database. */
export function isZone(text: unknown): text is string {
  return text === 'UTC' || (typeof text === 'string' && zoneOf(text) !== null);
}

/**
 * The first moment at or after `wallMs` at which the clocks of the zone show one of these hours: so hours that a change of
 * the clocks skips do not begin on that day, and hours that it repeats begin twice. Throws RangeError if isZone is false.
 */
export function hoursBeginMs(hours: Hours, zone: string, wallMs: number): number {
  if (zone === 'UTC') return wallMs + waitMs(hours, wallMs);
  const clocks = clocksOf(zone);
  let atMs = wallMs;
  while (true) {
    const now = clocks.stretchAt(atMs);
    const beginMs = atMs + waitMs(hours, atMs + now.offsetMs);
    const then = clocks.stretchAt(beginMs);
    if (then.offsetMs === now.offsetMs) return beginMs;
    atMs = clocks.changeBetween(now, then);
  }
}

/** A moment as the clocks of the zone show it: `Fr 2026-11-27 22:00`. Throws RangeError if isZone is false. */
export function momentInWords(zone: string, wallMs: number): string {
  const localMs = wallMs + (zone === 'UTC' ? 0 : clocksOf(zone).stretchAt(wallMs).offsetMs);
  return `${DAYS[Math.floor(sinceMonday(localMs) / DAY_MS)]} ${isoOf(localMs).slice(0, 16).replace('T', ' ')}`;
}

/** How long until a clock that shows `localMs` and is never changed shows one of these hours. */
function waitMs({ spans }: Hours, localMs: number): number {
  const weekMs = sinceMonday(localMs);
  const next = spans.find(([, untilMs]) => weekMs < untilMs);
  if (next !== undefined) return Math.max(0, next[0] - weekMs);
  return (spans[0] as Span)[0] + WEEK_MS - weekMs;
}

/** Since the last Monday 00:00. */
function sinceMonday(localMs: number): number {
  return (((localMs - FIRST_MONDAY_MS) % WEEK_MS) + WEEK_MS) % WEEK_MS;
}

/** A time in which the clocks are not changed. It grows as more of it becomes known. */
interface Stretch {
  fromMs: number;
  untilMs: number;
  readonly offsetMs: number;
}

const STRETCHES_MAX = 8;

/**
 * The clocks of a zone. An answer of Intl takes 3 µs, and a storm asks for each of 200,000 people: so what is known is
 * kept. No zone changes its clocks twice within a week.
 */
class Clocks {
  readonly #format: Intl.DateTimeFormat;
  readonly #stretches: Stretch[] = [];

  /** Throws RangeError for an unknown zone. */
  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' });
  }

  stretchAt(wallMs: number): Stretch {
    const known = this.#stretches.find(({ fromMs, untilMs }) => fromMs <= wallMs && wallMs <= untilMs);
    if (known !== undefined) return known;
    const offsetMs = this.#offsetMsAt(wallMs);
    const near = this.#stretches.find(
      (one) => one.offsetMs === offsetMs && wallMs - one.untilMs <= WEEK_MS && one.fromMs - wallMs <= WEEK_MS,
    );
    if (near === undefined) {
      const stretch = { fromMs: wallMs, untilMs: wallMs, offsetMs };
      if (this.#stretches.push(stretch) > STRETCHES_MAX) this.#stretches.shift();
      return stretch;
    }
    near.fromMs = Math.min(near.fromMs, wallMs);
    near.untilMs = Math.max(near.untilMs, wallMs);
    return near;
  }

  /** The first moment of the later one of two stretches that follow each other. */
  changeBetween(before: Stretch, after: Stretch): number {
    while (after.fromMs - before.untilMs > 1) {
      const middleMs = Math.floor((before.untilMs + after.fromMs) / 2);
      if (this.#offsetMsAt(middleMs) === before.offsetMs) before.untilMs = middleMs;
      else after.fromMs = middleMs;
    }
    return after.fromMs;
  }

  #offsetMsAt(wallMs: number): number {
    const found = this.#format.formatToParts(wallMs).find(({ type }) => type === 'timeZoneName');
    const [, sign, hours = 0, minutes = 0, seconds = 0] =
      /([+-])(\d\d):(\d\d)(?::(\d\d))?$/.exec(String(found?.value)) ?? [];
    const ms = Number(hours) * HOUR_MS + Number(minutes) * MINUTE_MS + Number(seconds) * SECOND_MS;
    return sign === '-' ? -ms : ms;
  }
}

/** A name may be written in many ways: `europe/AMSTERDAM` is valid. */
const ZONES_MAX = 128;
// Not an object's state: what it holds never depends on who asked before.
const ZONES = new Recent<string, Clocks | null>(ZONES_MAX);

function clocksOf(name: string): Clocks {
  const clocks = zoneOf(name);
  if (clocks === null) throw new RangeError(`${name} is not a time zone`);
  return clocks;
}

function zoneOf(name: string): Clocks | null {
  const known = ZONES.get(name);
  if (known !== undefined) return known;
  let clocks: Clocks | null = null;
  try {
    // An offset such as `+01:00` is no zone: it knows no summer time.
    if (/^[a-z]/i.test(name) && name.length <= ZONE_CHARS_MAX) clocks = new Clocks(name);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  if (name.length <= ZONE_CHARS_MAX) ZONES.set(name, clocks);
  return clocks;
}
