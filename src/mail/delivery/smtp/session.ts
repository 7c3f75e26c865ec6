/**
 * A session with one relay, over which many messages may be sent. Builds the commands and reads the replies; the conversation
 * (conversation.ts) carries them.
 *
 * | mode      | means                                                                       | goes on to        |
 * |-----------|-----------------------------------------------------------------------------|-------------------|
 * | opening   | connect, TLS, greeting, EHLO, STARTTLS, AUTH                                | ready             |
 * | ready     | a mail may begin, or is under way                                           | halfway announced |
 * | halfway   | the relay refused a mail before its content: RSET goes before the next MAIL | ready             |
 * | announced | MAIL, RCPT and DATA of the next mail went out with the last final dot       | ready             |
 *
 * In each of them the conversation may end, for good: then the session is not usable any more.
 */
import { isIP, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { SMTPClient } from 'smtp-client';
import { unbracket } from '../../../base/config/values.js';
import { assert, wordsOf } from '../../../base/errors.js';
import { KIB, MINUTE_MS, SECOND_MS } from '../../../base/limits.js';
import type { Clock } from '../../../base/system/clock.js';
import type { Connect } from '../../../base/system/connect.js';
import { oneLine } from '../../../base/text.js';
import type { RelayConfig } from '../../settings.js';
import { authenticate } from './authentication.js';
import { Conversation, type Group, type SessionWatch } from './conversation.js';
import {
  DotStuffing,
  type Ending,
  type Envelope,
  type Extensions,
  introductionOf,
  isLastLine,
  parseExtensions,
  SessionError,
  type SmtpCommand,
  stuffWhole,
  unsendable,
} from './protocol.js';

export const FINAL_DOT_TIMEOUT_MS = 10 * MINUTE_MS;
/** How long to wait for the answer to QUIT. */
const QUIT_MS = 2 * SECOND_MS;
/** A message up to this size goes to the relay in one write. */
const WHOLE_BYTES_MAX = 64 * KIB;
/** A longer one goes in slices of this size: a link that passes one within a deadline is slow, not dead. */
const SLICE_BYTES = 16 * KIB;

/** An open connection to a relay, for one message after another. */
export interface Session {
  /**
   * Sends one message; never rejects. An ending with phase `dot` and a 2xx reply means sent. The content is read only after
   * the relay has asked for it; an error of the content breaks the connection before the final dot. With `takesAhead`, a
   * `next` may be announced together with the final dot: it must be the envelope of the next send.
   */
  send(envelope: Envelope, content: Buffer | AsyncIterable<Buffer>, next?: Envelope | null): Promise<Ending>;
  /** True if the next message may be announced while this one is answered (RFC 2920). */
  readonly takesAhead: boolean;
  /** From now on it sends one command at a time, whatever the relay offers. */
  oneByOne(): void;
  /** False after a failure: the session must be closed and not be used again. */
  readonly usable: boolean;
  /** The largest message the relay takes, in bytes; null if it names none. */
  readonly sizeLimit: number | null;
  /** Sends QUIT if the session is usable, and closes the connection. Takes at most QUIT_MS; never rejects. */
  close(): Promise<void>;
}

/** Opens a session to a relay; rejects with SessionError. */
export type OpenSession = (relay: RelayConfig) => Promise<Session>;

/** The relay, the login, the time limits. */
interface SessionOptions {
  readonly relay: RelayConfig;
  readonly password: string | null;
  /** An access token, in place of the password. */
  readonly token?: string | null;
  /** PEM of the CA that must have signed the relay's certificate; null: those the system trusts. */
  readonly ca: string | null;
  /** The certificate that the relay may ask for; null: none. */
  readonly cert?: string | null;
  readonly key?: string | null;
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
  const session = new RelaySession(options);
  await session.open();
  return session;
}

type Mode = 'opening' | 'ready' | 'halfway' | 'announced';

class RelaySession implements Session {
  readonly #options: SessionOptions;
  readonly #client: Channel;
  readonly #talk: Conversation;
  /** Aborted when the connection is not needed any more. */
  readonly #connecting = new AbortController();
  #extensions: Extensions = parseExtensions([]);
  #mode: Mode = 'opening';
  /** The commands for the next message that went out with the last final dot, and their replies. */
  #announced: { readonly envelope: Envelope; readonly done: Promise<Group> } | null = null;

  constructor(options: SessionOptions) {
    const { relay, ca, cert, key } = options;
    const host = unbracket(relay.host);
    this.#options = options;
    this.#client = new Channel({
      // The certificate must have the relay's name, for each of its addresses.
      host,
      secure: relay.tls === 'implicit',
      // SNI takes names only, no addresses (RFC 6066).
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...(ca === null ? {} : { ca }),
      ...(cert && key && { cert, key }),
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
    const greeted = this.#talk.begin([isIP(unbracket(relay.host)) === 0 ? 'resolve' : 'connect']);
    this.#connect().catch((error) => this.#talk.lost(error));
    this.#talk.demand(await greeted.catch((error) => withHint(error, relay)));
    await this.#hello();
    if (relay.tls === 'starttls' || relay.tls === 'offered') {
      if (this.#extensions.starttls) await this.#secure();
      else if (relay.tls === 'starttls')
        this.#talk.fail('starttls', 'no-starttls', 'offers no STARTTLS, without which nothing may be sent');
    }
    if (relay.user !== null) await this.#authenticate(relay.user);
    this.#become('ready');
  }

  #become(mode: Mode): void {
    assert((mode === 'ready') !== (this.#mode === 'ready'), 'a session goes by its table');
    this.#mode = mode;
  }

  async #connect(): Promise<void> {
    const { relay, connect, watch } = this.#options;
    const host = unbracket(relay.host);
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
    const login = { user, password: password ?? '', token, host: unbracket(relay.host), port: relay.port };
    return authenticate(this.#talk, login, this.#extensions.auth);
  }

  async send(
    envelope: Envelope,
    content: Buffer | AsyncIterable<Buffer>,
    next: Envelope | null = null,
  ): Promise<Ending> {
    const announced = this.#mode === 'announced' ? this.#announced : null;
    if (announced !== null) this.#become('ready');
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
    if (this.#mode === 'halfway') {
      commands.unshift(['mail', 'RSET\r\n']);
      this.#become('ready');
    }
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
    this.#become('halfway');
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
      this.#become('announced');
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
    if (this.usable && !this.#talk.isBusy && this.#mode !== 'announced')
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

/** One connection. The only code that knows smtp-client: it corrects the bugs that lose replies. */
class Channel extends SMTPClient {
  /** The connected TCP socket for the next session; null if smtp-client passes it itself (STARTTLS). */
  #connected: Socket | null = null;
  /** Called after a TLS handshake, before Node verifies the certificate; null: nobody is interested. */
  onCertificate: ((socket: TLSSocket) => void) | null = null;

  /** Uses this socket, with TLS from the start if the configuration says `secure`. Settles with the greeting. */
  over(connected: Socket): Promise<string> {
    this.#connected = connected;
    return this.connect();
  }

  // For each command smtp-client makes two streams and six listeners, which cost more than the command. `reply` and
  // `close` tell all that its promise would.
  override async write(data: string | Buffer | Readable): Promise<string> {
    if (data instanceof Readable || this._socket === null) return await super.write(data);
    this._socket.write(data);
    return '';
  }

  // "250\r\n" without a text is a reply, too.
  override isLastReply(line: string): boolean {
    return isLastLine(line) === true;
  }

  // Not used: splitting the sent data into lines costs more than sending it.
  override _onSend(): void {}

  // A relay may refuse and close the connection while we write. The write then fails before the refusal is read, and
  // Node would discard the refusal. So a failed write is ignored: reading gives the refusal, then the end.
  override _createSocket(config: { readonly secure?: boolean }, onConnect: () => void): Socket {
    const socket = this.#makeSocket(config, onConnect);
    // `secure` comes before `secureConnect`. Node's own listener for it destroys a socket without a good certificate.
    if (this.onCertificate !== null && 'encrypted' in socket)
      socket.prependOnceListener('secure', () => this.onCertificate?.(socket as TLSSocket));
    const { _write, _writev } = socket;
    socket._write = (data, encoding, done) => _write.call(socket, data, encoding, unlessFailed(done));
    if (_writev) socket._writev = (chunks, done) => _writev.call(socket, chunks, unlessFailed(done));
    return socket;
  }

  #makeSocket(config: { readonly secure?: boolean }, onConnect: () => void): Socket {
    const connected = this.#connected;
    this.#connected = null;
    if (connected === null) return super._createSocket(config, onConnect);
    if (config.secure) return super._createSocket({ ...config, socket: connected }, onConnect);
    // The socket is connected already. Call back only after the caller has the socket.
    queueMicrotask(onConnect);
    return connected;
  }
}

/** Calls back after a successful write. After a failed one the stream waits for its reading side to end. */
function unlessFailed(done: (error?: Error | null) => void): (error?: Error | null) => void {
  return (error) => {
    if (!error) done();
  };
}
