/**
 * Who may call (local-api §6). Loopback is not trust: any web page can make the browser on this device send
 * requests here. Stands before every route; server.ts calls it.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { FieldpostError } from '../errors.js';
import type { Exchange } from '../http/exchange.js';

/** Who may make a call: anybody, those who may send too, or operators alone. */
export type Access = 'anybody' | 'senders' | 'operators';

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];
// A host name or address, and any port.
const HOST = /^(\[[0-9a-f:.]+\]|[^:]+)(?::\d{0,5})?$/;

/**
 * A function that throws unless the request may go on: malformed-request (two Host headers), not-local,
 * unauthorized, forbidden. Over a unix socket neither Host nor token count: the socket's mode says who may call.
 */
export function createGuard(settings: {
  readonly allowedHosts: readonly string[];
  readonly apiToken: string | null;
  readonly sendToken: string | null;
}): (exchange: Exchange, access: Access) => void {
  const names = new Set([...LOOPBACK_NAMES, ...settings.allowedHosts.map((name) => name.toLowerCase())]);
  const token = settings.apiToken === null ? null : digest(settings.apiToken);
  const sendToken = settings.sendToken === null ? null : digest(settings.sendToken);

  function mayWhat({ req, connection }: Exchange): 'everything' | 'send' | 'nothing' {
    if (connection.kind !== 'tcp') return connection.kind === 'send' ? 'send' : 'everything';
    const { authorization } = req.headers;
    if (token === null || isBearer(authorization, token)) return 'everything';
    return sendToken !== null && isBearer(authorization, sendToken) ? 'send' : 'nothing';
  }

  return function guard(exchange, access) {
    const { req, host, connection } = exchange;
    checkSingleHost(req.rawHeaders);
    const lowerHost = host?.toLowerCase();
    const overUnix = connection.kind !== 'tcp';
    if (!overUnix && lowerHost !== undefined && !names.has(HOST.exec(lowerHost)?.[1] ?? '')) {
      throw new FieldpostError(
        'not-local',
        `The name ${JSON.stringify(host)} is not one of this device's own`,
        {
          hint: 'call 127.0.0.1, or list the name in FIELDPOST_ALLOWED_HOSTS',
        },
      );
    }
    const { origin, 'sec-fetch-site': site } = req.headers;
    const isOwn = lowerHost !== undefined && origin?.toLowerCase() === `http://${lowerHost}`;
    if (origin !== undefined && !isOwn) throw foreignPage('Origin');
    if (site !== undefined && site !== 'same-origin' && site !== 'none') throw foreignPage('Sec-Fetch-Site');
    if (access === 'anybody') return;
    const may = mayWhat(exchange);
    if (may === 'nothing') {
      throw new FieldpostError('unauthorized', 'This daemon asks for a token', {
        hint: 'send it as Authorization: Bearer <token>',
      });
    }
    if (may === 'send' && access !== 'senders') {
      throw new FieldpostError('forbidden', 'This token, or this socket, is for sending only', {
        hint: 'post a message, or ask after one by its id',
      });
    }
  };
}

/** RFC 9112 §3.2: with two Host headers, ours might not be the one that something in between has judged. */
function checkSingleHost(rawHeaders: readonly string[]): void {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') count++;
  }
  if (count > 1) throw new FieldpostError('malformed-request', 'The request has more than one Host header');
}

function isBearer(authorization: string | undefined, token: Buffer): boolean {
  const given = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  // Digests have one length, so that the comparison tells neither the token's length nor how much was right.
  return given !== undefined && timingSafeEqual(digest(given), token);
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function foreignPage(header: string): FieldpostError {
  return new FieldpostError(
    'not-local',
    `The ${header} header says that a web page from elsewhere is asking`,
    {
      hint: 'only programs on this device may call',
    },
  );
}
