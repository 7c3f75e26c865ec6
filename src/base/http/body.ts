/**
 * Reads the body of a request: piece by piece, or as JSON, never more of it than its limit. It notices a body that stalls
 * or breaks off, and gathers chunks that are very small.
 */
import { isUtf8 } from 'node:buffer';
import { IncomingMessage } from 'node:http';
import { Octets } from '../collections.js';
import { FieldpostError } from '../errors.js';
import { discard } from './connection.js';
import type { Exchange } from './exchange.js';

/**
 * The parsed body, of at most `limitBytes`; `setting` names the setting of that limit, for the error. Throws
 * unsupported-media-type and too-large before it reads; then also malformed-json, malformed-request and timeout.
 */
export async function readJson(
  exchange: Exchange,
  limitBytes: number,
  setting: string | null = 'FIELDPOST_MAX_BODY',
): Promise<unknown> {
  checkJsonType(exchange);
  const bytes = await readBody(exchange, limitBytes, setting);
  if (bytes.length === 0) throw new FieldpostError('malformed-json', 'The body is empty');
  // RFC 8259 §8.1. A lenient decoder would store another text than the client sent.
  if (!isUtf8(bytes)) throw new FieldpostError('malformed-json', 'The body is not UTF-8');
  const text = bytes.toString('utf8', hasBom(bytes) ? 3 : 0);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new FieldpostError('malformed-json', `The body is not JSON: ${(error as Error).message}`);
  }
}

async function readBody(exchange: Exchange, limitBytes: number, setting: string | null): Promise<Buffer> {
  const maxBytes = Math.min(limitBytes, exchange.connections.memory.bodiesBytes);
  const reason = maxBytes < limitBytes ? "the service's memory, MemoryMax=" : setting;
  // Before 100 Continue: a client that waits for it then does not send the body.
  if (exchange.declaredBytes > maxBytes) throw tooLarge(maxBytes, reason);
  const octets = new Octets();
  await receiveBody(exchange, (chunk) => {
    if (octets.length + chunk.length > maxBytes) throw tooLarge(maxBytes, reason);
    exchange.keep(chunk.length);
    octets.push(chunk);
  });
  return octets.take();
}

function tooLarge(limitBytes: number, reason: string | null): FieldpostError {
  const shown = reason === null ? '' : ` (${reason})`;
  return new FieldpostError('too-large', `The body is larger than ${limitBytes} bytes${shown}`);
}

function hasBom(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

function checkJsonType(exchange: Exchange): void {
  checkNotEncoded(exchange);
  const { 'content-type': type = '' } = exchange.req.headers;
  if (type === 'application/json') return;
  const [essence = '', ...parameters] = type.split(';');
  if (essence.trim().toLowerCase() !== 'application/json') {
    throw new FieldpostError(
      'unsupported-media-type',
      `The body must be JSON, not ${type === '' ? 'of no named type' : JSON.stringify(type)}`,
      {
        hint: 'send Content-Type: application/json',
      },
    );
  }
  for (const parameter of parameters) {
    const [name = '', value = ''] = parameter.split('=', 2).map((text) => text.trim());
    if (name.toLowerCase() === 'charset' && !/^(?:utf-?8|"\s*utf-?8\s*")$/i.test(value)) {
      throw new FieldpostError('unsupported-media-type', 'JSON is taken in UTF-8 only');
    }
  }
}

/** Throws unsupported-media-type if the body has a Content-Encoding. */
export function checkNotEncoded({ req }: Exchange): void {
  const { 'content-encoding': encoding } = req.headers;
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new FieldpostError('unsupported-media-type', 'A body with a Content-Encoding is not understood');
  }
}

/**
 * Hands each chunk of the body to `take`. While the promise of `take` is pending, it reads nothing, and the idle limit
 * does not count. Rejects, and reads no more, with what `take` throws, malformed-request (cut short) or timeout.
 */
export function receiveBody(
  exchange: Exchange,
  take: (chunk: Buffer) => Promise<void> | void,
): Promise<void> {
  const { req, res, connection, connections } = exchange;
  if (exchange.bodyDone) return Promise.resolve();
  // It may have broken off before the handler reads it.
  if (req.destroyed || connection.broken !== null) return Promise.reject(connection.broken ?? cutShort());
  if (exchange.awaitsContinue) res.writeContinue();

  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      connections.received(connection, req);
      discard(req.removeAllListeners('data'), connections.memory.streamed);
      req.resume();
      reject(error);
    };
    const receiving = connections.receive(connection, req, fail);
    let taking: Promise<void> | void;
    req.on('data', (chunk: Buffer) => {
      try {
        taking = take(chunk);
        if (taking === undefined) return receiving.came(chunk.length);
        receiving.isOurTurn = true;
        req.pause();
        const goOn = () => {
          receiving.isOurTurn = false;
          receiving.came(chunk.length);
          req.resume();
        };
        taking.then(goOn, fail);
      } catch (error) {
        fail(error);
      }
    });
    req.on('end', () => {
      connections.received(connection, req);
      exchange.bodyDone = true;
      // A paused request ends all the same after its last chunk.
      resolve(taking);
    });
    req.on('close', () => {
      connections.received(connection, req);
      if (!exchange.bodyDone) reject(cutShort());
    });
  });
}

/** The body ended before its announced end. */
export function cutShort(): FieldpostError {
  return new FieldpostError('malformed-request', 'The body was cut short', { hint: 'nothing was queued' });
}

/** A chunk of this size is worth a Buffer of its own. */
const LARGE_BYTES = 1024;

/**
 * A request of a server: its readers get small chunks that came together as one. Node keeps what nobody has read yet as one
 * Buffer for each chunk, of some 300 bytes: 64 connections with chunks of one octet would fill the memory.
 */
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
