/**
 * What the cloud remembers of a device beside its presence, for the sake of people: whether they asked for quiet, what is
 * wrong with its mails, its last word, and its outages of the last days. Pure. Moments are wall times.
 */
import { isJsonObject, shapeOf } from '../base/json.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, QUIET_MS_MAX } from '../base/limits.js';
import { isRelayDown } from '../base/views.js';
import { areMailsStuck, type DeviceStatus, type Sent } from './presence.js';
import type { Why } from './texts/texts.js';

/** A time in which nobody is told that the device is offline. */
export interface QuietTime {
  readonly untilMs: number;
  /** In the words of whoever asked for it. */
  readonly why: string | null;
}

/** The mails of a device do not leave, since `sinceMs`. */
interface Stuck {
  readonly sinceMs: number;
  /** True: a relay is down; false: messages have failed. */
  readonly isRelay: boolean;
  /** True: people were told. */
  readonly isTold: boolean;
  /** True: a relay is down, and people know only of messages that have failed before. */
  readonly isWorse?: true;
}

/** An outage that is over. */
export type PastOutage = readonly [beganMs: number, endedMs: number];

/** The marks of a device. */
export interface Marks {
  readonly quiet: QuietTime | null;
  /** The secret of the links in its last drills. */
  readonly drill: { readonly key: string; readonly atMs: number } | null;
  readonly word: { readonly text: string; readonly atMs: number } | null;
  readonly stuck: Stuck | null;
  /** How many of REMINDERS_MS people had in this outage. */
  readonly reminded: number;
  /** What it said of its boot before it went offline. */
  readonly left: Sent | null;
  /** The oldest first: those of PAST_MS, at most PAST_MAX. */
  readonly past: readonly PastOutage[];
}

/** The marks of most devices, shared by them: memory holds those of each. */
export const NO_MARKS: Marks = {
  ...{ quiet: null, drill: null, word: null, stuck: null, reminded: 0, left: null, past: [] },
};

/** People are reminded of a device that is offline for so long. */
export const REMINDERS_MS = [DAY_MS, 7 * DAY_MS] as const;
/** Mails that do not leave for so long are told. */
export const STUCK_MS = HOUR_MS;
/** A last word belongs to a silence that begins within this time. */
const WORD_MS = HOUR_MS;
/** The Monday mail looks back for a week. */
const PAST_MS = 8 * DAY_MS;
const PAST_MAX = 16;

/** The clocks of two instances differ by less. */
const CLOCKS_MS = HOUR_MS;

/** The quiet that lasts at this moment; null: none does. A longer one was asked for while the clock was wrong. */
export function quietAt({ quiet }: Marks, nowMs: number): QuietTime | null {
  const leftMs = quiet === null ? 0 : quiet.untilMs - nowMs;
  return leftMs > 0 && leftMs < QUIET_MS_MAX + CLOCKS_MS ? quiet : null;
}

/** True if people need not hear again that it is quiet: a device repeats what it says until it has an answer. */
export function isSameQuiet(one: QuietTime | null, other: QuietTime | null): boolean {
  if (one === null || other === null) return one === other;
  return one.why === other.why && Math.abs(one.untilMs - other.untilMs) < MINUTE_MS;
}

/** The last word that belongs to a silence since this moment; null: there is none. */
export function wordAt({ word }: Marks, sinceMs: number | null): string | null {
  return word !== null && (sinceMs === null || sinceMs - word.atMs < WORD_MS) ? word.text : null;
}

/** The marks after a report. A relay that goes down counts anew; messages that have failed are known already. */
export function afterReport(before: Marks, status: DeviceStatus, nowMs: number): Marks {
  const isRelay = isRelayDown(status.relay);
  const { stuck } = before;
  // People who were told hear of the end, too.
  if (!areMailsStuck(status))
    return stuck === null || stuck.isTold || stuck.isWorse ? before : { ...before, stuck: null };
  if (stuck === null || (isRelay && !stuck.isRelay)) {
    const isWorse = stuck?.isTold === true && { isWorse: true as const };
    return { ...before, stuck: { sinceMs: nowMs, isRelay, isTold: false, ...isWorse } };
  }
  if (stuck.isRelay === isRelay) return before;
  const { sinceMs, isTold, isWorse = false } = stuck;
  return { ...before, stuck: { sinceMs, isRelay, isTold: isTold || isWorse } };
}

/** The marks that change after an outage. A moment that is not known leaves no trace. */
export function afterOutage(
  before: Pick<Marks, 'past'>,
  beganMs: number | null,
  endedMs: number | null,
): Pick<Marks, 'left' | 'reminded' | 'word' | 'past'> {
  const past = before.past.filter(([, endMs]) => endedMs === null || endedMs - endMs < PAST_MS);
  if (beganMs !== null && endedMs !== null && beganMs <= endedMs) past.push([beganMs, endedMs]);
  return { left: null, reminded: 0, word: null, past: past.slice(-PAST_MAX) };
}

/**
 * How often it came and went: the outages with less than `steadyMs` from one to the next, up to the last one. Null: the last
 * one stands alone.
 */
export function flapsOf(
  { past }: Pick<Marks, 'past'>,
  steadyMs: number,
): { times: number; sinceMs: number } | null {
  let first = past.length - 1;
  while (first > 0 && (past[first]?.[0] ?? 0) - (past[first - 1]?.[1] ?? 0) < steadyMs) first--;
  const times = past.length - first;
  return times < 2 ? null : { times, sinceMs: past[first]?.[0] ?? 0 };
}

/**
 * Why a device was away for `lastedMs`, by what it said of its boot before and after; null: not known. In a container the
 * uptime may restart within a boot. If its program counts anew within a boot, it may be the program that was away.
 */
export function whyAway(
  left: Sent | null,
  now: Sent | null | undefined,
  lastedMs: number | null,
): Why | null {
  if (left === null || !now || lastedMs === null) return null;
  const upMs = now.uptimeMs;
  if (now.bootId === left.bootId && upMs >= left.uptimeMs) {
    const isAnew = (now.sequence ?? Number.POSITIVE_INFINITY) <= (left.sequence ?? 0);
    return isAnew ? null : { kind: 'ran' };
  }
  return upMs <= lastedMs ? { kind: 'restarted', upMs } : null;
}

const isQuiet = shapeOf({ untilMs: 1.5, 'why|null': '' });
const isPast = (value: unknown) => Array.isArray(value) && value.length === 2 && value.every(Number.isFinite);
const SHAPES: Readonly<Record<keyof Marks, (value: unknown) => boolean>> = {
  quiet: isQuiet,
  drill: shapeOf({ key: '', atMs: 1.5 }),
  word: shapeOf({ text: '', atMs: 1.5 }),
  stuck: shapeOf({ sinceMs: 1.5, isRelay: true, isTold: true, 'isWorse?': true }),
  reminded: Number.isInteger,
  left: shapeOf({ bootId: '', uptimeMs: 1.5, 'sequence?': 1.5 }),
  past: (value) => Array.isArray(value) && value.every(isPast),
};

/** The marks that a store has written; NO_MARKS: none. What cannot be read counts as not there. */
export function marksIn(written: unknown): Marks {
  if (!isJsonObject(written)) return NO_MARKS;
  const known = Object.entries(SHAPES).filter(([name, isIt]) => isIt(written[name]));
  if (known.length === 0) return NO_MARKS;
  return { ...NO_MARKS, ...Object.fromEntries(known.map(([name]) => [name, written[name]])) };
}

/** The marks for a store: without those that say nothing; null: none says anything. */
export function writtenMarks(marks: Marks): Partial<Marks> | null {
  const said = Object.entries(marks).filter(([, value]) =>
    Array.isArray(value) ? value.length > 0 : value !== null && value !== 0,
  );
  return said.length === 0 ? null : Object.fromEntries(said);
}
