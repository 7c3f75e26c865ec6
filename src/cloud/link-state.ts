/**
 * The state of the link as a function: what each heartbeat's end makes of it, and when the next is due. Pure;
 * link.ts acts on it, and the simulation of a fleet as well.
 *
 *     connecting ─▶ online ─▶ unsteady ─▶ offline ─▶ online
 *
 * One failed heartbeat is unsteady, for any one can be lost; three in a row or 30 s are offline; one good one is
 * online, from wherever. `connecting` is unsteady that has not been online yet.
 */
import {
  HEARTBEAT_MS_MAX,
  HEARTBEAT_RETRY_MS,
  OFFLINE_AFTER_MS,
  OFFLINE_FAILURES,
  PEER_GOOD_MS,
} from '../limits.js';
import { backoffMs, patienceMs } from '../retry/backoff.js';

/** Where the link is. Without a cloud there is none, which is called `disabled`. */
export type LinkMode = 'connecting' | 'online' | 'unsteady' | 'offline';

/** Everything the next step depends on. All moments are on the boot's clock. */
export interface LinkState {
  readonly mode: LinkMode;
  readonly sinceMs: number;
  /** Why it is not online; null when it is, and before anything is known. */
  readonly reason: string | null;
  /** Heartbeats failed in a row. */
  readonly failures: number;
  /** Pauses of the back-off since the link was last good for a while. */
  readonly pauses: number;
  /** When the next heartbeat is due; a heartbeat under way comes first. */
  readonly nextMs: number;
  /** The cloud wants to be left alone until then. */
  readonly notBeforeMs: number;
}

/** What can happen to the link. `late`: its patience is over, see overdueMs. `wake`: it is wanted now. */
export type LinkEvent =
  | { readonly kind: 'good'; readonly heartbeatMs?: number; readonly retryAfterMs?: number }
  | { readonly kind: 'failed'; readonly reason: string; readonly retryAfterMs?: number }
  | { readonly kind: 'late' }
  | { readonly kind: 'wake' };

/** The settings that the link goes by. */
export interface LinkSettings {
  readonly heartbeatMs: number;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
}

/** Heartbeats of a fleet that began together shall not stay together. */
const SPREAD = 0.1;

/** The link at its start: the first heartbeat is due at once. */
export function firstState(nowMs: number): LinkState {
  return {
    mode: 'connecting',
    sinceMs: nowMs,
    reason: null,
    failures: 0,
    pauses: 0,
    nextMs: nowMs,
    notBeforeMs: nowMs,
  };
}

/** When the link is offline whatever the heartbeat under way may still come to; Infinity: not by itself. */
export function overdueMs({ mode, sinceMs }: LinkState): number {
  return mode === 'connecting' || mode === 'unsteady' ? sinceMs + OFFLINE_AFTER_MS : Number.POSITIVE_INFINITY;
}

/** The state after the event, which happened at `nowMs`. `random` is in [0, 1). */
export function step(
  state: LinkState,
  event: LinkEvent,
  nowMs: number,
  random: number,
  settings: LinkSettings,
): LinkState {
  switch (event.kind) {
    case 'good':
      return afterGood(state, event, nowMs, random, settings);
    case 'failed':
      return afterFailure(state, event, nowMs, random, settings);
    case 'late':
      return nowMs < overdueMs(state) ? state : become(state, 'offline', nowMs);
    case 'wake':
      return state.mode === 'online'
        ? state
        : { ...state, nextMs: Math.min(state.nextMs, Math.max(nowMs, state.notBeforeMs)) };
  }
}

function afterGood(
  state: LinkState,
  { heartbeatMs = 0, retryAfterMs = 0 }: LinkEvent & { kind: 'good' },
  nowMs: number,
  random: number,
  settings: LinkSettings,
): LinkState {
  // The cloud may slow us down; how much we may talk at most is our own business.
  const everyMs = Math.max(settings.heartbeatMs, Math.min(heartbeatMs, HEARTBEAT_MS_MAX));
  const notBeforeMs = nowMs + patienceMs(retryAfterMs, random);
  const nextMs = nowMs + Math.round(everyMs * (1 + SPREAD * (2 * random - 1)));
  return {
    ...become(state, 'online', nowMs),
    reason: null,
    failures: 0,
    nextMs: Math.max(nextMs, notBeforeMs),
    notBeforeMs,
  };
}

function afterFailure(
  state: LinkState,
  { reason, retryAfterMs = 0 }: LinkEvent & { kind: 'failed' },
  nowMs: number,
  random: number,
  settings: LinkSettings,
): LinkState {
  const failures = state.failures + 1;
  const wasGood = state.mode === 'online' && nowMs - state.sinceMs >= PEER_GOOD_MS;
  const isOffline = state.mode === 'offline' || failures >= OFFLINE_FAILURES || nowMs >= overdueMs(state);
  const mode = isOffline ? 'offline' : state.mode === 'connecting' ? 'connecting' : 'unsteady';
  const pauses = (wasGood ? 0 : state.pauses) + (isOffline ? 1 : 0);
  const pauseMs = isOffline ? offlineMs(pauses, random, settings) : HEARTBEAT_RETRY_MS;
  const notBeforeMs = nowMs + patienceMs(retryAfterMs, random);
  return {
    ...become(state, mode, nowMs),
    reason,
    failures,
    pauses,
    nextMs: Math.max(nowMs + pauseMs, notBeforeMs),
    notBeforeMs,
  };
}

/**
 * Full jitter while the pauses grow, so that a fleet that lost its cloud in one moment does not come back in one.
 * By the time they have grown to the longest it is spread, and at least half of that is waited: a device that is
 * offline for weeks wakes 16 times an hour for it, not 24.
 */
function offlineMs(pauses: number, random: number, { backoffMinMs, backoffMaxMs }: LinkSettings): number {
  const isLongest = backoffMinMs * 2 ** (pauses - 1) >= backoffMaxMs;
  const leastMs = isLongest ? backoffMaxMs / 2 : 0;
  return leastMs + backoffMs(pauses, random, backoffMinMs, backoffMaxMs - leastMs);
}

/** The same state in another mode; in the same mode it goes on. */
function become(state: LinkState, mode: LinkMode, nowMs: number): LinkState {
  return state.mode === mode ? state : { ...state, mode, sinceMs: nowMs };
}
