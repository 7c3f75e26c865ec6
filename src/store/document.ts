/**
 * The state as a plain document (`state` in store.json), the content of a message as JSON, and both back again. Used by
 * acceptance.ts, journaled-store.ts and snapshot.ts.
 */
import { type BookDocument, fromBookDocument, toBookDocument } from '../destinations/book.js';
import type { Content, EmailContent, ReadyMadeContent, ShortContent } from '../message/message.js';
import { type Batch, insertBatches, toBatches } from './batches.js';
import type { StoreEvent } from './event.js';
import { unknownMembers } from './format.js';
import { insertKey } from './keys.js';
import { isStored } from './message-map.js';
import { apply, emptyState, type KeyEntry, type State } from './state.js';
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
  readonly book?: BookDocument;
  /** Events of a newer version. The first version that knows them applies them. */
  readonly unknownEvents?: readonly object[];
  /** Each batch is made on demand, to save memory. */
  readonly messages: Iterable<Batch>;
}

interface BootDocument {
  readonly startMs: number;
  readonly confirmed?: true;
}

const DOCUMENT_MEMBERS: ReadonlySet<string> = new Set<'format' | 'index' | keyof StoreDocument>([
  ...(['format', 'storeId', 'counter', 'held', 'reachMs', 'boots', 'keys', 'book'] as const),
  ...(['unknownEvents', 'messages', 'index'] as const),
]);

/** The document of a state. */
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
    messages: toBatches(state),
  };
}

/** The boots that a stamp refers to. Others are forgotten. */
function bootsIn({ boots, messages, keys }: State): Record<string, BootDocument> {
  const found: Record<string, BootDocument> = {};
  const add = (name: string | undefined) => {
    const boot = name !== undefined && !found[name] && boots.get(name);
    if (boot) found[name] = { startMs: boot.startMs, ...(boot.confirmed && { confirmed: true }) };
  };
  for (const part of messages.parts()) {
    if (isStored(part)) for (const boot of part.head.boots) add(boot);
    else {
      add(part.accepted.boot);
      add(part.retried?.boot);
      add(part.failed?.boot);
      add(part.sent?.boot);
    }
  }
  for (const { at } of keys.values()) add(at.boot);
  return found;
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
  insertBatches(state, document.messages);
  for (const { key, ...entry } of document.keys) insertKey(state, key, entry);
  if (document.book) state.book = fromBookDocument(document.book);
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

/** Undoes encodeContent. */
export function decodeContent(bytes: Buffer): Content {
  const content = JSON.parse(bytes.toString()) as Partial<EmailContent> | ReadyMadeContent | ShortContent;
  if ('message' in content) return content;
  if ('missing' in content) return { ...content, subject: content.subject ?? '' };
  const { subject = '', plain = '', html = '', head } = content;
  return { subject, plain, html, ...(head && { head }) };
}
