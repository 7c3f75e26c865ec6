/**
 * Calls the running daemon, or the reference cloud, for the commands. Every failure becomes a CommandError that says what to
 * do.
 */
import { Buffer } from 'node:buffer';
import { type ClientRequest, request } from 'node:http';
import type { Socket } from 'node:net';
import { Octets } from '../base/collections.js';
import { showListener } from '../base/config/endpoints.js';
import { formatProblem, namedStateDirectory } from '../base/config/settings.js';
import type { ListenConfig } from '../base/config/types.js';
import { EXIT, systemCodeOf, wordsOf } from '../base/errors.js';
import { problemWords } from '../base/http/answer.js';
import { isJsonObject, jsonIn } from '../base/json.js';
import { MIB, SECOND_MS } from '../base/limits.js';
import { refusalOfSelf } from '../base/retry/call-error.js';
import { type CallContext, type CommandContext, CommandError, type ProgramContext } from './command.js';
import { stateDirectoryOf } from './environment.js';

/** The daemon's answer to a successful call. */
export interface Answer {
  readonly status: number;
  /** Parsed JSON; null for an answer without a body. */
  readonly body: unknown;
  readonly replayed: boolean;
}

/** A body: complete in memory, or read while it is sent. */
export interface Body {
  /** Its Content-Type. */
  readonly type: string;
  /** The number of bytes in `chunks`. */
  readonly length: number;
  readonly chunks: Buffer | AsyncIterable<Buffer>;
}

/** A request without its method and path. */
interface CallContent {
  readonly json?: unknown;
  readonly body?: Body;
  readonly headers?: Readonly<Record<string, string>>;
  /** How long the daemon may take for the answer, or for the next part of the body. */
  readonly answerMs?: number;
  /** Gets each chunk of a successful answer, however long it is; the answer has no body then. */
  readonly onChunk?: ((chunk: Buffer) => void) | undefined;
}

/** Makes one call to the daemon. Throws CallError for anything but a success. */
export type Call = (method: string, path: string, content?: CallContent) => Promise<Answer>;

/** More than the daemon accepts with any setting, so that an endless input fills neither memory nor disk. */
export const INPUT_BYTES_MAX = 64 * MIB;
// Long enough for a daemon that waits for its disk.
const ANSWER_MS = 30 * SECOND_MS;
// Well above a page of 1000 messages with their replies.
const ANSWER_BYTES_MAX = 16 * MIB;
// The users of DynamicUser=, as systemd is built by default.
const [DYNAMIC_UID_MIN, DYNAMIC_UID_MAX] = [61_184, 65_519];
// The settings that say how to reach the daemon. A fault in any other setting does not matter here.
const KEYS = ['FIELDPOST_LISTEN', 'FIELDPOST_API_TOKEN', 'FIELDPOST_API_TOKEN_FILE', 'CREDENTIALS_DIRECTORY'];

/** A call that may send only, or one that needs an operator's access. */
export type Purpose = 'send' | 'operate';

/** A call without success. */
export class CallError extends CommandError {
  /** The daemon's HTTP status; 0 if it has not answered. */
  readonly status: number;
  /** The code of the failed system call, such as ECONNREFUSED; '' if none failed. */
  readonly code: string;

  constructor(exitCode: number, message: string, hint: string, { status = 0, code = '' }) {
    super(exitCode, message, hint);
    this.status = status;
    this.code = code;
  }
}

/** True if the same call may succeed soon. 409: its first try is still in progress. */
export function isPassing({ status, code }: CallError): boolean {
  if (status === 0) return !['', 'EACCES', 'EPERM', 'ETIMEDOUT'].includes(code);
  return status === 409 || status === 503;
}

/** A function that calls the daemon of the context's environment. Throws CommandError (78) if the settings are wrong. */
export function connect(context: CommandContext, purpose: Purpose = 'operate'): Call {
  const ours = Object.fromEntries(KEYS.map((key) => [key, context.env[key]]));
  const parsed = context.settings.parse(ours, context.read, context);
  if ('problems' in parsed)
    throw new CommandError(EXIT.config, parsed.problems.map(formatProblem).join('\n'));
  const { listen, apiToken } = parsed.config;
  const listeners = [...(context.ofService ? context.sockets : []), ...listen];
  return firstOf(waysOver(listeners, purpose, apiToken, context));
}

/** Calls over the first way that works. */
export function firstOf(ways: readonly Call[]): Call {
  return async (...request) => {
    const { answer, faults } = await callFirst(ways, request, isAway);
    if (answer !== null) return answer;
    const [first = new CommandError(EXIT.config, 'the settings name no listener'), ...rest] = faults;
    throw rest.reduce((most, fault) => (weightOf(fault) > weightOf(most) ? fault : most), first);
  };
}

/** How much a fault tells: most what the daemon has answered, least that there is no socket. */
function weightOf(fault: CommandError): number {
  const { status = 0, code = '' } = fault as Partial<CallError>;
  return status !== 0 ? 3 : code === 'ENOENT' ? 0 : code === 'ECONNREFUSED' ? 1 : 2;
}

/** True if nobody answers there, or if this user may not use that way: another one may be better. */
function isAway(fault: CallError): boolean {
  return isShut(fault) || (fault.status === 0 && ['ECONNREFUSED', 'ENOENT'].includes(fault.code));
}

/** True if this user may not use that way, or another program has taken it. */
export function isShut({ status, code }: CallError): boolean {
  if (status === 0) return ['', 'EACCES', 'EPERM'].includes(code);
  return status === 401 || status === 403;
}

/** What people call the service. The cloud is the other one. */
const isDaemon = ({ service }: Pick<ProgramContext, 'service'>) => service === 'fieldpost';
const nounOf = (context: Pick<ProgramContext, 'service'>) => (isDaemon(context) ? 'daemon' : 'cloud');

/** The ways to the daemon. Unix sockets go first: they need no token, and wait for a daemon that restarts. */
export function waysOver(
  listeners: readonly ListenConfig[],
  purpose: Purpose,
  token: string | null,
  context: CallContext,
): readonly Call[] {
  const rank = (one: ListenConfig) => {
    if (one.kind === 'unix' && one.sendOnly) return purpose === 'send' ? 0 : 3;
    return one.kind === 'unix' ? 1 : 2;
  };
  return [...listeners]
    .sort((a, b) => rank(a) - rank(b))
    .map((one) => async (method, path, content = {}) => {
      // Whoever has made a unix socket, its mode is its guard. The cloud asks for a key there, too.
      const shown = one.kind === 'tcp' || !isDaemon(context) ? token : null;
      if (one.kind === 'tcp' && shown !== null) await refuseStranger(one, context);
      return await call(one, shown, context, method, path, content);
    });
}

/** The answer over the first way that works, or null. `faults`: those of the ways before; any but `isNext` is thrown. */
export async function callFirst(
  ways: readonly Call[],
  request: Parameters<Call>,
  isNext: (fault: CallError) => boolean,
): Promise<{ readonly answer: Answer | null; readonly faults: readonly CallError[] }> {
  const faults: CallError[] = [];
  for (const call of ways) {
    try {
      return { answer: await call(...request), faults };
    } catch (error) {
      if (!(error instanceof CallError) || !isNext(error)) throw error;
      faults.push(error);
    }
  }
  return { answer: null, faults };
}

/** Throws if the program that listens there is not of root, of the service, or of this user. It would learn the token. */
async function refuseStranger(listener: ListenConfig & { kind: 'tcp' }, context: CallContext): Promise<void> {
  const { env, listenerUids, statOf, service } = context;
  const own = statOf?.('/proc/self');
  if (listenerUids === undefined || statOf === undefined || !own) return;
  // A relative directory may be anybody's.
  const named = [namedStateDirectory(env), stateDirectoryOf(service)].filter((path) => path.startsWith('/'));
  const owners = named.flatMap((path) => statOf(path)?.uid ?? []);
  const trusted = [0, own.uid, ...owners];
  // Behind /var/lib/private only root can look at it. Only systemd gives a program such a user.
  const isService = (uid: number) => owners.length === 0 && uid >= DYNAMIC_UID_MIN && uid <= DYNAMIC_UID_MAX;
  const { host, port } = addressOf(listener);
  const stranger = (await listenerUids(host, port)).find((uid) => !trusted.includes(uid) && !isService(uid));
  if (stranger === undefined) return;
  const words = `a program of user ${stranger} listens on ${showListener(listener)}: it does not get the ${isDaemon(context) ? 'token' : 'key'}`;
  const hint = `If it is the ${nounOf(context)}, FIELDPOST_STATE_DIR must name its directory; or use its unix socket.`;
  throw new CallError(EXIT.noPermission, words, hint, { code: 'EPERM' });
}

async function call(
  listener: ListenConfig,
  token: string | null,
  context: CallContext,
  method: string,
  path: string,
  content: CallContent,
): Promise<Answer> {
  const body = bodyOf(content);
  const headers: Record<string, string> = {
    // The daemon accepts this name on every address.
    host: 'localhost',
    ...(body === null ? {} : { 'content-type': body.type, 'content-length': String(body.length) }),
    // The client reads and sends files only after the daemon has accepted the head of the request.
    ...(body === null || Buffer.isBuffer(body.chunks) ? {} : { expect: '100-continue' }),
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...content.headers,
  };
  const { answerMs = ANSWER_MS, onChunk } = content;
  const raw = await exchange(listener, context, { method, path, headers, answerMs, onChunk }, body);
  return understand(raw, listener, context, token !== null);
}

function bodyOf({ json, body }: CallContent): Body | null {
  if (body !== undefined) return body;
  if (json === undefined) return null;
  const chunks = Buffer.from(JSON.stringify(json));
  return { type: 'application/json', length: chunks.length, chunks };
}

interface Head extends Pick<CallContent, 'onChunk'> {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly answerMs: number;
}

type RawAnswer = Answer & { readonly body: Buffer };

function exchange(
  listener: ListenConfig,
  context: CallContext,
  { answerMs, onChunk, ...head }: Head,
  body: Body | null,
): Promise<RawAnswer> {
  const where = listener.kind === 'unix' ? { socketPath: listener.path } : addressOf(listener);
  return new Promise((resolve, reject) => {
    const sent = request({ ...where, ...head, agent: false });
    const late = () => {
      const words = `the ${nounOf(context)} on ${showListener(listener)} does not answer`;
      fail(new CallError(EXIT.unavailable, words, '', { code: 'ETIMEDOUT' }));
    };
    let deadline = context.clock.after(answerMs, late);
    /** Restarts the deadline: the daemon has taken another chunk. */
    const extend = () => {
      deadline.stop();
      deadline = context.clock.after(answerMs, late);
    };
    const fail = (error: unknown) => {
      deadline.stop();
      sent.destroy();
      reject(error instanceof CommandError ? error : unreachable(error, listener, context));
    };
    sent.once('socket', refuseSelf);
    let isAnswered = false;
    // The daemon may close the connection after it has answered without reading the whole body.
    sent.on('error', (error) => isAnswered || fail(error));
    sent.on('response', (answer) => {
      isAnswered = true;
      const octets = new Octets();
      answer.on('error', fail);
      answer.on('data', (chunk: Buffer) => {
        if (onChunk && answer.statusCode === 200) {
          extend();
          return onChunk(chunk);
        }
        octets.push(chunk);
        if (octets.length > ANSWER_BYTES_MAX) fail(foreign(listener));
      });
      answer.on('end', () => {
        deadline.stop();
        resolve({
          status: answer.statusCode ?? 0,
          replayed: answer.headers['idempotency-replayed'] === 'true',
          body: octets.take(),
        });
      });
    });
    if (body === null || Buffer.isBuffer(body.chunks)) sent.end(body?.chunks);
    else {
      const { chunks } = body;
      sent.flushHeaders();
      sent.once('continue', () => {
        pour(chunks, sent, extend).catch(fail);
      });
    }
  });
}

function refuseSelf(socket: Socket): void {
  socket.once('connect', () => {
    const refusal = refusalOfSelf(socket);
    if (refusal !== null) socket.destroy(refusal);
  });
}

/** Sends the chunks as fast as the daemon takes them, until their end or an answer. */
async function pour(chunks: AsyncIterable<Buffer>, sent: ClientRequest, taken: () => void): Promise<void> {
  let isAnswered = false;
  let wake: () => void = () => undefined;
  sent.on('drain', () => wake());
  sent.once('response', () => {
    isAnswered = true;
    wake();
  });
  sent.once('close', () => wake());
  for await (const chunk of chunks) {
    if (isAnswered || sent.destroyed) return;
    if (!sent.write(chunk)) await new Promise<void>((resolve) => (wake = resolve));
    taken();
  }
  sent.end();
}

function addressOf(listener: ListenConfig & { kind: 'tcp' }): { host: string; port: number } {
  // A daemon that listens on every address is reached on loopback.
  const host = listener.host === '0.0.0.0' ? '127.0.0.1' : listener.host === '::' ? '::1' : listener.host;
  return { host, port: listener.port };
}

function unreachable(error: unknown, listener: ListenConfig, context: CallContext): CallError {
  const where = showListener(listener);
  const code = systemCodeOf(error);
  if (code === 'EACCES' || code === 'EPERM') {
    const words = `this user has no permission to use the ${nounOf(context)} on ${where}`;
    return new CallError(EXIT.noPermission, words, '', { code });
  }
  const gone = code === 'ECONNREFUSED' || code === 'ENOENT';
  const why = gone ? '' : ` (${wordsOf(error)})`;
  const hint = `Is the service running? systemctl status ${context.service}`;
  return new CallError(EXIT.unavailable, `no ${nounOf(context)} answers on ${where}${why}`, hint, { code });
}

function foreign(listener: ListenConfig): CallError {
  const words = `the program that answers on ${showListener(listener)} is not Fieldpost`;
  return new CallError(EXIT.unavailable, words, '', {});
}

function understand(
  { status, replayed, body }: RawAnswer,
  listener: ListenConfig,
  context: CallContext,
  hasToken: boolean,
): Answer {
  const isDone = status >= 200 && status < 300;
  if (isDone && body.length === 0) return { status, body: null, replayed };
  const json = jsonIn(body);
  if (json === undefined) throw foreign(listener);
  if (isDone) return { status, body: json, replayed };
  throw status === 401 && isDaemon(context) ? withoutAccess(listener, hasToken) : refused(status, json);
}

/** Says whether the token is missing or wrong: an older daemon says the same of both. */
function withoutAccess(listener: ListenConfig, hasToken: boolean): CallError {
  const where = `the daemon on ${showListener(listener)}`;
  const [words, hint] = hasToken
    ? [
        `${where} refuses the token: it is another one`,
        'Its token is read at its start: has the file changed since? Or is it another daemon?',
      ]
    : [
        `${where} asks for a token, and none is given`,
        'The token is in FIELDPOST_API_TOKEN_FILE, or in the systemd credential api-token; root can read both.',
      ];
  return new CallError(EXIT.noPermission, words, hint, { status: 401 });
}

/** The daemon's problem (RFC 9457) as a CallError: its words, and each fault on its own line. */
function refused(status: number, body: unknown): CallError {
  const words = problemWords(body) ?? `it answers ${status}`;
  const { errors } = isJsonObject(body) ? body : {};
  const lines = (Array.isArray(errors) ? errors : []).map(
    (fault: { pointer?: unknown; detail?: unknown }) => `  ${fault?.pointer}: ${fault?.detail}`,
  );
  return new CallError(exitCodeOf(status), [words, ...lines].join('\n'), '', { status });
}

function exitCodeOf(status: number): number {
  if (status === 401 || status === 403) return EXIT.noPermission;
  // Full, stopping, or a failing disk: the same call may succeed later.
  if (status === 408 || status === 429 || status >= 500) return EXIT.tempFail;
  return EXIT.data;
}
