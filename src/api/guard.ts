/**
 * Who may call (local-api §6). Loopback is not trust: any web page can make the browser on this device send
 * requests here. Stands before every route; server.ts calls it.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { FieldpostError } from '../errors.js';
import type { Exchange } from './exchange.js';

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];
// A host name or address, and any port.
const HOST = /^(\[[0-9a-f:.]+\]|[^:]+)(?::\d{0,5})?$/;

/**
 * A function that throws unless the request may go on: malformed-request (two Host headers), not-local,
 * unauthorized. `tokenFree` routes ask for no token. Over the unix socket neither Host nor token count:
 * the socket's mode says who may call.
 */
export function createGuard(settings: {
  readonly allowedHosts: readonly string[];
  readonly apiToken: string | null;
}): (exchange: Exchange, tokenFree: boolean) => void {
  const names = new Set([...LOOPBACK_NAMES, ...settings.allowedHosts.map((name) => name.toLowerCase())]);
  const token = settings.apiToken === null ? null : digest(settings.apiToken);

  return function guard({ req, host, connection }, tokenFree) {
    checkSingleHost(req.rawHeaders);
    const lowerHost = host?.toLowerCase();
    const overUnix = connection.kind === 'unix';
    if (!overUnix && lowerHost !== undefined && !names.has(HOST.exec(lowerHost)?.[1] ?? '')) {
      throw new FieldpostError(
        'not-local',
        `The name ${JSON.stringify(host)} is not one of this device's own`,
        {
          hint: 'call 127.0.0.1, or list the name in FIELDPOST_ALLOWED_HOSTS',
        },
      );
    }
    const { origin, 'sec-fetch-site': site, authorization } = req.headers;
    const isOwn = lowerHost !== undefined && origin?.toLowerCase() === `http://${lowerHost}`;
    if (origin !== undefined && !isOwn) throw foreignPage('Origin');
    if (site !== undefined && site !== 'same-origin' && site !== 'none') throw foreignPage('Sec-Fetch-Site');
    if (token !== null && !overUnix && !tokenFree && !isBearer(authorization, token)) {
      throw new FieldpostError('unauthorized', 'This daemon asks for a token', {
        hint: 'send it as Authorization: Bearer <token>',
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
