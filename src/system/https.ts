/**
 * Requests to the cloud: the only place that speaks HTTP outwards. One request, one whole answer within its
 * deadline and its size; no redirect is followed. Connections are kept for the next heartbeat. Loaded only where a
 * cloud is configured.
 */
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { isIP, type Socket } from 'node:net';
import { isLoopback, unbracket } from '../config/values.js';
import { assert, systemCodeOf } from '../errors.js';
import { CLOUD_IDLE_MS, MINUTE_MS, SECOND_MS } from '../limits.js';
import type { Clock, Timer } from './clock.js';

/** One request. */
export interface HttpRequest {
  readonly method: 'GET' | 'PUT' | 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** For all of it, from the look-up of the name to the last byte of the answer. */
  readonly timeoutMs: number;
  readonly answerBytesMax: number;
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
 * Makes one request. Rejects with an error whose `code` is `DEADLINE`, `TOO_LARGE`, `CUT_SHORT`, `ABORT_ERR`, or
 * what Node or OpenSSL say.
 */
export type SendRequest = (request: HttpRequest) => Promise<HttpAnswer>;

/** Requests that share their connections. */
export interface Https {
  readonly send: SendRequest;
  /** Lets go of all connections. */
  close(): void;
}

/** Whom to trust, and what to prove ourselves with. PEM; null: the system's authorities, no certificate. */
export interface HttpsOptions {
  readonly ca: string | null;
  readonly clientCertificate: { readonly cert: string; readonly key: string } | null;
  readonly clock: Clock;
}

// Where a name has several addresses, the next is tried after this. Node's own 250 ms are less than the round trip
// of a satellite.
const ADDRESS_ATTEMPT_MS = 5 * SECOND_MS;

const STALE = 'STALE';

/** Makes ready for requests; nothing is connected before the first. `http:` goes to loopback only. */
export function openHttps({ ca, clientCertificate, clock }: HttpsOptions): Https {
  const kept = {
    keepAlive: true,
    // No probes on a metered link: an idle connection does not live for so long.
    keepAliveMsecs: MINUTE_MS,
    timeout: CLOUD_IDLE_MS,
  };
  const agents = {
    'https:': new HttpsAgent({ ...kept, ...(ca !== null && { ca }), ...clientCertificate }),
    'http:': new HttpAgent(kept),
  };
  return {
    async send(request) {
      const url = new URL(request.url);
      const isTls = url.protocol === 'https:';
      assert(isTls || (url.protocol === 'http:' && isLoopback(unbracket(url.hostname))), 'only to loopback');
      const agent = isTls ? agents['https:'] : agents['http:'];
      try {
        return await new Attempt(request, url, agent, clock).answer;
      } catch (error) {
        // What else is idle is as old, or its path is as dead.
        for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
        if (systemCodeOf(error) !== STALE) throw error;
        return await new Attempt(request, url, agent, clock).answer;
      }
    },
    close() {
      for (const agent of Object.values(agents)) agent.destroy();
    },
  };
}

/** One request on its way. */
class Attempt {
  readonly answer: Promise<HttpAnswer>;
  readonly #req: ClientRequest;
  readonly #signal: AbortSignal;
  readonly #deadline: Timer;
  /** What the deadline finds missing. */
  #missing: string;
  #resolve: (answer: HttpAnswer) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;

  constructor(request: HttpRequest, url: URL, agent: HttpAgent | HttpsAgent, clock: Clock) {
    const { method, headers, body, timeoutMs, signal } = request;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const start = agent instanceof HttpsAgent ? httpsRequest : httpRequest;
    this.#missing = isIP(unbracket(url.hostname)) ? 'connection' : 'answer from DNS';
    this.#req = start(url, {
      method,
      agent,
      headers: { ...headers, ...(body !== null && { 'Content-Length': Buffer.byteLength(body) }) },
      autoSelectFamilyAttemptTimeout: ADDRESS_ATTEMPT_MS,
    } as RequestOptions);
    this.#signal = signal;
    this.#deadline = clock.after(timeoutMs, () =>
      this.#fail('DEADLINE', `no ${this.#missing} within ${timeoutMs / SECOND_MS} s`),
    );
    this.#req.on('socket', (socket) => this.#watch(socket));
    this.#req.on('error', (error) => this.#failed(error));
    this.#req.on('response', (res) => this.#receive(res, request.answerBytesMax));
    this.#req.end(body ?? undefined);
    signal.addEventListener('abort', this.#giveUp);
    if (signal.aborted) this.#giveUp();
  }

  readonly #giveUp = () => this.#fail('ABORT_ERR', 'given up');

  #watch(socket: Socket): void {
    const isTls = 'encrypted' in socket;
    if (!socket.connecting) this.#missing = 'answer';
    else {
      const later = (event: string, missing: string) => socket.once(event, () => (this.#missing = missing));
      later('lookup', 'connection');
      later('connect', isTls ? 'TLS handshake' : 'answer');
      later('secureConnect', 'answer');
    }
  }

  #receive(res: IncomingMessage, bytesMax: number): void {
    this.#missing = 'whole answer';
    const chunks: Buffer[] = [];
    let bytes = 0;
    res.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > bytesMax) this.#fail('TOO_LARGE', `its answer is larger than ${bytesMax} bytes`);
      else chunks.push(chunk);
    });
    res.on('error', () => this.#fail('CUT_SHORT', 'its answer was cut short'));
    res.on('end', () => {
      this.#end();
      this.#resolve({ status: res.statusCode ?? 0, headers: res.headers, body: Buffer.concat(chunks) });
    });
  }

  #failed(error: Error): void {
    // The cloud had closed the connection while it was idle: that says nothing of the cloud, or of the request.
    const isStale = this.#req.reusedSocket && /^(?:ECONNRESET|EPIPE)$/.test(systemCodeOf(error));
    if (isStale && this.#missing === 'answer') this.#fail(STALE, 'the connection had been closed');
    else {
      this.#end();
      this.#reject(error);
    }
  }

  #fail(code: string, words: string): void {
    this.#end();
    this.#reject(Object.assign(new Error(words), { code }));
    this.#req.destroy();
  }

  #end(): void {
    this.#deadline.stop();
    this.#signal.removeEventListener('abort', this.#giveUp);
  }
}
