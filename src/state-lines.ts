/**
 * The state of the daemon (local-api §3) in a few lines for people, and in one sentence. Pure.
 */
import { bytesInWords, counted, span } from './sizes.js';
import type { QueueCounts, QueueRoom, StorageState } from './store/store.js';

interface Stated {
  state: string;
  since: string | null;
  reason: string | null;
}

/** The answer of the state endpoint. A daemon of another version may leave out any member; its line is then left out. */
export type DaemonState = Partial<{
  link: Stated & {
    since: string;
    lastHeartbeat: string | null;
    history?: readonly (Stated & { since: string; durationMs: number })[];
  };
  /** `nextTryAt`: when a relay that is down is tried again; null during a try. */
  relay: Stated & { nextTryAt?: string | null };
  queue: QueueCounts & Partial<QueueRoom & { full: boolean }>;
  destinations: {
    count: number;
    hidden?: number;
    synced: boolean;
    lastSync: string | null;
    reason?: string | null;
  };
  /** JSON writes an infinite number as null. */
  storage: Omit<StorageState, 'freeBytes'> & { freeBytes: number | null };
  clock: { trusted: boolean };
  settings: Stated;
  version: string;
  uptimeMs: number;
}>;

/** Good: no problem. Uneasy: a problem that needs no action. Bad: a person must act. */
export type Mood = 'good' | 'uneasy' | 'bad';

/** An empty topic continues the line before. The words may have text of strangers in them. */
export type StateLine = readonly [topic: string, mood: Mood, words: string];

/** How a reader is shown a time of the API (ISO 8601). */
export type ShowTime = (iso: string) => string;

/** All that the daemon says of itself, topic by topic. */
export function stateLines(state: DaemonState, time: ShowTime): StateLine[] {
  return [
    ...relay(state, time),
    ...queue(state),
    ...link(state, time),
    ...destinations(state, time),
    ...storage(state),
    ...clock(state),
    ...settings(state, time),
  ];
}

/**
 * The most important fact in one sentence: why messages are refused, else why they wait, else what a person should look
 * at. Null if the daemon does not tell its queue. The words may have text of strangers in them.
 */
export function headline(state: DaemonState, time: ShowTime): readonly [mood: Mood, words: string] | null {
  const { storage, queue, settings, link } = state;
  if (storage !== undefined && storage.state !== 'ok') {
    return ['bad', `messages are refused: the storage is ${storage.state}${because(storage.reason)}`];
  }
  if (queue === undefined) return null;
  if (queue.full) return ['bad', `${refusedWords(queue)}: the queue is full${because(queue.reason)}`];
  if (settings?.state === 'refused')
    return ['bad', `the new settings are refused${because(settings.reason)}`];
  const waiting = queue.queued + queue.sending + queue.deferred;
  if (waiting > 0)
    return [queue.held || queue.deferred > 0 ? 'uneasy' : 'good', waitWords(waiting, state, time)];
  if (queue.held) return ['uneasy', 'nothing waits, and delivery is on hold'];
  if (queue.failed > 0) return ['uneasy', `nothing waits; ${queue.failed} failed`];
  if (link !== undefined && link.state !== 'online' && link.state !== 'disabled') {
    return [
      'uneasy',
      `nothing waits; the cloud link is ${link.state}${since(link.since, time)}${because(link.reason)}`,
    ];
  }
  return ['good', 'all is well, nothing waits'];
}

/** How many messages wait, and for what. */
function waitWords(waiting: number, { queue, relay, link }: DaemonState, time: ShowTime): string {
  const count = `${waiting} waiting`;
  if (queue?.held) return `${count}: delivery is on hold`;
  if (relay?.state === 'none' && link?.state === 'disabled')
    return `${count}: no relay is configured (FIELDPOST_RELAY)`;
  // The words of a fault name the relay, or the cloud.
  for (const peer of [relay, link]) {
    if (peer?.reason && peer.state !== 'disabled' && peer.state !== 'none') {
      return `${count}: ${peer.reason}${since(peer.since, time)}${nextTry(peer, time)}`;
    }
  }
  return queue !== undefined && queue.deferred > 0 ? `${count}, ${queue.deferred} of them deferred` : count;
}

function since(iso: string | null | undefined, time: ShowTime): string {
  return iso ? ` since ${time(iso)}` : '';
}

function nextTry(peer: Stated & { nextTryAt?: string | null }, time: ShowTime): string {
  return peer.nextTryAt ? `; next try ${time(peer.nextTryAt)}` : '';
}

function because(reason: string | null | undefined): string {
  return reason ? `: ${reason}` : '';
}

function relay({ relay }: DaemonState, time: ShowTime): StateLine[] {
  if (relay === undefined) return [];
  const { state, reason } = relay;
  if (state === 'none') {
    return [['relay', 'uneasy', 'none is configured (FIELDPOST_RELAY): messages are held']];
  }
  if (state === 'unknown' && !reason) return [['relay', 'good', 'not tried yet']];
  if (state === 'unknown') return [['relay', 'uneasy', `has taken nothing yet: ${reason}`]];
  const words = `${state}${since(relay.since, time)}${because(reason)}${nextTry(relay, time)}`;
  return [['relay', state === 'ok' ? 'good' : 'uneasy', words]];
}

function queue({ queue }: DaemonState): StateLine[] {
  if (queue === undefined) return [];
  const { sending, deferred, failed, used, limits } = queue;
  const waiting = queue.queued + sending + deferred;
  const detail = [
    sending > 0 ? `${sending} being sent` : '',
    deferred > 0 ? `${deferred} deferred` : '',
    waiting > 0 ? `the oldest for ${span(queue.oldestAgeMs)}` : '',
  ].filter((part) => part !== '');
  const words = waiting === 0 ? 'empty' : `${counted(waiting, 'message')} waiting (${detail.join(', ')})`;
  const lines: StateLine[] = [['queue', 'good', `${words}, ${bytesInWords(queue.bytes)} on disk`]];
  if (used && limits) lines.push(['', queue.full ? 'bad' : 'good', `room: ${roomWords(used, limits)}`]);
  if (queue.full) lines.push(['', 'bad', `full, ${refusedWords(queue)}${because(queue.reason)}`]);
  if (queue.held) lines.push(['', 'uneasy', 'delivery is on hold: fieldpost queue release ends it']);
  if (failed > 0) {
    const why = 'fieldpost queue list --status failed tells why';
    lines.push(['', 'uneasy', `${counted(failed, 'message')} failed: ${why}`]);
  }
  return lines;
}

/** Who is refused by a full queue: a part of it is kept for urgent messages. */
function refusedWords({ used, limits }: NonNullable<DaemonState['queue']>): string {
  const hasRoom =
    used !== undefined &&
    limits !== undefined &&
    used.messages < limits.messages &&
    used.bytes < limits.bytes &&
    (limits.memoryBytes === null || used.memoryBytes < limits.memoryBytes);
  return hasRoom ? 'messages are refused, but urgent ones are still taken' : 'messages are refused';
}

function roomWords(used: QueueRoom['used'], limits: QueueRoom['limits']): string {
  const memory =
    limits.memoryBytes === null
      ? ''
      : `, ${bytesInWords(used.memoryBytes)} of ${bytesInWords(limits.memoryBytes)} of memory`;
  const disk = `${bytesInWords(used.bytes)} of ${bytesInWords(limits.bytes)} on disk`;
  return `${used.messages} of ${counted(limits.messages, 'message')}, ${disk}${memory} used`;
}

function link({ link }: DaemonState, time: ShowTime): StateLine[] {
  if (link === undefined) return [];
  const { state, lastHeartbeat, reason } = link;
  if (state === 'disabled') return [['cloud', 'good', 'none is configured']];
  const heartbeat = lastHeartbeat === null ? '' : `, last heartbeat ${time(lastHeartbeat)}`;
  const words = `${state}${since(link.since, time)}${heartbeat}${because(reason)}`;
  return [['cloud', state === 'online' ? 'good' : 'uneasy', words]];
}

function destinations({ destinations, link }: DaemonState, time: ShowTime): StateLine[] {
  if (destinations === undefined) return [];
  const { synced, lastSync, reason, hidden = 0 } = destinations;
  const count = counted(destinations.count, 'destination');
  if (link?.state === 'disabled') {
    if (destinations.count === 0) return [['address book', 'good', count]];
    return [['address book', 'uneasy', `${count}, but without a cloud nobody is told`]];
  }
  const last = lastSync ? ` (last synced ${time(lastSync)})` : '';
  const words = `${count}, ${synced ? '' : 'not yet '}in step with the cloud${last}${because(reason)}`;
  const lines: StateLine[] = [['address book', synced ? 'good' : 'uneasy', words]];
  if (hidden > 0) {
    lines.push(['', 'uneasy', `${hidden} more in the cloud, which this version does not understand`]);
  }
  return lines;
}

function storage({ storage }: DaemonState): StateLine[] {
  if (storage === undefined) return [];
  const { state, reason, freeBytes, newer = [], unusable = [] } = storage;
  // Null until the store has looked for the first time.
  const free = freeBytes === null ? '' : `, ${bytesInWords(freeBytes)} free`;
  const lines: StateLine[] = [
    ['storage', state === 'ok' ? 'good' : 'bad', `${state}${because(reason)}${free}`],
  ];
  // Files of a newer version count as damage, but nothing is wrong with them.
  const pieces = storage.damaged - newer.length;
  if (pieces > 0) {
    const where = 'see damaged/ and names in .damaged';
    lines.push(['', 'bad', `${counted(pieces, 'piece')} of the store could not be read: ${where}`]);
  }
  if (newer.length > 0) {
    const words = `a newer version wrote ${newer.join(', ')}: put aside, because only that version can read them`;
    lines.push(['', 'bad', words]);
  }
  if (unusable.length > 0) {
    const what = 'can be neither read nor renamed: check the file system, or delete it while stopped';
    lines.push(['', 'bad', `${unusable.join(', ')} ${what}`]);
  }
  return lines;
}

function clock({ clock }: DaemonState): StateLine[] {
  if (clock === undefined || clock.trusted) return [];
  return [['clock', 'uneasy', 'the time of day is not confirmed; dates shown may be wrong']];
}

function settings({ settings }: DaemonState, time: ShowTime): StateLine[] {
  if (settings === undefined || settings.state === 'ok') return [];
  const words = `${settings.state}${since(settings.since, time)}${because(settings.reason)} (the last good ones are used)`;
  return [['settings', 'bad', words]];
}
