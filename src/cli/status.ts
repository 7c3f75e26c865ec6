/**
 * `fieldpost status`: shows the state of the daemon (local-api §3) in a few lines. Used by cli.ts.
 */
import { bytesInWords, counted, span } from '../sizes.js';
import type { QueueCounts, QueueRoom, StorageState } from '../store/store.js';
import { visible } from '../text.js';
import { connect } from './client.js';
import { type Command, EXIT, type Output } from './command.js';
import { columns, json, type Mood, moment, painter } from './words.js';

interface Stated {
  state: string;
  since: string | null;
  reason: string | null;
}

/** The answer of the state endpoint. A daemon of another version may leave out any member; status then skips it. */
type DaemonState = Partial<{
  link: Stated & { lastHeartbeat: string | null };
  relay: Stated;
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

/** An empty topic continues the line before. */
type Line = readonly [topic: string, mood: Mood, words: string];

export const status: Command = {
  name: 'status',
  summary: 'show the state of the daemon',
  help: `fieldpost status [--env-file FILE] [--json]

Shows the state of the running daemon: relay, queue, cloud link, destinations, storage, clock, settings.
--json prints the daemon's answer unchanged.

Exit status: 0 the daemon accepts messages (a missing network is no error), 75 it does not, because its queue is
full or its storage fails, 69 no daemon answers.`,
  options: { json: { type: 'boolean' } },
  asksService: true,
  async run(input, context) {
    const { body } = await connect(context.env, context)('GET', '/api/internal/state');
    const state = (body ?? {}) as DaemonState;
    if (input.options.json === true) context.stdout.write(json(body));
    else print(state, painter(context.stdout, context.env), context.stdout);
    const accepts = (state.storage?.state ?? 'ok') === 'ok' && state.queue?.full !== true;
    return accepts ? EXIT.ok : EXIT.tempFail;
  },
};

function print(state: DaemonState, paint: ReturnType<typeof painter>, out: Output): void {
  out.write(`Fieldpost ${visible(state.version ?? '')}, up ${span(state.uptimeMs ?? 0)}\n`);
  const lines = [
    ...relay(state),
    ...queue(state),
    ...link(state),
    ...destinations(state),
    ...storage(state),
    ...clock(state),
    ...settings(state),
  ];
  const heads = columns(lines.map(([topic]) => [topic, '|']));
  lines.forEach(([, mood, words], index) => {
    out.write(`${heads[index]?.slice(0, -1)}${paint(mood, visible(words))}\n`);
  });
}

function since(iso: string | null | undefined): string {
  return iso ? ` since ${moment(iso)} UTC` : '';
}

function because(reason: string | null | undefined): string {
  return reason ? `: ${reason}` : '';
}

function relay({ relay }: DaemonState): Line[] {
  if (relay === undefined) return [];
  const { state, reason } = relay;
  if (state === 'none') {
    return [['relay', 'uneasy', 'none is configured (FIELDPOST_RELAY): messages are held']];
  }
  if (state === 'unknown' && !reason) return [['relay', 'good', 'not tried yet']];
  if (state === 'unknown') return [['relay', 'uneasy', `has taken nothing yet: ${reason}`]];
  const words = `${state}${since(relay.since)}${because(reason)}`;
  return [['relay', state === 'ok' ? 'good' : 'uneasy', words]];
}

function queue({ queue }: DaemonState): Line[] {
  if (queue === undefined) return [];
  const { sending, deferred, failed, used, limits } = queue;
  const waiting = queue.queued + sending + deferred;
  const detail = [
    sending > 0 ? `${sending} being sent` : '',
    deferred > 0 ? `${deferred} deferred` : '',
    waiting > 0 ? `the oldest for ${span(queue.oldestAgeMs)}` : '',
  ].filter((part) => part !== '');
  const words = waiting === 0 ? 'empty' : `${counted(waiting, 'message')} waiting (${detail.join(', ')})`;
  const lines: Line[] = [['queue', 'good', `${words}, ${bytesInWords(queue.bytes)} on disk`]];
  if (used && limits) lines.push(['', queue.full ? 'bad' : 'good', `room: ${roomWords(used, limits)}`]);
  if (queue.full) lines.push(['', 'bad', `full, messages are refused${because(queue.reason)}`]);
  if (queue.held) lines.push(['', 'uneasy', 'delivery is on hold: fieldpost queue release ends it']);
  if (failed > 0) {
    const why = 'fieldpost queue list --status failed tells why';
    lines.push(['', 'uneasy', `${counted(failed, 'message')} failed: ${why}`]);
  }
  return lines;
}

function roomWords(used: QueueRoom['used'], limits: QueueRoom['limits']): string {
  const memory =
    limits.memoryBytes === null
      ? ''
      : `, ${bytesInWords(used.memoryBytes)} of ${bytesInWords(limits.memoryBytes)} of memory`;
  const disk = `${bytesInWords(used.bytes)} of ${bytesInWords(limits.bytes)} on disk`;
  return `${used.messages} of ${counted(limits.messages, 'message')}, ${disk}${memory} used`;
}

function link({ link }: DaemonState): Line[] {
  if (link === undefined) return [];
  const { state, lastHeartbeat, reason } = link;
  if (state === 'disabled') return [['cloud', 'good', 'none is configured']];
  const heartbeat = lastHeartbeat === null ? '' : `, last heartbeat ${moment(lastHeartbeat)} UTC`;
  const words = `${state}${since(link.since)}${heartbeat}${because(reason)}`;
  return [['cloud', state === 'online' ? 'good' : 'uneasy', words]];
}

function destinations({ destinations, link }: DaemonState): Line[] {
  if (destinations === undefined) return [];
  const { synced, lastSync, reason, hidden = 0 } = destinations;
  const count = counted(destinations.count, 'destination');
  if (link?.state === 'disabled') {
    if (destinations.count === 0) return [['address book', 'good', count]];
    return [['address book', 'uneasy', `${count}, but without a cloud nobody is told`]];
  }
  const last = lastSync ? ` (last synced ${moment(lastSync)} UTC)` : '';
  const words = `${count}, ${synced ? '' : 'not yet '}in step with the cloud${last}${because(reason)}`;
  const lines: Line[] = [['address book', synced ? 'good' : 'uneasy', words]];
  if (hidden > 0) {
    lines.push(['', 'uneasy', `${hidden} more in the cloud, which this version does not understand`]);
  }
  return lines;
}

function storage({ storage }: DaemonState): Line[] {
  if (storage === undefined) return [];
  const { state, reason, freeBytes, newer = [], unusable = [] } = storage;
  // Null until the store has looked for the first time.
  const free = freeBytes === null ? '' : `, ${bytesInWords(freeBytes)} free`;
  const lines: Line[] = [['storage', state === 'ok' ? 'good' : 'bad', `${state}${because(reason)}${free}`]];
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

function clock({ clock }: DaemonState): Line[] {
  if (clock === undefined || clock.trusted) return [];
  return [['clock', 'uneasy', 'the time of day is not confirmed; dates shown may be wrong']];
}

function settings({ settings }: DaemonState): Line[] {
  if (settings === undefined || settings.state === 'ok') return [];
  const words = `${settings.state}${since(settings.since)}${because(settings.reason)} (the last good ones are used)`;
  return [['settings', 'bad', words]];
}
