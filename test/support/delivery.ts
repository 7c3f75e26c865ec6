/**
 * Delivery on a bench: a store in memory, a clock that stands still, and relays that answer as a test says. The
 * content of each message is its id, so that a relay can tell them apart.
 */

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { RelayConfig } from '../../src/config.js';
import { SessionError } from '../../src/delivery/conversation.js';
import type { Envelope } from '../../src/delivery/envelope.js';
import { Delivery, type DeliveryOptions } from '../../src/delivery/loop.js';
import type { Ending, Phase, Trouble } from '../../src/delivery/reply.js';
import type { Session } from '../../src/delivery/session.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/limits.js';
import type { Address } from '../../src/message/address.js';
import { type Draft, type Message, type MessageType, NO_ATTACHMENTS } from '../../src/message/message.js';
import type { Store } from '../../src/store/store.js';
import type { LogFields, LogLevel } from '../../src/system/log.js';
import { FakeClock } from './clock.js';
import { MemoryStore } from './memory-store.js';

/** `250 2.0.0 ok` at the phase it belongs to, and so on: the code and the words after it. */
export function reply(phase: Phase, text: string): Ending {
  const [, code, enhanced = null] = /^(\d{3})(?: (\d\.\d+\.\d+))?/.exec(text) ?? [];
  return { phase, reply: { code: Number(code), enhanced, text } };
}

export function trouble(phase: Phase, kind: Trouble['kind']): Ending {
  return { phase, trouble: { kind, words: `${kind} at ${phase}` } };
}

export const TAKEN = reply('dot', '250 2.0.0 ok');
export const RELAY: RelayConfig = { host: 'relay.example', port: 587, tls: 'starttls', user: null };
export const SPARE: RelayConfig = { ...RELAY, host: 'spare.example' };

export const sender = () => 'device@example.com' as Address;

export const CONFIG: DeliveryOptions['config'] = {
  relays: [RELAY],
  relayConnections: 1,
  backoffMinMs: SECOND_MS,
  backoffMaxMs: 5 * MINUTE_MS,
  retryMinMs: MINUTE_MS,
  retryMaxMs: HOUR_MS,
  maxAgeMs: { 1: 5 * DAY_MS, 2: DAY_MS, 3: HOUR_MS, 4: DAY_MS },
};

/** The memory store, which also tells what delivery does with it, and tolerates no message claimed twice. */
export class WatchedStore extends MemoryStore {
  /** Every claim, in order. */
  readonly claimed: string[] = [];
  /** Messages handed out by queued() and deferred(). */
  walked = 0;
  /** By id: what reading the content throws. */
  readonly contentErrors = new Map<string, Error>();

  override claim(id: string, purpose?: 'send' | 'expire'): Message | null {
    const message = super.claim(id, purpose);
    if (message) this.claimed.push(id);
    return message;
  }

  override async content(message: Message) {
    const error = this.contentErrors.get(message.id);
    if (error) throw error;
    return super.content(message);
  }

  override *queued(): Iterable<Message> {
    yield* this.#counted(super.queued());
  }

  override *deferred(): Iterable<Message> {
    yield* this.#counted(super.deferred());
  }

  *#counted(messages: Iterable<Message>): Iterable<Message> {
    for (const message of messages) {
      this.walked++;
      yield message;
    }
  }
}

/** What the relays of a test are asked, and answer. */
export class FakeRelays {
  /** What opening a session comes to; null: it opens. */
  onOpen: (relay: RelayConfig) => Ending | null | Promise<Ending | null> = () => null;
  /** What sending a message comes to. */
  onSend: (id: string, relay: RelayConfig) => Ending | Promise<Ending> = () => TAKEN;
  /** Every attempt to open, by the relay's host. */
  readonly opened: string[] = [];
  /** Every message offered, in order. */
  readonly offered: string[] = [];
  readonly envelopes: Envelope[] = [];
  /** Whether a next message may be announced, and how many were. */
  takesAhead = true;
  announced = 0;
  /** Sessions open now. */
  open = 0;
  /** The most messages on their way at the same time. */
  mostAtOnce = 0;
  #atOnce = 0;

  async session(relay: RelayConfig): Promise<Session> {
    this.opened.push(relay.host);
    const failure = await this.onOpen(relay);
    if (failure) throw new SessionError(failure);
    this.open++;
    return this.#session(relay);
  }

  #session(relay: RelayConfig): Session {
    let isUsable = true;
    let isClosed = false;
    let hangUp: (ending: Ending) => void = () => undefined;
    let promised: Envelope | null = null;
    const { takesAhead } = this;
    return {
      sizeLimit: null,
      takesAhead,
      get usable() {
        return isUsable;
      },
      send: async (envelope, content, next = null) => {
        if (!isUsable) throw new Error('an unusable session was used');
        if (promised !== null && promised !== envelope)
          throw new Error('something else was sent than announced');
        promised = next;
        if (next !== null) this.announced++;
        this.mostAtOnce = Math.max(this.mostAtOnce, ++this.#atOnce);
        this.envelopes.push(envelope);
        const hungUp = new Promise<Ending>((resolve) => {
          hangUp = resolve;
        });
        const ending = await Promise.race([this.#answer(content, relay), hungUp]);
        this.#atOnce--;
        if ('trouble' in ending || ending.reply.code === 421) isUsable = false;
        return ending;
      },
      close: async () => {
        if (isClosed) throw new Error('a session was closed twice');
        isClosed = true;
        isUsable = false;
        this.open--;
        hangUp(trouble('dot', 'lost'));
      },
    };
  }

  async #answer(content: Buffer | AsyncIterable<Buffer>, relay: RelayConfig): Promise<Ending> {
    let id = '';
    try {
      if (Buffer.isBuffer(content)) id = content.toString();
      else for await (const chunk of content) id += chunk;
    } catch {
      return trouble('content', 'source');
    }
    this.offered.push(id);
    return this.onSend(id, relay);
  }
}

export interface Line {
  readonly level: LogLevel;
  readonly event: string;
  readonly fields: LogFields;
}

/** Everything delivery needs, and delivery itself, not started. `options` replace what it would be given. */
export function bench(
  options: Partial<DeliveryOptions> & {
    clock?: FakeClock;
    settings?: Partial<DeliveryOptions['config']>;
  } = {},
) {
  const clock = options.clock ?? new FakeClock();
  const store = new WatchedStore(clock);
  const relays = new FakeRelays();
  const lines: Line[] = [];
  const at =
    (level: LogLevel) =>
    (event: string, fields: LogFields = {}) => {
      lines.push({ level, event, fields });
    };
  const delivery = new Delivery({
    store,
    config: { ...CONFIG, ...options.settings },
    open: (relay) => relays.session(relay),
    render: ({ id }) => ({ size: id.length, smtpUtf8: false, content: Buffer.from(id) }),
    clock,
    random: () => 0,
    sender,
    log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
    ...options,
  });
  return {
    clock,
    store,
    relays,
    lines,
    delivery,
    /** The events logged. */
    events: () => lines.map(({ event }) => event),
    /** Has the store accept so many messages; gives their ids. Delivery is not told. */
    post: (count = 1, type: MessageType = 1) => post(store, count, type),
    status: (id: string | undefined) => store.get(id ?? '')?.status,
  };
}

/** Resolves when it holds: for what sockets bring about, turn by turn of the event loop. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await nextTurn();
}

/** Accepts `count` messages of a type; gives their ids. */
export async function post(store: Store, count: number, type: MessageType = 1): Promise<string[]> {
  const content = { subject: 'test', plain: '', html: '' };
  const common = { attachments: NO_ATTACHMENTS, ignored: [] };
  const draft: Draft =
    type === 1
      ? { type, destination: 'john@example.com' as Address, content, ...common }
      : { type, destination: '+31612345678', content: { message: 'test' }, ...common };
  const { ids } = await store.accept(
    Array.from({ length: count }, () => draft),
    null,
  );
  return [...ids];
}
