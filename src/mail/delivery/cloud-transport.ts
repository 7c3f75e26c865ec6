/**
 * The transport of calls, pushes or SMS: the cloud is its one peer, and one line sends one message at a time.
 */
import { assert } from '../../base/errors.js';
import type {
  Message,
  SendMail,
  SendShort,
  ShortAnswer,
  ShortContent,
  ShortMessage,
} from '../message/message.js';
import { CLOUD } from '../settings.js';
import type { IsWanted, Store } from '../store/store.js';
import { Peer, type PeerOptions } from './peer.js';
import type { Line, Load, Outcome, Transport } from './transport.js';

/** How SMS, calls and pushes leave. */
export interface ShortWay {
  readonly send: SendShort;
  /** And mails; left out: they cannot go by the cloud. */
  readonly sendMail?: SendMail;
  /** Nothing is sent while this returns false. */
  readonly isOnline: () => boolean;
  /** True for a message that goes elsewhere than others of its type: neither keeps the others waiting. */
  readonly isApart?: IsWanted;
}

/** A message that can be offered. */
export interface Short extends Load {
  readonly short: ShortMessage;
}

/** The cloud, for the messages of one type. The HTTP client keeps the connections, so it is its own line. */
export class CloudTransport implements Transport<Short>, Line<Short> {
  readonly peers: readonly [Peer];
  readonly lines: readonly Line<Short>[] = [this];
  readonly scout = null;
  readonly #way: ShortWay;
  readonly #store: Store;
  /** A session is only the AbortController of the send under way. */
  #session: AbortController | null = null;

  constructor(way: ShortWay, options: PeerOptions & { readonly store: Store }) {
    this.#way = way;
    this.#store = options.store;
    this.peers = [new Peer(CLOUD, options)];
  }

  readonly rate = null;

  isOpen(): boolean {
    return this.#way.isOnline();
  }

  async load(message: Message): Promise<Short> {
    const { id, destination } = message;
    const type = message.type as ShortMessage['type'];
    const content = (await this.#store.content(message)) as ShortContent;
    return { message, short: { id, type, destination, ...content } };
  }

  missed(): void {}

  isOpenTo(): boolean {
    return this.#session !== null;
  }

  async open(): Promise<null> {
    this.#session ??= new AbortController();
    return null;
  }

  takesAhead(): boolean {
    return false;
  }

  async offer({ short }: Short): Promise<Outcome> {
    assert(this.#session !== null, 'a line is opened before it sends');
    return outcomeOf(await this.#way.send(short, this.#session.signal));
  }

  rest(): void {}

  async close(): Promise<void> {
    this.#session?.abort();
    this.#session = null;
  }
}

function outcomeOf(answer: ShortAnswer): Outcome {
  const { kind, reply } = answer;
  const common = { reply, reason: reply };
  if (kind !== 'later') {
    const isTaken = kind === 'taken';
    // A refusal is proof too, because the cloud has judged the message itself.
    return { ...common, kind: isTaken ? 'sent' : 'failed', suspect: null, isProof: true, retryAfterMs: 0 };
  }
  // If the cloud was not reached, the message is not to blame.
  const suspect = answer.isReached ? 'peer here' : 'peer';
  return { ...common, kind: 'deferred', suspect, isProof: false, retryAfterMs: answer.retryAfterMs ?? 0 };
}
