/**
 * A tunnel through an HTTP proxy (CONNECT, RFC 9110 §9.3.6), with Basic authentication (RFC 7617). Loaded only if there is
 * a proxy.
 */
import type { Socket } from 'node:net';
import { type CloudProxy, placeOf } from '../config/proxy.js';
import { HEADER_SECTION_BYTES_MAX } from '../limits.js';
import { oneLine } from '../text.js';
import type { Connect, ConnectRequest } from './connect.js';

/** Where the tunnel leads to, and what it reports. */
export interface TunnelRequest extends ConnectRequest {
  /** Called when the proxy is connected and has got the CONNECT. */
  readonly asked: () => void;
}

/**
 * Gives a socket on which the next byte comes from `request.host`. Rejects with the error of the connection to the proxy,
 * or with the code `PROXY` and words that complete "the proxy …".
 */
export async function openTunnel(
  proxy: CloudProxy,
  connect: Connect,
  { host, port, asked, ...rest }: TunnelRequest,
): Promise<Socket> {
  const socket = await connect({ ...rest, host: proxy.host, port: proxy.port });
  const target = placeOf({ host, port });
  const answered = headFrom(socket, rest.signal);
  socket.write(requestOf(target, proxy));
  asked();
  try {
    const { head, isMore } = await answered;
    const refusal = refusalIn(head, target, proxy);
    if (refusal !== null) throw proxyError(refusal);
    // The cloud speaks only after the ClientHello, which is not sent yet.
    if (isMore) throw proxyError('sent bytes that the cloud cannot have sent');
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

function requestOf(target: string, { login }: CloudProxy): string {
  const lines = [`CONNECT ${target} HTTP/1.1`, `Host: ${target}`];
  if (login !== null) {
    const credentials = Buffer.from(`${login.user}:${login.password}`).toString('base64');
    lines.push(`Proxy-Authorization: Basic ${credentials}`);
  }
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/** The head of an answer, and whether anything came after it. */
interface Answered {
  readonly head: string;
  readonly isMore: boolean;
}

/** Reads up to the empty line. Leaves the socket without listeners of its own. */
function headFrom(socket: Socket, signal: AbortSignal): Promise<Answered> {
  return new Promise((resolve, reject) => {
    let read = Buffer.alloc(0);
    const receive = (chunk: Buffer) => {
      read = Buffer.concat([read, chunk]);
      const end = read.indexOf('\r\n\r\n');
      if (end >= 0 && end <= HEADER_SECTION_BYTES_MAX) {
        settle(() => resolve({ head: read.toString('latin1', 0, end), isMore: read.length > end + 4 }));
      } else if (!'HTTP/'.startsWith(read.toString('latin1', 0, 5))) {
        const said = oneLine(read.toString('latin1', 0, 80));
        settle(() => reject(proxyError(`is no HTTP proxy: it answers "${said}"`)));
      } else if (read.length > HEADER_SECTION_BYTES_MAX) {
        settle(() => reject(proxyError('gives an answer without an end')));
      }
    };
    const ended = () => settle(() => reject(proxyError('closed the connection before its answer')));
    const failed = (error: Error) => settle(() => reject(error));
    const abort = () => failed(Object.assign(new Error('given up'), { code: 'ABORT_ERR' }));
    const settle = (done: () => void) => {
      socket.pause();
      socket.off('data', receive).off('end', ended).off('close', ended).off('error', failed);
      signal.removeEventListener('abort', abort);
      done();
    };
    socket.on('data', receive).on('end', ended).on('close', ended).on('error', failed);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
  });
}

/** Words that complete "the proxy …"; null if the tunnel is open. */
function refusalIn(head: string, target: string, { login }: CloudProxy): string | null {
  const [first = '', ...headers] = head.split('\r\n');
  const status = Number(/^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(first)?.[1] ?? 0);
  if (status >= 200 && status < 300) return null;
  switch (status) {
    // tinyproxy answers 401 to a wrong password.
    case 401:
    case 407: {
      const schemes = headers.flatMap((line) => /^Proxy-Authenticate: *([\w-]+)/i.exec(line)?.[1] ?? []);
      if (schemes.length > 0 && !schemes.some((scheme) => /^basic$/i.test(scheme)))
        return `wants a login by ${oneLine(schemes.join(' or '))}, and this device can only do Basic (${status})`;
      const what = login === null ? 'wants a user and a password' : 'refuses our password';
      return `${what} (${status}); see FIELDPOST_CLOUD_PROXY or HTTPS_PROXY`;
    }
    case 403:
      return `forbids a connection to ${target} (403)`;
    case 405:
    case 501:
      return `opens no tunnels (${status})`;
    case 502:
    case 503:
      return `cannot reach ${target} (${status})`;
    case 504:
      return `gets no answer from ${target} (504)`;
    default:
      return `answers CONNECT with "${oneLine(first)}"`;
  }
}

function proxyError(words: string): Error {
  return Object.assign(new Error(words), { code: 'PROXY' });
}
