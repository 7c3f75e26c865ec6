/**
 * The messages in store.json, in the order of acceptance:
 *
 *     {"to":"john@example.com","from":"device@example.com","boot":"69c8d2fc"},
 *     ["0000001C2VSM8V2",73904479,1,147,1053,665632860],
 *     ["0000002JRXD6ECH",73904479,1,1201,1053,665632860],
 *     {"status":"sent","attempts":1,"reply":"250 OK"},
 *     ["0000003DQ4XTAGF",73904512]
 *
 * A list is a message: its id, when its boot accepted it (ms), and, while its content is kept, the segment, offset, length
 * and CRC-32 of that. An object says what is different for this message and those behind it; null is the usual value. So
 * ten thousand messages stay a small file, and a start reads them fast.
 * Used by batches.ts and snapshot-text.ts.
 */
import type { JsonObject } from '../json.js';
import { type Message, NO_ATTACHMENTS, type Place, type Stamp } from '../message/message.js';
import { unknownMembers } from './format.js';
import { restingStatus, type State, sharedSender } from './state.js';
import { messageWeight } from './weight.js';

type MessageRow =
  | readonly [id: string, bootMs: number]
  | readonly [id: string, bootMs: number, segment: number, offset: number, length: number, crc: number];
/** A message, or what is different from here on. */
export type SnapshotRow = MessageRow | JsonObject;

/** What a message may have in common with the one before it. */
interface Common
  extends Pick<Message, 'type' | 'destination' | 'from' | 'subject' | 'extras' | 'attachments' | 'reachMs'>,
    Pick<Message, 'status' | 'attempts' | 'lastReply' | 'due' | 'textBytes' | 'more'> {
  readonly boot: string;
  readonly retried: Stamp | undefined;
  readonly failed: Stamp | undefined;
  readonly sent: Stamp | undefined;
}

/** What is left out. */
export const USUAL: Common = {
  boot: '',
  type: 1,
  destination: '',
  from: undefined,
  subject: '',
  extras: undefined,
  attachments: NO_ATTACHMENTS,
  reachMs: 0,
  retried: undefined,
  failed: undefined,
  sent: undefined,
  status: 'queued',
  attempts: 0,
  lastReply: null,
  due: null,
  textBytes: 0,
  more: undefined,
};

/** The names in the objects, with what they name. All other names are a newer version's. */
const MEMBERS: ReadonlyMap<string, Exclude<keyof Common, 'more'>> = new Map([
  ['boot', 'boot'],
  ['type', 'type'],
  ['to', 'destination'],
  ['from', 'from'],
  ['subject', 'subject'],
  ['extras', 'extras'],
  ['attachments', 'attachments'],
  ['reachMs', 'reachMs'],
  ['retried', 'retried'],
  ['failed', 'failed'],
  ['sent', 'sent'],
  ['status', 'status'],
  ['attempts', 'attempts'],
  ['reply', 'lastReply'],
  ['due', 'due'],
  ['textBytes', 'textBytes'],
]);

/** The list of a message. */
export function rowOf({ id, accepted: { bootMs }, place }: Message): MessageRow {
  return place ? [id, bootMs, place.segment, place.offset, place.length, place.crc] : [id, bootMs];
}

/** `sending` becomes the status before. */
export function commonOf(state: State, message: Message): Common {
  const { id, type, destination, from, subject, extras, attachments, accepted, reachMs, place } = message;
  const { retried, failed, sent, attempts, lastReply, due, textBytes, more } = message;
  const status = message.status === 'sending' ? restingStatus(state, id) : message.status;
  const stamps = { boot: accepted.boot, reachMs, retried, failed: place ? failed : undefined, sent, due };
  const envelope = { type, destination, from, subject, extras, attachments };
  return { ...envelope, ...stamps, status, attempts, lastReply, textBytes, more };
}

/** What an object between two messages says; null if nothing has changed. */
export function changesOf(before: Common, now: Common): JsonObject | null {
  let changes: Record<string, unknown> | null = null;
  for (const [name, member] of MEMBERS) {
    const value = now[member];
    if (isSame(before[member], value)) continue;
    changes ??= {};
    changes[name] = value === USUAL[member] ? null : value;
  }
  if (before.more === now.more) return changes;
  const gone = Object.keys(before.more ?? {}).map((name) => [name, null]);
  return { ...changes, ...Object.fromEntries(gone), ...now.more };
}

function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  return (
    typeof one === 'object' && typeof other === 'object' && JSON.stringify(one) === JSON.stringify(other)
  );
}

/** The rows of a line. */
export function rowsIn(line: Buffer): SnapshotRow[] {
  return JSON.parse(`[${line.toString()}]`);
}

/** Reads rows one after another. */
export class RowReader {
  readonly #state: State;
  #common = USUAL;
  #at: Stamp = { boot: '', bootMs: 0 };
  #weight = messageWeight(USUAL);

  constructor(state: State) {
    this.#state = state;
  }

  read(
    rows: readonly SnapshotRow[],
    found: (message: Message, place: Place | null, weight: number) => void,
  ): void {
    for (const row of rows) {
      if (!isMessage(row)) {
        this.#common = changed(this.#state, this.#common, row);
        this.#weight = messageWeight(this.#common);
        continue;
      }
      // By index: the iterator behind a destructured list takes three times as long.
      const bootMs = row[1];
      const { boot } = this.#common;
      // Messages of one request share the stamp, to save memory.
      if (this.#at.bootMs !== bootMs || this.#at.boot !== boot) this.#at = { boot, bootMs };
      found(messageOf(row[0], this.#at, this.#common), placeIn(row), this.#weight);
    }
  }
}

function placeIn(row: MessageRow): Place | null {
  return row.length === 2 ? null : { segment: row[2], offset: row[3], length: row[4], crc: row[5] };
}

function isMessage(row: SnapshotRow): row is MessageRow {
  return Array.isArray(row);
}

/** What the messages behind an object have in common. */
function changed(state: State, before: Common, changes: JsonObject): Common {
  if ('id' in changes) throw new TypeError('a message must be a list');
  const common: Record<string, unknown> = { ...before };
  for (const [name, value] of Object.entries(changes)) {
    const member = MEMBERS.get(name);
    if (member) common[member] = value ?? USUAL[member];
  }
  const { from, more, ...rest } = common as unknown as Common;
  const unknown = unknownMembers(changes, MEMBERS);
  return {
    ...rest,
    from: sharedSender(state, from),
    more: unknown ? withoutNulls({ ...more, ...unknown }) : more,
  };
}

function withoutNulls(members: JsonObject): JsonObject | undefined {
  const entries = Object.entries(members).filter(([, value]) => value !== null);
  return entries.length > 0 ? Object.fromEntries(entries) : undefined;
}

function messageOf(id: string, accepted: Stamp, common: Common): Message {
  const { type, destination, from, subject, extras, attachments, reachMs, retried, failed, sent } = common;
  const { status, attempts, lastReply, due, textBytes, more } = common;
  const message: Message = {
    id,
    type,
    destination,
    from,
    subject,
    extras,
    attachments,
    accepted,
    reachMs,
    status,
    attempts,
    lastReply,
    due,
    place: null,
    textBytes,
    more,
  };
  if (retried) message.retried = retried;
  if (failed) message.failed = failed;
  if (sent) message.sent = sent;
  return message;
}
