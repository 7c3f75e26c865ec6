/**
 * Whether a request comes from a program on this device (local-api §6). Loopback is not trust: any web page can make
 * the browser on this device send requests here.
 */
import { FieldpostError } from '../errors.js';
import type { Exchange } from './exchange.js';

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];
// A host name or address, and any port.
const HOST = /^(\[[0-9a-f:.]+\]|[^:]+)(?::\d{0,5})?$/;

/**
 * A function that throws malformed-request (two Host headers) or not-local. Over a unix socket the Host does not
 * count: the socket's mode says who may call.
 */
export function createLocalCheck(allowedHosts: readonly string[] = []): (exchange: Exchange) => void {
  const names = new Set([...LOOPBACK_NAMES, ...allowedHosts.map((name) => name.toLowerCase())]);
  return ({ req, host, connection }) => {
    checkSingleHost(req.rawHeaders);
    const lowerHost = host?.toLowerCase();
    const isOverTcp = connection.kind === 'tcp';
    if (isOverTcp && lowerHost !== undefined && !names.has(HOST.exec(lowerHost)?.[1] ?? '')) {
      const words = `The name ${JSON.stringify(host)} is not one of this device's own`;
      throw new FieldpostError('not-local', words, {
        hint: 'call 127.0.0.1, or list the name in FIELDPOST_ALLOWED_HOSTS',
      });
    }
    const { origin, 'sec-fetch-site': site } = req.headers;
    const isOwn = lowerHost !== undefined && origin?.toLowerCase() === `http://${lowerHost}`;
    if (origin !== undefined && !isOwn) throw foreignPage('Origin');
    if (site !== undefined && site !== 'same-origin' && site !== 'none') throw foreignPage('Sec-Fetch-Site');
  };
}

/** RFC 9112 §3.2: a proxy may have checked one of two Host headers, and the daemon the other. */
function checkSingleHost(rawHeaders: readonly string[]): void {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]?.toLowerCase() === 'host') count++;
  if (count > 1) throw new FieldpostError('malformed-request', 'The request has more than one Host header');
}

function foreignPage(header: string): FieldpostError {
  const words = `The ${header} header says that a web page from elsewhere is asking`;
  return new FieldpostError('not-local', words, { hint: 'only programs on this device may call' });
}
