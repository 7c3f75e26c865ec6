/**
 * What was so at a moment of a history, for the judge: how long a device was silent, who its people were, whether it was quiet,
 * and how late the cloud may be after a trouble. Where the history does not know it for certain, both is possible.
 */
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { DeviceHistory, Heard, History, Trouble, Version } from './history.js';
import { DELAY_MS, type Entry, EVERY_MS, STOP_DELAY_MS } from './plan.js';

/** The cloud checks for silence at a tenth of the shortest delay, and a check takes its way through the stores. */
export const CHECK_MS = DELAY_MS / 10 + 5 * SECOND_MS;
/** Who has many devices hears at the end of a batch of a minute; and the way through the stores. */
export const TELL_MS = MINUTE_MS + 15 * SECOND_MS;
/** After the cloud was away devices have so long to call again. */
const GRACE_MS = 5 * MINUTE_MS;
/** Pauses between tries while nobody takes messages, or the outbox is full. */
const JAM_MS = 3 * MINUTE_MS;
/** A lease, the choice of another leader, and a stall of a watch. */
const LEADER_MS = MINUTE_MS;
/** An instance may take a heartbeat that it cannot write. */
const WRITTEN_MS = 3 * SECOND_MS;
const LEASE_MS = 25 * SECOND_MS;
/** Beyond so many delays after a silence a device is steady again; before that its patience may be eight delays. */
const STEADY_DELAYS = 20;
const DAMPED_DELAYS = 8;
/** A change that comes so close to a moment may count for it, or not. */
export const NEAR_MS = 20 * SECOND_MS;

/** A silence, between two heartbeats. */
export interface Gap {
  readonly fromMs: number;
  /** Infinity: it has not ended. */
  readonly toMs: number;
  /** The heartbeat before it. */
  readonly before: Heard;
}

export class DeviceTruth {
  readonly id: string;
  readonly history: DeviceHistory;
  readonly #troubles: readonly Trouble[];
  readonly #isShared: boolean;
  /** Heartbeats that the cloud knows of for certain, and all. */
  readonly certain: readonly Heard[];
  readonly all: readonly Heard[];

  constructor(id: string, history: DeviceHistory, { troubles, plan }: History) {
    this.id = id;
    this.history = history;
    this.#troubles = troubles;
    this.#isShared = plan.isShared;
    this.all = history.heard.toSorted((a, b) => a.atMs - b.atMs);
    const isLost = ({ machine, atMs }: Heard) =>
      plan.isShared &&
      troubles.some(
        (one) =>
          one.kind !== 'jam' &&
          (one.machine === '' || one.machine === machine) &&
          atMs >= one.fromMs - WRITTEN_MS &&
          atMs <= one.toMs + LEASE_MS,
      );
    this.certain = this.all.filter((one) => one.isCertain && !isLost(one));
  }

  /** The last heartbeat up to a moment, of those known for certain or of all. */
  lastOf(heard: readonly Heard[], atMs: number): Heard | undefined {
    return heard.findLast((one) => one.atMs <= atMs);
  }

  /** All silences that may be longer than the shortest delay. */
  gaps(endMs: number): Gap[] {
    return this.all.flatMap((before, n) => {
      const toMs = this.all[n + 1]?.atMs ?? Number.POSITIVE_INFINITY;
      return Math.min(toMs, endMs) - before.atMs > EVERY_MS * 1.5
        ? [{ fromMs: before.atMs, toMs, before }]
        : [];
    });
  }

  /** The versions of its document that may be in force in a span. */
  versionsIn(fromMs: number, toMs: number): Version[] {
    const { versions } = this.history;
    return versions.filter((version, n) => {
      const next = versions.slice(n + 1).find((later) => later.fromMs <= fromMs - NEAR_MS);
      return version.askedMs <= toMs + NEAR_MS && next === undefined;
    });
  }

  /** The entries of a person that may be in force in a span; null: there may be none. */
  entriesIn(person: string, fromMs: number, toMs: number): (Entry | null)[] {
    return this.versionsIn(fromMs, toMs).map(
      ({ paper }) => paper.destinations.find(({ destination }) => destination === person) ?? null,
    );
  }

  /** The one entry of a person that is in force for the whole span; null: it has none, or several. */
  entryIn(person: string, fromMs: number, toMs: number): Entry | null {
    const texts = new Set(this.entriesIn(person, fromMs, toMs).map((entry) => JSON.stringify(entry)));
    if (texts.size !== 1 || this.versionsIn(fromMs, toMs).length === 0) return null;
    return JSON.parse([...texts][0] as string);
  }

  /** Its delays in a span. */
  delaysIn(fromMs: number, toMs: number): { readonly least: number; readonly most: number } {
    const all = this.versionsIn(fromMs, toMs).map(({ paper }) =>
      Math.max(delayOf(paper.delay), 2.5 * EVERY_MS),
    );
    return { least: Math.min(...all), most: Math.max(...all) };
  }

  /** The least silence after which people may hear of it. */
  needMs({ fromMs, before }: Pick<Gap, 'fromMs' | 'before'>, atMs: number): number {
    const { least } = this.delaysIn(fromMs, atMs);
    return before.said === 'stopping' ? Math.max(STOP_DELAY_MS, least) : least;
  }

  /** When the cloud must have decided at the latest that it is offline. */
  decidedMs(gap: Gap): number {
    const { fromMs, before } = gap;
    // A change of the delay in the midst of a silence counts from then on.
    const { most } = this.delaysIn(fromMs - STEADY_DELAYS * DELAY_MS, fromMs + DAMPED_DELAYS * DELAY_MS);
    const limitMs = Math.max(
      most * (this.isSteady(gap, most) ? 1 : DAMPED_DELAYS),
      before.said === 'stopping' ? STOP_DELAY_MS : 0,
    );
    let baseMs = fromMs;
    for (;;) {
      // What was silent for long enough at the end of a time of quiet is told then.
      const decidedMs = this.loudMs(baseMs + limitMs) + CHECK_MS + NEAR_MS;
      const next = this.#troubles
        .filter(
          ({ kind, fromMs: badMs, toMs }) =>
            kind !== 'jam' && badMs <= decidedMs && toMs >= fromMs - GRACE_MS,
        )
        .map(({ toMs }) => toMs + GRACE_MS + LEADER_MS)
        .filter((nextMs) => nextMs > baseMs);
      if (next.length === 0) return decidedMs;
      baseMs = Math.max(...next);
    }
  }

  /** True: one delay of silence is enough. */
  isSteady({ fromMs }: Gap, delayMs: number): boolean {
    const spanMs = STEADY_DELAYS * delayMs + DELAY_MS;
    const isTroubled = this.#troubles.some(
      ({ kind, toMs }) => kind !== 'jam' && toMs > fromMs - spanMs && toMs < fromMs,
    );
    // Steadiness counts anew after a start of the cloud, and when another instance hears the device.
    if ((isTroubled || this.#isShared) && this.gaps(fromMs).length > 0) return false;
    return !this.gaps(fromMs).some(({ toMs }) => toMs <= fromMs && toMs > fromMs - spanMs);
  }

  /** `maybe`: the history does not know, or it has changed a moment ago. */
  quietAt(atMs: number): 'yes' | 'no' | 'maybe' {
    const states = new Set([-NEAR_MS, 0, NEAR_MS].flatMap((ms) => [...this.#quietsAt(atMs + ms)]));
    if (states.size > 1) return 'maybe';
    return states.has(true) ? 'yes' : 'no';
  }

  #quietsAt(atMs: number): Set<boolean> {
    const states = new Set<boolean>();
    const asked = this.history.quiets.filter((one) => one.askedMs <= atMs);
    const certain = asked.findLast((one) => one.isCertain && one.atMs <= atMs);
    states.add(certain !== undefined && certain.untilMs > atMs);
    for (const one of asked)
      if (one !== certain && (certain === undefined || one.atMs >= certain.askedMs))
        states.add(one.untilMs > atMs);
    return states;
  }

  /** True if it may be quiet at any moment of a span. */
  mayBeQuietIn(fromMs: number, toMs: number): boolean {
    return this.history.quiets.some(
      (one) => one.askedMs - NEAR_MS <= toMs && one.untilMs + NEAR_MS >= fromMs,
    );
  }

  /** When it is not quiet any more for certain, from a moment on. */
  loudMs(atMs: number): number {
    let ms = atMs;
    while (this.quietAt(ms) !== 'no') ms += 10 * SECOND_MS;
    return ms;
  }

  /** True if it has, or may have, moved to another cloud in a span. */
  mayHaveMovedIn(fromMs: number, toMs: number): boolean {
    return this.all.some(
      ({ said, atMs }) => said === 'moved' && atMs >= fromMs - NEAR_MS && atMs <= toMs + NEAR_MS,
    );
  }
}

/** Milliseconds of `90m` or `4h`. */
function delayOf(text: string | undefined): number {
  if (text === undefined) return DELAY_MS;
  return Number.parseInt(text, 10) * (text.endsWith('h') ? 60 : 1) * MINUTE_MS;
}

/** The earliest moment at which a message that came at `atMs` may have been accepted. */
export function earliestMs(troubles: readonly Trouble[], atMs: number): number {
  let ms = atMs - TELL_MS;
  for (let again = true; again; ) {
    again = false;
    for (const { kind, fromMs, toMs } of troubles) {
      const lateMs = kind === 'jam' ? JAM_MS : LEADER_MS;
      if (fromMs - TELL_MS >= ms || toMs + lateMs < ms) continue;
      ms = fromMs - TELL_MS;
      again = true;
    }
  }
  return ms;
}

/** When a person must have at the latest what is due at `atMs`. */
export function latestMs(troubles: readonly Trouble[], atMs: number): number {
  let ms = atMs + TELL_MS;
  for (let again = true; again; ) {
    again = false;
    for (const { kind, fromMs, toMs } of troubles) {
      // What is taken back by a kill comes again with the next heartbeat.
      const lateMs = kind === 'jam' ? JAM_MS : GRACE_MS + LEADER_MS + EVERY_MS + CHECK_MS;
      if (fromMs > ms || toMs + lateMs <= ms || toMs < atMs - EVERY_MS) continue;
      ms = toMs + lateMs + TELL_MS;
      again = true;
    }
  }
  return ms;
}
