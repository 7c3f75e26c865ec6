/**
 * Requests to the cloud, the webhook, token endpoints and etcd. Each request gets one whole answer within a deadline and a
 * size limit, or a stream without them. Redirects are not followed. Connections are kept for the next heartbeat. A proxy is
 * asked for a tunnel.
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
import { type Duplex, Readable } from 'node:stream';
import { Octets } from '../collections.js';
import type { CloudProxy } from '../config/proxy.js';
import { isLoopback, placeOf, unbracket } from '../config/values.js';
import { assert, systemCodeOf } from '../errors.js';
import { HEADER_SECTION_BYTES_MAX, KIB, MINUTE_MS, SECOND_MS } from '../limits.js';
import { oneLine } from '../text.js';
import type { Clock, Timer } from './clock.js';
import type { Connect, ConnectRequest } from './connect.js';

/** A body that may be long: it is read as it is sent, and only when the server wants it (RFC 9110 §10.1.1). */
export interface LongBody {
  readonly size: number;
  readonly octets: Buffer | AsyncIterable<Buffer>;
  /** For the answer, from the last octet on. Each step before it, and each slice, has `timeoutMs`. */
  readonly answerMs: number;
}

/** One request. */
export interface HttpRequest {
  readonly method: 'GET' | 'PUT' | 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** In place of `body`. */
  readonly upload?: LongBody;
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
 * `STALE`, `SOURCE` (the octets of an upload cannot be read), or one of Node or OpenSSL. The error's `isReached` is true if the request may have arrived. Its `proxy` is `host:port` of
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
/** An idle connection to the cloud is kept for more than one heartbeat, and less than most NATs keep it. */
export const CLOUD_IDLE_MS = 45 * SECOND_MS;
/** A server that does not say whether it wants an upload gets it after this long. */
const CONTINUE_MS = SECOND_MS;
/** An upload goes in slices of this size: a link that passes one within a deadline is slow, not dead. */
const SLICE_BYTES = 16 * KIB;
const PROGRESS = 'progress of the upload';
const ANSWER_TO_UPLOAD = 'answer to the upload';
/** What is missing once the request may have arrived. */
const REACHED = ['answer', 'whole answer', PROGRESS, ANSWER_TO_UPLOAD];
/** After this silence the kernel probes the connection of a stream. */
const PROBE_MS = 10 * SECOND_MS;

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
    agent: racingTls(through === null ? connect : (request) => openTunnel(through, connect, request), tls),
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

/** Where the tunnel leads to, and what it reports. */
interface TunnelRequest extends ConnectRequest {
  /** Called when the proxy is connected and has got the CONNECT. */
  readonly asked: () => void;
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
  readonly #clock: Clock;
  readonly #upload: LongBody | undefined;
  readonly #timeoutMs: number;
  #deadline: Timer;
  /** Waits for the server's word that it wants the upload. */
  #patience: Timer | null = null;
  #source: Readable | null = null;
  /** Ends the attempts to connect. */
  readonly #connecting = new AbortController();
  /** What the request waits for, for the words of the deadline. */
  #missing: string;
  /** The proxy, until the way through it is open. */
  #proxy: string | undefined;
  #resolve: (answer: HttpAnswer) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;

  constructor(request: HttpRequest, url: URL, { through, agent }: Way, clock: Clock) {
    const { method, headers, body, upload, timeoutMs, signal } = request;
    this.#clock = clock;
    this.#upload = upload;
    this.#timeoutMs = timeoutMs;
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
      headers: {
        ...headers,
        ...(body !== null && { 'Content-Length': Buffer.byteLength(body) }),
        ...(upload !== undefined && { 'Content-Length': upload.size, Expect: '100-continue' }),
      },
      race: {
        signal: this.#connecting.signal,
        resolved: () => (this.#missing = 'connection'),
        asked: () => (this.#missing = 'answer to CONNECT'),
      },
    } as RequestOptions);
    this.#signal = signal;
    this.#deadline = this.#due(timeoutMs);
    this.#req.on('socket', (socket) => {
      this.#watch(socket);
      // Otherwise a connection that only receives would never notice that its path is dead.
      if (request.stream !== undefined) socket.setKeepAlive(true, PROBE_MS);
    });
    this.#req.on('error', (error) => this.#failed(error));
    this.#req.on('response', (res) => this.#receive(res, request));
    if (upload === undefined) this.#req.end(body ?? undefined);
    else this.#req.on('continue', () => this.#begin(upload)).flushHeaders();
    signal.addEventListener('abort', this.#giveUp);
    if (signal.aborted) this.#giveUp();
  }

  readonly #giveUp = () => this.#fail('ABORT_ERR', 'given up');

  #due(timeoutMs: number): Timer {
    return this.#clock.after(timeoutMs, () =>
      this.#fail('DEADLINE', `no ${this.#missing} within ${timeoutMs / SECOND_MS} s`),
    );
  }

  #watch(socket: Socket): void {
    this.#proxy = undefined;
    const isTls = 'encrypted' in socket;
    const isReady = this.#req.reusedSocket || !isTls;
    this.#missing = 'TLS handshake';
    if (isReady) this.#ready();
    else socket.once('secureConnect', () => this.#ready());
  }

  #ready(): void {
    const upload = this.#upload;
    this.#missing = 'answer';
    if (upload !== undefined) this.#patience = this.#clock.after(CONTINUE_MS, () => this.#begin(upload));
  }

  /** Sends the upload. From now on the request cannot be sent again. */
  #begin({ octets, answerMs }: LongBody): void {
    this.#patience?.stop();
    if (this.#missing !== 'answer') return;
    const progress = (missing: string, timeoutMs: number) => {
      this.#deadline.stop();
      this.#missing = missing;
      this.#deadline = this.#due(timeoutMs);
    };
    progress(PROGRESS, this.#timeoutMs);
    const moved = () => progress(PROGRESS, this.#timeoutMs);
    this.#source = Readable.from(slices(octets, moved), { objectMode: false, highWaterMark: SLICE_BYTES })
      .on('error', (error) => this.#fail('SOURCE', error.message))
      .on('end', () => progress(ANSWER_TO_UPLOAD, answerMs));
    this.#source.pipe(this.#req);
  }

  #receive(res: IncomingMessage, request: HttpRequest): void {
    const { answerBytesMax: bytesMax, ignoresBody = false, stream } = request;
    // The server may have enough of the upload.
    this.#stopUpload();
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
      if (!this.#req.writableEnded) this.#req.destroy();
      this.#resolve({ ...head, body: octets.take() });
    });
  }

  /** How far the request got, for the error that ends it. */
  get #progress() {
    return {
      isReached: REACHED.includes(this.#missing),
      ...(this.#proxy !== undefined && { proxy: this.#proxy }),
    };
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

  #stopUpload(): void {
    this.#patience?.stop();
    this.#source?.unpipe().destroy();
  }

  #end(): void {
    this.#stopUpload();
    this.#deadline.stop();
    this.#signal.removeEventListener('abort', this.#giveUp);
  }
}

/** The octets in slices. Calls `moved` when the next one is wanted. */
async function* slices(octets: LongBody['octets'], moved: () => void): AsyncGenerator<Buffer, void, void> {
  for await (const chunk of Buffer.isBuffer(octets) ? [octets] : octets)
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) {
      yield chunk.subarray(at, at + SLICE_BYTES);
      moved();
    }
}

/**
 * Opens a tunnel through an HTTP proxy (CONNECT, RFC 9110 §9.3.6), with Basic authentication (RFC 7617). Gives a socket on
 * which the next byte comes from `request.host`. Rejects with the error of the connection to the proxy,
 * or with the code `PROXY` and words that complete "the proxy …".
 */
async function openTunnel(
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
