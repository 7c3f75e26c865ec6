/**
 * An HTTP service: one node:http server per listener, all with the same limits, the same connections and the same
 * table of routes.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { busyOf, FieldpostError, systemCodeOf } from '../errors.js';
import { HEADER_SECTION_BYTES_MAX, HEADERS_TIMEOUT_MS, REQUEST_TIMEOUT_MS, SECOND_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';
import type { Log, LogFields } from '../system/log.js';
import { cut } from '../text.js';
import { WrongSecrets } from './access.js';
import { cutShort, IncomingRequest } from './body.js';
import { type Door, discard } from './connection.js';
import { Connections, httpMemory, type MemoryListeners, placesIn, stoppingNow } from './connections.js';
import { Exchange } from './exchange.js';
import { type AnsweredCode, isAnswered, rawProblem } from './problem.js';
import { checkPercent } from './query.js';

/** Pipelined requests of one connection; one more ends it. */
const PIPELINED_MAX = 16;
/** A connection without a request is kept for this long. */
export const KEEP_ALIVE_MS = 60 * SECOND_MS;
/** Requests that the daemon discards on a closing connection before it destroys the socket. */
const IGNORED_MAX = 64;
/** Node's code for a request that did not come whole in time. */
const TIMED_OUT = 'ERR_HTTP_REQUEST_TIMEOUT';

/** A path may be as long as the headers. */
const PATH_CHARS_LOGGED = 100;

/** How long a client may take. */
export interface Patience {
  readonly headersMs: number;
  readonly requestMs: number;
  /** Interval between checks of both. */
  readonly checkMs: number;
}

const PATIENCE: Patience = {
  headersMs: HEADERS_TIMEOUT_MS,
  requestMs: REQUEST_TIMEOUT_MS,
  checkMs: 2 * SECOND_MS,
};

/** The methods that routes have; HEAD goes with GET. */
type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** One row of a table of routes. */
export interface Routed {
  readonly method: Method;
  /** A name in braces stands for one segment. */
  readonly path: string;
}

/** An HTTP service. */
export interface Http {
  /** A server that does not listen yet; `path` is that of its unix socket. */
  makeServer(kind: Door, path?: string): Server;
  /**
   * Answers new requests with `stopping`, ends idle connections, and resolves when the requests under way are
   * answered, or cut off after `withinMs`. Close the listeners first.
   */
  stop(withinMs: number): Promise<void>;
}

/** What a service is made of. */
interface HttpParts<Route extends Routed> extends MemoryListeners {
  readonly routes: readonly Route[];
  /** Throws if the caller may not call; `route` is undefined if the path has none. */
  readonly guard: (exchange: Exchange, route: Route | undefined) => void;
  readonly handle: (route: Route, exchange: Exchange) => void | Promise<void>;
  /** Called with every request that is answered with a problem. */
  readonly refused?: (exchange: Exchange, code: AnsweredCode) => void;
  readonly clock: Clock;
  readonly log: Log;
  /** Logs wrong secrets; left out, they are tokens. */
  readonly logWrong?: ((fields: LogFields) => void) | undefined;
  /** Memory of the process; left out, there is no limit. */
  readonly memoryBytes?: number | undefined;
  /** How many files the process may open for its clients; left out, there is no limit. */
  readonly descriptors?: number | undefined;
  /** Tests shorten it. */
  readonly patience?: Patience | undefined;
}

/** A service with these routes. It does not listen yet. */
export function createHttp<Route extends Routed>(parts: HttpParts<Route>): Http {
  const memory = httpMemory(parts.memoryBytes ?? Number.POSITIVE_INFINITY, parts);
  const connections = new Connections(parts.clock, memory, placesIn(parts.descriptors));
  const wrongSecrets = new WrongSecrets(parts);
  const dispatch = createDispatch(parts, wrongSecrets);
  return {
    makeServer(kind, path = '') {
      const server = makeServer(connections, dispatch, parts.patience ?? PATIENCE);
      return server.on('connection', (socket) => connections.add(socket, kind, path));
    },
    async stop(withinMs) {
      await connections.stop(withinMs);
      wrongSecrets.end();
    },
  };
}

/** A function that hands a request to its route, or answers with a problem. It never rejects. */
function createDispatch<Route extends Routed>(
  parts: HttpParts<Route>,
  wrongSecrets: WrongSecrets,
): (exchange: Exchange) => Promise<void> {
  const { routes, guard, handle, log } = parts;
  const find = createRouter(routes);

  /** Calls the guard before it reports a broken path: a caller without access learns nothing about paths. */
  function findOrGuard(exchange: Exchange, path: string): ReturnType<typeof find> {
    try {
      return find(path);
    } catch (error) {
      guard(exchange, undefined);
      throw error;
    }
  }

  function refuse(exchange: Exchange, thrown: unknown): void {
    const error = busyOf(thrown) ?? thrown;
    const { status, code } = exchange.problem(error);
    parts.refused?.(exchange, code);
    // Without one a person may have opened a page.
    const { authorization } = exchange.req.headers;
    const peer = exchange.req.socket.remoteAddress;
    if (code === 'unauthorized' && authorization !== undefined)
      wrongSecrets.note({ peer, path: cut(exchange.path, PATH_CHARS_LOGGED) });
    const { method } = exchange.req;
    const fields = { method, path: exchange.path, status };
    if (isAnswered(error)) log.debug('request refused', { ...fields, code });
    // A bug: only the log gets its words and its stack.
    else log.error('request failed', { ...fields, error: (error as Error)?.stack ?? String(error) });
  }

  return async (exchange) => {
    try {
      const { req, path } = exchange;
      if (path === '') throw new FieldpostError('malformed-request', 'The request target must be a path');
      const found = findOrGuard(exchange, path);
      // node:http leaves out the body of HEAD.
      const route = found?.methods.get(req.method === 'HEAD' ? 'GET' : (req.method ?? ''));
      exchange.segments = found?.segments ?? [];
      guard(exchange, route);
      if (exchange.connections.stopping && !exchange.isFirst) throw stoppingNow();
      if (found === null)
        throw new FieldpostError('not-found', `There is nothing at ${JSON.stringify(path)}`);
      if (route === undefined) throw notAllowed(exchange, [...found.methods.keys()]);
      await handle(route, exchange);
    } catch (error) {
      refuse(exchange, error);
    }
  };
}

/** The error for a method that the path does not have. Sets the header Allow (RFC 9110 §15.5.6). */
function notAllowed({ req, res }: Exchange, methods: readonly string[]): FieldpostError {
  const allowed = methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : method)).join(', ');
  res.setHeader('Allow', allowed);
  return new FieldpostError('method-not-allowed', `${req.method} is not possible here, only ${allowed}`);
}

/** The routes of one path, and what stands in it for the names in braces. */
interface RoutedPath<Route extends Routed> {
  readonly methods: ReadonlyMap<string, Route>;
  readonly segments: readonly string[];
}

/** A function from a path, as the client sent it, to its routes; null if there are none. It throws malformed-request. */
function createRouter<Route extends Routed>(
  routes: readonly Route[],
): (path: string) => RoutedPath<Route> | null {
  const fixed = new Map<string, Map<string, Route>>();
  const patterns = new Map<string, { regex: RegExp; methods: Map<string, Route> }>();
  for (const route of routes) {
    const methods = fixed.get(route.path) ?? patterns.get(route.path)?.methods ?? new Map<string, Route>();
    methods.set(route.method, route);
    if (!route.path.includes('{')) fixed.set(route.path, methods);
    else {
      const regex = new RegExp(`^${route.path.replaceAll(/\{\w+\}/g, '([^/]+)')}$`);
      patterns.set(route.path, { regex, methods });
    }
  }
  return (sentPath) => {
    const path = sentPath.includes('%') ? decodePath(sentPath) : sentPath;
    const methods = fixed.get(path);
    if (methods !== undefined) return { methods, segments: [] };
    for (const pattern of patterns.values()) {
      const match = pattern.regex.exec(path);
      if (match !== null) return { methods: pattern.methods, segments: match.slice(1) };
    }
    return null;
  };
}

/** RFC 3986 §6.2.2.2, but a `%2F` stays what it is: it separates nothing. */
function decodePath(path: string): string {
  checkPercent(path);
  return path
    .split('/')
    .map((segment) => decodeURIComponent(segment).replaceAll('/', '%2F'))
    .join('/');
}

function makeServer(
  connections: Connections,
  dispatch: (exchange: Exchange) => Promise<void>,
  patience: Patience,
): Server {
  const server = createServer({
    IncomingMessage: IncomingRequest,
    maxHeaderSize: HEADER_SECTION_BYTES_MAX,
    headersTimeout: patience.headersMs,
    requestTimeout: patience.requestMs,
    connectionsCheckingInterval: patience.checkMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Overrides NODE_OPTIONS=--insecure-http-parser: a lenient parser allows request smuggling.
    insecureHTTPParser: false,
    // A program may leave out Host; the guard checks those that send one.
    requireHostHeader: false,
  });
  // 0: no limit. Node would silently drop further headers, also those that the guard checks.
  server.maxHeadersCount = 0;
  // Ends the connection of a client that never reads its answer. A client that never ends its request has got a 408 by
  // then.
  server.timeout = 2 * patience.requestMs;
  // Programs like nc end their side after the request. node:http has this switch since 0.x, undocumented.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;

  const onRequest = (awaitsContinue: boolean) => (req: IncomingMessage, res: ServerResponse) => {
    const connection = connections.of(req.socket);
    if (connection === undefined || connection.closing) {
      discard(req, connections.memory.streamed);
      // Each ignored request costs memory until its connection ends, and a client may send thousands at once.
      if (connection !== undefined && ++connection.ignored > IGNORED_MAX) req.socket.destroy();
      return;
    }
    if (connection.open === PIPELINED_MAX) return connections.end(connection, rawProblem(tooManyAtOnce()));
    connection.latest = req;
    connections.inTurn(connection, () => {
      const exchange = new Exchange(req, res, connection, connections);
      res.once('close', () => connections.answered(connection));
      exchange.awaitsContinue = awaitsContinue;
      void dispatch(exchange);
    });
  };
  server.on('request', onRequest(false));
  server.on('checkContinue', onRequest(true));
  // Any other expectation may be ignored (RFC 9110 §10.1.1).
  server.on('checkExpectation', onRequest(false));
  server.on('connect', (_req, socket: Socket) => {
    const connection = connections.of(socket);
    if (connection !== undefined) connections.end(connection, rawProblem(noProxy()));
  });
  server.on('clientError', (error: Error, socket: Socket) => {
    const end = () => endBroken(connections, error, socket);
    if (systemCodeOf(error) === TIMED_OUT) connections.unlessItComes(socket, patience.checkMs, end);
    else end();
  });
  return server;
}

/** Answers bytes that the parser could not read, after the complete requests before them. */
function endBroken(connections: Connections, error: Error, socket: Socket): void {
  const connection = connections.of(socket);
  if (connection === undefined || !socket.writable) socket.destroy();
  else if (!connection.closing) {
    const problem = clientProblem(systemCodeOf(error), error);
    const { receiving, latest } = connection;
    // Within a body: the problem becomes the answer of its request.
    if (receiving !== null && !receiving.req.complete) receiving.fail(problem);
    else if (latest !== null && !latest.complete) connection.broken = problem;
    else connections.end(connection, rawProblem(problem));
  }
}

/** node:http cannot read a request; by Node's code. */
function clientProblem(code: string, error: Error): FieldpostError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new FieldpostError(
        'headers-too-large',
        `The headers are larger than ${HEADER_SECTION_BYTES_MAX} bytes`,
      );
    case TIMED_OUT:
      return new FieldpostError('timeout', 'The request did not come whole in time', {
        hint: 'nothing was queued',
      });
    case 'HPE_INVALID_EOF_STATE':
      return cutShort();
    default:
      return new FieldpostError('malformed-request', `This is not HTTP: ${error.message}`);
  }
}

/** The answer to CONNECT. */
function noProxy(): FieldpostError {
  return new FieldpostError('method-not-allowed', 'This server is not a proxy');
}

function tooManyAtOnce(): FieldpostError {
  return new FieldpostError('busy', `More than ${PIPELINED_MAX} requests at once on one connection`, {
    hint: 'wait for answers before sending more',
  });
}
