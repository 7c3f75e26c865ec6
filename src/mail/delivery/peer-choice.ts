/**
 * Chooses the peer to use, the line to it, and the peer to probe; tells when the choice may change.
 */
import type { Peer } from './peer.js';
import type { Line, Load } from './transport.js';

/**
 * The peer to use now: the first, in the order of the configuration, that is not down. If all are: the first whose
 * back-off is over. Null if there is none; a later peer does not step in during the first try of an earlier one. A peer
 * that was never tried comes before a second try of peers that are down: else slow ones would always be due again first.
 */
export function choosePeer(peers: readonly Peer[]): Peer | null {
  const next = peers.find(({ isDown }) => !isDown);
  const candidates = next === undefined ? peers : [next];
  return candidates.find((peer) => peer.isAvailable()) ?? null;
}

/** A line that is not busy, if possible one with an open session to the peer. */
export function chooseLine<L extends Load>(
  lines: readonly Line<L>[],
  busy: ReadonlySet<Line<L>>,
  peer: Peer,
): Line<L> | undefined {
  const free = lines.filter((line) => !busy.has(line));
  return free.find((line) => line.isOpenTo(peer)) ?? free[0];
}

/** A peer that is down, may be tried now and comes before the one that works; null if there is none. */
export function chooseProbe(peers: readonly Peer[]): Peer | null {
  const next = peers.findIndex(({ isDown }) => !isDown);
  if (peers[next]?.state !== 'ok') return null;
  return peers.slice(0, next).find((peer) => peer.isAvailable()) ?? null;
}

/** Boot time at which choosePeer may find a peer; Infinity during a probe, whose end decides. */
export function nextPeerMs(peers: readonly Peer[]): number {
  const next = peers.find(({ isDown }) => !isDown);
  return next?.nextMs ?? Math.min(...peers.map(({ nextMs }) => nextMs));
}
