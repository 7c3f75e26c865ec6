/**
 * Reads a JSON body, never more of it than its limit.
 */
import { isUtf8 } from 'node:buffer';
import { FieldpostError } from '../errors.js';
import { Octets } from '../octets.js';
import type { Exchange } from './exchange.js';
import { receiveBody } from './receive.js';

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
