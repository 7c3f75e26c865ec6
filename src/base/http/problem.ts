/**
 * Errors as `application/problem+json` (RFC 9457): the one table from code to status.
 */
import { STATUS_CODES } from 'node:http';
import { type ErrorCode, FieldpostError } from '../errors.js';
import { SECOND_MS, STORAGE_RETRY_MS } from '../limits.js';

/** Retry-After when the queue, the disk or a device's hour is full. */
const RETRY_AFTER_FULL_MS = 60 * SECOND_MS;

/** An error as clients see it. */
export interface Problem {
  readonly code: AnsweredCode;
  readonly status: number;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A code that clients may see. */
export type AnsweredCode = Exclude<ErrorCode, 'storage-damaged' | 'bad-config' | 'already-running'>;

/** Every code that can be answered: its status and title. */
export const PROBLEMS: Readonly<Record<AnsweredCode, readonly [status: number, title: string]>> = {
  'malformed-json': [400, 'The body is not JSON'],
  'malformed-multipart': [400, 'The form cannot be parsed'],
  'malformed-request': [400, 'The request cannot be understood'],
  unauthorized: [401, 'A token is required'],
  'not-local': [403, 'Only programs on this device may call'],
  forbidden: [403, 'This caller may not do that'],
  'not-found': [404, 'Not found'],
  'method-not-allowed': [405, 'This cannot be done here'],
  timeout: [408, 'The request took too long'],
  conflict: [409, 'Not possible in the present state'],
  'precondition-failed': [412, 'The resource has changed since it was read'],
  'too-large': [413, 'Too large'],
  'unsupported-media-type': [415, 'This kind of body is not understood'],
  invalid: [422, 'Some fields are not right'],
  'precondition-required': [428, 'The request must name the version that it replaces'],
  'queue-full': [429, 'The queue is full'],
  'rate-limited': [429, 'Too many for now'],
  'headers-too-large': [431, 'The headers are too large'],
  internal: [500, 'Internal error'],
  'not-offered': [501, 'Not offered here'],
  'storage-failed': [503, 'The disk cannot be written'],
  stopping: [503, 'The daemon is stopping'],
  unavailable: [503, 'Not available now'],
  busy: [503, 'Too busy just now'],
  'storage-full': [507, 'The disk is full'],
};

const HEADERS: Partial<Record<ErrorCode, Readonly<Record<string, string>>>> = {
  unauthorized: { 'WWW-Authenticate': 'Bearer' },
  // Not the hour's end: a device waits with all that it sends to this cloud, and push messages and alarms may go on.
  'rate-limited': retryAfter(RETRY_AFTER_FULL_MS),
  'queue-full': retryAfter(RETRY_AFTER_FULL_MS),
  'storage-full': retryAfter(RETRY_AFTER_FULL_MS),
  'storage-failed': retryAfter(STORAGE_RETRY_MS),
  stopping: retryAfter(5 * SECOND_MS),
  unavailable: retryAfter(SECOND_MS),
  busy: retryAfter(SECOND_MS),
};

/** Counts what was refused since the start, by the code that clients see. */
export class RefusedTotals {
  /** Zero for every code, because rate() misses the first event of a counter that did not exist before. */
  readonly byCode = Object.fromEntries(Object.keys(PROBLEMS).map((code) => [code, 0])) as Record<
    AnsweredCode,
    number
  >;

  /** One more. A code that no client sees counts as `internal`. */
  count(code: ErrorCode): void {
    this.byCode[Object.hasOwn(PROBLEMS, code) ? (code as AnsweredCode) : 'internal']++;
  }
}

/** The answer to anything thrown. A bug becomes `internal`, without its words. */
export function problemOf(thrown: unknown): Problem {
  const error = isAnswered(thrown)
    ? thrown
    : new FieldpostError('internal', 'The request failed inside the daemon', { hint: 'its log says more' });
  const code = error.code as AnsweredCode;
  const [status, title] = PROBLEMS[code];
  const body = {
    type: `urn:fieldpost:problem:${code}`,
    title,
    status,
    detail: error.hint === '' ? error.message : `${error.message}; ${error.hint}`,
    ...(error.faults.length > 0 && { errors: error.faults }),
  };
  return { code, status, body: JSON.stringify(body), headers: HEADERS[code] ?? {} };
}

/** True if the error is meant for clients; anything else is a bug. */
export function isAnswered(thrown: unknown): thrown is FieldpostError {
  return thrown instanceof FieldpostError && Object.hasOwn(PROBLEMS, thrown.code);
}

/** A whole HTTP answer, for a connection without a readable request. It closes the connection. */
export function rawProblem(error: FieldpostError): string {
  const { status, body, headers } = problemOf(error);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return (
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nDate: ${new Date().toUTCString()}\r\n` +
    `Content-Type: application/problem+json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
    `${lines.join('')}Connection: close\r\n\r\n${body}`
  );
}

function retryAfter(ms: number): Readonly<Record<string, string>> {
  return { 'Retry-After': String(ms / SECOND_MS) };
}
