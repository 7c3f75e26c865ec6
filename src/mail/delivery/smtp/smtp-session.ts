/**
 * A session with one relay, over which many messages may be sent. This file builds the commands and reads the replies;
 * channel.ts carries them. A deadline, an error or an unexpected reply destroys the connection for good, so that no late
 * reply is taken for the answer to another command.
 */
import { isIP } from 'node:net';
import { Readable } from 'node:stream';
import type { RelayConfig } from '../../../base/config/types.js';
import { assert, wordsOf } from '../../../base/errors.js';
import { FINAL_DOT_TIMEOUT_MS, QUIT_MS, SLICE_BYTES, WHOLE_BYTES_MAX } from '../../../base/limits.js';
import type { Clock } from '../../../base/system/clock.js';
import type { Connect } from '../../../base/system/connect.js';
import { oneLine } from '../../../base/text.js';
import { authenticate } from './authentication.js';
import { Channel } from './channel.js';
import { Conversation, type Group } from './conversation.js';
import { DotStuffing, stuffWhole } from './dot-stuffing.js';
import { type Envelope, introductionOf, type SmtpCommand, unsendable } from './envelope.js';
import { type Extensions, parseExtensions } from './extensions.js';
import type { Ending } from './reply.js';
import { type Session, SessionError, type SessionWatch } from './session.js';

/** The relay, the login, the time limits. */
interface SessionOptions {
  readonly relay: RelayConfig;
  readonly password: string | null;
  /** An access token, in place of the password. */
  readonly token?: string | null;
  /** PEM of the CA that must have signed the relay's certificate; null: those the system trusts. */
  readonly ca: string | null;
  /** The name for EHLO. */
  readonly helo: string;
  /** Time limit of each answer, and of each pause while content is sent. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly connect: Connect;
  readonly watch?: SessionWatch;
}

/** Connects, secures and authenticates as `options.relay` demands. Rejects with SessionError. */
export async function openSession(options: SessionOptions): Promise<Session> {
  const session = new SmtpSession(options);
  await session.open();
  return session;
}

class SmtpSession implements Session {
  readonly #options: SessionOptions;
  readonly #client: Channel;
  readonly #talk: Conversation;
  /** Aborted when the connection is not needed any more. */
  readonly #connecting = new AbortController();
  #extensions: Extensions = parseExtensions([]);
  /** A transaction was refused halfway: RSET must end it. */
  #isHalfway = false;
  /** The commands for the next message that went out with the last final dot, and their replies. */
  #announced: { readonly envelope: Envelope; readonly done: Promise<Group> } | null = null;

  constructor(options: SessionOptions) {
    const { relay, ca } = options;
    const host = bareHost(relay);
    this.#options = options;
    this.#client = new Channel({
      // The certificate must have the relay's name, for each of its addresses.
      host,
      secure: relay.tls === 'implicit',
      // SNI takes names only, no addresses (RFC 6066).
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...(ca === null ? {} : { ca }),
      minVersion: 'TLSv1.2',
      rejectUnauthorized: true,
    });
    this.#talk = new Conversation(
      { write: (data) => this.#client.write(data), close: () => this.#hangUp() },
      options,
    );
    const { watch } = options;
    if (watch) this.#client.onCertificate = (socket) => watch({ kind: 'certificate', socket });
    this.#client.on('connect', () => {
      if (relay.tls === 'implicit') watch?.({ kind: 'verified' });
      this.#talk.enter('greeting');
    });
    this.#client.on('receive', (chunk) => this.#talk.received(chunk));
    this.#client.on('reply', (line) => this.#talk.line(line));
    this.#client.on('end', () => this.#talk.lost());
    this.#client.on('close', () => this.#talk.lost());
    // Without a listener an error between two commands would end the process.
    this.#client.on('error', (error) => this.#talk.lost(error));
  }

  get usable(): boolean {
    return this.#talk.doubt === null;
  }

  get sizeLimit(): number | null {
    return this.#extensions.sizeLimit;
  }

  get takesAhead(): boolean {
    return this.#extensions.pipelining && this.#talk.pipelining.pays;
  }

  oneByOne(): void {
    this.#talk.pipelining.end();
  }

  #hangUp(): Promise<unknown> {
    this.#connecting.abort();
    return this.#client.close();
  }

  async open(): Promise<void> {
    const { relay } = this.#options;
    const greeted = this.#talk.begin([isIP(bareHost(relay)) === 0 ? 'resolve' : 'connect']);
    this.#connect().catch((error) => this.#talk.lost(error));
    this.#talk.demand(await greeted.catch((error) => withHint(error, relay)));
    await this.#hello();
    if (relay.tls === 'starttls' || relay.tls === 'offered') {
      if (this.#extensions.starttls) await this.#secure();
      else if (relay.tls === 'starttls')
        this.#talk.fail('starttls', 'no-starttls', 'offers no STARTTLS, without which nothing may be sent');
    }
    if (relay.user !== null) await this.#authenticate(relay.user);
  }

  async #connect(): Promise<void> {
    const { relay, connect, watch } = this.#options;
    const host = bareHost(relay);
    const socket = await connect({
      host,
      port: relay.port,
      signal: this.#connecting.signal,
      resolved: () => {
        if (isIP(host) === 0) watch?.({ kind: 'resolved' });
        this.#talk.enter('connect');
      },
    });
    watch?.({ kind: 'connected', address: socket.remoteAddress ?? host });
    if (!this.usable) {
      socket.destroy();
      return;
    }
    if (relay.tls === 'implicit') this.#talk.enter('tls');
    await this.#client.over(socket);
  }

  async #hello(): Promise<void> {
    // A device's host name may be no domain; then send an address literal (RFC 5321 §4.1.3).
    const { helo } = this.#options;
    const name = /^(?:[A-Za-z0-9._-]+|\[[A-Za-z0-9.:]+\])$/.test(helo) ? helo : '[127.0.0.1]';
    const offered = await this.#talk.exchange(['ehlo'], `EHLO ${name}\r\n`);
    // RFC 5321 §3.2: a server without extensions does not know EHLO.
    const isOld = [500, 502].includes(offered.replies[0]?.code ?? 0);
    if (isOld) this.#talk.demand(await this.#talk.exchange(['ehlo'], `HELO ${name}\r\n`));
    this.#extensions = parseExtensions(isOld ? [] : this.#talk.demand(offered).lines);
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
    this.#options.watch?.({ kind: 'verified' });
    await this.#hello();
  }

  #authenticate(user: string): Promise<void> {
    const { relay, password, token = null } = this.#options;
    const login = { user, password: password ?? '', token, host: bareHost(relay), port: relay.port };
    return authenticate(this.#talk, login, this.#extensions.auth);
  }

  async send(
    envelope: Envelope,
    content: Buffer | AsyncIterable<Buffer>,
    next: Envelope | null = null,
  ): Promise<Ending> {
    const announced = this.#announced;
    this.#announced = null;
    assert(announced === null || announced.envelope === envelope, 'what was announced is sent');
    assert(announced !== null || !this.#talk.isBusy, 'one message at a time');
    // No command of this message was sent: the session broke before MAIL.
    const { doubt } = this.#talk;
    if (doubt !== null && announced === null) return { ...doubt, phase: 'mail' };
    const trouble = unsendable(envelope, this.#extensions);
    if (trouble !== null) return { phase: 'mail', trouble };
    try {
      const refusal =
        announced === null ? await this.#introduce(envelope) : await this.#heard(announced.done);
      return refusal ?? (await this.#deliver(content, next));
    } catch (error) {
      if (error instanceof SessionError) return error.ending;
      throw error;
    }
  }

  /** Sends MAIL, RCPT and DATA. Returns the refusal, or null when the relay waits for the content. */
  async #introduce(envelope: Envelope): Promise<Ending | null> {
    const commands = introductionOf(envelope, this.#extensions);
    if (this.#isHalfway) commands.unshift(['mail', 'RSET\r\n']);
    this.#isHalfway = false;
    const groups = this.takesAhead ? [commands] : commands.map((command) => [command]);
    for (const group of groups) {
      const refusal = await this.#heard(this.#talk.exchange(phasesOf(group), linesOf(group)));
      if (refusal !== null) return refusal;
    }
    return null;
  }

  async #heard(replies: Promise<Group>): Promise<Ending | null> {
    const group = await replies;
    return group.refusal === null ? null : await this.#takeBack(group, group.refusal);
  }

  /** Ends a refused transaction so that another may follow. */
  async #takeBack(group: Group, refusal: Ending): Promise<Ending> {
    this.#isHalfway = true;
    if (group.replies.at(-1)?.code !== 354) return refusal;
    // RFC 2920 §3.1: without a recipient a lone dot ends it. With a recipient, the dot would send an empty mail.
    if (refusal.phase === 'rcpt') await this.#talk.exchange(['dot'], '.\r\n').catch(() => undefined);
    else void this.#talk.end(refusal);
    return refusal;
  }

  async #deliver(content: Buffer | AsyncIterable<Buffer>, next: Envelope | null): Promise<Ending> {
    if (Buffer.isBuffer(content) && content.length <= WHOLE_BYTES_MAX)
      return endingOf(await this.#deliverWhole(content, next));
    const source = Readable.from(this.#stuffed(Buffer.isBuffer(content) ? [content] : content), {
      objectMode: false,
      highWaterMark: SLICE_BYTES,
    });
    source.on('error', (error) => {
      const words = `the message cannot be read: ${oneLine(wordsOf(error))}`;
      this.#talk.end({ phase: 'content', trouble: { kind: 'source', words } });
    });
    return endingOf(await this.#talk.exchange(['content'], source));
  }

  /** Sends the content in one write, together with the commands of the next message. */
  #deliverWhole(content: Buffer, next: Envelope | null): Promise<Group> {
    const isAnnounced = next !== null && this.takesAhead && unsendable(next, this.#extensions) === null;
    const ahead = isAnnounced ? introductionOf(next, this.#extensions) : [];
    const done = this.#talk.exchange(['dot'], stuffWhole(content, linesOf(ahead)), FINAL_DOT_TIMEOUT_MS);
    if (isAnnounced) {
      this.#announced = { envelope: next, done: this.#talk.begin(phasesOf(ahead)) };
      // The send of the next message handles the error.
      this.#announced.done.catch(() => undefined);
    }
    return done;
  }

  /** The content as it goes over the wire. Each read for more shows progress, and restarts the deadline. */
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
    // After an announcement a QUIT would be taken for content.
    if (this.usable && !this.#talk.isBusy && this.#announced === null)
      await this.#talk.exchange(['mail'], 'QUIT\r\n', QUIT_MS).catch(() => undefined);
    await this.#talk.hangUp();
  }
}

/** Throws it again. A port with TLS from the first byte waits for us, as we wait for its greeting. */
function withHint(error: unknown, { tls }: RelayConfig): never {
  if (!(error instanceof SessionError) || 'reply' in error.ending) throw error;
  const { phase, trouble } = error.ending;
  if (phase !== 'greeting' || tls === 'implicit') throw error;
  const words = `${trouble.words}; if this port wants TLS from the first byte, as 465 does, use smtps://`;
  throw new SessionError({ phase, trouble: { ...trouble, words } });
}

/** The host without the brackets of an IPv6 address, as sockets need it. */
function bareHost(relay: RelayConfig): string {
  return relay.host.replace(/^\[(.*)\]$/, '$1');
}

function phasesOf(commands: readonly SmtpCommand[]): SmtpCommand[0][] {
  return commands.map(([phase]) => phase);
}

function linesOf(commands: readonly SmtpCommand[]): string {
  return commands.map(([, line]) => line).join('');
}

function endingOf({ phases, replies }: Group): Ending {
  const reply = replies[0];
  const phase = phases[0];
  assert(reply !== undefined && phase !== undefined, 'a group that is done has its replies');
  return { phase, reply };
}
