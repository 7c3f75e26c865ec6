/**
 * HTTP requests over a few keep-alive connections, as a load balancer makes them for many devices. Raw sockets: the load
 * generator shares a machine with the servers that it measures.
 */
import { connect, type Socket } from 'node:net';
import {
  CLOUD_IDLE_MS,
  type HttpAnswer,
  type HttpRequest,
  type SendRequest,
} from '../../src/base/system/https.js';

export interface PoolOptions {
  /** The most connections to one server. The others wait. */
  readonly connections: number;
}

/** One request, and what becomes of it. */
interface Job {
  readonly request: HttpRequest;
  readonly text: string;
  readonly done: (error: Error | null, answer?: HttpAnswer) => void;
  /** The connection that it is on; null: it waits for one. */
  lane: Lane | null;
  /** A kept connection had been closed meanwhile: one more try is on a new one. */
  isSecond: boolean;
}

/** Requests to any number of servers. */
export class ConnectionPool {
  readonly #options: PoolOptions;
  readonly #servers = new Map<string, Server>();

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** Rejects with an error that has a `code`: ABORT_ERR, DEADLINE, CUT_SHORT or one of Node. Bodies have a Content-Length. */
  readonly send: SendRequest = (request) =>
    new Promise((resolve, reject) => {
      const { origin, host, pathname } = new URL(request.url);
      const server = this.#server(origin);
      const job: Job = {
        request,
        text: textOf(request, host, pathname),
        lane: null,
        isSecond: false,
        done(error, answer) {
          clearTimeout(deadline);
          request.signal.removeEventListener('abort', giveUp);
          if (error === null) resolve(answer as HttpAnswer);
          else reject(error);
        },
      };
      const giveUp = () => server.drop(job, failure('ABORT_ERR', 'given up'));
      const deadline = setTimeout(
        () => server.drop(job, failure('DEADLINE', 'no answer in time')),
        request.timeoutMs,
      );
      request.signal.addEventListener('abort', giveUp);
      if (request.signal.aborted) giveUp();
      else server.take(job);
    });

  #server(origin: string): Server {
    const known = this.#servers.get(origin);
    if (known !== undefined) return known;
    const server = new Server(new URL(origin), this.#options);
    this.#servers.set(origin, server);
    return server;
  }

  /** Ends all connections. */
  close(): void {
    for (const server of this.#servers.values()) server.close();
  }
}

function failure(code: string, words: string): Error {
  return Object.assign(new Error(words), { code });
}

function textOf({ method, headers, body }: HttpRequest, host: string, path: string): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const length = body === null ? '' : `Content-Length: ${Buffer.byteLength(body)}\r\n`;
  return `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n${lines.join('')}${length}\r\n${body ?? ''}`;
}

/** The connections to one server, and the requests that wait for one. */
class Server {
  readonly #url: URL;
  readonly #options: PoolOptions;
  readonly #lanes = new Set<Lane>();
  readonly #idle: Lane[] = [];
  readonly #waiting = new Set<Job>();

  constructor(url: URL, options: PoolOptions) {
    this.#url = url;
    this.#options = options;
  }

  take(job: Job): void {
    const lane = this.#idle.pop();
    if (lane !== undefined) lane.begin(job);
    else if (this.#lanes.size < this.#options.connections) this.#open().begin(job);
    else this.#waiting.add(job);
  }

  /** Gives up a request. Its connection is of no use for others. */
  drop(job: Job, error: Error): void {
    this.#waiting.delete(job);
    if (job.lane === null) job.done(error);
    else job.lane.fail(error);
  }

  close(): void {
    for (const lane of this.#lanes) lane.socket.destroy();
  }

  #open(): Lane {
    const lane = new Lane(connect(Number(this.#url.port || 80), this.#url.hostname.replace(/^\[|\]$/g, '')), {
      free: () => {
        const [next] = this.#waiting;
        if (next === undefined) this.#idle.push(lane);
        else {
          this.#waiting.delete(next);
          lane.begin(next);
        }
      },
      gone: (stale) => {
        this.#lanes.delete(lane);
        const at = this.#idle.indexOf(lane);
        if (at >= 0) this.#idle.splice(at, 1);
        const [next] = stale === null ? this.#waiting : [stale];
        if (next === undefined) return;
        this.#waiting.delete(next);
        this.#open().begin(next);
      },
    });
    this.#lanes.add(lane);
    return lane;
  }
}

interface LaneListeners {
  /** It can take another request. */
  readonly free: () => void;
  /** It is closed. `stale`: the request to try again, because the server had closed the kept connection. */
  readonly gone: (stale: Job | null) => void;
}

/** One connection; one request at a time. */
class Lane {
  readonly socket: Socket;
  readonly #listeners: LaneListeners;
  #job: Job | null = null;
  #isReused = false;
  #read: Buffer | null = null;
  #error: Error | null = null;

  constructor(socket: Socket, listeners: LaneListeners) {
    this.socket = socket;
    this.#listeners = listeners;
    socket.setNoDelay(true);
    socket.setTimeout(CLOUD_IDLE_MS, () => socket.destroy());
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('error', (error) => (this.#error ??= error));
    socket.on('end', () => socket.destroy());
    socket.on('close', () => this.#closed());
  }

  begin(job: Job): void {
    job.lane = this;
    this.#job = job;
    this.socket.write(job.text, 'utf8');
  }

  /** Ends the request and the connection. */
  fail(error: Error): void {
    const job = this.#job;
    this.#job = null;
    this.socket.destroy();
    job?.done(error);
  }

  #receive(chunk: Buffer): void {
    const read = this.#read === null ? chunk : Buffer.concat([this.#read, chunk]);
    this.#read = read;
    const job = this.#job;
    const found = answerIn(read);
    // What comes without a request belongs to none.
    if (job === null) this.socket.destroy();
    if (job === null || found === null) return;
    if ('transfer-encoding' in found.headers) {
      this.fail(failure('CHUNKED', 'an answer without a length'));
      return;
    }
    this.#job = null;
    this.#read = null;
    this.#isReused = true;
    job.done(null, found);
    // A server names the connection if it closes it. It is closed here first, so that nobody writes to it.
    if (found.headers.connection?.toLowerCase() === 'close') this.socket.destroy();
    else this.#listeners.free();
  }

  #closed(): void {
    const job = this.#job;
    this.#job = null;
    const isStale = this.#isReused && this.#read === null && job !== null && !job.isSecond;
    if (isStale) job.isSecond = true;
    else if (job !== null) job.done(this.#error ?? failure('CUT_SHORT', 'the connection was closed'));
    this.#listeners.gone(isStale ? job : null);
  }
}

/** The whole answer at the start of these bytes; null while there is more to come. */
function answerIn(read: Buffer): HttpAnswer | null {
  const end = read.indexOf('\r\n\r\n');
  if (end < 0) return null;
  const [first = '', ...lines] = read.toString('latin1', 0, end).split('\r\n');
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  const bodyEnd = end + 4 + Number(headers['content-length'] ?? 0);
  if (read.length < bodyEnd) return null;
  return { status: Number(first.slice(9, 12)), headers, body: read.subarray(end + 4, bodyEnd) };
}
