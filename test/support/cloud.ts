/**
 * A cloud on a port of its own. By itself it keeps the contract; a script makes it answer anything, or nothing.
 *
 *   await using cloud = await fakeCloud();
 *   cloud.answer = ({ path }) => (path === 'heartbeat' ? { status: 503, headers: { 'Retry-After': '7' } } : undefined);
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';

export const DEVICE = 'pump-3';
export const KEY = 'the-device-key';

/** A request as it arrived. */
interface CloudCall {
  readonly method: string;
  /** Behind `/devices/<id>/`. */
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  // biome-ignore lint/suspicious/noExplicitAny: a test looks at what it expects to be there
  readonly body: any;
  /** The connection it came over, counted from 1. */
  readonly connection: number;
}

/** `silence`: nothing ever. `reset`: RST. `trickle`: a good answer that never ends. `cut`: half of one. */
type Rudeness = 'silence' | 'reset' | 'trickle' | 'cut';

export interface CloudAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON unless it is a string. */
  readonly body?: unknown;
}

export interface FakeCloud extends AsyncDisposable {
  readonly url: string;
  readonly calls: CloudCall[];
  /** What the contract-abiding answers tell and keep. */
  document: { etag: string; entries: readonly unknown[]; more?: object } | null;
  heartbeat: object;
  /** Asked first; undefined: the contract's answer. */
  answer: (call: CloudCall) => CloudAnswer | Rudeness | undefined | Promise<CloudAnswer | undefined>;
  /** Ends every connection, as a server does with those that were idle for long. */
  hangUp(): void;
}

export const HTML: CloudAnswer = {
  status: 200,
  headers: { 'Content-Type': 'text/html' },
  body: '<html><body>Welcome to the guest network. Please log in.</body></html>',
};

export async function fakeCloud(tls?: TlsOptions, host = '127.0.0.1'): Promise<FakeCloud> {
  const sockets = new Map<Socket, number>();
  let connections = 0;
  let edits = 0;
  const handle: RequestListener = async (req, res) => {
    const call = await read(req, sockets.get(req.socket) ?? 0);
    if (call === null) return;
    cloud.calls.push(call);
    const answer = (await cloud.answer(call)) ?? honest(call);
    if (typeof answer === 'string') rude(answer, res);
    else write(answer, res);
  };
  const server = tls === undefined ? createServer(handle) : createTlsServer(tls, handle);
  server.keepAliveTimeout = 0;
  server.on(tls === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
    sockets.set(socket, ++connections);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  const cloud: FakeCloud = {
    url: `${tls === undefined ? 'http' : 'https'}://${host}:${port}`,
    calls: [],
    document: null,
    heartbeat: {},
    answer: () => undefined,
    hangUp: () => {
      for (const socket of sockets.keys()) socket.destroy();
    },
    async [Symbol.asyncDispose]() {
      cloud.hangUp();
      server.close();
      await once(server, 'close');
    },
  };

  function honest(call: CloudCall): CloudAnswer {
    if (call.headers.authorization !== `Bearer ${KEY}`) return problem(401, 'this key is not known');
    const { document } = cloud;
    switch (`${call.method} ${call.path}`) {
      case 'PUT heartbeat':
        return {
          status: 200,
          body: { ...(document && { destinations: document.etag }), ...cloud.heartbeat },
        };
      case 'GET destinations':
        if (document === null) return problem(404, 'there is no document yet');
        if (call.headers['if-none-match'] === document.etag) return { status: 304 };
        return {
          status: 200,
          headers: { ETag: document.etag },
          body: { ...document.more, destinations: document.entries },
        };
      case 'PUT destinations': {
        const isFirst = call.headers['if-none-match'] === '*' && document === null;
        if (!isFirst && call.headers['if-match'] !== document?.etag) return problem(412, 'it was changed');
        const { destinations: entries, ...more } = call.body;
        cloud.document = { etag: `"v${++edits}"`, entries, more };
        return { status: 204, headers: { ETag: cloud.document.etag } };
      }
      case 'POST messages':
        return { status: 202, body: { id: call.body.id } };
      default:
        return problem(404, 'there is no such thing');
    }
  }
  return cloud;
}

export function problem(status: number, detail: string, headers: CloudAnswer['headers'] = {}): CloudAnswer {
  return {
    status,
    headers: { 'Content-Type': 'application/problem+json', ...headers },
    body: { title: 'Problem', status, detail },
  };
}

async function read(req: IncomingMessage, connection: number): Promise<CloudCall | null> {
  let text = '';
  try {
    for await (const chunk of req) text += chunk;
  } catch {
    return null;
  }
  const { method = '', url = '', headers } = req;
  const path = url.replace(`/devices/${DEVICE}/`, '');
  return { method, path, headers, body: text === '' ? null : JSON.parse(text), connection };
}

function write({ status, headers = {}, body }: CloudAnswer, res: ServerResponse): void {
  const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body);
  res.writeHead(status, { 'Content-Type': 'application/json', ...headers });
  res.end(text);
}

function rude(how: Rudeness, res: ServerResponse): void {
  if (how === 'reset') (res.socket as Socket).resetAndDestroy();
  if (how === 'silence' || how === 'reset') return;
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 1000 });
  res.write('{"id":"', () => (how === 'cut' ? res.socket?.end() : undefined));
}
