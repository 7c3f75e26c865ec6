/**
 * Messages as rows: the form that they have in a snapshot, and in memory while nobody asks for them. A row is a list:
 *
 *     [id, kind, to, subject, bootMs, reachMs, segment, offset, length, crc]
 *
 * `kind` is a number: what many messages share stands once, in the list of kinds. `bootMs` is when its boot accepted the
 * message. The last four are the place of the content. Segment 0: the content is gone, and `length` is what it took. Few
 * messages have an eleventh member, an object with everything else (Own). A newer minor version adds members only there.
 * Pure.
 */

import type { Stamp } from '../../base/stamp.js';
import {
  type Attachment,
  type Extras,
  type Message,
  NO_ATTACHMENTS,
  type Place,
  type Sender,
} from '../message/message.js';
import { unknownMembers } from './format.js';
import { isOwn, OWN_MEMBERS } from './shapes.js';

/** A message at rest. */
export type MessageRow = [
  id: string,
  kind: number,
  to: string,
  subject: string,
  bootMs: number,
  reachMs: number,
  segment: number,
  offset: number,
  length: number,
  crc: number,
  own?: Own,
];

/** What many messages share. `boot` is that of the acceptance. */
export interface RowKind extends Pick<Message, 'type' | 'status'> {
  readonly boot: string;
  readonly from?: Sender | undefined;
}

/** What few messages have. Members of a newer version stand beside these, and are kept. */
interface Own {
  readonly attachments?: readonly Attachment[];
  readonly extras?: Extras;
  readonly retried?: Stamp;
  readonly failed?: Stamp;
  readonly sent?: Stamp;
  readonly due?: Stamp;
  readonly attempts?: number;
  readonly reply?: string;
}

const NO_OWN: Own = {};
/** The length of a row without members of its own. */
export const PLAIN_LENGTH = 10;

/** The kinds of many rows, each once. */
export class Kinds {
  readonly list: RowKind[] = [];
  readonly #numbers = new Map<string, number>();
  /** The last one that was asked for: most messages are of the same kind as the one before. */
  #last = -1;

  /** Adds one that is read. */
  add(kind: RowKind): void {
    this.#numbers.set(keyOf(kind), this.list.push(kind) - 1);
  }

  /** The number of this kind, which is added if it is new. */
  numberOf(kind: RowKind): number {
    const last = this.list[this.#last];
    if (last && isSame(last, kind)) return this.#last;
    const key = keyOf(kind);
    const number = this.#numbers.get(key) ?? this.list.push(kind) - 1;
    this.#numbers.set(key, number);
    this.#last = number;
    return number;
  }
}

function keyOf({ type, status, boot, from }: RowKind): string {
  return JSON.stringify([type, status, boot, from]);
}

function isSame(one: RowKind, other: RowKind): boolean {
  return (
    one.boot === other.boot &&
    one.status === other.status &&
    one.from === other.from &&
    one.type === other.type
  );
}

/** The row of a message; `status` is the one that it has at rest. */
export function rowOf(message: Message, status: Message['status'], kinds: Kinds): MessageRow {
  const { id, type, destination, from, subject, accepted, reachMs, place, textBytes } = message;
  const kind = kinds.numberOf({ type, status, boot: accepted.boot, from });
  const row: MessageRow = [
    ...([id, kind, destination, subject, accepted.bootMs, reachMs] as const),
    ...(place
      ? ([place.segment, place.offset, place.length, place.crc] as const)
      : ([0, 0, textBytes, 0] as const)),
  ];
  const own = ownOf(message);
  if (own) row.push(own);
  return row;
}

/** Undefined for most. */
function ownOf(message: Message): Own | undefined {
  const { attachments, extras, retried, failed, sent, due, attempts, lastReply, more, place } = message;
  const isPlain =
    attachments.length === 0 && extras === undefined && attempts === 0 && lastReply === null && due === null;
  if (isPlain && !retried && !failed && !sent && !more) return undefined;
  return {
    ...more,
    ...(attachments.length > 0 && { attachments }),
    ...(extras && { extras }),
    ...(retried && { retried }),
    // It says until when the content is kept.
    ...(failed && place && { failed }),
    ...(sent && { sent }),
    ...(due && { due }),
    ...(attempts > 0 && { attempts }),
    ...(lastReply !== null && { reply: lastReply }),
  };
}

/** The message of a row. */
export function messageOf(row: MessageRow, kinds: readonly RowKind[]): Message {
  const [id, number, destination, subject, bootMs, reachMs, , , length, , own = NO_OWN] = row;
  const kind = kinds[number] as RowKind;
  const { attachments = NO_ATTACHMENTS, extras, due = null, attempts = 0, reply = null } = own;
  const place = placeOf(row);
  const message: Message = {
    id,
    type: kind.type,
    destination,
    from: kind.from,
    subject,
    extras,
    attachments,
    accepted: { boot: kind.boot, bootMs },
    reachMs,
    status: kind.status,
    attempts,
    lastReply: reply,
    due,
    place,
    textBytes: place ? 0 : length,
    more: own === NO_OWN ? undefined : unknownMembers(own, OWN_MEMBERS),
  };
  if (own.retried) message.retried = own.retried;
  if (own.failed) message.failed = own.failed;
  if (own.sent) message.sent = own.sent;
  return message;
}

/** Where the content of a row lies; null if it is gone. */
export function placeOf(row: MessageRow): Place | null {
  const [, , , , , , segment, offset, length, crc] = row;
  return segment === 0 ? null : { segment, offset, length, crc };
}

/** True for a list that this file has made: what is read from a disk is parsed, not trusted. */
export function isRow(value: unknown, kinds: readonly RowKind[]): value is MessageRow {
  // By index: a start with ten thousand messages calls it before V8 has compiled a destructured list.
  if (!Array.isArray(value) || value.length < PLAIN_LENGTH || kinds[value[1]] === undefined) return false;
  for (let i = 4; i < PLAIN_LENGTH; i++) if (typeof value[i] !== 'number') return false;
  const own = value[10];
  return (
    typeof value[0] === 'string' &&
    typeof value[2] === 'string' &&
    typeof value[3] === 'string' &&
    (own === undefined || isOwn(own))
  );
}
