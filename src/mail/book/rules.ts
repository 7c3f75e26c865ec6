/**
 * When a person of the address book wants to hear: the members of an entry that say so, their faults, and what they mean.
 * A faulty rule never silences a person: it counts as left out.
 */
import type { Fault } from '../../base/errors.js';
import type { JsonObject } from '../../base/json.js';
import { MINUTE_MS } from '../../base/limits.js';
import { counted } from '../../base/text.js';
import { HOURS_EXAMPLE, type Hours, hoursBeginMs, hoursIn, hoursInWords, isZone } from './hours.js';

/** The rules of one person. */
export interface Rules {
  /** Told after the device has been offline for so long, and only if it still is. */
  readonly afterMs: number;
  /** Outside of them news waits. Null: at any hour. */
  readonly hours: Hours | null;
  /** Null: the cloud's. */
  readonly zone: string | null;
  /** News that is over before the hours begin is dropped; otherwise it becomes one line. */
  readonly dropsNight: boolean;
  /** Told once a week what happened, or that nothing did. */
  readonly weekly: boolean;
}

/** The members of an entry that are rules. Each may be left out or null. */
export const RULES = ['after_min', 'hours', 'zone', 'night', 'weekly'] as const;

/** Rules as a client gives them. */
export interface RuleFields {
  readonly after_min?: number | null;
  readonly hours?: string | null;
  readonly zone?: string | null;
  readonly night?: 'drop' | null;
  readonly weekly?: boolean | null;
}

/** The greatest `after_min`: a week. */
export const AFTER_MINUTES_MAX = 7 * 24 * 60;

/** What is wrong with a value that is given; null: nothing. */
const FAULTS: Readonly<Record<(typeof RULES)[number], (value: unknown) => string | null>> = {
  after_min: (value) =>
    isMinutes(value) ? null : `must be a whole number of minutes from 0 to ${AFTER_MINUTES_MAX}, such as 60`,
  hours: (value) =>
    hoursIn(value)
      ? null
      : `must be days and times such as "${HOURS_EXAMPLE}" or "22:00-06:00", up to 200 characters`,
  zone: (value) =>
    isZone(value) ? null : 'must be UTC or a name of the tz database such as "Europe/Amsterdam"',
  night: (value) =>
    value === 'drop' ? null : 'must be "drop", or null: news that is over by then becomes one line',
  weekly: (value) => (typeof value === 'boolean' ? null : 'must be true or false'),
};

function isMinutes(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= AFTER_MINUTES_MAX;
}

/** The faults of the rules; other members are not checked. */
export function ruleFaults(fields: JsonObject): Fault[] {
  return RULES.flatMap((name) => {
    const value = fields[name] ?? null;
    const detail = value === null ? null : FAULTS[name](value);
    return detail === null ? [] : [{ pointer: `/${name}`, detail }];
  });
}

/** The rules that are given, without null and without faults. */
export function givenRules(entry: JsonObject): RuleFields {
  const good = RULES.filter((name) => (entry[name] ?? null) !== null && FAULTS[name](entry[name]) === null);
  return Object.fromEntries(good.map((name) => [name, entry[name]]));
}

/** The rules of an entry. */
export function rulesOf(entry: JsonObject): Rules {
  const { after_min: minutes, hours, zone, night, weekly } = entry;
  const isZoneGood = (zone ?? null) === null || isZone(zone);
  return {
    afterMs: isMinutes(minutes) ? minutes * MINUTE_MS : 0,
    // In the wrong zone they would silence this person at the wrong time.
    hours: isZoneGood ? hoursIn(hours) : null,
    zone: isZone(zone) ? zone : null,
    dropsNight: night === 'drop',
    weekly: weekly === true,
  };
}

/** When a person hears of what is decided at `atMs`, if it lasts. */
export function dueMs({ afterMs, hours, zone }: Rules, cloudZone: string, atMs: number): number {
  const readyMs = atMs + afterMs;
  return hours === null ? readyMs : hoursBeginMs(hours, zone ?? cloudZone, readyMs);
}

/** The words for a person without rules. */
export const AT_ONCE = 'told at once';

/**
 * In English: `told after 60 minutes of being offline, Monday to Friday 07:00-18:00 (Europe/Amsterdam)`. `cloudZone`: null
 * if it is not known.
 */
export function rulesInWords(rules: Rules, cloudZone: string | null): string {
  const { afterMs, hours, dropsNight, weekly } = rules;
  const zone = rules.zone ?? cloudZone ?? "the cloud's time zone";
  const after = afterMs === 0 ? AT_ONCE : `told after ${minutesInWords(afterMs)} of being offline`;
  const when = hours === null ? [] : [`${hoursInWords(hours)} (${zone})`];
  const night = hours !== null && dropsNight ? ['not told of what is over before these hours begin'] : [];
  const week = weekly ? [`a report each Monday at 07:00${hours === null ? ` (${zone})` : ''}`] : [];
  return [[after, ...when].join(', '), ...night, ...week].join('; ');
}

/** The same of an entry, and which of its rules do not count. */
export function planOf(entry: JsonObject): string {
  const faulty = ruleFaults(entry).map(({ pointer }) => pointer.slice(1));
  if (faulty.includes('zone') && hoursIn(entry.hours) !== null) faulty.push('hours');
  const words = rulesInWords(rulesOf(entry), null);
  return faulty.length === 0 ? words : `${words}; not understood and ignored: ${faulty.join(', ')}`;
}

/** `60 minutes`, `3 hours`, `2 days`. */
function minutesInWords(ms: number): string {
  const minutes = ms / MINUTE_MS;
  if (minutes % 1440 === 0) return counted(minutes / 1440, 'day');
  return minutes % 60 === 0 && minutes > 60 ? counted(minutes / 60, 'hour') : counted(minutes, 'minute');
}
