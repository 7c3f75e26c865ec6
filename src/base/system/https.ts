/**
 * Requests to the cloud, the webhook, token endpoints and etcd. Each request gets one whole answer within a deadline and a
 * size limit, or a stream without them. Redirects are not followed. Connections are kept for the next heartbeat.
 */
import {
  type ClientRequest,
  type ClientRequestArgs,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http';
import {
  Agent as HttpsAgent,
  type AgentOptions as HttpsAgentOptions,
  request as httpsRequest,
} from 'node:https';
import { isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type CloudProxy, placeOf } from '../config/proxy.js';
import { isLoopback, unbracket } from '../config/values.js';
import { assert, systemCodeOf } from '../errors.js';
import { CLOUD_IDLE_MS, ETCD_PROBE_MS, MINUTE_MS, SECOND_MS } from '../limits.js';
import { Octets } from '../octets.js';
import type { Clock, Timer } from './clock.js';
import type { Connect } from './connect.js';
import type { TunnelRequest } from './tunnel.js';

/** One request. */
export interface HttpRequest {
  readonly method: 'GET' | 'PUT' | 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** From the look-up of the name to the last byte of the answer. */
  readonly timeoutMs: number;
  readonly answerBytesMax: number;
  /** True: the answer is given when its head is there, with an empty body. What follows is dropped. */
  readonly ignoresBody?: boolean;
  /**
   * The body is handed over as it comes, however long, and the answer is given at its end, with an empty body. The
   * deadline and the size limit do not count for it.
   */
  readonly stream?: (chunk: Buffer) => void;
  /** True: it is never sent again. If a kept connection turns out to be closed, it rejects with `STALE`. */
  readonly isOnce?: boolean;
  readonly signal: AbortSignal;
}

/** One whole answer, whatever its status. */
export interface HttpAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

/**
 * Makes one request. Rejects with an error whose `code` is `DEADLINE`, `TOO_LARGE`, `CUT_SHORT`, `ABORT_ERR`, `PROXY`,
 * `STALE`, or one of Node or OpenSSL. The error's `isReached` is true if the request may have arrived. Its `proxy` is `host:port` of
 * the proxy if the way to the server was not open yet.
 */
export type SendRequest = (request: HttpRequest) => Promise<HttpAnswer>;

/** Requests that share their connections. */
export interface Https {
  readonly send: SendRequest;
  /** Closes all connections. */
  close(): void;
}

/** The authorities to trust and the client certificate, in PEM. Null: the system's authorities, no certificate. */
export interface HttpsOptions {
  readonly ca: string | null;
  readonly clientCertificate: { readonly cert: string; readonly key: string } | null;
  /** The proxy for `https:`, the same object until it changes; null, or left out: none. */
  readonly proxy?: () => CloudProxy | null;
  readonly clock: Clock;
  readonly connect: Connect;
}

const STALE = 'STALE';

/** Connects with the first request. `http:` goes to loopback only, and never through a proxy. */
export function openHttps(options: HttpsOptions): Https {
  const { ca, clientCertificate, clock, connect, proxy = () => null } = options;
  const kept = {
    keepAlive: true,
    // Longer than an idle connection lives: probes would cost on a metered link.
    keepAliveMsecs: MINUTE_MS,
    timeout: CLOUD_IDLE_MS,
  };
  const plain = racing(new HttpAgent(kept), connect, (socket) => socket.setTimeout(CLOUD_IDLE_MS));
  const tls = { ...kept, ...(ca !== null && { ca }), ...clientCertificate };
  const openSecure = (through: CloudProxy | null) => ({
    through,
    agent: racingTls(through === null ? connect : tunnelling(through, connect), tls),
  });
  let secure = openSecure(proxy());
  const wayTo = (url: URL) => {
    if (url.protocol !== 'https:') return { through: null, agent: plain };
    const present = proxy();
    if (present !== secure.through) {
      // A reload: the connections that are in use end after their requests.
      secure.agent.maxFreeSockets = 0;
      dropIdle(secure.agent);
      secure = openSecure(present);
    }
    return secure;
  };
  return {
    async send(request) {
      const url = new URL(request.url);
      const isLocal = url.protocol === 'http:' && isLoopback(unbracket(url.hostname));
      assert(isLocal || url.protocol === 'https:', 'only to loopback');
      const way = wayTo(url);
      try {
        return await new Attempt(request, url, way, clock).answer;
      } catch (error) {
        // Close the other idle connections too: they are as old, and use the same path.
        dropIdle(way.agent);
        if (systemCodeOf(error) !== STALE || request.isOnce === true) throw error;
        return await new Attempt(request, url, way, clock).answer;
      }
    },
    close() {
      for (const agent of [plain, secure.agent]) agent.destroy();
    },
  };
}

function dropIdle(agent: HttpAgent): void {
  for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
}

/** Connections through a proxy. Without one its code is not loaded. */
function tunnelling(proxy: CloudProxy, connect: Connect): ConnectTunnel {
  return async (request) => (await import('./tunnel.js')).openTunnel(proxy, connect, request);
}

/** A Connect, or one that leads through a proxy. */
type ConnectTunnel = (request: TunnelRequest) => ReturnType<Connect>;

/** How requests leave: the connections, and the proxy that they lead through. */
interface Way {
  readonly through: CloudProxy | null;
  readonly agent: HttpAgent | HttpsAgent;
}

/** The options that an agent hands to createConnection. */
type SocketOptions = ClientRequestArgs & { readonly race?: Omit<TunnelRequest, 'host' | 'port'> };

type Created = (error: Error | null, socket: Duplex) => void;

/** Lets the agent use sockets of `connect`, which `secure` makes ready for requests. */
function racing<Kind extends HttpAgent>(
  agent: Kind,
  connect: ConnectTunnel,
  secure: (socket: Socket, options: SocketOptions) => Duplex,
): Kind {
  agent.createConnection = (options: SocketOptions, created?: Created) => {
    const { host, port, race } = options;
    assert(typeof host === 'string' && race !== undefined && created !== undefined, 'a request of ours');
    connect({ host: unbracket(host), port: Number(port), ...race })
      .then((socket) => secure(socket, options))
      // The agent looks at the socket only if there is no error.
      .then(
        (socket) => created(null, socket),
        (error) => created(error, null as unknown as Duplex),
      );
    return null;
  };
  return agent;
}

/** TLS goes over the connected socket. The certificate is checked for the name, which stays in the options. */
function racingTls(connect: ConnectTunnel, options: HttpsAgentOptions): HttpsAgent {
  const agent = new HttpsAgent(options);
  const handshake = agent.createConnection.bind(agent);
  return racing(agent, connect, (socket, request) => {
    const secured = handshake({ ...request, socket } as RequestOptions);
    assert(secured != null, 'Node makes the TLS socket at once');
    return secured;
  });
}

/** One request on its way. */
class Attempt {
  readonly answer: Promise<HttpAnswer>;
  readonly #req: ClientRequest;
  readonly #signal: AbortSignal;
  readonly #deadline: Timer;
  /** Ends the attempts to connect. */
  readonly #connecting = new AbortController();
  /** What the request waits for, for the words of the deadline. */
  #missing: string;
  /** The proxy, until the way through it is open. */
  #proxy: string | undefined;
  #resolve: (answer: HttpAnswer) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;

  constructor(request: HttpRequest, url: URL, { through, agent }: Way, clock: Clock) {
    const { method, headers, body, timeoutMs, signal } = request;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const start = agent instanceof HttpsAgent ? httpsRequest : httpRequest;
    this.#missing = isIP(through?.host ?? unbracket(url.hostname)) ? 'connection' : 'answer from DNS';
    if (through !== null) this.#proxy = placeOf(through);
    this.#req = start(url, {
      method,
      agent,
      headers: { ...headers, ...(body !== null && { 'Content-Length': Buffer.byteLength(body) }) },
      race: {
        signal: this.#connecting.signal,
        resolved: () => (this.#missing = 'connection'),
        asked: () => (this.#missing = 'answer to CONNECT'),
      },
    } as RequestOptions);
    this.#signal = signal;
    this.#deadline = clock.after(timeoutMs, () =>
      this.#fail('DEADLINE', `no ${this.#missing} within ${timeoutMs / SECOND_MS} s`),
    );
    this.#req.on('socket', (socket) => {
      this.#watch(socket);
      // Otherwise a connection that only receives would never notice that its path is dead.
      if (request.stream !== undefined) socket.setKeepAlive(true, ETCD_PROBE_MS);
    });
    this.#req.on('error', (error) => this.#failed(error));
    this.#req.on('response', (res) => this.#receive(res, request));
    this.#req.end(body ?? undefined);
    signal.addEventListener('abort', this.#giveUp);
    if (signal.aborted) this.#giveUp();
  }

  readonly #giveUp = () => this.#fail('ABORT_ERR', 'given up');

  #watch(socket: Socket): void {
    this.#proxy = undefined;
    const isTls = 'encrypted' in socket;
    const isReady = this.#req.reusedSocket || !isTls;
    this.#missing = isReady ? 'answer' : 'TLS handshake';
    if (!isReady) socket.once('secureConnect', () => (this.#missing = 'answer'));
  }

  #receive(res: IncomingMessage, request: HttpRequest): void {
    const { answerBytesMax: bytesMax, ignoresBody = false, stream } = request;
    this.#missing = 'whole answer';
    const head = { status: res.statusCode ?? 0, headers: res.headers };
    const octets = new Octets();
    // The body is read all the same: at its end the connection is free for the next request.
    if (ignoresBody) this.#resolve({ ...head, body: Buffer.alloc(0) });
    if (stream !== undefined) this.#deadline.stop();
    res.on('data', (chunk: Buffer) => {
      if (stream !== undefined) return stream(chunk);
      if (octets.length + chunk.length <= bytesMax) octets.push(chunk);
      else this.#fail('TOO_LARGE', `its answer is larger than ${bytesMax} bytes`);
    });
    res.on('error', () => this.#fail('CUT_SHORT', 'its answer was cut short'));
    res.on('end', () => {
      this.#end();
      this.#resolve({ ...head, body: octets.take() });
    });
  }

  /** How far the request got, for the error that ends it. */
  get #progress() {
    const isReached = this.#missing === 'answer' || this.#missing === 'whole answer';
    return { isReached, ...(this.#proxy !== undefined && { proxy: this.#proxy }) };
  }

  #failed(error: Error): void {
    // The cloud had closed the idle connection, so neither the cloud nor the request has failed.
    const isStale = this.#req.reusedSocket && /^(?:ECONNRESET|EPIPE)$/.test(systemCodeOf(error));
    if (isStale && this.#missing === 'answer') this.#fail(STALE, 'the connection had been closed');
    else {
      this.#end();
      this.#reject(Object.assign(error, this.#progress));
    }
  }

  #fail(code: string, words: string): void {
    this.#end();
    this.#reject(Object.assign(new Error(words), { code, ...this.#progress }));
    this.#connecting.abort();
    this.#req.destroy();
  }

  #end(): void {
    this.#deadline.stop();
    this.#signal.removeEventListener('abort', this.#giveUp);
  }
}
