/**
 * The connection to one SMTP client: lines, the content of mails, replies, and how long the client may take for each. It reads
 * one chunk at a time from the socket and asks for the next when that one is used, so a client is never faster than the disk.
 */
import { isUtf8 } from 'node:buffer';
import type { Socket } from 'node:net';
import { discard, linger } from '../../base/http/connection.js';
import {
  HEADERS_TIMEOUT_MS,
  KIB,
  MINUTE_MS,
  REQUEST_IDLE_MS,
  REQUEST_TIMEOUT_MS,
} from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { SecureSocket, TlsIdentity } from '../../base/system/tls-door.js';
import { GOODBYE } from './replies.js';

/** Longer than RFC 5321 §4.5.3.1.4 asks for: a path beyond ASCII with its parameters, and a long token in AUTH. */
const LINE_BYTES_MAX = 2 * KIB;
/** Early input is refused: a client that does not wait for the greeting is no mail client. Its bytes are here by then. */
const GREETING_MS = 1;
/** RFC 5321 §4.5.3.2.7: so long a server waits for the next command, from its reply to the end of the line. */
const IDLE_MS = 5 * MINUTE_MS;
/** Lines that a client has sent ahead are answered in groups of this many; then the others have their turn. */
export const SMTP_LINES_A_TURN = 20;
/** A client that leaves more than this of our replies unread is disconnected. */
export const SMTP_UNREAD_BYTES_MAX = 64 * KIB;

const CR = 0x0d;
const LF = 0x0a;
const DOT = 0x2e;
const NONE: Buffer = Buffer.alloc(0);
const HELD_CR = Buffer.from('\r');

/** A command line without its end; or why there is none. `closed`: the client has closed the connection. */
type InputLine = { readonly text: string } | 'too-long' | 'bare-break' | 'not-text' | 'closed';

interface WireOptions {
  readonly clock: Clock;
  readonly streamed: (bytes: number) => void;
}

/** One connection, plain or with TLS. */
export class Wire {
  /** The client's address. */
  readonly peer: string;
  /** Resolves when the connection is closed by either side. */
  readonly closed: Promise<unknown>;
  /** True: the last reply is sent, and nothing more is taken. */
  isOver = false;
  isSecure = false;
  /** Since when it has waited for a command, on the boot's clock; null while it does something. */
  waitingSinceMs: number | null = null;
  #socket: Socket;
  readonly #options: WireOptions;
  readonly #alarm: Alarm;
  #late: string = GOODBYE.idle;
  #isInHandshake = false;
  /** Lines since others last had their turn. */
  #lines = 0;
  /** What came and was not asked for yet. */
  #ahead = NONE;
  readonly #chunks: Buffer[] = [];
  /** Nobody reads on: a call that waits for the client ends as if the client had closed the connection. */
  #isEnded = false;
  #wake: (() => void) | null = null;
  readonly #onData = (chunk: Buffer) => {
    this.#socket.pause();
    this.#chunks.push(chunk);
    this.#wake?.();
  };
  readonly #onEnd = () => {
    this.#isEnded = true;
    this.#wake?.();
  };

  constructor(socket: Socket, options: WireOptions) {
    this.#socket = socket;
    this.#options = options;
    this.peer = socket.remoteAddress ?? 'unknown';
    this.closed = new Promise((resolve) => socket.once('close', resolve));
    // `close` tells of a broken connection.
    socket.on('error', () => undefined);
    this.#listen();
    this.#alarm = new Alarm(options.clock, () => this.end(this.#late));
  }

  #listen(): void {
    this.#socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onEnd);
    this.#socket.pause();
  }

  #leave(): void {
    this.#socket.pause();
    this.#socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onEnd);
  }

  /** True if the client has sent more than was read. */
  get isAhead(): boolean {
    return this.#ahead.length > 0 || this.#chunks.length > 0 || this.#socket.readableLength > 0;
  }

  /** Resolves when an early client has been heard. */
  async beforeGreeting(): Promise<void> {
    this.waitingSinceMs = this.#options.clock.bootMs();
    this.#socket.resume();
    await this.pause(GREETING_MS);
  }

  /** The next line; ends the connection if it does not come in time. */
  async line(): Promise<InputLine> {
    this.waitingSinceMs = this.#options.clock.bootMs();
    this.#ringIn(IDLE_MS, GOODBYE.idle);
    // Lines that are here already need no turn of the event loop: a stream of them would stop the whole process.
    if (++this.#lines % SMTP_LINES_A_TURN === 0) await this.pause(0);
    const line = await this.#line();
    this.#alarm.off();
    this.waitingSinceMs = null;
    return this.isOver ? 'closed' : line;
  }

  /** Only CR LF ends a line. */
  async #line(): Promise<InputLine> {
    let isTooLong = false;
    for (;;) {
      const end = this.#ahead.indexOf(LF);
      const bareCr = hasBareCr(this.#ahead, end);
      if (end >= 0 && (end === 0 ? !isTooLong : this.#ahead[end - 1] !== CR)) return 'bare-break';
      if (bareCr) return 'bare-break';
      if (end >= 0) {
        const line = this.#ahead.subarray(0, Math.max(0, end - 1));
        this.#ahead = this.#ahead.subarray(end + 1);
        if (isTooLong || line.length > LINE_BYTES_MAX) return 'too-long';
        return isUtf8(line) && !line.includes(0) ? { text: line.toString() } : 'not-text';
      }
      if (this.#ahead.length > LINE_BYTES_MAX) {
        isTooLong = true;
        // A CR at the end may belong to the CR LF.
        this.#ahead = this.#ahead.subarray(-1);
      }
      const chunk = await this.#next();
      if (chunk === null) return 'closed';
      this.#ahead = this.#ahead.length === 0 ? chunk : Buffer.concat([this.#ahead, chunk]);
    }
  }

  /**
   * Gives every octet of a mail to `take`, without the stuffed dots, and each number of octets that came to `onChunk`. `take`
   * gives a promise if the disk must catch up first. False: the connection ended before the mail did.
   */
  async content(
    take: (octets: Buffer) => Promise<void> | void,
    onChunk: (bytes: number) => void,
  ): Promise<boolean> {
    const { clock, streamed } = this.#options;
    const endMs = clock.bootMs() + REQUEST_TIMEOUT_MS;
    const content = new MailContent();
    for (;;) {
      let chunk: Buffer | null = this.#ahead;
      this.#ahead = NONE;
      if (chunk.length === 0) {
        this.#ringIn(Math.min(REQUEST_IDLE_MS, endMs - clock.bootMs()), GOODBYE.slow);
        chunk = await this.#next();
        // While the disk catches up, the client waits for us.
        this.#alarm.off();
      }
      if (chunk === null) return false;
      const pieces: Buffer[] = [];
      const end = content.push(chunk, pieces);
      streamed(chunk.length);
      onChunk(chunk.length);
      for (const piece of pieces) {
        const caughtUp = take(piece);
        if (caughtUp !== undefined) await caughtUp;
      }
      if (end === null) continue;
      this.#ahead = chunk.subarray(end);
      return !this.isOver;
    }
  }

  /** The next chunk; null if the connection is closed. */
  async #next(): Promise<Buffer | null> {
    for (;;) {
      const chunk = this.#chunks.shift();
      if (chunk !== undefined) return chunk;
      if (this.#isEnded) return null;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        this.#socket.resume();
      });
      this.#wake = null;
    }
  }

  say(reply: string): void {
    if (this.isOver || !this.#socket.writable) return;
    this.#socket.write(`${reply}\r\n`);
    if (this.#socket.writableLength > SMTP_UNREAD_BYTES_MAX) this.destroy();
  }

  /** Goes on with TLS, or ends the connection and rejects with the reason. */
  async startTls(secure: SecureSocket, identity: TlsIdentity): Promise<void> {
    this.#leave();
    this.#isInHandshake = true;
    this.waitingSinceMs = this.#options.clock.bootMs();
    const deadline = this.#options.clock.after(HEADERS_TIMEOUT_MS, () => this.destroy());
    try {
      this.#socket = await secure(this.#socket, identity);
    } catch (error) {
      this.destroy();
      throw error;
    } finally {
      deadline.stop();
      this.#isInHandshake = false;
      this.waitingSinceMs = null;
    }
    this.isSecure = true;
    this.#listen();
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#options.clock.after(ms, resolve));
  }

  /** Sends a last reply, if there is one, and closes the connection once the client has had time to read it. */
  end(reply: string | null): void {
    if (this.isOver) return;
    if (this.#isInHandshake) {
      this.destroy();
      return;
    }
    if (reply !== null) this.say(reply);
    this.isOver = true;
    this.#alarm.end();
    this.#leave();
    this.#onEnd();
    if (this.#socket.destroyed) return;
    this.#socket.end();
    discard(this.#socket, this.#options.streamed);
    this.#socket.resume();
    linger(this.#socket, this.#options.clock);
  }

  /** Ends the connection without a word. */
  destroy(): void {
    this.isOver = true;
    this.#alarm.end();
    this.#onEnd();
    this.#socket.destroy();
  }

  #ringIn(ms: number, reply: string): void {
    this.#late = reply;
    this.#alarm.in(ms);
  }
}

/** True if a CR stands before `end` (-1: in all of it) that no LF can follow. */
function hasBareCr(bytes: Buffer, end: number): boolean {
  const at = bytes.indexOf(CR);
  return at >= 0 && at !== (end >= 0 ? end : bytes.length) - 1 && (end < 0 || at < end);
}

/** What the last octet was: within a line, a CR, a bare LF, the LF of a CR LF, the dot behind it, the CR behind that. */
type After = 'text' | 'cr' | 'lf' | 'crlf' | 'dot' | 'dot-cr';

/**
 * Finds the end of a mail after DATA, and takes out the stuffed dots (RFC 5321 §4.5.2). Its chunks may end anywhere.
 *
 * Only CR LF `.` CR LF ends a mail. A server that also takes `LF . LF`, `LF . CR LF`, `CR . CR` or the like sees two mails
 * where its neighbour sees one (SMTP smuggling). Here they are text of the mail, which real clients send by mistake: the
 * intake leaves no bare CR or LF (mime/ready-made.ts), and the way out stuffs dots again. A dot behind a bare LF is a
 * stuffed one, as Postfix has it: Python's smtplib and others stuff it there.
 */
export class MailContent {
  #after: After = 'crlf';

  /**
   * Adds the octets of the mail that are in `chunk` to `pieces`. Gives where in `chunk` the next command begins; null:
   * the mail goes on.
   */
  push(chunk: Buffer, pieces: Buffer[]): number | null {
    let from = 0;
    const emit = (to: number) => {
      if (to > from) pieces.push(chunk.subarray(from, to));
    };
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at];
      if (this.#after === 'dot-cr') {
        if (byte === LF) return at + 1;
        // The CR was no part of an end. It is text, and may begin a line break.
        pieces.push(HELD_CR);
        from = at;
        this.#after = 'cr';
      }
      if ((this.#after === 'crlf' || this.#after === 'lf') && byte === DOT) {
        emit(at);
        from = at + 1;
        this.#after = this.#after === 'crlf' ? 'dot' : 'text';
      } else if (this.#after === 'dot' && byte === CR) {
        from = at + 1;
        this.#after = 'dot-cr';
      } else if (byte === CR) this.#after = 'cr';
      else if (byte === LF) this.#after = this.#after === 'cr' ? 'crlf' : 'lf';
      else {
        const next = chunk.indexOf(LF, at + 1);
        at = (next < 0 ? chunk.length : next) - 1;
        this.#after = chunk[at] === CR ? 'cr' : 'text';
      }
    }
    emit(chunk.length);
    return null;
  }
}
