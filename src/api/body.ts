/**
 * Reading a JSON body, never more of it than the limit. The handlers of messages.ts and destinations use it.
 */
import { isUtf8 } from 'node:buffer';
import { FieldpostError } from '../errors.js';
import type { Exchange } from './exchange.js';

/**
 * The parsed body. Throws unsupported-media-type and too-large before a byte of it is read; then also
 * malformed-json, malformed-request (cut short) and timeout.
 */
export async function readJson(exchange: Exchange, limitBytes: number): Promise<unknown> {
  checkJsonType(exchange);
  const bytes = await readBody(exchange, limitBytes);
  if (bytes.length === 0) throw new FieldpostError('malformed-json', 'The body is empty');
  // RFC 8259 §8.1. Half-read text would be stored as something that nobody sent.
  if (!isUtf8(bytes)) throw new FieldpostError('malformed-json', 'The body is not UTF-8');
  const text = bytes.toString('utf8', hasBom(bytes) ? 3 : 0);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new FieldpostError('malformed-json', `The body is not JSON: ${(error as Error).message}`);
  }
}

/** The whole body, at most `limitBytes`. Rejects with too-large, malformed-request or timeout. */
function readBody(exchange: Exchange, limitBytes: number): Promise<Buffer> {
  const { req, res, connection, connections } = exchange;
  const announced = req.headers['content-length'];
  // Also before 100 Continue, so that a client that asks need not send what would be refused.
  if (announced !== undefined && Number(announced) > limitBytes) throw tooLarge(limitBytes);
  if (exchange.bodyDone) return Promise.resolve(Buffer.alloc(0));
  if (exchange.awaitsContinue) res.writeContinue();

  return new Promise((resolve, reject) => {
    // Nearly always a body arrives in one chunk, which then is not copied.
    let first: Buffer | null = null;
    let more: Buffer[] | null = null;
    let bytes = 0;
    const fail = (error: FieldpostError) => {
      connections.received(connection, req);
      req.removeAllListeners('data').resume();
      reject(error);
    };
    connections.receive(connection, req, fail);
    req.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limitBytes) fail(tooLarge(limitBytes));
      else if (first === null) first = chunk;
      else if (more === null) more = [first, chunk];
      else more.push(chunk);
    });
    req.on('end', () => {
      connections.received(connection, req);
      exchange.bodyDone = true;
      resolve(more === null ? (first ?? Buffer.alloc(0)) : Buffer.concat(more));
    });
    req.on('close', () => {
      if (!exchange.bodyDone) reject(cutShort());
    });
  });
}

/** The error of a body that ended before its announced end. */
export function cutShort(): FieldpostError {
  return new FieldpostError('malformed-request', 'The body was cut short', { hint: 'nothing was queued' });
}

function tooLarge(limitBytes: number): FieldpostError {
  return new FieldpostError('too-large', `The body is larger than ${limitBytes} bytes (FIELDPOST_MAX_BODY)`);
}

function hasBom(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

/** Throws unless the body says it is JSON in UTF-8, and nothing has encoded it further. */
function checkJsonType({ req }: Exchange): void {
  const { 'content-type': type = '', 'content-encoding': encoding } = req.headers;
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new FieldpostError('unsupported-media-type', 'A body with a Content-Encoding is not understood');
  }
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
    const charset = /^\s*charset\s*=\s*"?([^"]*?)"?\s*$/i.exec(parameter)?.[1];
    if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
      throw new FieldpostError('unsupported-media-type', 'JSON is taken in UTF-8 only');
    }
  }
}
