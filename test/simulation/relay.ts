/**
 * The relays of a simulated world: sessions that answer as their mood says, and hand what they took to the recipients.
 * One of them is one host of FIELDPOST_RELAY.
 */
import { HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import {
  type Ending,
  type Envelope,
  type Phase,
  parseReply,
  SessionError,
  type Trouble,
} from '../../src/mail/delivery/smtp/protocol.js';
import type { Session } from '../../src/mail/delivery/smtp/session.js';
import type { Chance } from './chance.js';
import type { Timeline } from './timeline.js';

export const MOODS = [
  'well',
  'down',
  'hanging',
  'slow',
  'refusing us',
  'busy',
  'greylisting',
  'full',
  'full mailboxes',
  'failing at the dot',
  'losing at the dot',
  'losing in the content',
  'refusing the content',
  'ending sessions',
] as const;
export type Mood = (typeof MOODS)[number];

/** Addresses that begin with this are unknown everywhere. */
export const NOBODY = 'nobody';
/** The mailboxes behind these are full while a relay says so. */
export const CROWDED = 'crowded';

/** A mail that a relay has taken, whether or not it could say so. */
export interface Taken {
  readonly relay: string;
  readonly envelope: Envelope;
  readonly mail: string;
  /** When the transaction began. */
  readonly sinceMs: number;
  /** The sender was not told. */
  readonly isUntold: boolean;
}

/** Whoever wants to know what the sender knows. */
export interface RelayWatcher {
  /** It got in, or an answer. */
  heard(): void;
  /** It did not get in; or it lost its connection. */
  refused(): void;
  missed(): void;
  /** A transaction begins. */
  offered(envelope: Envelope): void;
  /** It is told what came of one. */
  concluded(envelope: Envelope, ending: Ending): void;
}

export interface RelayWorld {
  readonly timeline: Timeline;
  readonly chance: Chance;
  /** A mail takes up to so long. */
  readonly mailMs: number;
  /** How long the sender waits for an answer. */
  readonly timeoutMs: number;
  readonly onTaken: (taken: Taken) => void;
  /** Every session opened, refused or not. */
  readonly onOpen: (host: string) => void;
  /** Follows what senders meet. */
  readonly watcher?: RelayWatcher;
}

const GREYLIST_MS = 5 * MINUTE_MS;
const GREYLIST_FORGETS_MS = 4 * HOUR_MS;
const MAILS_PER_SESSION = 5;

export class Relay {
  mood: Mood = 'well';
  takesAhead = false;
  /** Sessions that are open. */
  open = 0;
  readonly #host: string;
  readonly #world: RelayWorld;
  readonly watcher: RelayWatcher | undefined;
  readonly #greylist = new Map<string, number>();

  constructor(host: string, world: RelayWorld) {
    this.#host = host;
    this.#world = world;
    this.watcher = world.watcher;
  }

  /** Rejects with SessionError. `isAlive` says whether the machine that asks still runs. */
  async session(isAlive: () => boolean): Promise<Session> {
    this.#world.onOpen(this.#host);
    try {
      await this.#letIn();
    } catch (error) {
      if (isAlive()) this.watcher?.refused();
      throw error;
    }
    if (isAlive()) {
      this.watcher?.heard();
      this.open++;
    }
    return new RelaySession(this, isAlive);
  }

  /** Rejects with SessionError. */
  async #letIn(): Promise<void> {
    switch (this.mood) {
      case 'down':
        throw new SessionError(trouble('connect', 'unreachable'));
      case 'hanging':
        await this.#passes(this.#world.timeoutMs);
        throw new SessionError(trouble('connect', 'deadline'));
      case 'slow':
        await this.#passes(this.#world.chance.below(this.#world.timeoutMs));
        break;
      case 'busy':
        throw new SessionError(said('greeting', '421 4.3.2 too busy'));
    }
  }

  /** One transaction, the `count`th of its session; `isAlive` while the session is open and its sender runs. */
  async take(
    envelope: Envelope,
    content: Buffer | AsyncIterable<Buffer>,
    count: number,
    isAlive: () => boolean,
  ): Promise<Ending> {
    const { chance, timeline, timeoutMs, mailMs } = this.#world;
    const sinceMs = timeline.nowMs;
    if (mailMs > 0) await this.#passes(chance.below(mailMs));
    const { mood } = this;
    if (mood === 'slow') await this.#passes(chance.below(timeoutMs));
    if (mood === 'busy') return said('mail', '421 4.3.2 closing');
    if (mood === 'full') return said('mail', '452 4.3.1 insufficient system storage');
    if (mood === 'ending sessions' && count >= MAILS_PER_SESSION)
      return said('mail', '452 4.5.3 too many messages sent');
    if (mood === 'refusing us')
      return said('rcpt', '554 5.7.1 <device>: Client host rejected: Access denied');
    if (mood === 'down') return trouble('mail', 'lost');
    if (mood === 'hanging') {
      await this.#passes(timeoutMs);
      return trouble('mail', 'deadline');
    }
    const { to } = envelope;
    if (to.startsWith(NOBODY))
      return said('rcpt', `550 5.1.1 <${to}>: Recipient address rejected: User unknown`);
    if (mood === 'greylisting') {
      const [box = ''] = to.split('+');
      const known = this.#greylist.get(box) ?? timeline.nowMs;
      // A greylist forgets.
      const first = timeline.nowMs - known < GREYLIST_FORGETS_MS ? known : timeline.nowMs;
      this.#greylist.set(box, first);
      if (timeline.nowMs - first < GREYLIST_MS) return said('rcpt', '450 4.2.0 Greylisted, come back later');
    }
    if (mood === 'full mailboxes' && to.startsWith(CROWDED)) return said('rcpt', '452 4.2.2 mailbox full');
    if (mood === 'losing in the content') return trouble('content', 'lost');
    const mail = await read(content);
    // A sender's connections end with its process.
    if (mail === null || !isAlive()) return trouble('content', 'source');
    if (mood === 'refusing the content') return said('dot', '554 5.6.0 message content rejected');
    if (mood === 'failing at the dot') return said('dot', '451 4.3.0 queue file write error');
    const isUntold = mood === 'losing at the dot';
    this.#world.onTaken({ relay: this.#host, envelope, mail, sinceMs, isUntold });
    if (isUntold) return chance.is(0.5) ? trouble('dot', 'lost') : trouble('dot', 'deadline');
    return said('dot', '250 2.0.0 ok');
  }

  #passes(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#world.timeline.after(ms, resolve));
  }
}

class RelaySession implements Session {
  usable = true;
  readonly takesAhead: boolean;
  readonly sizeLimit = null;
  readonly #relay: Relay;
  readonly #isAlive: () => boolean;
  #count = 0;
  #promised: Envelope | null = null;
  #isClosed = false;
  #hangUp: (ending: Ending) => void = () => undefined;

  constructor(relay: Relay, isAlive: () => boolean) {
    this.#relay = relay;
    this.#isAlive = isAlive;
    this.takesAhead = relay.takesAhead;
  }

  oneByOne(): void {}

  async send(
    envelope: Envelope,
    content: Buffer | AsyncIterable<Buffer>,
    next: Envelope | null = null,
  ): Promise<Ending> {
    if (!this.usable) throw new Error('a session that cannot be used was used');
    if (this.#promised !== null && this.#promised !== envelope)
      throw new Error('another mail was sent than the one announced');
    this.#promised = next;
    const { watcher } = this.#relay;
    watcher?.offered(envelope);
    const closed = new Promise<Ending>((resolve) => {
      this.#hangUp = resolve;
    });
    const ending = await Promise.race([
      this.#relay.take(envelope, content, this.#count++, () => this.#isAlive() && !this.#isClosed),
      closed,
    ]);
    if (this.#isAlive() && !this.#isClosed) {
      if ('reply' in ending) watcher?.heard();
      else watcher?.missed();
      watcher?.concluded(envelope, ending);
    }
    if ('trouble' in ending || ending.reply.code === 421) this.usable = false;
    return ending;
  }

  async close(): Promise<void> {
    if (this.#isClosed) throw new Error('a session was closed twice');
    this.#isClosed = true;
    this.usable = false;
    if (this.#isAlive()) this.#relay.open--;
    this.#hangUp(trouble('dot', 'lost'));
  }
}

async function read(content: Buffer | AsyncIterable<Buffer>): Promise<string | null> {
  if (Buffer.isBuffer(content)) return content.toString('latin1');
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of content) chunks.push(chunk);
  } catch {
    return null;
  }
  return Buffer.concat(chunks).toString('latin1');
}

function said(phase: Phase, line: string): Ending {
  const reply = parseReply([line]);
  if (reply === null) throw new Error(`${line} is no reply`);
  return { phase, reply };
}

function trouble(phase: Phase, kind: Trouble['kind']): Ending {
  return { phase, trouble: { kind, words: `${kind} at ${phase}` } };
}
