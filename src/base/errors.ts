/**
 * The error that people read. Its code never changes, so that programs can match it; its words may. Any other error that
 * nobody handles is a bug and crashes the program.
 */

/** The codes that clients see, and those that end a start. */
export type ErrorCode =
  | 'malformed-json'
  | 'malformed-multipart'
  | 'malformed-request'
  | 'unauthorized'
  | 'not-local'
  | 'forbidden'
  | 'not-found'
  | 'method-not-allowed'
  | 'timeout'
  | 'too-large'
  | 'headers-too-large'
  | 'unsupported-media-type'
  | 'conflict'
  | 'precondition-failed'
  | 'precondition-required'
  | 'invalid'
  | 'queue-full'
  | 'storage-full'
  | 'storage-failed'
  | 'storage-damaged'
  | 'stopping'
  | 'bad-config'
  | 'already-running'
  | 'unavailable'
  | 'busy'
  | 'rate-limited'
  | 'not-offered'
  | 'internal';

/** Exit statuses of sysexits(3). */
export const EXIT = {
  ok: 0,
  usage: 64,
  data: 65,
  noInput: 66,
  noUser: 67,
  unavailable: 69,
  cantCreate: 73,
  inputOutput: 74,
  tempFail: 75,
  noPermission: 77,
  config: 78,
} as const;

/** One fault of one field: a JSON Pointer (or form field name), and what is allowed there. */
export interface Fault {
  pointer: string;
  detail: string;
}

/** The pointer of the fault of a mail that goes round in a loop: its header fields `Received`. */
export const LOOP_POINTER = 'received';

/** An error for a user, a caller or an operator; `message` is a sentence. */
export class FieldpostError extends Error {
  readonly code: ErrorCode;
  /** What the reader can do; empty if the message says it. */
  readonly hint: string;
  readonly faults: readonly Fault[];

  constructor(
    code: ErrorCode,
    message: string,
    extra: { hint?: string; faults?: readonly Fault[]; cause?: unknown } = {},
  ) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause });
    this.name = 'FieldpostError';
    this.code = code;
    this.hint = extra.hint ?? '';
    this.faults = extra.faults ?? [];
  }
}

/** What is said of a full disk, whoever says it. */
export const DISK_FULL = 'the disk is full';

/** The words of whatever was thrown, for a log line or a reason: never empty, never a stack. */
export function wordsOf(thrown: unknown): string {
  if (isDiskFull(thrown)) return DISK_FULL;
  if (thrown instanceof AggregateError && thrown.message === '') return thrown.errors.map(wordsOf).join('; ');
  if (thrown instanceof Error)
    return thrown.message.replace(/^Unknown system error -\d+/, systemCodeOf(thrown)) || thrown.name;
  return String(thrown);
}

/** True if a call failed because the disk, or this user's share of it, has no room. */
export function isDiskFull(thrown: unknown): boolean {
  // ENOSPC is also the code of too many file watchers.
  return (
    ['ENOSPC', 'EDQUOT'].includes(systemCodeOf(thrown)) && !/watch/.test(String((thrown as Error).message))
  );
}

/** Errors without a name in libuv: Node.js says `Unknown system error -74`. The numbers of Linux on x86, ARM and RISC-V. */
const UNNAMED: Readonly<Record<number, string>> = { [-74]: 'EBADMSG', [-117]: 'EUCLEAN', [-122]: 'EDQUOT' };

/** The error code of a failed system call (`ENOSPC`, `ECONNREFUSED`), or an empty string. */
export function systemCodeOf(thrown: unknown): string {
  const { code, errno } = (thrown ?? {}) as { code?: unknown; errno?: number };
  return UNNAMED[errno ?? 0] ?? (typeof code === 'string' ? code : '');
}

/** True if a read failed because the medium, or the file system's own data about the file, is bad. */
export function isUnreadable(thrown: unknown): boolean {
  return ['EIO', 'EBADMSG', 'EUCLEAN'].includes(systemCodeOf(thrown));
}

/** `busy` if a call failed because no file descriptor was free, else null. */
export function busyOf(thrown: unknown): FieldpostError | null {
  if (!['EMFILE', 'ENFILE'].includes(systemCodeOf(thrown))) return null;
  return new FieldpostError('busy', 'No file descriptor is free', {
    hint: 'try again in a moment',
    cause: thrown,
  });
}

/** Throws a bug of ours if something does not hold. node:assert says more, but adds 3 ms to a start. */
export function assert(holds: unknown, words = 'a bug'): asserts holds {
  if (!holds) throw new Error(words);
}
