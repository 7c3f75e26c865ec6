/**
 * The replies of the SMTP server, with their enhanced codes (RFC 3463). Pure.
 */
import { type ErrorCode, FieldpostError, LOOP_POINTER } from '../../base/errors.js';
import { oneLine } from '../../base/text.js';

/** RFC 5321 §4.5.3.1.5: a line of a reply has 512 octets, with its CR LF. */
const REPLY_CHARS_MAX = 510;

/** Replies that end the connection. */
export const GOODBYE = {
  quit: '221 2.0.0 Bye',
  stopping: '421 4.3.2 The service is stopping, try again',
  full: '421 4.3.2 Too many connections, try again',
  gaveWay: '421 4.4.2 Idle, and others wait for a connection',
  idle: '421 4.4.2 Nothing came for too long',
  slow: '421 4.4.2 The mail came too slowly',
  mistakes: '421 4.7.0 Too many mistakes',
  commands: '421 4.7.0 Too many commands without a mail',
  guesses: '421 4.7.0 Too many wrong logins',
  early: '554 5.5.0 The client speaks before the greeting',
  ahead: '554 5.5.0 The client sends ahead where it must wait for the reply',
  foreign: '554 5.5.0 This is an SMTP server',
  bareBreak: '500 5.5.2 Lines end with CR LF; this one has a bare CR or LF',
} as const;

/** The reply to a mail that is not taken. Undefined: a bug. */
export function replyOf(thrown: unknown): string | undefined {
  if (!(thrown instanceof FieldpostError)) return undefined;
  const isLoop = thrown.faults.some(({ pointer }) => pointer === LOOP_POINTER);
  const code = isLoop ? '554 5.4.6' : BY_CODE[thrown.code];
  if (code === undefined) return undefined;
  // A sentence may have the fault in it.
  const details = thrown.faults.map(({ detail }) => detail).filter((it) => !thrown.message.includes(it));
  // Without SMTPUTF8 a client reads ASCII only.
  const words = [thrown.message, ...details].join('; ').replace(/[^\p{ASCII}]/gu, '?');
  return `${code} ${oneLine(words, REPLY_CHARS_MAX - code.length - 1)}`;
}

const BY_CODE: Partial<Record<ErrorCode, string>> = {
  'queue-full': '452 4.3.1',
  'storage-full': '452 4.3.1',
  'too-large': '552 5.3.4',
  'storage-failed': '451 4.3.0',
  'storage-damaged': '451 4.3.0',
  busy: '451 4.3.0',
  stopping: '421 4.3.2',
  invalid: '554 5.6.0',
};

/**
 * The code by which a refused AUTH, MAIL or RCPT counts. Null: it is not refused, it comes in the wrong order (503), or the
 * client shall send one more mail (452).
 */
export function codeOf(reply: string): ErrorCode | null {
  if (/^53[058]/.test(reply)) return 'unauthorized';
  if (reply.startsWith('552')) return 'too-large';
  return /^5(?!03)/.test(reply) ? 'invalid' : null;
}

/** The reply to an accepted mail. It names as many ids as the reply may be long. */
export function acceptedReply(ids: readonly string[]): string {
  const begin = '250 2.0.0 queued as ';
  const leftOut = (count: number) => (count === 0 ? '' : ` and ${count} more`);
  for (let named = ids.length; named > 0; named--) {
    const reply = begin + ids.slice(0, named).join(',') + leftOut(ids.length - named);
    if (reply.length <= REPLY_CHARS_MAX) return reply;
  }
  return `250 2.0.0 queued${leftOut(ids.length)}`;
}

/** The reply to EHLO: our name, and a line for each extension. */
export function multiline(code: number, lines: readonly string[]): string {
  return lines.map((line, at) => `${code}${at < lines.length - 1 ? '-' : ' '}${line}`).join('\r\n');
}
