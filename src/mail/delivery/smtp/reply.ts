/**
 * Replies of a relay, and how far a conversation with it got. Pure.
 */
import type { SocketError } from '../../../base/retry/socket-error.js';
import { oneLine, withoutSecrets } from '../../../base/text.js';

/** The step of a conversation. `token`: AUTH with an access token. `content`: the body is being sent. `dot`: the reply to it is awaited. */
export type Phase =
  | 'resolve'
  | 'connect'
  | 'tls'
  | 'greeting'
  | 'ehlo'
  | 'starttls'
  | 'auth'
  | 'token'
  | 'mail'
  | 'rcpt'
  | 'data'
  | 'content'
  | 'dot';

/** What a relay answered to one command (RFC 5321 §4.2). */
export interface Reply {
  readonly code: number;
  /** RFC 3463, such as `5.7.1`; null if the relay gave none that agrees with its code. */
  readonly enhanced: string | null;
  /** All lines in one, without control characters, at most REPLY_CHARS_MAX; begins with the code. */
  readonly text: string;
}

/** A failure without a reply of the relay. */
export interface Trouble {
  readonly kind:
    | SocketError
    | 'deadline'
    | 'garbage'
    | 'no-starttls'
    | 'no-auth'
    | 'no-token'
    | 'no-smtputf8'
    | 'too-large'
    | 'source';
  /** A sentence for a technician. */
  readonly words: string;
}

/** How a conversation ended: with a reply, or with trouble without one. */
export type Ending =
  | { readonly phase: Phase; readonly reply: Reply }
  | { readonly phase: Phase; readonly trouble: Trouble };

// RFC 5321 §4.2. A bare code without text is allowed there ("250\r\n").
const LINE = /^([2-5]\d\d)(?:([ -])(.*))?$/s;
/** The code, and the blank or hyphen behind it. */
const CODE_CHARS = 4;
const ENHANCED = /^([245])\.\d{1,3}\.\d{1,3}(?= |$)/;

/** True for the last line of a reply, false if others follow, null if it is no line of a reply. */
export function isLastLine(line: string): boolean | null {
  const parts = LINE.exec(line);
  return parts === null ? null : parts[2] !== '-';
}

/** The reply these lines are (without their line ends), or null if they are none. */
export function parseReply(lines: readonly string[]): Reply | null {
  let code = '';
  let enhanced: string | null = null;
  let words = '';
  for (const line of lines) {
    const [, lineCode, , text = ''] = LINE.exec(line) ?? [];
    // Lines with different codes are no reply: it would be a guess which one is meant.
    if (lineCode === undefined || (code !== '' && lineCode !== code)) return null;
    code = lineCode;
    const found = ENHANCED.exec(text);
    const agrees = found !== null && found[1] === lineCode[0];
    // Relays repeat the enhanced code on every line (RFC 2034). Show it once.
    words += ` ${agrees && enhanced === found[0] ? text.slice(found[0].length) : text}`;
    if (agrees) enhanced ??= found[0];
  }
  return code === '' ? null : { code: Number(code), enhanced, text: oneLine(`${code}${words}`) };
}

/** The lines of a reply without secrets. The codes stay, because a secret may look like one. */
export function linesWithoutSecrets(lines: readonly string[], secrets: readonly string[]): readonly string[] {
  const texts = lines.map((line) => withoutSecrets(line.slice(CODE_CHARS), secrets));
  // A secret may end in the next line, behind the enhanced code that relays repeat on each.
  const joined = texts.reduce((all, text) => all + text.replace(/^\d\.\d{1,3}\.\d{1,3} /, ''));
  const shown = lines.length === 1 ? joined : withoutSecrets(joined, secrets);
  const all = shown === joined ? texts : [shown];
  return lines.map((line, index) => line.slice(0, CODE_CHARS) + (all[index] ?? ''));
}
