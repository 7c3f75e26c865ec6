/**
 * Requests whose body may come in very small chunks. Node keeps what nobody has read yet as one Buffer for each chunk, of
 * some 300 bytes: 64 connections with chunks of one octet would fill the memory. Small chunks are gathered first.
 */
import { IncomingMessage } from 'node:http';
import { Octets } from '../octets.js';

/** A chunk of this size is worth a Buffer of its own. */
const LARGE_BYTES = 1024;

/** A request of a server: its readers get small chunks that came together as one. */
export class IncomingRequest extends IncomingMessage {
  readonly #small = new Octets();
  #isDue = false;

  /** The parser calls it with each chunk, and with null at the end. False: it should read no more for now. */
  override push(chunk: Buffer | null): boolean {
    if (chunk !== null && chunk.length < LARGE_BYTES) {
      this.#small.push(chunk);
      if (!this.#isDue) queueMicrotask(() => this.#handOver());
      this.#isDue = true;
      return this.readableLength + this.#small.length < this.readableHighWaterMark;
    }
    this.#flush();
    return super.push(chunk);
  }

  /** Now, or once a reader goes on. Before the first one begins, the parser lets this run after each chunk. */
  #handOver(): void {
    if (this.readableFlowing !== true) this.once('resume', () => this.#handOver());
    else {
      this.#isDue = false;
      this.#flush();
    }
  }

  #flush(): void {
    if (this.#small.length > 0) super.push(this.#small.take());
  }
}
