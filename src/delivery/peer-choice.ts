/**
 * Which peer is used, which one is tried beside it, and when there may be another answer. Used by queue.ts.
 */
import type { Peer } from './peer.js';

/**
 * The peer to use now: the first, in the order of the configuration, that does not fail; where all do, the first whose
 * back-off is over. Null while there is none; a later peer does not step in while an earlier one is being tried for
 * the first time. One that was never tried comes before a second try of those that fail: where each try hangs for longer than
 * the first pauses last, it would never have its turn.
 */
export function choosePeer(peers: readonly Peer[]): Peer | null {
  const next = peers.find(({ state }) => state !== 'failing');
  const candidates = next === undefined ? peers : [next];
  return candidates.find((peer) => peer.isAvailable()) ?? null;
}

/** A peer that fails, may be tried now, and would be preferred to the one that works; null if there is none. */
export function chooseProbe(peers: readonly Peer[]): Peer | null {
  const next = peers.findIndex(({ state }) => state !== 'failing');
  if (peers[next]?.state !== 'ok') return null;
  return peers.slice(0, next).find((peer) => peer.isAvailable()) ?? null;
}

/** When choosePeer may find one by itself, on the boot's clock; Infinity while a probe will tell. */
export function nextPeerMs(peers: readonly Peer[]): number {
  const next = peers.find(({ state }) => state !== 'failing');
  return next?.nextMs ?? Math.min(...peers.map(({ nextMs }) => nextMs));
}
