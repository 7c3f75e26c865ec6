/**
 * The state of the link as a function: the state after each event, and when the next heartbeat is due.
 *
 *     connecting ─▶ online ─▶ unsteady ─▶ offline ─▶ online
 *
 * One failed heartbeat makes it unsteady, because any one can be lost. Three in a row, or 30 s, make it offline. One good
 * heartbeat makes it online from any state. `connecting` is unsteady before it was ever online.
 */
import {
  COMMON_BOOT_MS,
  HEARTBEAT_MS_MAX,
  LINK_SPREAD_MS,
  OFFLINE_AFTER_MS,
  OFFLINE_FAILURES,
} from '../../base/limits.js';
import { type Pauses, patienceMs, pauseMs, spread, startsAnew } from '../../base/retry/backoff.js';
import type { LinkMode } from '../../base/views.js';

/** All moments are on the boot's clock. */
export interface LinkState {
  readonly mode: LinkMode;
  readonly sinceMs: number;
  /** Why it is not online; null when it is, and before anything is known. */
  readonly reason: string | null;
  /** Failed heartbeats in a row. */
  readonly failures: number;
  /** Pauses of the back-off since the link was last good for a while. */
  readonly pauses: number;
  readonly nextMs: number;
  /** The end of the cloud's Retry-After. */
  readonly notBeforeMs: number;
}

/** `late`: overdueMs may have come. `wake`: a heartbeat is wanted within `withinMs`. */
export type LinkEvent =
  | { readonly kind: 'good'; readonly heartbeatMs?: number; readonly retryAfterMs?: number }
  | { readonly kind: 'failed'; readonly reason: string; readonly retryAfterMs?: number }
  | { readonly kind: 'late' }
  | { readonly kind: 'wake'; readonly withinMs: number };

/** The settings of the link. */
export interface LinkSettings extends Pick<Pauses, 'backoffMinMs' | 'backoffMaxMs'> {
  readonly heartbeatMs: number;
}

/**
 * The link at its start: the first heartbeat is due at a random moment within `withinMs`, because a power cut starts all
 * devices of a region in the same second. `random` is in [0, 1).
 */
export function firstState(nowMs: number, withinMs: number, random: number): LinkState {
  return {
    mode: 'connecting',
    sinceMs: nowMs,
    reason: null,
    failures: 0,
    pauses: 0,
    nextMs: nowMs + Math.floor(withinMs * random),
    notBeforeMs: nowMs,
  };
}

/** When the link becomes offline although a heartbeat is still under way; Infinity: never. */
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
      return afterWake(state, event.withinMs, nowMs, random);
  }
}

/** A heartbeat that is due within `withinMs` keeps its time. A second random draw would halve the spread of a fleet. */
function afterWake(state: LinkState, withinMs: number, nowMs: number, random: number): LinkState {
  if (state.mode === 'online' || state.nextMs <= nowMs + withinMs) return state;
  return { ...state, nextMs: Math.max(nowMs + Math.floor(withinMs * random), state.notBeforeMs) };
}

function afterGood(
  state: LinkState,
  { heartbeatMs = 0, retryAfterMs = 0 }: LinkEvent & { kind: 'good' },
  nowMs: number,
  random: number,
  settings: LinkSettings,
): LinkState {
  const notBeforeMs = nowMs + patienceMs(retryAfterMs, random);
  const nextMs = nowMs + spread(intervalMs(settings, heartbeatMs), random);
  return {
    ...become(state, 'online', nowMs),
    reason: null,
    failures: 0,
    nextMs: Math.max(nextMs, notBeforeMs),
    notBeforeMs,
  };
}

/** The cloud may make the interval of heartbeats longer (`askedMs`), within bounds, and never shorter. */
export function intervalMs({ heartbeatMs }: LinkSettings, askedMs: number): number {
  return Math.max(heartbeatMs, Math.min(askedMs, HEARTBEAT_MS_MAX));
}

function afterFailure(
  state: LinkState,
  { reason, retryAfterMs = 0 }: LinkEvent & { kind: 'failed' },
  nowMs: number,
  random: number,
  settings: LinkSettings,
): LinkState {
  const failures = state.failures + 1;
  const wasGood = startsAnew(state.mode === 'online' ? state.sinceMs : null, nowMs);
  const isOffline = state.mode === 'offline' || failures >= OFFLINE_FAILURES || nowMs >= overdueMs(state);
  const mode = isOffline ? 'offline' : state.mode === 'connecting' ? 'connecting' : 'unsteady';
  const pauses = (wasGood ? 0 : state.pauses) + (isOffline ? 1 : 0);
  // A fleet loses its cloud in one moment, but must not come back in one.
  const retryMs = pauseMs(pauses, random, { ...settings, floorMs: spreadMs(settings), leastShare: 0.5 });
  const notBeforeMs = nowMs + patienceMs(retryAfterMs, random);
  return {
    ...become(state, mode, nowMs),
    reason,
    failures,
    pauses,
    nextMs: Math.max(nowMs + retryMs, notBeforeMs),
    notBeforeMs,
  };
}

/**
 * Within how long to call the cloud first. A whole fleet may boot, or get its network, in the same second, so soon
 * after a boot the calls are spread. Later it is 0.
 */
export function commonMs({
  clock,
  config,
}: {
  readonly clock: { bootMs(): number };
  readonly config: LinkSettings;
}): number {
  return clock.bootMs() < COMMON_BOOT_MS ? spreadMs(config) : 0;
}

/** The time over which a fleet spreads its tries: shorter if the settings have short heartbeats or pauses. */
export function spreadMs({ heartbeatMs, backoffMaxMs }: LinkSettings): number {
  return Math.min(LINK_SPREAD_MS, heartbeatMs, backoffMaxMs);
}

function become(state: LinkState, mode: LinkMode, nowMs: number): LinkState {
  return state.mode === mode ? state : { ...state, mode, sinceMs: nowMs };
}
