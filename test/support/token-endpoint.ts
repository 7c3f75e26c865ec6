/**
 * A token endpoint (RFC 6749) on a free port of loopback. Without a script it is honest: it knows one application, counts its
 * access tokens (`access-1`, …), and with `rotates` its refresh tokens, of which only the newest is good. A script answers
 * anything in its place, or nothing.
 *
 *   await using endpoint = await tokenEndpoint({ refreshToken: 'refresh-0', rotates: true });
 *   endpoint.answer = () => ({ status: 503, headers: { 'Retry-After': '7' } });
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';

export const CLIENT_ID = 'pump-app';
export const CLIENT_SECRET = 'the-secret-of-the-pump-app';

interface TokenAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON unless it is a string. */
  readonly body?: unknown;
}

/** `silence`: nothing ever. `endless`: a body without an end. `cut`: half of a good answer. */
type Rude = 'silence' | 'endless' | 'cut';

export interface TokenEndpoint extends AsyncDisposable {
  readonly url: string;
  /** The forms that came, in order. */
  readonly forms: Record<string, string>[];
  /** The access tokens given so far; the last one is the newest. */
  readonly given: string[];
  /** The refresh token that is good now. */
  refreshToken: string | null;
  /** Seconds; null: it names no life. */
  lifeS: unknown;
  /** Asked first; undefined: the honest answer. */
  answer: (
    form: Record<string, string>,
  ) => TokenAnswer | Rude | undefined | Promise<TokenAnswer | Rude | undefined>;
}

/** Starts an endpoint; without a refresh token its grant is client_credentials. */
export async function tokenEndpoint(
  options: { refreshToken?: string; rotates?: boolean; tls?: TlsOptions } = {},
): Promise<TokenEndpoint> {
  const { tls, rotates = false } = options;
  const sockets = new Set<Socket>();
  const handle = (req: IncomingMessage, res: ServerResponse) => void serve(req, res);
  const server = tls === undefined ? createServer(handle) : createTlsServer(tls, handle);
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const endpoint: TokenEndpoint = {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}/token`,
    forms: [],
    given: [],
    refreshToken: options.refreshToken ?? null,
    lifeS: 3600,
    answer: () => undefined,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    let text = '';
    for await (const chunk of req) text += chunk;
    const form = Object.fromEntries(new URLSearchParams(text));
    endpoint.forms.push(form);
    const answer = (await endpoint.answer(form)) ?? honest(req, form);
    if (answer === 'silence') return;
    if (typeof answer === 'string') {
      res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 10_000_000 });
      res.write('{"access_token":"', () => (answer === 'cut' ? res.socket?.end() : babble(res)));
      return;
    }
    const { status = 200, headers = {}, body = {} } = answer;
    res.writeHead(status, { 'Content-Type': 'application/json', ...headers });
    res.end(typeof body === 'string' ? body : JSON.stringify(body));
  }

  function honest(req: IncomingMessage, form: Record<string, string>): TokenAnswer {
    const { grant_type, client_id, client_secret, refresh_token } = form;
    const isForm = req.headers['content-type'] === 'application/x-www-form-urlencoded';
    if (req.method !== 'POST' || !isForm) return refusal(400, 'invalid_request');
    if (client_id !== CLIENT_ID || client_secret !== CLIENT_SECRET) return refusal(401, 'invalid_client');
    const wanted = endpoint.refreshToken === null ? 'client_credentials' : 'refresh_token';
    if (grant_type !== wanted) return refusal(400, 'unsupported_grant_type');
    if (refresh_token !== (endpoint.refreshToken ?? undefined)) return refusal(400, 'invalid_grant');
    endpoint.given.push(`access-${endpoint.given.length + 1}`);
    if (rotates) endpoint.refreshToken = `refresh-${endpoint.given.length}`;
    return {
      body: {
        token_type: 'Bearer',
        access_token: endpoint.given.at(-1),
        ...(endpoint.lifeS !== null && { expires_in: endpoint.lifeS }),
        ...(rotates && { refresh_token: endpoint.refreshToken }),
      },
    };
  }
  return endpoint;
}

/** An error answer of RFC 6749 §5.2. */
export function refusal(status: number, error: string, description?: string): TokenAnswer {
  return { status, body: { error, ...(description !== undefined && { error_description: description }) } };
}

function babble(res: ServerResponse): void {
  if (!res.destroyed) res.write('x'.repeat(10_000), () => setImmediate(babble, res));
}
