/**
 * `fieldpost status`: what the state endpoint says (local-api §3), in a few lines of words. Used by cli.ts.
 */

import { bytesInWords } from '../sizes.js';
import { visible } from '../text.js';
import { connect } from './client.js';
import { type Command, EXIT } from './command.js';
import { columns, counted, json, type Mood, moment, painter, span } from './words.js';

/** Of the queue's budgets; null: without a limit. */
interface Amounts {
  messages: number;
  bytes: number;
  memoryBytes: number | null;
}

/** The snapshot of the state endpoint; what an older or newer daemon leaves out is not told. */
interface DaemonState {
  link?: { state: string; since: string | null; lastHeartbeat: string | null; reason: string | null };
  relay?: { state: string; since: string | null; reason: string | null };
  queue?: {
    queued: number;
    sending: number;
    deferred: number;
    failed: number;
    oldestAgeMs: number;
    bytes: number;
    held: boolean;
    used?: Amounts;
    limits?: Amounts;
    full?: boolean;
    reason?: string | null;
  };
  destinations?: {
    count: number;
    hidden?: number;
    synced: boolean;
    lastSync: string | null;
    reason?: string | null;
  };
  storage?: { state: string; reason: string | null; freeBytes: number | null; damaged: number } & Partial<{
    newer: readonly string[];
    unusable: readonly string[];
  }>;
  clock?: { trusted: boolean };
  settings?: { state: string; since: string | null; reason: string | null };
  version?: string;
  uptimeMs?: number;
}

interface Line {
  readonly topic: string;
  readonly mood: Mood;
  readonly words: string;
}

export const status: Command = {
  name: 'status',
  summary: 'say how the daemon is doing',
  help: `fieldpost status [--env-file FILE] [--json]

Says how the running daemon is doing: relay, queue, cloud link, destinations, storage, clock.
--json prints the daemon's own snapshot.

Exit status: 0 while the daemon can accept messages (a missing network is no error), 75 while its storage
or its full queue cannot, 69 if no daemon answers.`,
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

function print(
  state: DaemonState,
  paint: (mood: Mood, text: string) => string,
  out: { write(text: string): void },
): void {
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
  const heads = columns(lines.map(({ topic }) => [topic, '|']));
  lines.forEach(({ mood, words }, index) => {
    out.write(`${heads[index]?.slice(0, -1)}${paint(mood, visible(words))}\n`);
  });
}

/** ` since …`, if that is known. */
function since(iso: string | null | undefined): string {
  return iso ? ` since ${moment(iso)} UTC` : '';
}

/** `: <reason>`, if there is one. */
function because(reason: string | null | undefined): string {
  return reason ? `: ${reason}` : '';
}

function relay({ relay }: DaemonState): Line[] {
  if (relay === undefined) return [];
  const say = (mood: Mood, words: string) => [{ topic: 'relay', mood, words }];
  if (relay.state === 'none') return say('uneasy', 'none is configured (FIELDPOST_RELAY): messages are held');
  if (relay.state === 'unknown')
    return relay.reason
      ? say('uneasy', `has taken nothing yet: ${relay.reason}`)
      : say('good', 'not tried yet');
  const words = `${relay.state}${since(relay.since)}${because(relay.reason)}`;
  return say(relay.state === 'ok' ? 'good' : 'uneasy', words);
}

function queue({ queue }: DaemonState): Line[] {
  if (queue === undefined) return [];
  const waiting = queue.queued + queue.sending + queue.deferred;
  const detail = [
    queue.sending > 0 ? `${queue.sending} being sent` : '',
    queue.deferred > 0 ? `${queue.deferred} deferred` : '',
    waiting > 0 ? `the oldest for ${span(queue.oldestAgeMs)}` : '',
  ].filter((part) => part !== '');
  const words = waiting === 0 ? 'empty' : `${counted(waiting, 'message')} waiting (${detail.join(', ')})`;
  const lines: Line[] = [
    { topic: 'queue', mood: 'good', words: `${words}, ${bytesInWords(queue.bytes)} on disk` },
  ];
  if (queue.used && queue.limits) {
    const room = roomWords(queue.used, queue.limits);
    lines.push({ topic: '', mood: queue.full ? 'bad' : 'good', words: `room: ${room}` });
  }
  if (queue.full)
    lines.push({ topic: '', mood: 'bad', words: `full, messages are refused${because(queue.reason)}` });
  if (queue.held)
    lines.push({ topic: '', mood: 'uneasy', words: 'delivery is on hold: fieldpost queue release ends it' });
  if (queue.failed > 0) {
    const words = `${counted(queue.failed, 'message')} failed: fieldpost queue list --status failed tells why`;
    lines.push({ topic: '', mood: 'uneasy', words });
  }
  return lines;
}

function roomWords(used: Amounts, limits: Amounts): string {
  const memory =
    limits.memoryBytes === null
      ? ''
      : `, ${bytesInWords(used.memoryBytes ?? 0)} of ${bytesInWords(limits.memoryBytes)} of memory`;
  const disk = `${bytesInWords(used.bytes)} of ${bytesInWords(limits.bytes)} on disk`;
  return `${used.messages} of ${counted(limits.messages, 'message')}, ${disk}${memory} used`;
}

function link({ link }: DaemonState): Line[] {
  if (link === undefined) return [];
  if (link.state === 'disabled') return [{ topic: 'cloud', mood: 'good', words: 'none is configured' }];
  const heartbeat = link.lastHeartbeat === null ? '' : `, last heartbeat ${moment(link.lastHeartbeat)} UTC`;
  const words = `${link.state}${since(link.since)}${heartbeat}${because(link.reason)}`;
  return [{ topic: 'cloud', mood: link.state === 'online' ? 'good' : 'uneasy', words }];
}

function destinations({ destinations, link }: DaemonState): Line[] {
  if (destinations === undefined) return [];
  const { synced, lastSync, reason, hidden = 0 } = destinations;
  const count = counted(destinations.count, 'destination');
  if (link?.state === 'disabled') {
    if (destinations.count === 0) return [{ topic: 'address book', mood: 'good', words: count }];
    const words = `${count}, but without a cloud nobody is told`;
    return [{ topic: 'address book', mood: 'uneasy', words }];
  }
  const last = lastSync ? ` (last synced ${moment(lastSync)} UTC)` : '';
  const words = synced ? 'in step with the cloud' : 'not yet in step with the cloud';
  const lines: Line[] = [
    {
      topic: 'address book',
      mood: synced ? 'good' : 'uneasy',
      words: `${count}, ${words}${last}${because(reason)}`,
    },
  ];
  if (hidden > 0) {
    const words = `${hidden} more in the cloud's that this version does not understand`;
    lines.push({ topic: '', mood: 'uneasy', words });
  }
  return lines;
}

function storage({ storage }: DaemonState): Line[] {
  if (storage === undefined) return [];
  const well = storage.state === 'ok';
  // Null until the store has looked for the first time.
  const free = storage.freeBytes === null ? '' : `, ${bytesInWords(storage.freeBytes)} free`;
  const words = `${storage.state}${because(storage.reason)}${free}`;
  const lines: Line[] = [{ topic: 'storage', mood: well ? 'good' : 'bad', words }];
  const { newer = [], unusable = [] } = storage;
  const bad = (words: string) => lines.push({ topic: '', mood: 'bad', words });
  // Files of a newer version count as damage, but nothing is wrong with them.
  const pieces = storage.damaged - newer.length;
  if (pieces > 0)
    bad(`${counted(pieces, 'piece')} of the store could not be read: see damaged/ and names in .damaged`);
  if (newer.length > 0)
    bad(`a newer version wrote ${newer.join(', ')}: put aside, and used by that version alone`);
  if (unusable.length > 0)
    bad(
      `${unusable.join(', ')} can be neither read nor renamed: check the file system, or delete it while stopped`,
    );
  return lines;
}

function clock({ clock }: DaemonState): Line[] {
  if (clock === undefined || clock.trusted) return [];
  return [
    { topic: 'clock', mood: 'uneasy', words: 'the time of day is not confirmed; dates shown may be wrong' },
  ];
}

function settings({ settings }: DaemonState): Line[] {
  if (settings === undefined || settings.state === 'ok') return [];
  const words = `${settings.state}${since(settings.since)}, earlier ones are followed${because(settings.reason)}`;
  return [{ topic: 'settings', mood: 'bad', words }];
}
