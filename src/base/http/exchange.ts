/**
 * One request and its answer: the parts of the request target, and the ways to answer.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { KIB } from '../limits.js';
import type { Connection } from './connection.js';
import type { Connections } from './connections.js';
import { type Problem, problemOf } from './problem.js';

/** A smaller answer does not count among those that clients have not read. */
const ANSWER_COUNTED_BYTES = 16 * KIB;
/** Bytes of garbage for each byte of a large answer: one for its objects, two for its JSON as a string of two-byte units. */
const TEXT_COPIES = 3;

/** One request and its answer. */
export class Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly connection: Connection;
  readonly connections: Connections;
  /** True for the first request of a connection that was made before the stop. */
  readonly isFirst: boolean;
  /** The path as the client sent it, without an authority. `*` for the target `*`, empty if there is no path. */
  readonly path: string;
  /** The text after the `?` of the request target. */
  readonly query: string;
  /** The request target's authority if it has one, else the Host header (RFC 9112 §3.2.2). */
  readonly host: string | undefined;
  /** What stands in the path for the names in braces of its route, decoded. */
  segments: readonly string[] = [];
  /** True if the caller may only send. The guard says it. */
  onlySends = false;
  /** The name of the caller, if its share of the queue is bounded. */
  caller: string | undefined;
  /** True once the announced body is read to its end. */
  bodyDone: boolean;
  /** True while the client waits for a 100 before it sends its body. */
  awaitsContinue = false;
  /** Bytes of the body that the request announces; 0 if it does not. */
  readonly declaredBytes: number;

  constructor(req: IncomingMessage, res: ServerResponse, connection: Connection, connections: Connections) {
    this.req = req;
    this.res = res;
    this.connection = connection;
    this.connections = connections;
    this.isFirst = connection.isNew;
    connection.isNew = false;
    const { headers } = req;
    this.declaredBytes = Number(headers['content-length'] ?? 0);
    this.bodyDone = headers['transfer-encoding'] === undefined && this.declaredBytes === 0;
    const { authority, path, query } = splitTarget(req.url ?? '');
    this.host = authority ?? headers.host;
    this.path = path;
    this.query = query;
  }

  /** The first of the segments: the `{id}` of most routes. */
  get id(): string {
    return this.segments[0] ?? '';
  }

  /** Counts bytes of the body that stay in memory until the answer is sent. Throws busy. */
  keep(bytes: number): void {
    this.connections.keep(this.connection, bytes);
  }

  /** See LongPolls.wait. A request whose body is unread does not wait. */
  async poll(ms: number, until: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    return this.bodyDone && (await this.connections.polls.wait(this.connection, ms, until));
  }

  /**
   * Answers with a text that `write` writes bit by bit, until it resolves. False: this request cannot wait (see
   * LongPolls.wait), and has no answer yet.
   */
  async stream(type: string, write: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    const { res, connection, connections } = this;
    if (!this.bodyDone || this.req.method === 'HEAD') return false;
    return await connections.streams.wait(connection, null, async (signal) => {
      // The last: nginx must not collect the bits.
      const head = { 'Content-Type': type, 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' };
      res.writeHead(200, { ...head, 'X-Content-Type-Options': 'nosniff' });
      // A client that resumes may have nothing to read for a while, and must know that it is connected.
      res.flushHeaders();
      await write(signal);
      res.end();
      connections.lingerAfterStream(connection);
    });
  }

  json(status: number, value: unknown, headers?: Readonly<Record<string, string>>): void {
    this.send(status, 'application/json', JSON.stringify(value), headers);
  }

  nothing(status: 204 | 304 = 204, headers?: Readonly<Record<string, string>>): void {
    this.res.writeHead(status, { ...headers, ...(this.#isLast() && { Connection: 'close' }) }).end();
    this.connections.sent(this.connection, 0);
  }

  /** Answers with a problem, and returns it for the log. */
  problem(thrown: unknown): Problem {
    const problem = problemOf(thrown);
    // An answer that has begun can only be broken off.
    if (this.res.headersSent) this.req.socket.destroy();
    else this.send(problem.status, 'application/problem+json', problem.body, problem.headers);
    return problem;
  }

  /**
   * Answers with a body. node:http leaves it out for HEAD. Throws busy if a large answer to a GET does not fit into
   * memory beside unread ones.
   */
  send(
    status: number,
    type: string,
    body: string | Buffer | readonly string[],
    headers?: Readonly<Record<string, string>>,
  ): void {
    const isOctets = Buffer.isBuffer(body);
    const pieces = typeof body === 'string' ? [body] : isOctets ? [] : body;
    const bytes = isOctets ? body.length : pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0);
    const isLarge = bytes > ANSWER_COUNTED_BYTES;
    // Refuse only a GET: a client that has changed something must learn the outcome.
    const isCounted = isLarge && this.req.method === 'GET';
    if (isCounted) this.connections.makeRoomForAnswer(bytes);
    const head: Record<string, string | number> = {
      'Content-Type': type,
      'Content-Length': bytes,
      'X-Content-Type-Options': 'nosniff',
      ...headers,
    };
    if (this.#isLast()) head.Connection = 'close';
    // A small answer is one string: head and body leave in one write. A large answer is written as bytes, because a
    // string would also stay in memory until the client has read it.
    const whole = isOctets ? body : isLarge ? octetsOf(pieces, bytes) : pieces.join('');
    this.res.writeHead(status, head).end(whole);
    if (isLarge) this.connections.drop(TEXT_COPIES * bytes);
    this.connections.sent(this.connection, isCounted ? bytes : 0);
  }

  /** True if this is the connection's last answer; prepares the connection to end. */
  #isLast(): boolean {
    // The connection ends after an unread body: its rest would have to be read before the next request.
    const { stopping, othersWait } = this.connections;
    if (this.bodyDone && !stopping && !othersWait) return false;
    this.connections.lingerAfterAnswer(this.connection, this.req);
    return true;
  }
}

/** The pieces as bytes, without a string of the whole. */
function octetsOf(pieces: readonly string[], bytes: number): Buffer {
  const octets = Buffer.allocUnsafeSlow(bytes);
  let at = 0;
  for (const piece of pieces) at += octets.write(piece, at);
  return octets;
}

/** The parts of a request target: `/path?query`, `http://authority/path?query` or `*`. */
function splitTarget(target: string): { authority?: string; path: string; query: string } {
  let rest = target;
  let authority: string | undefined;
  if (!target.startsWith('/') && target !== '*') {
    const absolute = /^https?:\/\/([^/?]*)\/?(.*)$/i.exec(target);
    if (absolute === null) return { path: '', query: '' };
    authority = absolute[1] ?? '';
    rest = `/${absolute[2]}`;
  }
  const mark = rest.indexOf('?');
  const parts =
    mark < 0 ? { path: rest, query: '' } : { path: rest.slice(0, mark), query: rest.slice(mark + 1) };
  return authority === undefined ? parts : { authority, ...parts };
}
