/**
 * A conversation with one relay, over which many messages may be sent. The delivery loop opens, uses and closes it.
 * The only file that knows smtp-client, of which it takes connect, write, negotiateTLS, close and the events:
 * commands are built and replies read here, one group of commands at a time, each with a deadline. Whatever is
 * doubtful (a deadline, an error, a reply nobody asked for) destroys the connection for good, so that no late
 * reply is ever taken for the answer to another command.
 */
import assert from 'node:assert';
import { lookup } from 'node:dns';
import { isIP } from 'node:net';
import { Readable } from 'node:stream';
import { SMTPClient } from 'smtp-client';
import type { RelayConfig } from '../config.js';
import { wordsOf } from '../errors.js';
import { FINAL_DOT_TIMEOUT_MS, KIB, SECOND_MS } from '../limits.js';
import type { Address } from '../message/address.js';
import type { Clock } from '../system/clock.js';
import { Conversation, type Group, SessionError } from './conversation.js';
import { DotStuffing, stuffWhole } from './dot-stuffing.js';
import { type Extensions, parseExtensions } from './extensions.js';
import { type Ending, isLastLine, type Phase, plain } from './reply.js';

export { SessionError } from './conversation.js';

/** Content up to this size goes out in one write. */
const WHOLE_BYTES_MAX = 64 * KIB;
/** Of longer content so much at a time: a link that gets this through within a deadline is slow, not dead. */
const SLICE_BYTES = 16 * KIB;
/** How long we wait for the answer to QUIT. */
const QUIT_MS = 2 * SECOND_MS;

/** What the relay is told of a message before its content. */
export interface Envelope {
  readonly from: Address;
  readonly to: Address;
  /** Bytes of the content, before dots are doubled. */
  readonly size: number;
  /** True if an address or a header goes beyond ASCII (RFC 6531). */
  readonly smtpUtf8: boolean;
}

/** An open connection to a relay, for one message after another. */
export interface Session {
  /**
   * Sends one message; never rejects. Sent is an ending with phase `dot` and a 2xx reply. The content is begun
   * only when the relay asks for it; an error of the content breaks the connection before the final dot.
   */
  send(envelope: Envelope, content: Buffer | AsyncIterable<Buffer>): Promise<Ending>;
  /** False after anything doubtful: the session must be closed and never used again. */
  readonly usable: boolean;
  /** The largest message the relay takes, in bytes; null if it names none. */
  readonly sizeLimit: number | null;
  /** Says QUIT if all is well, and lets go of the connection. Bounded; never rejects. */
  close(): Promise<void>;
}

/** Where to, as whom, how patiently. */
export interface SessionOptions {
  readonly relay: RelayConfig;
  readonly password: string | null;
  /** PEM of the CA that must have signed the relay's certificate; null: those the system trusts. */
  readonly ca: string | null;
  /** The name we say in EHLO. */
  readonly helo: string;
  /** How long each group of commands may take, and each pause while content is sent. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/** Connects, secures and authenticates as `options.relay` demands. Rejects with SessionError. */
export async function openSession(options: SessionOptions): Promise<Session> {
  const session = new SmtpSession(options);
  await session.open();
  return session;
}

class Channel extends SMTPClient {
  // "250\r\n" without a text is a reply, too.
  override isLastReply(line: string): boolean {
    return isLastLine(line) === true;
  }

  // Nobody wants to know, and taking what is sent apart costs more than sending it.
  override _onSend(): void {}
}

class SmtpSession implements Session {
  readonly #options: SessionOptions;
  readonly #client: Channel;
  readonly #talk: Conversation;
  #extensions: Extensions = parseExtensions([]);
  /** A transaction was refused halfway and must be taken back. */
  #isHalfway = false;

  constructor(options: SessionOptions) {
    const { relay, ca, timeoutMs } = options;
    const host = bareHost(relay);
    this.#options = options;
    this.#client = new Channel({
      host,
      port: relay.port,
      secure: relay.tls === 'implicit',
      noDelay: true,
      // By default an address gets 250 ms, which a satellite or a slow modem needs for a single round trip.
      autoSelectFamilyAttemptTimeout: Math.max(SECOND_MS, timeoutMs / 8),
      lookup: (name, how, done) =>
        lookup(name, how, (error, ...found) => {
          if (error === null) this.#talk.enter('connect');
          done(error, ...found);
        }),
      // Without a server name no SNI is sent; an address is none (RFC 6066).
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...(ca === null ? {} : { ca }),
      minVersion: 'TLSv1.2',
      rejectUnauthorized: true,
    });
    this.#talk = new Conversation(this.#client, options);
    this.#client.on('connect', () => this.#talk.enter('greeting'));
    this.#client.on('receive', (chunk) => this.#talk.received(chunk));
    this.#client.on('reply', (line) => this.#talk.line(line));
    this.#client.on('end', () => this.#talk.lost());
    this.#client.on('close', () => this.#talk.lost());
    // Without a listener an error that comes between commands would end the process.
    this.#client.on('error', (error) => this.#talk.lost(error));
  }

  get usable(): boolean {
    return this.#talk.doubt === null;
  }

  get sizeLimit(): number | null {
    return this.#extensions.sizeLimit;
  }

  async open(): Promise<void> {
    const { relay } = this.#options;
    const greeted = this.#talk.begin([isIP(bareHost(relay)) === 0 ? 'resolve' : 'connect']);
    this.#client.connect().catch((error) => this.#talk.lost(error));
    this.#talk.demand(await greeted);
    await this.#hello();
    if (relay.tls === 'starttls' || relay.tls === 'offered') {
      if (this.#extensions.starttls) await this.#secure();
      else if (relay.tls === 'starttls')
        this.#talk.fail('starttls', 'no-starttls', 'offers no STARTTLS, without which nothing may be sent');
    }
    if (relay.user !== null) await this.#authenticate(relay.user);
  }

  async #hello(): Promise<void> {
    // A host name may be anything; what is no domain says nothing to the relay (RFC 5321 §4.1.3).
    const { helo } = this.#options;
    const name = /^(?:[A-Za-z0-9._-]+|\[[A-Za-z0-9.:]+\])$/.test(helo) ? helo : '[127.0.0.1]';
    const { lines } = this.#talk.demand(await this.#talk.exchange(['ehlo'], `EHLO ${name}\r\n`));
    this.#extensions = parseExtensions(lines);
  }

  async #secure(): Promise<void> {
    this.#talk.demand(await this.#talk.exchange(['starttls'], 'STARTTLS\r\n'));
    const secured = this.#talk.begin(['tls']);
    if (this.usable)
      this.#client.negotiateTLS().then(
        () => this.#talk.finish(),
        (error) => this.#talk.lost(error),
      );
    await secured;
    await this.#hello();
  }

  async #authenticate(user: string): Promise<void> {
    const { auth } = this.#extensions;
    const password = this.#options.password ?? '';
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    let lines: string[] = [];
    if (auth.has('PLAIN')) lines = [`AUTH PLAIN ${base64(`\0${user}\0${password}`)}`];
    else if (auth.has('LOGIN')) lines = ['AUTH LOGIN', base64(user), base64(password)];
    else this.#talk.fail('auth', 'no-auth', 'offers neither AUTH PLAIN nor LOGIN');
    for (const line of lines) {
      const { replies } = this.#talk.demand(await this.#talk.exchange(['auth'], `${line}\r\n`));
      if (replies[0]?.code !== 334) return;
    }
    this.#talk.fail('auth', 'garbage', 'asks for more than AUTH has to say');
  }

  async send(envelope: Envelope, content: Buffer | AsyncIterable<Buffer>): Promise<Ending> {
    // Nothing of this message was said: whatever broke the session, broke it before MAIL.
    const { doubt } = this.#talk;
    if (doubt !== null) return { ...doubt, phase: 'mail' };
    assert(!this.#talk.isBusy, 'one message at a time');
    const { smtpUtf8, sizeLimit } = this.#extensions;
    if (envelope.smtpUtf8 && !smtpUtf8)
      return this.#talk.trouble('mail', 'no-smtputf8', 'takes no addresses beyond ASCII (SMTPUTF8)');
    if (sizeLimit !== null && envelope.size > sizeLimit)
      return this.#talk.trouble(
        'mail',
        'too-large',
        `takes ${sizeLimit} bytes, the message has ${envelope.size}`,
      );
    try {
      return (await this.#introduce(envelope)) ?? (await this.#deliver(content));
    } catch (error) {
      if (error instanceof SessionError) return error.ending;
      throw error;
    }
  }

  /** MAIL, RCPT and DATA; gives the refusal, or null when the relay waits for the content. */
  async #introduce({ from, to, size, smtpUtf8 }: Envelope): Promise<Ending | null> {
    const { pipelining, eightBitMime, size: sizes } = this.#extensions;
    const parameters = `${sizes ? ` SIZE=${size}` : ''}${
      smtpUtf8 ? `${eightBitMime ? ' BODY=8BITMIME' : ''} SMTPUTF8` : ''
    }`;
    const commands: [Phase, string][] = [
      ['mail', `MAIL FROM:<${from}>${parameters}\r\n`],
      ['rcpt', `RCPT TO:<${to}>\r\n`],
      ['data', 'DATA\r\n'],
    ];
    if (this.#isHalfway) commands.unshift(['mail', 'RSET\r\n']);
    this.#isHalfway = false;
    const groups = pipelining ? [commands] : commands.map((command) => [command]);
    for (const group of groups) {
      const done = await this.#talk.exchange(
        group.map(([phase]) => phase),
        group.map(([, line]) => line).join(''),
      );
      if (done.refusal !== null) return await this.#takeBack(done, done.refusal);
    }
    return null;
  }

  /** Leaves a refused transaction in such a state that another may follow. */
  async #takeBack(group: Group, refusal: Ending): Promise<Ending> {
    this.#isHalfway = true;
    if (group.replies.at(-1)?.code !== 354) return refusal;
    // RFC 2920 §3.1: without a recipient a lone dot ends it. With one, the dot would send an empty mail.
    if (refusal.phase === 'rcpt') await this.#talk.exchange(['dot'], '.\r\n').catch(() => undefined);
    else void this.#talk.end(refusal);
    return refusal;
  }

  async #deliver(content: Buffer | AsyncIterable<Buffer>): Promise<Ending> {
    if (Buffer.isBuffer(content) && content.length <= WHOLE_BYTES_MAX)
      return endingOf(await this.#talk.exchange(['dot'], stuffWhole(content), FINAL_DOT_TIMEOUT_MS));
    const source = Readable.from(this.#stuffed(Buffer.isBuffer(content) ? [content] : content), {
      objectMode: false,
      highWaterMark: SLICE_BYTES,
    });
    source.on('error', (error) => {
      const words = `the message cannot be read: ${plain(wordsOf(error))}`;
      this.#talk.end({ phase: 'content', trouble: { kind: 'source', words } });
    });
    return endingOf(await this.#talk.exchange(['content'], source));
  }

  /** The content as it goes over the wire. Being asked for more means that the relay took what came before. */
  async *#stuffed(content: Iterable<Buffer> | AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const stuffing = new DotStuffing();
    for await (const chunk of content) {
      const bytes = stuffing.push(chunk);
      for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
        this.#talk.extend();
        yield bytes.subarray(at, at + SLICE_BYTES);
      }
    }
    this.#talk.enter('dot', FINAL_DOT_TIMEOUT_MS);
    yield stuffing.end();
  }

  async close(): Promise<void> {
    if (this.usable && !this.#talk.isBusy)
      await this.#talk.exchange(['mail'], 'QUIT\r\n', QUIT_MS).catch(() => undefined);
    await this.#talk.hangUp();
  }
}

/** An IPv6 address without its brackets, as sockets want it. */
function bareHost(relay: RelayConfig): string {
  return relay.host.replace(/^\[(.*)\]$/, '$1');
}

function endingOf({ phases, replies }: Group): Ending {
  const reply = replies[0];
  const phase = phases[0];
  assert(reply !== undefined && phase !== undefined, 'a group that is done has its replies');
  return { phase, reply };
}
