/**
 * Gathers octets that come in chunks. A peer may send each octet as a chunk of its own, and a Buffer takes some 300 bytes
 * beside its octets: so chunks are copied into one buffer, which doubles when it is full. Pure.
 */
import { Buffer } from 'node:buffer';

/** The octets of one text, in the order in which they came. */
export class Octets {
  /** The octets, and perhaps room for more. */
  #buffer: Buffer = Buffer.alloc(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(chunk: Uint8Array): void {
    const length = this.#length + chunk.length;
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(2 * this.#length, length));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    this.#buffer.set(chunk, this.#length);
    this.#length = length;
  }

  /** Gives all octets, and begins anew. */
  take(): Buffer {
    const octets = this.#buffer.subarray(0, this.#length);
    this.#buffer = Buffer.alloc(0);
    this.#length = 0;
    return octets;
  }
}
