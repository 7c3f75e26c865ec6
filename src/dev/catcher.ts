/**
 * The mail catcher of `fieldpost dev`: an SMTP server (RFC 5321) on loopback that accepts every mail. It is as strict
 * about the protocol as a relay. Used by dev.ts.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { linger } from '../http/connection.js';
import { MIB, MINUTE_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';
import { SmtpInput } from './smtp-input.js';

const MAIL_BYTES_MAX = 64 * MIB;
/** RFC 5321 §4.5.3.2.7. */
const IDLE_MS = 5 * MINUTE_MS;
const RECIPIENTS_MAX = 1000;
/** A client with more mistakes than this is disconnected: it is no mail client. */
const MISTAKES_MAX = 20;
/** A client that leaves more than this of our replies unread is disconnected. */
const UNREAD_BYTES_MAX = MIB;

/** A mail as it was received. */
export interface CaughtMail {
  /** The envelope's sender; empty for the null sender. */
  readonly from: string;
  readonly to: readonly string[];
  readonly raw: Buffer;
}

/** The options of a catcher. */
export interface CatcherOptions {
  readonly clock: Clock;
  /** The client gets 250 when this resolves, and 451 if it rejects. */
  onMail(mail: CaughtMail): Promise<void>;
  readonly limitBytes?: number;
}

/**
 * Listens on a free port of 127.0.0.1. Rejects with the system's error. `close` stops listening, ends every connection, and
 * waits until `onMail` is done.
 */
export async function openCatcher(options: CatcherOptions) {
  const sessions = new Map<Socket, Promise<void>>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const session = new Session(socket, options).serve();
    sessions.set(socket, session);
    void session.finally(() => sessions.delete(socket));
  });
  const port = await listen(server);
  return {
    port,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sessions.keys()) dismiss(socket, '421 4.3.2 Shutting down');
      await Promise.all(sessions.values());
      await closed;
    },
  };
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      server.off('error', reject);
      resolve((server.address() as { port: number }).port);
    });
  });
}

/** Sends a last reply and closes the connection at once. */
function dismiss(socket: Socket, words: string): void {
  socket.write(`${words}\r\n`);
  socket.destroy();
}

const HELLO = ['PIPELINING', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES'];
/** A path with an optional source route, which is ignored (RFC 5321 §4.1.2, §C), and its parameters. */
const PATH = /^(?:FROM|TO): ?<(?:@[^:>]*:)?((?:"(?:[^"\\]|\\.)*"|[^"\s<>])*)>((?: +[^ ]+)*) *$/i;

class Session {
  readonly #socket: Socket;
  readonly #options: CatcherOptions;
  readonly #input: SmtpInput;
  readonly #limitBytes: number;
  readonly #closed: Promise<unknown>;
  #greeted = false;
  /** Null outside a transaction. */
  #from: string | null = null;
  #utf8 = false;
  #to: string[] = [];
  #mistakes = 0;

  constructor(socket: Socket, options: CatcherOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#limitBytes = options.limitBytes ?? MAIL_BYTES_MAX;
    // SmtpInput notices a broken connection.
    socket.on('error', () => {});
    this.#closed = new Promise((resolve) => socket.once('close', resolve));
    this.#input = new SmtpInput(socket, options.clock, IDLE_MS, () =>
      dismiss(socket, '421 4.4.2 Idle for too long'),
    );
  }

  /** Resolves when the connection is closed by either side. */
  async serve(): Promise<void> {
    this.#say('220 localhost ESMTP Fieldpost mail catcher');
    for (;;) {
      const line = await this.#input.line();
      if (line === null) break;
      const reply = await this.#answer(line);
      if (reply === null) break;
      this.#say(reply);
      if (/^5/.test(reply) && ++this.#mistakes > MISTAKES_MAX) this.#say('421 4.7.0 Too many mistakes');
      if (this.#mistakes > MISTAKES_MAX || /^221/.test(reply)) break;
    }
    this.#socket.end();
    linger(this.#socket, this.#options.clock);
    await this.#input.discard();
    await this.#closed;
  }

  #say(reply: string): void {
    if (!this.#socket.writable) return;
    this.#socket.write(`${reply}\r\n`);
    if (this.#socket.writableLength > UNREAD_BYTES_MAX) this.#socket.destroy();
  }

  /** The reply to a command; null if the client disconnects during it. */
  async #answer(line: string): Promise<string | null> {
    const [, verb = '', , argument = ''] = /^([A-Za-z]+)( +(.*))?$/.exec(line) ?? [];
    switch (verb.toUpperCase()) {
      case 'HELO':
      case 'EHLO':
        return this.#hello(verb, argument);
      case 'MAIL':
        return this.#mail(argument);
      case 'RCPT':
        return this.#recipient(argument);
      case 'DATA':
        return argument === '' ? await this.#data() : '501 5.5.4 DATA takes no argument';
      case 'RSET':
        this.#reset();
        return '250 2.0.0 Forgotten';
      case 'NOOP':
        return '250 2.0.0 Nothing done';
      case 'VRFY':
        return argument === '' ? '501 5.5.4 VRFY takes a name' : '252 2.5.0 Every mail is caught here';
      case 'QUIT':
        return '221 2.0.0 Bye';
      case 'EXPN':
      case 'HELP':
      case 'AUTH':
      case 'STARTTLS':
        return '502 5.5.1 Not implemented';
      default:
        return '500 5.5.2 Unknown command, or too long a line';
    }
  }

  #hello(verb: string, name: string): string {
    if (name === '') return '501 5.5.4 Who are you?';
    this.#greeted = true;
    this.#reset();
    if (verb.toUpperCase() === 'HELO') return '250 localhost';
    const lines = ['localhost', `SIZE ${this.#limitBytes}`, ...HELLO];
    return lines.map((line, at) => `250${at < lines.length - 1 ? '-' : ' '}${line}`).join('\r\n');
  }

  #reset(): void {
    this.#from = null;
    this.#utf8 = false;
    this.#to = [];
  }

  #mail(argument: string): string {
    if (!this.#greeted) return '503 5.5.1 EHLO first';
    if (this.#from !== null) return '503 5.5.1 There is a sender already';
    const [, path, parameters = ''] = /^FROM/i.test(argument) ? (PATH.exec(argument) ?? []) : [];
    if (path === undefined || !/^$|.@./.test(path)) return '501 5.1.7 Not a sender: MAIL FROM:<address>';
    let utf8 = false;
    for (const parameter of parameters.split(' ').filter((word) => word !== '')) {
      const [name = '', value] = parameter.toUpperCase().split('=', 2);
      if (name === 'SIZE' && /^\d{1,20}$/.test(value ?? '')) {
        if (Number(value) > this.#limitBytes) return `552 5.3.4 More than ${this.#limitBytes} octets`;
      } else if (name === 'SMTPUTF8' && value === undefined) utf8 = true;
      else if (name !== 'BODY' || !/^(?:7BIT|8BITMIME)$/.test(value ?? ''))
        return '555 5.5.4 Unknown parameter';
    }
    if (!utf8 && !isAscii(path)) return '553 5.6.7 Needs SMTPUTF8';
    this.#from = path;
    this.#utf8 = utf8;
    return '250 2.1.0 OK';
  }

  #recipient(argument: string): string {
    if (this.#from === null) return '503 5.5.1 MAIL first';
    const [, path = '', parameters = ''] = /^TO/i.test(argument) ? (PATH.exec(argument) ?? []) : [];
    if (!/.@.|^postmaster$/i.test(path)) return '501 5.1.3 Not a recipient: RCPT TO:<address>';
    if (parameters.trim() !== '') return '555 5.5.4 Unknown parameter';
    if (!this.#utf8 && !isAscii(path)) return '553 5.6.7 Needs SMTPUTF8';
    if (this.#to.length >= RECIPIENTS_MAX) return '452 4.5.3 Too many recipients';
    this.#to.push(path);
    return '250 2.1.5 OK';
  }

  async #data(): Promise<string | null> {
    if (this.#from === null || this.#to.length === 0) return '503 5.5.1 MAIL and RCPT first';
    this.#say('354 End with a dot on a line by itself');
    const raw = await this.#input.content(this.#limitBytes);
    if (raw === null) return null;
    const mail = { from: this.#from, to: this.#to };
    this.#reset();
    if (raw === 'too-large') return `552 5.3.4 More than ${this.#limitBytes} octets`;
    try {
      await this.#options.onMail({ ...mail, raw });
      return '250 2.0.0 Caught';
    } catch {
      return '451 4.3.0 Could not be kept';
    }
  }
}

function isAscii(text: string): boolean {
  return !/[^\p{ASCII}]/u.test(text);
}
