/**
 * What an SMTP client sends, taken from its socket piece by piece: a command line, or the content of a mail up
 * to the final dot. Used by catcher.ts. The client decides how its octets are cut into packets, and may send
 * ahead; what is not asked for waits, at last in the client.
 */
import type { Clock } from '../system/clock.js';

/** Longer than RFC 5321 §4.5.3.1.4 asks for: a path beyond ASCII and its parameters fit. */
const LINE_BYTES_MAX = 2048;
const CRLF = Buffer.from('\r\n');
const FINAL_DOT = Buffer.from('\r\n.\r\n');
const LF = 0x0a;

/** Cuts what a client sends into commands and content, wherever its packets end. */
export class SmtpInput {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #clock: Clock;
  readonly #idleMs: number;
  readonly #onIdle: () => void;
  #ahead: Buffer = Buffer.alloc(0);

  /** Calls `onIdle` once it has waited `idleMs` for the client to send anything. */
  constructor(source: AsyncIterable<Buffer>, clock: Clock, idleMs: number, onIdle: () => void) {
    this.#chunks = source[Symbol.asyncIterator]();
    this.#clock = clock;
    this.#idleMs = idleMs;
    this.#onIdle = onIdle;
  }

  /** The next line without its break, empty for one that is too long, or null when the client is gone. */
  async line(): Promise<string | null> {
    let tooLong = false;
    for (;;) {
      const end = this.#ahead.indexOf(LF);
      if (end >= 0) {
        const line = this.#ahead.toString('utf8', 0, end).replace(/\r$/, '');
        this.#ahead = this.#ahead.subarray(end + 1);
        return tooLong || end > LINE_BYTES_MAX ? '' : line;
      }
      if (this.#ahead.length > LINE_BYTES_MAX) {
        tooLong = true;
        this.#ahead = this.#ahead.subarray(this.#ahead.length);
      }
      const chunk = await this.#next();
      if (chunk === null) return null;
      this.#ahead = Buffer.concat([this.#ahead, chunk]);
    }
  }

  /**
   * A mail's octets with the stuffed dots removed (RFC 5321 §4.5.2), `too-large` for one of more than
   * `limitBytes`, which is read to its end but not kept, or null when the client is gone before the final dot.
   */
  async content(limitBytes: number): Promise<Buffer | 'too-large' | null> {
    const pieces: Buffer[] = [];
    let size = 0;
    // As if a line break came first, so that the first line is like any other.
    let window = Buffer.concat([CRLF, this.#ahead]);
    for (;;) {
      const end = window.indexOf(FINAL_DOT);
      // Without a final dot, its beginning may be what came last.
      const cut = end >= 0 ? end + CRLF.length : Math.max(0, window.length - FINAL_DOT.length + 1);
      size += cut;
      pieces.push(window.subarray(0, cut));
      if (size > limitBytes + CRLF.length) pieces.length = 0;
      if (end >= 0) {
        this.#ahead = window.subarray(end + FINAL_DOT.length);
        return size > limitBytes + CRLF.length ? 'too-large' : withoutStuffing(Buffer.concat(pieces));
      }
      const chunk = await this.#next();
      if (chunk === null) return null;
      window = Buffer.concat([window.subarray(cut), chunk]);
    }
  }

  /** Reads on and keeps nothing, until the client is gone. */
  async discard(): Promise<void> {
    while ((await this.#next()) !== null);
  }

  /** What the socket brings next, or null when it ended or broke. */
  async #next(): Promise<Buffer | null> {
    const timer = this.#clock.after(this.#idleMs, this.#onIdle);
    try {
      const { value, done } = await this.#chunks.next();
      return done === true ? null : value;
    } catch {
      // A connection that is reset, or that we closed, is one that has ended.
      return null;
    } finally {
      timer.stop();
    }
  }
}

/** Takes the line break in front of the content away, and a dot from every line that begins with one. */
function withoutStuffing(content: Buffer): Buffer {
  const octets = content.toString('latin1').replaceAll('\r\n.', '\r\n');
  return Buffer.from(octets.slice(CRLF.length), 'latin1');
}
