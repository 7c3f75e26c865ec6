/**
 * Which relay is used, which one is tried beside it, and when there may be another answer. Used by loop.ts.
 */
import type { RelayHealth } from './relay-health.js';

/**
 * The relay to use now: the first, in the order of the configuration, that does not fail; where all do, the first whose
 * back-off is over. Null while there is none; a later relay does not step in while an earlier one is being tried for
 * the first time. One that was never tried comes before a second try of those that fail: where each try hangs for longer than
 * the first pauses last, it would never have its turn.
 */
export function chooseRelay(relays: readonly RelayHealth[]): RelayHealth | null {
  const next = relays.find(({ state }) => state !== 'failing');
  const candidates = next === undefined ? relays : [next];
  return candidates.find((health) => health.isAvailable()) ?? null;
}

/** A relay that fails, may be tried now, and would be preferred to the one that works; null if there is none. */
export function chooseProbe(relays: readonly RelayHealth[]): RelayHealth | null {
  const next = relays.findIndex(({ state }) => state !== 'failing');
  if (relays[next]?.state !== 'ok') return null;
  return relays.slice(0, next).find((health) => health.isAvailable()) ?? null;
}

/** When chooseRelay may find one by itself, on the boot's clock; Infinity while a probe will tell. */
export function nextRelayMs(relays: readonly RelayHealth[]): number {
  const next = relays.find(({ state }) => state !== 'failing');
  return next?.nextMs ?? Math.min(...relays.map(({ nextMs }) => nextMs));
}
