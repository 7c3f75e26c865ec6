/**
 * An HTTP proxy on a free port. Without a script it is honest: it opens the tunnel that a CONNECT asks for. A script makes
 * it refuse, babble or fall silent.
 *
 *   await using proxy = await fakeProxy({ login: 'device:secret' });
 *   proxy.answer = () => 'HTTP/1.1 502 Bad Gateway\r\n\r\n';
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Raw bytes, and what follows. */
interface ProxyAct {
  readonly raw: string;
  /** The tunnel is opened as well; `to` this port of loopback, if given. */
  readonly open?: boolean;
  readonly to?: number;
  /** This comes in a packet of its own. */
  readonly later?: string;
  /** FIN. */
  readonly ends?: boolean;
}

export interface FakeProxy extends AsyncDisposable {
  readonly port: number;
  /** The heads of the requests, without the empty line. */
  readonly heads: readonly string[];
  /** Bytes that clients have sent after their requests. */
  readonly bytesInside: number;
  /** Connections that are open now. */
  readonly open: number;
  /** Asked first; null: silence; undefined: the honest answer. */
  answer: (head: string) => string | ProxyAct | null | undefined;
}

/** `login`: `user:password`, without which it refuses. */
export async function fakeProxy({ login }: { login?: string } = {}): Promise<FakeProxy> {
  const sockets = new Set<Socket>();
  const heads: string[] = [];
  let bytesInside = 0;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  };
  const server = createServer((socket) => {
    keep(socket);
    let read = '';
    socket.on('data', function receive(chunk) {
      read += chunk.toString('latin1');
      if (!read.includes('\r\n\r\n')) return;
      socket.off('data', receive).on('data', (inside) => (bytesInside += inside.length));
      const [head = ''] = read.split('\r\n\r\n');
      heads.push(head);
      const answer = proxy.answer(head);
      if (answer === null) return;
      act(typeof answer === 'string' ? { raw: answer } : (answer ?? honest(head)), head, socket);
    });
  });
  const act = ({ raw, to, open = to !== undefined, later, ends }: ProxyAct, head: string, socket: Socket) => {
    socket.setNoDelay(true).write(raw);
    if (later !== undefined) setImmediate(() => setImmediate(() => socket.write(later)));
    if (ends) socket.end();
    if (!open) return;
    const [, host = '', port] = /^CONNECT (\S+):(\d+) HTTP/.exec(head) ?? [];
    const target = to === undefined ? connect(Number(port), host) : connect(to, '127.0.0.1');
    keep(target);
    socket.pipe(target).pipe(socket);
    socket.on('close', () => target.destroy());
    target.on('close', () => socket.destroy());
  };
  const honest = (head: string): ProxyAct => {
    const wanted = `\r\nProxy-Authorization: Basic ${Buffer.from(login ?? '').toString('base64')}`;
    if (login !== undefined && !`${head}\r\n`.includes(`${wanted}\r\n`))
      return { raw: 'HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n' };
    return { raw: 'HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n', open: true };
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const proxy: FakeProxy = {
    port: (server.address() as AddressInfo).port,
    heads,
    get bytesInside() {
      return bytesInside;
    },
    get open() {
      return sockets.size;
    },
    answer: () => undefined,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  return proxy;
}
