/**
 * The state as a plain document (`state` in store.json), the content of a message as JSON, and both back again. Members
 * with their usual value are left out, so that ten thousand messages stay a small file. Used by acceptance.ts,
 * journaled-store.ts and snapshot.ts.
 */
import { type BookDocument, fromBookDocument, toBookDocument } from '../destinations/book.js';
import type { Address } from '../message/address.js';
import {
  type Attachment,
  type Content,
  type EmailContent,
  type Message,
  type MessageType,
  NO_ATTACHMENTS,
  type Place,
  type ShortContent,
  type Stamp,
  type Status,
} from '../message/message.js';
import type { StoreEvent } from './event.js';
import { unknownMembers } from './format.js';
import { insertKey } from './keys.js';
import { apply, emptyState, insert, type KeyEntry, type State, sharedSender } from './state.js';
import type { Bounds } from './weight.js';

// Messages and files that are converted in one step.
const BATCH_ITEMS = 256;

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
  readonly book?: BookDocument;
  /** Events of a newer version. The first version that knows them applies them. */
  readonly unknownEvents?: readonly object[];
  /** In the order of acceptance. Each batch is made on demand, to save memory. */
  readonly messages: Iterable<readonly MessageDocument[]>;
}

interface BootDocument {
  readonly startMs: number;
  readonly confirmed?: true;
}

/** One message in store.json. */
export interface MessageDocument {
  id: string;
  /** 1 if left out. */
  type?: MessageType;
  to: string;
  from?: Address;
  attachments?: readonly Attachment[];
  at: Stamp;
  /** 0 if left out. */
  reachMs?: number;
  retried?: Stamp;
  failed?: Stamp;
  /** `queued` if left out. */
  status?: Status;
  attempts?: number;
  reply?: string;
  due?: Stamp;
  place?: Place;
}

const DOCUMENT_MEMBERS: ReadonlySet<string> = new Set<'format' | keyof StoreDocument>([
  ...(['format', 'storeId', 'counter', 'held', 'reachMs', 'boots', 'keys', 'book'] as const),
  ...(['unknownEvents', 'messages'] as const),
]);
const MESSAGE_MEMBERS: ReadonlySet<string> = new Set<keyof MessageDocument>([
  ...(['id', 'type', 'to', 'from', 'attachments', 'at', 'reachMs', 'retried', 'failed', 'status'] as const),
  ...(['attempts', 'reply', 'due', 'place'] as const),
]);

/** The document of a state. `sending` becomes the status before. */
export function toDocument(state: State): StoreDocument {
  return {
    storeId: state.storeId,
    counter: state.counter,
    ...(state.held && { held: true }),
    ...(state.reachMs > 0 && { reachMs: state.reachMs }),
    boots: bootsIn(state),
    keys: [...state.keys].map(([key, entry]) => ({ key, ...entry })),
    book: toBookDocument(state.book),
    ...(state.unknownEvents.length > 0 && { unknownEvents: state.unknownEvents }),
    ...state.more,
    messages: messageDocuments(state),
  };
}

function* messageDocuments(state: State): Iterable<MessageDocument[]> {
  let batch: MessageDocument[] = [];
  let items = 0;
  for (const message of state.messages.values()) {
    batch.push(toMessageDocument(state, message));
    items += 1 + message.attachments.length;
    if (items < BATCH_ITEMS) continue;
    yield batch;
    batch = [];
    items = 0;
  }
  if (batch.length > 0) yield batch;
}

/** The boots that a stamp refers to. Others are forgotten. */
function bootsIn({ boots, messages, keys }: State): Record<string, BootDocument> {
  const found: Record<string, BootDocument> = {};
  const add = (stamp: Stamp | undefined) => {
    const boot = stamp && !found[stamp.boot] && boots.get(stamp.boot);
    if (boot) found[stamp.boot] = { startMs: boot.startMs, ...(boot.confirmed && { confirmed: true }) };
  };
  for (const { accepted, retried, failed } of messages.values()) {
    add(accepted);
    add(retried);
    add(failed);
  }
  for (const { at } of keys.values()) add(at);
  return found;
}

function toMessageDocument(state: State, message: Message): MessageDocument {
  const { id, type, destination, from, attachments, accepted, reachMs, retried, failed } = message;
  const { attempts, lastReply, due, place } = message;
  const status = message.status === 'sending' ? restingStatus(state, id) : message.status;
  const document: MessageDocument = { id, to: destination, at: accepted };
  if (type !== 1) document.type = type;
  if (from !== undefined) document.from = from;
  if (attachments.length > 0) document.attachments = attachments;
  if (reachMs > 0) document.reachMs = reachMs;
  if (retried) document.retried = retried;
  if (failed && place) document.failed = failed;
  if (status !== 'queued') document.status = status;
  if (attempts > 0) document.attempts = attempts;
  if (lastReply !== null) document.reply = lastReply;
  if (due) document.due = due;
  if (place) document.place = place;
  if (message.more) Object.assign(document, message.more);
  return document;
}

/** The status of a message that is not being sent. */
export function restingStatus(state: State, id: string): 'queued' | 'deferred' {
  return state.deferred.has(id) ? 'deferred' : 'queued';
}

/** The state that a document describes. */
export function fromDocument(document: StoreDocument, bounds: Bounds): State {
  const state = emptyState(bounds);
  state.storeId = document.storeId;
  state.counter = document.counter;
  state.held = document.held ?? false;
  state.reachMs = document.reachMs ?? 0;
  for (const [id, { startMs, confirmed = false }] of Object.entries(document.boots)) {
    state.boots.set(id, { startMs, confirmed });
  }
  let [to, at]: [string, Stamp | null] = ['', null];
  for (const batch of document.messages) {
    for (const kept of batch) {
      // A message shares the stamp and address of the one before if they are equal, to save memory.
      if (kept.to === to) kept.to = to;
      if (at?.boot === kept.at.boot && at.bootMs === kept.at.bootMs) kept.at = at;
      ({ to, at } = kept);
      insert(state, fromMessageDocument(kept, sharedSender(state, kept.from)), kept.place ?? null);
    }
  }
  for (const { key, ...entry } of document.keys) insertKey(state, key, entry);
  if (document.book) state.book = fromBookDocument(document.book);
  state.more = unknownMembers(document, DOCUMENT_MEMBERS);
  // This version may know them.
  apply(state, (document.unknownEvents ?? []) as StoreEvent[], { segment: 0, offset: 0 });
  return state;
}

function fromMessageDocument(document: MessageDocument, from: Address | undefined): Message {
  const message: Message = {
    id: document.id,
    type: document.type ?? 1,
    destination: document.to,
    from,
    attachments: document.attachments ?? NO_ATTACHMENTS,
    accepted: document.at,
    reachMs: document.reachMs ?? 0,
    status: document.status ?? 'queued',
    attempts: document.attempts ?? 0,
    lastReply: document.reply ?? null,
    due: document.due ?? null,
    place: null,
    more: unknownMembers(document, MESSAGE_MEMBERS),
  };
  if (document.retried) message.retried = document.retried;
  if (document.failed) message.failed = document.failed;
  return message;
}

/** The JSON text of a content. Empty members are left out. */
export function encodeContent(content: Content): Buffer {
  if ('message' in content) return Buffer.from(JSON.stringify(content));
  const { subject, plain, html } = content;
  const filled = { subject: subject || undefined, plain: plain || undefined, html: html || undefined };
  return Buffer.from(JSON.stringify(filled));
}

/** Undoes encodeContent. */
export function decodeContent(bytes: Buffer): Content {
  const content = JSON.parse(bytes.toString()) as Partial<EmailContent> | ShortContent;
  if ('message' in content) return content;
  const { subject = '', plain = '', html = '' } = content;
  return { subject, plain, html };
}
