/**
 * A way out, as a queue knows it: peers that take messages, and lines that lead to them. Emails go by relays
 * (smtp-transport.ts); SMS, calls and pushes go by the cloud (cloud-transport.ts).
 */
import type { Message } from '../message/message.js';
import type { Peer } from './peer.js';

/** A message that can be offered as it is. */
export interface Load {
  readonly message: Message;
}

/** Ways to some peers. */
export interface Transport<L extends Load> {
  /** The preferred ones first. */
  readonly peers: readonly Peer[];
  readonly lines: readonly Line<L>[];
  /** Tries peers that fail while another works, so that no message waits for them on the lines; null for one peer. */
  readonly scout: Line<L> | null;
  /** False while nothing is to be tried. Whoever changes that calls Queue.wake(). */
  isOpen(): boolean;
  /** Makes a claimed message ready. Rejects if its content cannot be read. */
  load(message: Message): Promise<L>;
  /** No peer was of any use: this time does not count for the age of emails. */
  missed(): void;
}

/** One connection, or what stands for one. */
export interface Line<L extends Load> {
  /** True if a session to that peer stands ready. */
  isOpenTo(peer: Peer): boolean;
  /** Null once there is a session, otherwise the reason, a sentence. Never rejects. */
  open(peer: Peer): Promise<string | null>;
  /** True if the next message may be announced while this one is sent. */
  takesAhead(load: L): boolean;
  /** Sends a message. Null: nothing has happened to it, it wants a new session. Never rejects. */
  offer(load: L, next: L | null): Promise<Outcome | null>;
  /** There is nothing to send just now. */
  rest(): void;
  /** Ends what is being sent. */
  close(): Promise<void>;
}

/**
 * Who may be to blame for an offer in vain. `peer`: the peer, or the network before it. `peer here`: the peer, unless it
 * takes other messages. `us`: the peer refuses this device or its sender; others show whether it refuses all of them.
 * `either`: it cannot be told.
 */
export type Suspect = 'message' | 'peer' | 'peer here' | 'us' | 'either';

/** What an offer came to. */
export interface Outcome {
  readonly kind: 'sent' | 'failed' | 'deferred';
  /** Null when sent. */
  readonly suspect: Suspect | null;
  /** True if it shows that the peer takes messages. */
  readonly isProof: boolean;
  /** For lastReply: what the peer said, or we. */
  readonly reply: string;
  /** Why the peer counts as failing, a sentence. */
  readonly reason: string;
  /** How long the peer asks to be left alone. */
  readonly retryAfterMs: number;
  /** Why the content could not be read while it was sent. */
  readonly unreadable?: unknown;
}
