/**
 * One request and its answer: the request target taken apart, and the few ways to answer. Made by server.ts
 * for the handlers.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { FieldpostError } from '../errors.js';
import { ANSWER_COUNTED_BYTES } from '../limits.js';
import type { Connection } from './connection.js';
import type { Connections } from './connections.js';
import { type Problem, problemOf } from './problem.js';

/** What is left of a large answer's texts: the views, and their JSON at up to two octets a character. */
const TEXT_COPIES = 3;

/** What a handler is given: the request, and the ways to answer it. */
export class Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly connection: Connection;
  readonly connections: Connections;
  /** The first of its connection. */
  readonly isFirst: boolean;
  /** The path as it was sent, empty if the request target is none; and the text after its `?`. */
  readonly path: string;
  readonly query: string;
  /** What names this host: the request target's authority if it has one, else the Host header (RFC 9112 §3.2.2). */
  readonly host: string | undefined;
  /** The `{id}` of the path, decoded. */
  id = '';
  /** False while a body was announced that nobody has read to its end. */
  bodyDone: boolean;
  /** True while the client waits for a 100 before it sends its body. */
  awaitsContinue = false;
  /** Octets of the body as the request announces them; 0 where it does not. */
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

  /** So much more of the body stays in memory until the answer is out. Throws busy when that is too much. */
  keep(bytes: number): void {
    this.connections.keep(this.connection, bytes);
  }

  /** Answers with JSON. */
  json(status: number, value: unknown, headers?: Readonly<Record<string, string>>): void {
    this.send(status, 'application/json', JSON.stringify(value), headers);
  }

  /** Answers 204, or another status that goes without a body. */
  nothing(status: 204 | 304 = 204, headers?: Readonly<Record<string, string>>): void {
    this.res.writeHead(status, { ...headers, ...(this.#isLast() && { Connection: 'close' }) }).end();
    this.connections.sent(this.connection, 0);
  }

  /** Answers with a problem; gives it back for the log. */
  problem(thrown: unknown): Problem {
    const problem = problemOf(thrown);
    // Once an answer has begun there is no way to take it back but to break off.
    if (this.res.headersSent) this.req.socket.destroy();
    else this.send(problem.status, 'application/problem+json', problem.body, problem.headers);
    return problem;
  }

  /** Answers with a body, which may come in pieces; for HEAD with its headers only. Throws busy where too many answers wait to be read. */
  send(
    status: number,
    type: string,
    body: string | readonly string[],
    headers?: Readonly<Record<string, string>>,
  ): void {
    const pieces = typeof body === 'string' ? [body] : body;
    const bytes = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0);
    const isLarge = bytes > ANSWER_COUNTED_BYTES;
    // Only of what has changed nothing: who has posted must hear what became of it.
    const isCounted = isLarge && this.req.method === 'GET';
    if (isCounted) this.connections.makeRoomForAnswer(bytes);
    const head: Record<string, string | number> = {
      'Content-Type': type,
      'Content-Length': bytes,
      'X-Content-Type-Options': 'nosniff',
      ...headers,
    };
    if (this.#isLast()) head.Connection = 'close';
    // One string, so that head and body leave in one write. Of a large one only the octets are to wait for the client: as
    // text it would be kept as well, at up to two octets a character.
    this.res.writeHead(status, head).end(isLarge ? octetsOf(pieces, bytes) : pieces.join(''));
    if (isLarge) this.connections.drop(TEXT_COPIES * bytes);
    this.connections.sent(this.connection, isCounted ? bytes : 0);
  }

  /** True if the connection ends with this answer; it then is prepared for that. */
  #isLast(): boolean {
    // What is left of a body would have to be read before the next request could be: not for one we refuse.
    const { stopping, othersWait } = this.connections;
    if (this.bodyDone && !stopping && !othersWait) return false;
    this.connections.lingerAfterAnswer(this.connection, this.req);
    return true;
  }
}

/** Put together without a text of the whole, which would be in memory several times. */
function octetsOf(pieces: readonly string[], bytes: number): Buffer {
  const octets = Buffer.allocUnsafeSlow(bytes);
  let at = 0;
  for (const piece of pieces) at += octets.write(piece, at);
  return octets;
}

/** Takes a request target apart: `/path?query`, or with `http://authority` in front, or `*`. */
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

/** Throws malformed-request unless every `%` of a path or query begins the code of a character in UTF-8. */
export function checkPercent(encoded: string): void {
  try {
    decodeURIComponent(encoded);
  } catch {
    throw new FieldpostError(
      'malformed-request',
      'A % in the address does not begin the code of a character',
    );
  }
}
