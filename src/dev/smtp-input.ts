/**
 * Reads the input of an SMTP client: a command line, or the content of a mail up to the final dot. The packets may end
 * anywhere; input that the client sends ahead waits in buffers. Used by catcher.ts.
 */
import type { Clock } from '../system/clock.js';

/** Longer than RFC 5321 §4.5.3.1.4 requires, so that a path beyond ASCII fits with its parameters. */
const LINE_BYTES_MAX = 2048;
const CRLF = Buffer.from('\r\n');
const FINAL_DOT = Buffer.from('\r\n.\r\n');
const LF = 0x0a;

/** The input of one SMTP session. */
export class SmtpInput {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #clock: Clock;
  readonly #idleMs: number;
  readonly #onIdle: () => void;
  #ahead: Buffer = Buffer.alloc(0);

  /** Calls `onIdle` if the client sends nothing for `idleMs`. */
  constructor(source: AsyncIterable<Buffer>, clock: Clock, idleMs: number, onIdle: () => void) {
    this.#chunks = source[Symbol.asyncIterator]();
    this.#clock = clock;
    this.#idleMs = idleMs;
    this.#onIdle = onIdle;
  }

  /** The next line without its break; empty if it is too long; null if the client has closed the connection. */
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
   * The octets of a mail without stuffed dots (RFC 5321 §4.5.2). `too-large` if there are more than `limitBytes`: the rest
   * is read and discarded. Null if the client has closed the connection before the final dot.
   */
  async content(limitBytes: number): Promise<Buffer | 'too-large' | null> {
    const pieces: Buffer[] = [];
    let size = 0;
    // With a line break before it, the first line is like any other.
    let window = Buffer.concat([CRLF, this.#ahead]);
    for (;;) {
      const end = window.indexOf(FINAL_DOT);
      // The last octets can be the beginning of a final dot.
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

  /** Reads and discards everything until the client closes the connection. */
  async discard(): Promise<void> {
    while ((await this.#next()) !== null);
  }

  /** Null if the connection has ended or broken. */
  async #next(): Promise<Buffer | null> {
    const timer = this.#clock.after(this.#idleMs, this.#onIdle);
    try {
      const { value, done } = await this.#chunks.next();
      return done === true ? null : value;
    } catch {
      return null;
    } finally {
      timer.stop();
    }
  }
}

/** The content without the line break before it, and without the stuffed dots. */
function withoutStuffing(content: Buffer): Buffer {
  const octets = content.toString('latin1').replaceAll('\r\n.', '\r\n');
  return Buffer.from(octets.slice(CRLF.length), 'latin1');
}
