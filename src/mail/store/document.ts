/**
 * The state as a plain document (`state` in store.json), the content of a message as JSON, and both back again.
 */
import { type JsonObject, jsonIn } from '../../base/json.js';
import { type BookDocument, fromBookDocument, toBookDocument } from '../book/book.js';
import { type Content, type Message, NO_ATTACHMENTS, type Place } from '../message/message.js';
import type { StoreEvent } from './event.js';
import { unknownMembers } from './format.js';
import { insertKey, type KeyEntry } from './keys.js';
import { isRow, type MessageRow, PLAIN_LENGTH, type RowKind } from './message-table.js';
import { DOCUMENT_MEMBERS, isContentOf, isDocument, isOldChange, isOldRow } from './shapes.js';
import {
  apply,
  arrange,
  emptyState,
  forgetSurplus,
  insert,
  insertRow,
  ORDERED,
  restingStatus,
  type State,
  sharedSender,
} from './state.js';
import { type Bucket, Tally } from './tally.js';
import type { Bounds } from './weight.js';

/** What stands in store.json under `state`. */
export interface StoreDocument {
  readonly storeId: string;
  readonly counter: number;
  readonly held?: true;
  /** 0 if left out. */
  readonly reachMs?: number;
  /** The boots that a stamp refers to. */
  readonly boots: Readonly<Record<string, BootDocument>>;
  readonly keys: readonly (KeyEntry & { readonly key: string })[];
  readonly book: BookDocument;
  /** What relays with a rate have taken. */
  readonly sentBy?: Readonly<Record<string, readonly Bucket[]>>;
  /** Events of a newer version. The first version that knows them applies them. */
  readonly unknownEvents?: readonly object[];
  /** What many messages share; a row has the number of its kind. Format 1 has none. */
  readonly kinds?: readonly RowKind[];
  /** See State.untold. */
  readonly untold?: readonly string[];
  /** The order in which messages were deferred, failed, and lost their content. */
  readonly orders?: Readonly<Partial<Record<(typeof ORDERED)[number], readonly string[]>>>;
  /** Some hundred at a time, each on demand. */
  readonly messages: Iterable<readonly unknown[]>;
}

interface BootDocument {
  readonly startMs: number;
  readonly confirmed?: true;
}

/** Rows that are converted in one step: less than a millisecond. */
const LINE_ROWS = 256;

/** The document of a state, which may change afterwards: the document stays as it is. */
export function toDocument(state: State): StoreDocument {
  const { kinds, rows } = state.messages.fold((id) => restingStatus(state, id));
  const ordered = ORDERED.filter((name) => state[name].size > 0);
  return {
    storeId: state.storeId,
    counter: state.counter,
    ...(state.held && { held: true }),
    ...(state.reachMs > 0 && { reachMs: state.reachMs }),
    boots: bootsIn(state, kinds, rows),
    ...(state.sentBy.size > 0 && {
      sentBy: Object.fromEntries([...state.sentBy].map(([relay, { buckets }]) => [relay, [...buckets]])),
    }),
    keys: [...state.keys, ...state.sendKeys].map(([key, entry]) => ({ key, ...entry })),
    book: toBookDocument(state.book),
    ...(state.unknownEvents.length > 0 && { unknownEvents: state.unknownEvents }),
    ...(state.untold.size > 0 && state.bounds.untoldMax > 0 && { untold: [...state.untold] }),
    ...state.more,
    kinds,
    ...(ordered.length > 0 && {
      orders: Object.fromEntries(ordered.map((name) => [name, [...state[name]]])),
    }),
    messages: linesOf(rows),
  };
}

/** May be walked more than once. */
function linesOf(rows: readonly MessageRow[]): Iterable<readonly MessageRow[]> {
  return {
    *[Symbol.iterator]() {
      for (let from = 0; from < rows.length; from += LINE_ROWS) yield rows.slice(from, from + LINE_ROWS);
    },
  };
}

/** The boots that a stamp refers to. Others are forgotten. */
function bootsIn(
  { boots, keys, sendKeys, sentBy }: State,
  kinds: readonly RowKind[],
  rows: readonly MessageRow[],
): Record<string, BootDocument> {
  const found: Record<string, BootDocument> = {};
  const add = (name: string | undefined) => {
    const boot = name !== undefined && !found[name] && boots.get(name);
    if (boot) found[name] = { startMs: boot.startMs, ...(boot.confirmed && { confirmed: true }) };
  };
  for (const { boot } of kinds) add(boot);
  for (const row of rows) {
    if (row.length === PLAIN_LENGTH) continue;
    add(row[10]?.retried?.boot);
    add(row[10]?.failed?.boot);
    add(row[10]?.sent?.boot);
  }
  for (const { at } of [...keys.values(), ...sendKeys.values()]) add(at.boot);
  for (const { buckets } of sentBy.values()) for (const [, boot] of buckets) add(boot);
  return found;
}

/** Throws if a row has another form. */
function insertRows(state: State, { orders, messages }: StoreDocument, kinds: readonly RowKind[]): void {
  for (const kind of kinds) state.messages.kinds.add(kind);
  for (const line of messages)
    for (const row of line) {
      if (!isRow(row, kinds) || state.messages.known(row[0])) throw otherForm();
      insertRow(state, row);
    }
  for (const name of ORDERED) arrange(state[name], orders?.[name] ?? []);
  forgetSurplus(state);
}

/** The messages of format 1. */
function insertOldRows(state: State, messages: Iterable<readonly SnapshotRow[]>): void {
  const reader = new RowReader(state);
  for (const rows of messages)
    for (const [message, place] of reader.read(rows)) {
      if (state.messages.known(message.id)) throw otherForm();
      insert(state, message, place);
    }
}

const otherForm = () => new TypeError('it has another form');

/** The state that a document describes. Throws if it has another form. */
export function fromDocument(document: StoreDocument, bounds: Bounds): State {
  if (!isDocument(document)) throw otherForm();
  const state = emptyState(bounds);
  state.storeId = document.storeId;
  state.counter = document.counter;
  state.held = document.held ?? false;
  state.reachMs = document.reachMs ?? 0;
  for (const [id, { startMs, confirmed = false }] of Object.entries(document.boots)) {
    state.boots.set(id, { startMs, confirmed });
  }
  if (document.kinds) insertRows(state, document, document.kinds);
  else insertOldRows(state, document.messages as Iterable<readonly SnapshotRow[]>);
  for (const id of document.untold ?? []) state.untold.add(id);
  for (const { key, ...entry } of document.keys) insertKey(state, key, entry);
  for (const [relay, buckets] of Object.entries(document.sentBy ?? {}))
    state.sentBy.set(relay, new Tally(buckets));
  state.book = fromBookDocument(document.book);
  state.more = unknownMembers(document, DOCUMENT_MEMBERS);
  // This version may know them.
  apply(state, (document.unknownEvents ?? []) as StoreEvent[], { segment: 0, offset: 0 });
  return state;
}

/** The JSON text of a content. Empty members are left out. */
export function encodeContent(content: Content): Buffer {
  if ('message' in content) return Buffer.from(JSON.stringify(content));
  const subject = content.subject || undefined;
  if ('missing' in content) return Buffer.from(JSON.stringify({ ...content, subject }));
  const { plain, html, head } = content;
  return Buffer.from(JSON.stringify({ subject, plain: plain || undefined, html: html || undefined, head }));
}

/** Undoes encodeContent; null if it is not the content of such a message. */
export function decodeContent(bytes: Buffer, message: Pick<Message, 'type' | 'extras'>): Content | null {
  const content = jsonIn(bytes);
  if (!isContentOf(message, content)) return null;
  if ('message' in content) return content;
  if ('missing' in content) return { ...content, subject: content.subject ?? '' };
  const { subject = '', plain = '', html = '', head } = content;
  return { subject, plain, html, ...(head && { head }) };
}

/*
 * Messages in a snapshot of format 1, which this version reads and no longer writes:
 *
 *     {"to":"john@example.com","from":"device@example.com","boot":"69c8d2fc"},
 *     ["0000001C2VSM8V2",73904479,1,147,1053,665632860],
 *     {"status":"sent","attempts":1,"reply":"250 OK"},
 *     ["0000003DQ4XTAGF",73904512]
 *
 * A list is a message: its id, when its boot accepted it (ms), and, while its content is kept, the segment, offset, length
 * and CRC-32 of that. An object says what is different for this message and those behind it; null is the usual value.
 */
type OldRow =
  | readonly [id: string, bootMs: number]
  | readonly [id: string, bootMs: number, segment: number, offset: number, length: number, crc: number];
/** A message, or what is different from here on. */
type SnapshotRow = OldRow | JsonObject;

/** What a message may have in common with the one before it. */
type Common = Omit<Message, 'id' | 'accepted' | 'place'> & { readonly boot: string };

const USUAL: Common = {
  boot: '',
  type: 1,
  destination: '',
  from: undefined,
  subject: '',
  extras: undefined,
  attachments: NO_ATTACHMENTS,
  reachMs: 0,
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

/** Reads rows one after another. */
class RowReader {
  readonly #state: State;
  #common = USUAL;

  constructor(state: State) {
    this.#state = state;
  }

  /** The messages, without a place yet, and their places. */
  *read(rows: readonly SnapshotRow[]): Generator<[message: Message, place: Place | null], void, void> {
    for (const row of rows) {
      if (!Array.isArray(row)) {
        this.#common = changed(this.#state, this.#common, row as JsonObject);
        continue;
      }
      if (!isOldRow(row)) throw new TypeError('a message has another form');
      const [id, bootMs, segment, offset, length, crc] = row as unknown as OldRow;
      const { boot, ...common } = this.#common;
      const message: Message = { id, ...common, accepted: { boot, bootMs }, place: null };
      yield [message, segment === undefined ? null : ({ segment, offset, length, crc } as Place)];
    }
  }
}

/** What the messages behind an object have in common. */
function changed(state: State, before: Common, changes: JsonObject): Common {
  // No version wrote a message that is no list, or an object without a known member.
  const isChange = !('id' in changes) && Object.keys(changes).some((name) => MEMBERS.has(name));
  if (!isChange || !isOldChange(withoutNulls(changes) ?? {})) throw new TypeError('a message must be a list');
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
