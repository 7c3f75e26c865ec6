/**
 * The reference cloud behind a port of its own, at which a script answers anything, or nothing, in its place.
 *
 *   await using cloud = await fakeCloud();
 *   cloud.answer = ({ path }) => (path === 'heartbeat' ? { status: 503, headers: { 'Retry-After': '7' } } : undefined);
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { CloudScreen } from './cloud-screen.js';

export const DEVICE = 'pump-3';
export { KEY } from './cloud-screen.js';

/** A request as it arrived. */
interface CloudCall {
  readonly method: string;
  /** Behind `/devices/<id>/`. */
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  // biome-ignore lint/suspicious/noExplicitAny: a test looks at what it expects to be there
  readonly body: any;
  readonly text: string;
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
  /** On which people edit the document. */
  readonly screen: CloudScreen;
  /** Asked first; undefined: the reference cloud answers. */
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
  const screen = await CloudScreen.start();
  const handle: RequestListener = async (req, res) => {
    const call = await read(req, sockets.get(req.socket) ?? 0);
    if (call === null) return;
    cloud.calls.push(call);
    const answer = (await cloud.answer(call)) ?? (await honest(call));
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
    screen,
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

  /** What the reference cloud answers. */
  async function honest({ method, path, headers, text }: CloudCall): Promise<CloudAnswer> {
    const sent = Object.entries(headers).map(([name, value]) => [name, String(value)]);
    const answer = await screen.ask({
      method,
      path: `/devices/${DEVICE}/${path}`,
      headers: Object.fromEntries(sent),
      body: text,
    });
    const { etag, 'content-type': type } = answer.headers;
    return {
      status: answer.status,
      headers: {
        ...(etag !== undefined && { ETag: etag }),
        ...(type !== undefined && { 'Content-Type': type }),
      },
      body: answer.body.length === 0 ? undefined : answer.body.toString(),
    };
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
  return { method, path, headers, body: text === '' ? null : JSON.parse(text), text, connection };
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
