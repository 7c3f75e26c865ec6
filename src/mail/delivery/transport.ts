/**
 * A transport, as a queue uses it: peers that take messages, and lines that lead to them. Emails go by relays
 * (smtp-transport.ts); SMS, calls and pushes go by the cloud (cloud-transport.ts).
 */
import type { Message } from '../message/message.js';
import type { Peer, RefusalPauses } from './peer.js';
import type { RelayRate } from './rate.js';

/** A message that can be offered as it is. */
export interface Load {
  readonly message: Message;
}

/** The way to some peers. */
export interface Transport<L extends Load> {
  /** The preferred ones first. */
  readonly peers: readonly Peer[];
  readonly lines: readonly Line<L>[];
  /**
   * One line more, used for a moment: it tries peers that are down while another works, and takes urgent messages past
   * lines that are busy for long. Null: there is none.
   */
  readonly scout: Line<L> | null;
  /** How many messages each peer may get; null: any number. */
  readonly rate: RelayRate | null;
  /** False while nothing may be sent. Call Queue.wake() when this changes. */
  isOpen(): boolean;
  /** Makes a claimed message ready. Rejects if its content cannot be read. */
  load(message: Message): Promise<L>;
  /** All peers fail, or may get nothing now: this time does not count for the age of emails. */
  missed(): void;
}

/** One connection, or what stands for one. */
export interface Line<L extends Load> {
  /** True if a session to that peer is open. */
  isOpenTo(peer: Peer): boolean;
  /** Opens a session. Returns null, or the reason for the failure, a sentence. Never rejects. */
  open(peer: Peer): Promise<string | null>;
  /** True if the next message may be announced while this one is sent. */
  takesAhead(load: L): boolean;
  /** Sends a message. Null: the message was not tried, and needs a new session. Never rejects. */
  offer(load: L, next: L | null): Promise<Outcome | null>;
  /** There is nothing to send now. */
  rest(): void;
  /** Closes the session, and aborts a send. */
  close(): Promise<void>;
}

/**
 * Who may be to blame for a failed offer. `message`: it alone. `peer`: the peer, or the network before it. `peer here`: the
 * peer, unless it takes other messages. `device`: the peer refuses this device or its account. `envelope`: the same, but
 * the sender or recipient of this message may be the cause. `unclear`: a refusal that says none of this. `either`: peer or
 * message, it cannot be known.
 */
export type Suspect = 'message' | 'peer' | 'peer here' | 'device' | 'envelope' | 'unclear' | 'either';

/** The result of an offer. */
export interface Outcome {
  readonly kind: 'sent' | 'failed' | 'deferred';
  /** Null when sent. */
  readonly suspect: Suspect | null;
  /** True if it shows that the peer takes messages. */
  readonly isProof: boolean;
  /** For lastReply: the words of the peer, or our own. */
  readonly reply: string;
  /** Why the peer counts as failing, a sentence. */
  readonly reason: string;
  /** The pause that the peer asks for; 0: none. */
  readonly retryAfterMs: number;
  /** If the peer turns out to refuse this device: how long it is left alone. Left out: as a peer that fails. */
  readonly pauses?: RefusalPauses;
  /** True: it is not known whether the message has arrived. */
  readonly isDoubtful?: true;
  /** Why the content could not be read while it was sent. */
  readonly unreadable?: unknown;
}
