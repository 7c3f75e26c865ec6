/**
 * The input of one SMTP connection: command lines, and the content of mails. It reads one chunk at a time from the socket
 * and asks for the next when that one is used, so that a client is never faster than the disk.
 */
import { isUtf8 } from 'node:buffer';
import type { Socket } from 'node:net';
import { SMTP_LINE_BYTES_MAX } from '../mail-limits.js';
import { MailContent } from './mail-content.js';

const CR = 0x0d;
const LF = 0x0a;
const NONE: Buffer = Buffer.alloc(0);

/** A command line without its end; or why there is none. `closed`: the client has closed the connection. */
export type InputLine = { readonly text: string } | 'too-long' | 'bare-break' | 'not-text' | 'closed';

/** Takes the octets of a mail; gives a promise if the disk must catch up first. */
export type TakeOctets = (octets: Buffer) => Promise<void> | void;

/** The input of a connection. */
export class SmtpInput {
  #socket: Socket;
  #ahead = NONE;
  readonly #chunks: Buffer[] = [];
  #isEnded = false;
  #wake: (() => void) | null = null;
  readonly #onData = (chunk: Buffer) => {
    this.#socket.pause();
    this.#chunks.push(chunk);
    this.#wake?.();
  };
  readonly #onEnd = () => this.end();

  constructor(socket: Socket) {
    this.#socket = socket;
    this.#listen(socket);
  }

  /** True if octets are here that nobody has asked for yet. */
  get isAhead(): boolean {
    return this.#ahead.length > 0 || this.#chunks.length > 0 || this.#socket.readableLength > 0;
  }

  /** Starts to read; `isAhead` tells of what comes. The other methods do it themselves. */
  listen(): void {
    this.#socket.resume();
  }

  /** Leaves the socket, paused, to a TLS connection. */
  leave(): void {
    this.#socket.pause();
    this.#socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onEnd);
  }

  /** Goes on with the socket of a TLS connection. */
  moveTo(socket: Socket): void {
    this.#socket = socket;
    this.#listen(socket);
  }

  /** Nobody reads on: a call that waits for the client ends as if the client had closed the connection. */
  end(): void {
    this.#isEnded = true;
    this.#wake?.();
  }

  #listen(socket: Socket): void {
    socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onEnd);
    socket.pause();
  }

  /** The next line. Only CR LF ends it. */
  async line(): Promise<InputLine> {
    let isTooLong = false;
    for (;;) {
      const end = this.#ahead.indexOf(LF);
      const bareCr = hasBareCr(this.#ahead, end);
      if (end >= 0 && (end === 0 ? !isTooLong : this.#ahead[end - 1] !== CR)) return 'bare-break';
      if (bareCr) return 'bare-break';
      if (end >= 0) {
        const line = this.#ahead.subarray(0, Math.max(0, end - 1));
        this.#ahead = this.#ahead.subarray(end + 1);
        if (isTooLong || line.length > SMTP_LINE_BYTES_MAX) return 'too-long';
        return isUtf8(line) && !line.includes(0) ? { text: line.toString() } : 'not-text';
      }
      if (this.#ahead.length > SMTP_LINE_BYTES_MAX) {
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
   * Gives every octet of a mail to `take`, without the stuffed dots. `onWait` is called each time it waits for the client,
   * and `onChunk` with each number of octets that came. False: the client closed the connection before the final dot.
   */
  async content(take: TakeOctets, onWait: () => void, onChunk: (bytes: number) => void): Promise<boolean> {
    const content = new MailContent();
    for (;;) {
      let chunk: Buffer | null = this.#ahead;
      this.#ahead = NONE;
      if (chunk.length === 0) {
        onWait();
        chunk = await this.#next();
      }
      if (chunk === null) return false;
      const pieces: Buffer[] = [];
      const end = content.push(chunk, pieces);
      onChunk(chunk.length);
      for (const piece of pieces) {
        const caughtUp = take(piece);
        if (caughtUp !== undefined) await caughtUp;
      }
      if (end !== null) {
        this.#ahead = chunk.subarray(end);
        return true;
      }
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
}

/** True if a CR stands before `end` (-1: in all of it) that no LF can follow. */
function hasBareCr(bytes: Buffer, end: number): boolean {
  const at = bytes.indexOf(CR);
  return at >= 0 && at !== (end >= 0 ? end : bytes.length) - 1 && (end < 0 || at < end);
}
