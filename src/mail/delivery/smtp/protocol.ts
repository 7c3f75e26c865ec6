/**
 * SMTP as a client speaks it (RFC 5321): the commands before a message, its content with doubled dots, the relay's replies
 * and extensions, and how far a conversation got. Pure.
 */
import { Buffer } from 'node:buffer';
import { SECOND_MS } from '../../../base/limits.js';
import { type SocketError, socketErrorOf } from '../../../base/retry/call-error.js';
import { oneLine, withoutSecrets } from '../../../base/text.js';
import { type Address, withALabel } from '../../message/address.js';
import type { Sender } from '../../message/message.js';

/**
 * The steps of a conversation. `token`: AUTH with an access token. `content`: the body is being sent. `dot`: the reply to it
 * is awaited. Each with its name for people, what a reply to it answers, and what a deadline in it means.
 */
export const PHASES = {
  resolve: { step: 'name', answered: 'the look-up of its name', missed: 'no answer from DNS' },
  connect: { step: 'connection', answered: 'the connection', missed: 'no connection' },
  tls: { step: 'TLS', answered: 'TLS', missed: 'no TLS handshake' },
  greeting: { step: 'greeting', answered: 'the connection', missed: 'no greeting' },
  ehlo: { step: 'EHLO', answered: 'EHLO', missed: 'no answer to EHLO' },
  starttls: { step: 'STARTTLS', answered: 'STARTTLS', missed: 'no answer to STARTTLS' },
  auth: { step: 'login', answered: 'our user name and password', missed: 'no answer to AUTH' },
  token: { step: 'login', answered: 'our access token', missed: 'no answer to AUTH' },
  mail: { step: 'sender', answered: 'our sender address', missed: 'no answer to MAIL FROM' },
  rcpt: { step: 'recipient', answered: 'a recipient', missed: 'no answer to RCPT TO' },
  data: { step: 'DATA', answered: 'DATA', missed: 'no answer to DATA' },
  content: { step: 'mail', answered: 'a message', missed: 'no progress of the message' },
  dot: { step: 'mail', answered: 'a message', missed: 'no answer to the message' },
} as const;

/** A step of a conversation. */
export type Phase = keyof typeof PHASES;

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

/** A conversation could not begin, or broke. */
export class SessionError extends Error {
  readonly ending: Ending;

  constructor(ending: Ending) {
    super('reply' in ending ? ending.reply.text : ending.trouble.words);
    this.name = 'SessionError';
    this.ending = ending;
  }
}

/** The ending for a deadline that passed in this phase. */
export function lateEnding(phase: Phase, afterMs: number): Ending {
  const words = `${PHASES[phase].missed} within ${afterMs / SECOND_MS} s`;
  return { phase, trouble: { kind: 'deadline', words } };
}

/** The ending for an error of the socket. The words of a certificate error give the date of `wallMs`. */
export function socketEnding(phase: Phase, thrown: unknown, wallMs: number): Ending {
  const { kind, words } = socketErrorOf(thrown, wallMs);
  const hint = kind === 'certificate-unknown-authority' ? '; see FIELDPOST_RELAY_CA_FILE' : '';
  // With implicit TLS the handshake is a part of the connect.
  const isTls = /^(?:tls|certificate|client-certificate)/.test(kind);
  return { phase: isTls ? 'tls' : phase, trouble: { kind, words: `${words}${hint}` } };
}

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

/** What a relay says it can do: its reply to EHLO (RFC 5321 §4.1.1.1). */
export interface Extensions {
  readonly pipelining: boolean;
  readonly starttls: boolean;
  readonly eightBitMime: boolean;
  readonly smtpUtf8: boolean;
  /** True if MAIL may carry SIZE=. */
  readonly size: boolean;
  /** The largest message it takes, in bytes; null if it names none. */
  readonly sizeLimit: number | null;
  /** Mechanisms, in upper case. */
  readonly auth: ReadonlySet<string>;
}

/** Reads the lines of a successful reply to EHLO. Ignores what it does not know. */
export function parseExtensions(lines: readonly string[]): Extensions {
  const offered = new Map<string, string[]>();
  // The first line is the relay's name.
  for (const line of lines.slice(1)) {
    // "AUTH=LOGIN" is how servers before RFC 2554 say it, often on a second line.
    const words = line.slice(CODE_CHARS).toUpperCase();
    const [keyword = '', ...values] = words.split(/[\s=]+/).filter(Boolean);
    offered.set(keyword, [...(offered.get(keyword) ?? []), ...values]);
  }
  // RFC 1870: 0, or no number, is no fixed limit.
  const limit = Number(/^\d{1,15}$/.exec(offered.get('SIZE')?.[0] ?? '')?.[0] ?? 0);
  return {
    pipelining: offered.has('PIPELINING'),
    starttls: offered.has('STARTTLS'),
    eightBitMime: offered.has('8BITMIME'),
    smtpUtf8: offered.has('SMTPUTF8'),
    size: offered.has('SIZE'),
    sizeLimit: limit === 0 ? null : limit,
    auth: new Set(offered.get('AUTH')),
  };
}

/** Sender, recipient, and the kind of content that follows. */
export interface Envelope {
  readonly from: Sender;
  readonly to: Address;
  /** Bytes of the content, before dots are doubled. */
  readonly size: number;
  /** True if an address or a header is not ASCII (RFC 6531). */
  readonly smtpUtf8: boolean;
  /** True if the content may have octets beyond ASCII (RFC 6152). A relay that does not offer that gets them all the same. */
  readonly isEightBit?: boolean;
}

/** A command line, and the phase in which it is answered. */
export type SmtpCommand = readonly [phase: Phase, line: string];

/** MAIL, RCPT and DATA (RFC 5321 §3.3, with the parameters of RFC 1870, 6152 and 6531). */
export function introductionOf(
  { from, to, size, smtpUtf8, isEightBit }: Envelope,
  offered: Extensions,
): SmtpCommand[] {
  const sizes = offered.size ? ` SIZE=${size}` : '';
  const body = (smtpUtf8 || isEightBit) && offered.eightBitMime ? ' BODY=8BITMIME' : '';
  return [
    ['mail', `MAIL FROM:<${from && withALabel(from)}>${sizes}${body}${smtpUtf8 ? ' SMTPUTF8' : ''}\r\n`],
    ['rcpt', `RCPT TO:<${withALabel(to)}>\r\n`],
    ['data', 'DATA\r\n'],
  ];
}

/** Why the relay cannot take such a message, by its extensions; null if it can. */
export function unsendable({ size, smtpUtf8 }: Envelope, offered: Extensions): Trouble | null {
  if (smtpUtf8 && !offered.smtpUtf8)
    return { kind: 'no-smtputf8', words: 'the relay takes no addresses beyond ASCII (no SMTPUTF8)' };
  const { sizeLimit } = offered;
  if (sizeLimit === null || size <= sizeLimit) return null;
  const words = `the relay takes at most ${sizeLimit} bytes (SIZE), and the mail has ${size}`;
  return { kind: 'too-large', words };
}

const CR = 13;
const LF = 10;
const DOT = 46;
const CRLF = Buffer.from('\r\n');
const FINAL_DOT = Buffer.from('.\r\n');

/**
 * The content after DATA: every line ends in CRLF, a dot at the beginning of a line is doubled (RFC 5321 §4.5.2), and the
 * final dot follows. Otherwise a lone dot in a message would end it, and the relay would take the rest for commands. For one
 * message: push its chunks in order, then call end.
 */
export class DotStuffing {
  // The last byte seen; the beginning of the message is the beginning of a line.
  #previous = LF;

  /** The bytes to send for this chunk; the chunk itself if nothing has to change. */
  push(chunk: Buffer): Buffer {
    if (chunk.length === 0) return chunk;
    const stuffed = this.#isClean(chunk) ? chunk : this.#rewrite(chunk);
    this.#previous = chunk[chunk.length - 1] as number;
    return stuffed;
  }

  /** Ends the last line if need be, and the message. */
  end(): Buffer {
    if (this.#previous === LF) return FINAL_DOT;
    return Buffer.concat([this.#previous === CR ? CRLF.subarray(1) : CRLF, FINAL_DOT]);
  }

  /** True if each CR here is followed by LF, each LF follows CR, and no line begins with a dot. */
  #isClean(chunk: Buffer): boolean {
    if (this.#previous === CR || (this.#previous === LF && chunk[0] === DOT)) return false;
    let start = 0;
    while (true) {
      const cr = chunk.indexOf(CR, start);
      const lf = chunk.indexOf(LF, start);
      if (lf === -1) return cr === -1 || cr === chunk.length - 1;
      if (cr !== lf - 1 || lf === 0) return false;
      start = lf + 1;
      if (chunk[start] === DOT) return false;
    }
  }

  #rewrite(chunk: Buffer): Buffer {
    // The most that one byte becomes is two; a CR left open by the chunk before adds one.
    const out = Buffer.allocUnsafe(chunk.length * 2 + 1);
    let length = 0;
    let previous = this.#previous;
    for (const byte of chunk) {
      if (byte === LF && previous !== CR) out[length++] = CR;
      if (byte !== LF && previous === CR) {
        out[length++] = LF;
        previous = LF;
      }
      if (byte === DOT && previous === LF) out[length++] = DOT;
      out[length++] = byte;
      previous = byte;
    }
    return out.subarray(0, length);
  }
}

/** A whole message with its final dot, and the commands that go with it. */
export function stuffWhole(content: Buffer, commands = ''): Buffer {
  const stuffing = new DotStuffing();
  return Buffer.concat([stuffing.push(content), stuffing.end(), Buffer.from(commands)]);
}
