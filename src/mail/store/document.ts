/**
 * The state as a plain document (`state` in store.json), the content of a message as JSON, and both back again.
 */

import { jsonIn } from '../../base/json.js';
import { type BookDocument, fromBookDocument, toBookDocument } from '../book/book.js';
import type { Content, Message } from '../message/message.js';
import type { StoreEvent } from './event.js';
import { unknownMembers } from './format.js';
import { insertKey } from './keys.js';
import { arrange, forgetSurplus, insert, insertRow, ORDERED } from './lists.js';
import { RowReader, type SnapshotRow } from './old-rows.js';
import { isRow, type MessageRow, PLAIN_LENGTH, type RowKind } from './rows.js';
import { DOCUMENT_MEMBERS, isContentOf, isDocument } from './shapes.js';
import { apply, emptyState, type KeyEntry, restingStatus, type State } from './state.js';
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
  /** Events of a newer version. The first version that knows them applies them. */
  readonly unknownEvents?: readonly object[];
  /** What many messages share; a row has the number of its kind. Format 1 has none. */
  readonly kinds?: readonly RowKind[];
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
    keys: [...state.keys, ...state.sendKeys].map(([key, entry]) => ({ key, ...entry })),
    book: toBookDocument(state.book),
    ...(state.unknownEvents.length > 0 && { unknownEvents: state.unknownEvents }),
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
  { boots, keys, sendKeys }: State,
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
  for (const { key, ...entry } of document.keys) insertKey(state, key, entry);
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
