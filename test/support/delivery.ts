/**
 * Delivery on a bench: the real store on a disk in memory, a clock that stands still, and relays that answer as a test says. The
 * content of each message is its id, so that a relay can tell them apart.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { LogFields, LogLevel } from '../../src/base/system/log.js';
import { Expiry } from '../../src/mail/delivery/expiry.js';
import { OutcomeWriter } from '../../src/mail/delivery/outcome-writer.js';
import { Queue } from '../../src/mail/delivery/queue.js';
import {
  type Ending,
  type Envelope,
  type Phase,
  SessionError,
  type Trouble,
} from '../../src/mail/delivery/smtp/protocol.js';
import type { Session } from '../../src/mail/delivery/smtp/session.js';
import { type SmtpOptions, SmtpTransport } from '../../src/mail/delivery/smtp/smtp-transport.js';
import type { Address } from '../../src/mail/message/address.js';
import {
  type Draft,
  type Message,
  type MessageType,
  NO_ATTACHMENTS,
} from '../../src/mail/message/message.js';
import type { MailConfig, RelayConfig } from '../../src/mail/settings.js';
import type { Store } from '../../src/mail/store/store.js';
import { FakeClock } from './clock.js';
import type { FaultyDisk } from './faulty-disk.js';
import { openQuietly, segmentPath } from './store.js';

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

const sender = () => 'device@example.com' as Address;

/** The settings that a queue and its transport read. */
type QueueConfig = SmtpOptions['config'] & Pick<MailConfig, 'retryMinMs' | 'maxAgeMs'>;

export const CONFIG: QueueConfig = {
  relays: [RELAY],
  relayConnections: 1,
  relayRate: null,
  backoffMinMs: SECOND_MS,
  backoffMaxMs: 5 * MINUTE_MS,
  retryMinMs: MINUTE_MS,
  retryMaxMs: HOUR_MS,
  maxAgeMs: { 1: 5 * DAY_MS, 2: DAY_MS, 3: HOUR_MS, 4: DAY_MS },
};

/** What delivery does with a store. */
interface Watched {
  /** Every claim, in order. */
  readonly claimed: string[];
  /** Messages handed out by queued() and deferred(). */
  walked: number;
}

/** The real store on a disk in memory. `watched` tells what is done with it. */
export async function openWatched(
  clock: FakeClock,
  options: Parameters<typeof openQuietly>[1] = {},
): Promise<{ store: Store; disk: FaultyDisk; watched: Watched }> {
  const { store, disk } = await openQuietly(clock, options);
  const watched: Watched = { claimed: [], walked: 0 };
  const [claim, queued, deferred] = [store.claim, store.queued, store.deferred].map((it) =>
    it.bind(store),
  ) as [Store['claim'], Store['queued'], Store['deferred']];
  store.claim = (id, purpose) => {
    const message = claim(id, purpose);
    if (message) watched.claimed.push(id);
    return message;
  };
  function* counted(messages: Iterable<Message>): Iterable<Message> {
    for (const message of messages) {
      watched.walked++;
      yield message;
    }
  }
  store.queued = (isWanted) => counted(queued(isWanted));
  store.deferred = (isWanted) => counted(deferred(isWanted));
  return { store, disk, watched };
}

/** Spoils the stored content of a message, as a failing disk does. */
export async function damageContent(disk: FaultyDisk, store: Store, id: string): Promise<void> {
  const { segment, offset } = store.get(id)?.place ?? {};
  if (segment === undefined || offset === undefined) throw new Error(`${id} has no content`);
  const file = await disk.open(segmentPath(segment), 'update');
  await file.write(Buffer.from('?'), offset);
  await file.close();
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
  /** What was offered last. */
  content = '';
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
      oneByOne: () => undefined,
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
    this.content = id;
    // Of a whole mail the Message-ID begins with it.
    id = /^Message-ID: <(\w+)\./m.exec(id)?.[1] ?? id;
    this.offered.push(id);
    return this.onSend(id, relay);
  }
}

interface Line {
  readonly level: LogLevel;
  readonly event: string;
  readonly fields: LogFields;
}

/** Everything a queue of emails needs, and the queue, not started. `options` replace what it would be given. */
export async function bench(
  options: Partial<Omit<SmtpOptions, 'config' | 'clock'>> & {
    clock?: FakeClock;
    settings?: Partial<QueueConfig>;
    /** With what an earlier life has left. */
    disk?: FaultyDisk;
    /** What the store stamps emails with. */
    stamp?: () => Address;
    recordsEach?: boolean;
  } = {},
) {
  const clock = options.clock ?? new FakeClock();
  const { disk, watched, ...opened } = await openWatched(clock, {
    ...(options.stamp && { sender: options.stamp }),
    ...(options.disk && { disk: options.disk }),
  });
  const store = options.store ?? opened.store;
  const relays = new FakeRelays();
  const lines: Line[] = [];
  const at =
    (level: LogLevel) =>
    (event: string, fields: LogFields = {}) => {
      lines.push({ level, event, fields });
    };
  const log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  const writer = new OutcomeWriter(
    { store, clock, log },
    { deferred: (id) => made.delivery.deferred(id), relieved: () => made.delivery.relieved() },
  );
  const config = { ...CONFIG, ...options.settings };
  const common = { store, config, clock, random: options.random ?? (() => 0), log };
  const expiry = new Expiry({ ...common, writer, reasonOf: () => null });
  const create = () => {
    const transport = new SmtpTransport({
      open: (relay) => relays.session(relay as RelayConfig),
      render: ({ id }) => ({ size: id.length, smtpUtf8: false, content: Buffer.from(id) }),
      sender,
      ...options,
      ...common,
    });
    const queue = new Queue(transport, ({ type }) => type === 1, {
      ...common,
      writer,
      expiry,
      recordsEach: options.recordsEach ?? false,
    });
    return Object.assign(queue, { relayView: () => transport.view() });
  };
  const made = {
    clock,
    store,
    disk,
    watched,
    relays,
    lines,
    writer,
    delivery: create(),
    /** As with new settings: another delivery takes its place. */
    async reload() {
      await made.delivery.stop();
      made.delivery = create();
      made.delivery.start();
    },
    /** The events logged. */
    events: () => lines.map(({ event }) => event),
    /** Has the store accept so many messages; gives their ids. Delivery is not told. */
    post: (count = 1, type: MessageType = 1) => post(store, count, type),
    /** The same with one urgent email. */
    postUrgent: () => post(store, 1, 1, true),
    status: (id: string | undefined) => store.get(id ?? '')?.status,
  };
  return made;
}

/** Resolves when it holds: for what sockets bring about, turn by turn of the event loop. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await nextTurn();
}

/** Accepts `count` messages of a type; gives their ids. */
export async function post(
  store: Store,
  count: number,
  type: MessageType = 1,
  urgent = false,
): Promise<string[]> {
  const content = { subject: 'test', plain: '', html: '' };
  const common = { attachments: NO_ATTACHMENTS, ignored: [], ...(urgent && { urgent: true as const }) };
  const draft: Draft =
    type === 1
      ? { type, destination: 'john@example.com' as Address, content, ...common }
      : { type, destination: '+31612345678', content: { message: 'test' }, ...common };
  const drafts = Array.from({ length: count }, () => draft);
  const ids: string[] = [];
  // As many at once as the api takes.
  for (let at = 0; at < count; at += 100)
    ids.push(...(await store.accept(drafts.slice(at, at + 100), null)).ids);
  return ids;
}
