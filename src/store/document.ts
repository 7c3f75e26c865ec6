/**
 * The state as a plain document, and back: what stands in store.json under `state`. Members that have their
 * usual value are left out, so that ten thousand messages stay a small file.
 */
import type { Address } from '../message/address.js';
import type { Message, MessageType, Place, Stamp, Status } from '../message/message.js';
import { emptyState, insert, type KeyEntry, type State } from './state.js';

export interface StoreDocument {
  readonly storeId: string;
  readonly counter: number;
  readonly held?: true;
  readonly messages: readonly MessageDocument[];
  readonly keys: readonly (KeyEntry & { readonly key: string })[];
}

interface MessageDocument {
  readonly id: string;
  /** 1 if left out. */
  readonly type?: MessageType;
  readonly to: Address;
  readonly at: Stamp;
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
    messages,
    keys: [...state.keys].map(([key, entry]) => ({ key, ...entry })),
  };
}

function toMessageDocument(state: State, message: Message): MessageDocument {
  const status = message.status === 'sending' ? restingStatus(state, message.id) : message.status;
  return {
    id: message.id,
    ...(message.type !== 1 && { type: message.type }),
    to: message.destination,
    at: message.accepted,
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

export function fromDocument(document: StoreDocument, historyMax: number): State {
  const state = emptyState(historyMax);
  state.storeId = document.storeId;
  state.counter = document.counter;
  state.held = document.held ?? false;
  for (const {
    id,
    type,
    to,
    at,
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
