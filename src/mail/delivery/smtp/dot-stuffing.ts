/**
 * The content after DATA: every line ends in CRLF, a dot at the beginning of a line is doubled (RFC 5321 §4.5.2), and
 * the final dot follows. Without this a lone dot in a message would end it, and the relay would take the rest for
 * commands.
 */
import { Buffer } from 'node:buffer';

const CR = 13;
const LF = 10;
const DOT = 46;
const CRLF = Buffer.from('\r\n');
const FINAL_DOT = Buffer.from('.\r\n');

/** For one message: push its chunks in order, then call end. */
export class DotStuffing {
  // The last byte seen; the beginning of the message is the beginning of a line.
  #previous = LF;

  /** The bytes to send for this chunk; the chunk itself if nothing has to change. */
  push(chunk: Buffer): Buffer {
    if (chunk.length === 0) return chunk;
    const stuffed = this.#isClean(chunk) ? chunk : this.#rewrite(chunk);
    this.#previous = chunk[chunk.length - 1] as number;
    return stuffed;
  }

  /** Ends the last line if need be, and the message. */
  end(): Buffer {
    if (this.#previous === LF) return FINAL_DOT;
    return Buffer.concat([this.#previous === CR ? CRLF.subarray(1) : CRLF, FINAL_DOT]);
  }

  /** True if each CR here is followed by LF, each LF follows CR, and no line begins with a dot. */
  #isClean(chunk: Buffer): boolean {
    if (this.#previous === CR || (this.#previous === LF && chunk[0] === DOT)) return false;
    let start = 0;
    while (true) {
      const cr = chunk.indexOf(CR, start);
      const lf = chunk.indexOf(LF, start);
      if (lf === -1) return cr === -1 || cr === chunk.length - 1;
      if (cr !== lf - 1 || lf === 0) return false;
      start = lf + 1;
      if (chunk[start] === DOT) return false;
    }
  }

  #rewrite(chunk: Buffer): Buffer {
    // The most that one byte becomes is two; a CR left open by the chunk before adds one.
    const out = Buffer.allocUnsafe(chunk.length * 2 + 1);
    let length = 0;
    let previous = this.#previous;
    for (const byte of chunk) {
      if (byte === LF && previous !== CR) out[length++] = CR;
      if (byte !== LF && previous === CR) {
        out[length++] = LF;
        previous = LF;
      }
      if (byte === DOT && previous === LF) out[length++] = DOT;
      out[length++] = byte;
      previous = byte;
    }
    return out.subarray(0, length);
  }
}

/** A whole message with its final dot, and the commands that go with it. */
export function stuffWhole(content: Buffer, commands = ''): Buffer {
  const stuffing = new DotStuffing();
  return Buffer.concat([stuffing.push(content), stuffing.end(), Buffer.from(commands)]);
}
