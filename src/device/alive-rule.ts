/**
 * Programs on the device that must give signs: which of them is late, and which message is owed. Pure.
 *
 *     phase    means                                 a sign   it is due                         its message is queued
 *     good     signs come in time                    good     late; after TOLD_MAX: hidden      -
 *     late     no sign in time: people must be told  back     -                                 told
 *     told     no sign, and people are told          back     -                                 -
 *     back     signs again: people must be told      back     late; after TOLD_MAX: told        good
 *     hidden   no sign, but people hear too much     good     late                              -
 *
 * A program is due when its whole limit has passed without a sign. After a start of the daemon the limit begins anew,
 * because the other programs start as well. A program that comes and goes is told late at most TOLD_MAX times an hour;
 * a hidden one is due when that hour is over. Each time that a program becomes late is an episode with an id of its own:
 * the keys of its messages are made of it, so that a crash sends none twice.
 *
 * All moments are of the time that the device was awake: a program that sleeps with its device is not late.
 */
import { DAY_MS, HOUR_MS, SECOND_MS } from '../base/limits.js';

/** Limits of a program. */
export const WITHIN_MS_MIN = 10 * SECOND_MS;
export const WITHIN_MS_MAX = 7 * DAY_MS;
/** So many programs a device watches. */
export const PROGRAMS_MAX = 100;
/** How often within TOLD_WINDOW_MS people are told that one program is late. */
export const TOLD_MAX = 5;
export const TOLD_WINDOW_MS = HOUR_MS;

/** A row of the table. */
export type AlivePhase = 'good' | 'late' | 'told' | 'back' | 'hidden';

/** What must survive a restart. */
export interface KeptState {
  readonly phase: Exclude<AlivePhase, 'hidden'>;
  /** The id of the last episode; empty before the first. */
  readonly episode: string;
}

/** A program that is watched. */
export interface AliveState extends Omit<KeptState, 'phase'> {
  readonly phase: AlivePhase;
  readonly withinMs: number;
  /** When something happens without a sign; Infinity: never. */
  readonly dueMs: number;
  /** When people were told of its last episodes, the oldest first; at most TOLD_MAX. */
  readonly toldMs: readonly number[];
}

/** `sign`: with the limit that holds from now on. `due`: dueMs has come; a new episode gets this id. */
export type AliveEvent =
  | { readonly kind: 'sign'; readonly withinMs: number }
  | { readonly kind: 'due'; readonly episode: string }
  | { readonly kind: 'queued'; readonly phase: 'late' | 'back'; readonly episode: string };

/** A new program, which gives its first sign. */
export function firstSign(withinMs: number, nowMs: number): AliveState {
  return { phase: 'good', episode: '', withinMs, dueMs: nowMs + withinMs, toldMs: [] };
}

/** A program of an earlier run, at the start of the daemon. */
export function restored({ phase, episode }: KeptState, withinMs: number, nowMs: number): AliveState {
  const dueMs = isLate(phase) ? Number.POSITIVE_INFINITY : nowMs + withinMs;
  return { phase, episode, withinMs, dueMs, toldMs: [] };
}

/** What a restart must know of it. A hidden one begins anew. */
export function keptOf({ phase, episode }: AliveState): KeptState {
  return { phase: phase === 'hidden' ? 'good' : phase, episode };
}

/** True if no sign came in time. */
export function isLate(phase: AlivePhase): boolean {
  return phase === 'late' || phase === 'told' || phase === 'hidden';
}

/** The message that people must get; null: none. */
export function owedIn(phase: AlivePhase): 'late' | 'back' | null {
  return phase === 'late' || phase === 'back' ? phase : null;
}

/** The table. */
export function step(watched: AliveState, event: AliveEvent, nowMs: number): AliveState {
  const { phase } = watched;
  switch (event.kind) {
    case 'sign': {
      const { withinMs } = event;
      const next = phase === 'late' || phase === 'told' ? 'back' : phase === 'hidden' ? 'good' : phase;
      return { ...watched, phase: next, withinMs, dueMs: nowMs + withinMs };
    }
    case 'due':
      return nowMs < watched.dueMs ? watched : overdue(watched, event.episode, nowMs);
    case 'queued': {
      // A sign, or another episode, may have come while the message was being queued.
      if (phase !== event.phase || watched.episode !== event.episode) return watched;
      return { ...watched, phase: phase === 'late' ? 'told' : 'good' };
    }
  }
}

function overdue(watched: AliveState, episode: string, nowMs: number): AliveState {
  const toldMs = watched.toldMs.filter((ms) => nowMs - ms < TOLD_WINDOW_MS);
  const [oldestMs = nowMs] = toldMs;
  if (toldMs.length < TOLD_MAX)
    return {
      ...watched,
      phase: 'late',
      episode,
      dueMs: Number.POSITIVE_INFINITY,
      toldMs: [...toldMs, nowMs],
    };
  // People know it as late: they have not been told that it was back.
  if (watched.phase === 'back') return { ...watched, phase: 'told', dueMs: Number.POSITIVE_INFINITY, toldMs };
  return { ...watched, phase: 'hidden', dueMs: oldestMs + TOLD_WINDOW_MS, toldMs };
}
