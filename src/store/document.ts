/**
 * The state as a plain document, and back: what stands in store.json under `state`; and the content of a
 * message, as it stands in the journal. Members that have their usual value are left out, so that ten thousand
 * messages stay a small file.
 */
import type { Address } from '../message/address.js';
import type { Content, Message, MessageType, Place, Stamp, Status } from '../message/message.js';
import { emptyState, insert, type KeyEntry, type State } from './state.js';

/** What stands in store.json under `state`. */
export interface StoreDocument {
  readonly storeId: string;
  readonly counter: number;
  readonly held?: true;
  /** 0 if left out. */
  readonly reachMs?: number;
  /** Those that a stamp below refers to. */
  readonly boots: Readonly<Record<string, BootDocument>>;
  readonly messages: readonly MessageDocument[];
  readonly keys: readonly (KeyEntry & { readonly key: string })[];
}

interface BootDocument {
  readonly startMs: number;
  readonly confirmed?: true;
}

interface MessageDocument {
  readonly id: string;
  /** 1 if left out. */
  readonly type?: MessageType;
  readonly to: Address;
  readonly at: Stamp;
  /** 0 if left out. */
  readonly reachMs?: number;
  readonly retried?: Stamp;
  readonly failed?: Stamp;
  /** `queued` if left out. */
  readonly status?: Status;
  readonly attempts?: number;
  readonly reply?: string;
  readonly due?: Stamp;
  readonly place?: Place;
}

/** The document of a state, in the order of acceptance. `sending` is only in memory and becomes what it was. */
export function toDocument(state: State): StoreDocument {
  const messages: MessageDocument[] = [];
  for (const message of state.messages.values()) messages.push(toMessageDocument(state, message));
  return {
    storeId: state.storeId,
    counter: state.counter,
    ...(state.held && { held: true }),
    ...(state.reachMs > 0 && { reachMs: state.reachMs }),
    boots: bootsIn(state),
    messages,
    keys: [...state.keys].map(([key, entry]) => ({ key, ...entry })),
  };
}

/** A boot of which no stamp is left is forgotten here. */
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
  const status = message.status === 'sending' ? restingStatus(state, message.id) : message.status;
  return {
    id: message.id,
    ...(message.type !== 1 && { type: message.type }),
    to: message.destination,
    at: message.accepted,
    ...(message.reachMs > 0 && { reachMs: message.reachMs }),
    ...(message.retried && { retried: message.retried }),
    ...(message.failed && message.place && { failed: message.failed }),
    ...(status !== 'queued' && { status }),
    ...(message.attempts > 0 && { attempts: message.attempts }),
    ...(message.lastReply !== null && { reply: message.lastReply }),
    ...(message.due && { due: message.due }),
    ...(message.place && { place: message.place }),
  };
}

/** What a message is when it is not being sent. */
export function restingStatus(state: State, id: string): 'queued' | 'deferred' {
  return state.deferred.has(id) ? 'deferred' : 'queued';
}

/** The state of a document. `historyMax`: how many finished messages stay readable. */
export function fromDocument(document: StoreDocument, historyMax: number): State {
  const state = emptyState(historyMax);
  state.storeId = document.storeId;
  state.counter = document.counter;
  state.held = document.held ?? false;
  state.reachMs = document.reachMs ?? 0;
  for (const [id, { startMs, confirmed = false }] of Object.entries(document.boots)) {
    state.boots.set(id, { startMs, confirmed });
  }
  for (const {
    id,
    type,
    to,
    at,
    reachMs,
    retried,
    failed,
    status,
    attempts,
    reply,
    due,
    place,
  } of document.messages) {
    const message: Message = {
      id,
      type: type ?? 1,
      destination: to,
      accepted: at,
      reachMs: reachMs ?? 0,
      status: status ?? 'queued',
      attempts: attempts ?? 0,
      lastReply: reply ?? null,
      due: due ?? null,
      place: null,
    };
    if (retried) message.retried = retried;
    if (failed) message.failed = failed;
    insert(state, message, place ?? null);
  }
  for (const { key, ...entry } of document.keys) state.keys.set(key, entry);
  return state;
}

/** The JSON text of a content. */
export function encodeContent({ subject, plain, html }: Content): Buffer {
  return Buffer.from(
    JSON.stringify({
      ...(subject !== '' && { subject }),
      ...(plain !== '' && { plain }),
      ...(html !== '' && { html }),
    }),
  );
}

/** The content of its JSON text. */
export function decodeContent(bytes: Buffer): Content {
  const { subject = '', plain = '', html = '' } = JSON.parse(bytes.toString()) as Partial<Content>;
  return { subject, plain, html };
}
