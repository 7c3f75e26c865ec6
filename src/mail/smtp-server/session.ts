/**
 * One SMTP session (RFC 5321): the dialogue with one client.
 *
 * | mode      | means                              | goes on to                                     |
 * |-----------|------------------------------------|------------------------------------------------|
 * | connected | EHLO must come, perhaps for TLS    | greeted, by EHLO or HELO                       |
 * | greeted   | it may log in, or begin a mail     | logged in, by AUTH; connected, by STARTTLS     |
 * | logged in | the same with more rights          | connected, by STARTTLS                         |
 *
 * A mail goes from MAIL to the end of DATA (transaction.ts); EHLO, RSET and STARTTLS end it early.
 */
import type { Socket } from 'node:net';
import { type ErrorCode, FieldpostError, wordsOf } from '../../base/errors.js';
import type { WrongSecrets } from '../../base/http/access.js';
import { MIB, SECOND_MS } from '../../base/limits.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import type { Ends } from '../../base/system/peer.js';
import type { SecureSocket, TlsIdentity } from '../../base/system/tls-door.js';
import type { BeginMail, MailIntake } from '../message/message.js';
import { login, type Secrets } from './login.js';
import { acceptedReply, codeOf, GOODBYE, multiline, replyOf } from './replies.js';
import { type EnvelopeRules, Transaction } from './transaction.js';
import { Wire } from './wire.js';

/** A client with more mistakes than this since its last mail is disconnected: it is no mail client. */
const MISTAKES_MAX = 20;
/** So is one with more commands than this since its last mail: none of a hundred recipients needs more than two. */
export const SMTP_COMMANDS_MAX = 2 * 100 + 20;
/** The same before it has logged in, where it must. */
export const SMTP_STRANGER_COMMANDS_MAX = 20;
/** Wrong logins of one connection, */
const LOGINS_MAX = 3;
/** and the pause before the answer to the first; it doubles. */
const LOGIN_PAUSE_MS = SECOND_MS;
/** A refused mail is read to its end, because a client without a reply would send it again; but no more than this. */
const REFUSED_BYTES_MAX = 256 * MIB;

const EXTENSIONS = ['PIPELINING', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES'];
const COMMANDS = 'EHLO HELO STARTTLS AUTH MAIL RCPT DATA RSET NOOP VRFY HELP QUIT';
/** RFC 2920 §3.1: the last of a group, because the client must see the reply before it goes on. */
const LAST_OF_GROUP = ['EHLO', 'HELO', 'STARTTLS', 'AUTH', 'DATA'];
/** Commands of SMTP that this server does not have. */
const KNOWN = ['EXPN', 'BDAT', 'ETRN', 'TURN', 'ATRN', 'SEND', 'SOML', 'SAML', 'BURL'];

/** The parts of an SMTP server. A function is called at each use, because a reload changes its value. */
export interface SmtpParts extends EnvelopeRules {
  readonly begin: BeginMail;
  /** A client, a sender, a recipient or a mail was refused. */
  readonly refused?: (code: ErrorCode) => void;
  /** The name of this device, for the greeting and EHLO. */
  readonly name: () => string;
  /** The passwords, any of which lets in. None: nobody needs to log in. */
  readonly tokens: readonly string[];
  /** Those of them whose owners may only send. */
  readonly sendTokens?: readonly string[];
  /** True if clients that need not log in may only send. */
  readonly strangersOnlySend?: () => boolean;
  /** The name of this client, if its share of the queue is bounded. */
  readonly sharerOf?: (ends: Ends) => Promise<string | undefined>;
  /** How STARTTLS is done. Null, or without an identity: there is none. */
  readonly tls: { readonly identity: () => TlsIdentity | null; readonly secure: SecureSocket } | null;
  readonly clock: Clock;
  readonly log: Log;
  /** How many files the process may open for its clients; undefined: no limit. */
  readonly descriptors?: number | undefined;
  /** Called with the number of octets that came and went. */
  readonly streamed?: ((bytes: number) => void) | undefined;
}

interface SessionParts extends SmtpParts {
  readonly secrets: Secrets;
  /** True if other devices can reach the listener: then TLS comes first, if there is a certificate. */
  readonly isExposed: boolean;
  /** Of all sessions. */
  readonly wrongLogins: WrongSecrets;
}

type Mode = 'connected' | 'greeted' | 'logged in';

/** One session. */
export class SmtpSession {
  readonly #parts: SessionParts;
  readonly wire: Wire;
  readonly #envelope: Transaction;
  /** The last reply, once the mail under way is over; null: the session goes on. */
  #parting: string | null = null;
  #mode: Mode = 'connected';
  /** True: it has logged in with a token for sending only. */
  #onlySends = false;
  /** Since the last mail that was accepted. */
  #mistakes = 0;
  #commands = 0;
  #wrongLogins = 0;
  #isLogged = false;
  readonly #ends: Ends;
  #sharer: string | undefined;

  constructor(socket: Socket, parts: SessionParts) {
    this.#parts = parts;
    this.#ends = socket;
    const { clock, streamed = () => undefined } = parts;
    this.wire = new Wire(socket, { clock, streamed });
    this.#envelope = new Transaction(parts);
  }

  /** Ends the session with this reply: at once, or after the mail that is coming. */
  dismiss(reply: string): void {
    this.#parting = reply;
    if (this.wire.waitingSinceMs !== null) this.wire.end(reply);
  }

  /** Resolves when the connection is closed by either side. Never rejects. */
  async serve(): Promise<void> {
    try {
      let reply = await this.#greeting();
      while (reply !== null && !this.wire.isOver) reply = await this.#next(reply);
      this.wire.end(this.#parting);
    } catch (error) {
      this.#bug(error);
      this.wire.end('421 4.3.0 Internal error');
    }
    await this.wire.closed;
  }

  async #greeting(): Promise<string | null> {
    await this.wire.beforeGreeting();
    if (this.wire.isAhead) return this.#refuse(GOODBYE.early);
    return `220 ${this.#parts.name()} ESMTP Fieldpost`;
  }

  /** Sends a reply, takes the next line, and gives the reply to it; null: the session is over. */
  async #next(reply: string): Promise<string | null> {
    if (reply !== '') this.wire.say(reply);
    if (/^(?:221|421)/.test(reply) || this.#parting !== null) return null;
    if (reply.startsWith('5') && ++this.#mistakes > MISTAKES_MAX) return this.#refuse(GOODBYE.mistakes);
    if (++this.#commands > (this.#isStranger ? SMTP_STRANGER_COMMANDS_MAX : SMTP_COMMANDS_MAX))
      return this.#refuse(GOODBYE.commands);
    if (this.#wrongLogins >= LOGINS_MAX) return this.#end(GOODBYE.guesses);
    const line = await this.#line();
    return line === null ? null : await this.#answer(line);
  }

  /** The next line; empty if it is none; null: the session is over. */
  async #line(): Promise<string | null> {
    const line = await this.wire.line();
    if (line === 'closed') return null;
    if (line === 'bare-break') return this.#refuse(GOODBYE.bareBreak);
    return typeof line === 'string' ? '' : line.text;
  }

  async #answer(line: string): Promise<string | null> {
    const { verb, argument } = commandOf(line);
    if (isOfHttp(line)) return this.#refuse(GOODBYE.foreign);
    if (this.wire.isAhead && LAST_OF_GROUP.includes(verb)) return this.#refuse(GOODBYE.ahead);
    switch (verb) {
      case 'EHLO':
      case 'HELO':
        return this.#hello(verb);
      case 'STARTTLS':
        return argument === '' ? await this.#startTls() : '501 5.5.4 STARTTLS takes no argument';
      case 'AUTH':
        return this.#counted(await this.#login(argument));
      case 'MAIL':
        return this.#counted(this.#mail(argument));
      case 'RCPT':
        return this.#counted(this.#envelope.recipient(argument));
      case 'DATA':
        return argument === '' ? await this.#data() : '501 5.5.4 DATA takes no argument';
      case 'RSET':
        if (argument !== '') return '501 5.5.4 RSET takes no argument';
        this.#envelope.reset();
        return '250 2.0.0 Forgotten';
      case 'NOOP':
        return '250 2.0.0 Nothing done';
      case 'VRFY':
        return argument === '' ? '501 5.5.4 VRFY takes a name' : '252 2.5.0 Send a mail and see';
      case 'HELP':
        return multiline(214, [`2.0.0 ${COMMANDS}`, '2.0.0 See RFC 5321']);
      case 'QUIT':
        return argument === '' ? GOODBYE.quit : '501 5.5.4 QUIT takes no argument';
      default:
        if (KNOWN.includes(verb)) return '502 5.5.1 Not implemented';
        return '500 5.5.2 Unknown command, or too long a line';
    }
  }

  /** A mail that was under way is forgotten. */
  #become(mode: Mode): void {
    this.#mode = mode;
    this.#envelope.reset();
  }

  /** Nobody needs the client's name, and devices leave it out. */
  #hello(verb: 'EHLO' | 'HELO'): string {
    const { name, limitBytes, secrets } = this.#parts;
    this.#become(this.#mode === 'connected' ? 'greeted' : this.#mode);
    if (verb === 'HELO') return `250 ${name()}`;
    const lines = [name(), `SIZE ${limitBytes()}`, ...EXTENSIONS];
    if (this.#hasTls && !this.wire.isSecure) lines.push('STARTTLS');
    if (secrets.all.length > 0 && !this.#needsTls) lines.push('AUTH PLAIN LOGIN');
    return multiline(250, lines);
  }

  /** True: it must log in, and has not. */
  get #isStranger(): boolean {
    return this.#parts.secrets.all.length > 0 && this.#mode !== 'logged in';
  }

  get #hasTls(): boolean {
    return (this.#parts.tls?.identity() ?? null) !== null;
  }

  get #needsTls(): boolean {
    return this.#parts.isExposed && this.#hasTls && !this.wire.isSecure;
  }

  async #startTls(): Promise<string | null> {
    const { tls, log } = this.#parts;
    const identity = tls?.identity() ?? null;
    if (this.wire.isSecure) return '503 5.5.1 TLS is on already';
    if (tls === null || identity === null) return '502 5.5.1 There is no certificate';
    this.wire.say('220 2.0.0 Go ahead');
    try {
      await this.wire.startTls(tls.secure, identity);
    } catch (error) {
      log.info('smtp tls failed', { peer: this.wire.peer, reason: wordsOf(error) });
      return null;
    }
    // RFC 3207 §4.2: somebody on the way may have written what was said before.
    this.#become('connected');
    return '';
  }

  async #login(argument: string): Promise<string | null> {
    const { secrets } = this.#parts;
    if (secrets.all.length === 0) return '502 5.5.1 Nobody needs to log in';
    if (this.#mode === 'connected') return '503 5.5.1 EHLO first';
    if (this.#mode === 'logged in' || this.#envelope.isOpen) return '503 5.5.1 Not now';
    if (this.#needsTls) return '538 5.7.11 STARTTLS first';
    const challenge = (text: string) => {
      this.wire.say(`334 ${text}`);
      return this.#line();
    };
    const result = await login(argument, challenge, secrets);
    switch (result) {
      case 'good':
      case 'good-to-send':
        this.#become('logged in');
        this.#onlySends = result === 'good-to-send';
        return '235 2.7.0 Welcome';
      case 'wrong':
        await this.wire.pause(LOGIN_PAUSE_MS * 2 ** this.#wrongLogins++);
        this.#parts.wrongLogins.note({ peer: this.wire.peer });
        return '535 5.7.8 The password is not a token of this daemon';
      case 'cancelled':
        return '501 5.7.0 Cancelled';
      case 'malformed':
        return '501 5.5.2 Not the answer of this mechanism, in base64';
      case 'unknown':
        return '504 5.5.4 Only PLAIN and LOGIN';
      case 'closed':
        return null;
    }
  }

  #mail(argument: string): string {
    if (this.#mode === 'connected') return '503 5.5.1 EHLO first';
    if (this.#needsTls) return this.#logged('530 5.7.0 STARTTLS first');
    if (this.#isStranger) return this.#logged('530 5.7.0 AUTH first, with a token as the password');
    return this.#envelope.mail(argument, this.#parts.secrets.all.length > 0);
  }

  async #data(): Promise<string | null> {
    const refusal = this.#envelope.dataRefusal;
    if (refusal !== null) return refusal;
    const { secrets, strangersOnlySend, sharerOf } = this.#parts;
    const onlySends = secrets.all.length > 0 ? this.#onlySends : (strangersOnlySend?.() ?? false);
    const terms = { ...this.#envelope.terms, onlySends };
    this.#envelope.reset();
    let intake: MailIntake | null = null;
    let ids: readonly string[] | null = null;
    try {
      this.#sharer ??= await sharerOf?.(this.#ends);
      intake = await this.#parts.begin({ ...terms, caller: this.#sharer });
      this.wire.say('354 End with a dot on a line by itself');
      if (!(await this.#receive(intake))) return null;
      ids = await intake.finish();
    } catch (error) {
      return this.#refusal(error);
    } finally {
      if (ids === null) await intake?.discard();
    }
    this.#mistakes = 0;
    this.#commands = 0;
    this.#parts.log.debug('smtp accepted', { id: ids[0], messages: ids.length, peer: this.wire.peer });
    return acceptedReply(ids);
  }

  /** Takes a mail. Reads it to its end also after a failure, which it throws then. False: the connection has ended. */
  async #receive(intake: MailIntake): Promise<boolean> {
    const failures: unknown[] = [];
    let bytes = 0;
    const take = (octets: Buffer): Promise<void> | void => {
      if (failures.length > 0 || this.wire.isOver) return;
      try {
        return intake.write(octets)?.catch((error) => void failures.push(error));
      } catch (error) {
        failures.push(error);
      }
    };
    const isWhole = await this.wire.content(take, (size) => {
      bytes += size;
      if (failures.length > 0 && bytes > REFUSED_BYTES_MAX) this.wire.end(this.#refusal(failures[0]));
    });
    if (isWhole && failures.length > 0) throw failures[0];
    return isWhole;
  }

  /** The reply to what was thrown while a mail came. */
  #refusal(thrown: unknown): string {
    this.#parts.refused?.(thrown instanceof FieldpostError ? thrown.code : 'internal');
    const reply = replyOf(thrown);
    if (reply !== undefined) return this.#logged(reply);
    this.#bug(thrown);
    return '451 4.3.0 Internal error, try again';
  }

  /** Only the log gets the words and the stack. */
  #bug(thrown: unknown): void {
    const error = (thrown as Error)?.stack ?? String(thrown);
    this.#parts.log.error('smtp failed', { peer: this.wire.peer, error });
  }

  #counted<Reply extends string | null>(reply: Reply): Reply {
    const code = codeOf(reply ?? '');
    if (code !== null) this.#parts.refused?.(code);
    return reply;
  }

  #logged(reply: string): string {
    // A client may try again for hours: one line for each connection.
    if (!this.#isLogged) this.#parts.log.info('smtp refused', { peer: this.wire.peer, reply });
    this.#isLogged = true;
    return reply;
  }

  /** Ends the session with this reply. */
  #end(reply: string): null {
    this.wire.end(reply);
    return null;
  }

  /** The same, and logs it. */
  #refuse(reply: string): null {
    return this.#end(this.#logged(reply));
  }
}

/** The verb of a line in capitals, empty if there is none; and the rest. */
function commandOf(line: string): { verb: string; argument: string } {
  const [, verb = '', argument = ''] = /^([A-Za-z]+)(?: +(?! )(.*))?$/.exec(line) ?? [];
  return { verb: verb.toUpperCase(), argument: argument.trimEnd() };
}

// What a browser sends to any port that a web page names. No SMTP command has such a name.
const HTTP = /^(?:GET|POST|PUT|HEAD|DELETE|OPTIONS|PATCH|CONNECT|TRACE|PRI) |^[\w-]+: /;

/** True if the line is of another protocol, from a program that some web page steers. */
function isOfHttp(line: string): boolean {
  return HTTP.test(line) && !/^(?:MAIL|RCPT) /i.test(line);
}
