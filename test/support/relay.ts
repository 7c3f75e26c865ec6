/**
 * An SMTP relay on a free port. Without a script it is honest: it accepts everything in the right order and keeps the
 * mails. A script makes it refuse, stall, babble or hang up in any phase.
 *
 *   await using relay = await fakeRelay({ rcpt: '550 5.1.1 no such user' });
 *   await using relay = await fakeRelay({ dot: ({ connection }) => (connection === 2 ? {} : undefined) });
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/** `content` comes once, with the first bytes of a mail; `dot` after the final dot. */
type Moment =
  | 'greeting'
  | 'ehlo'
  | 'starttls'
  | 'auth'
  | 'mail'
  | 'rcpt'
  | 'data'
  | 'content'
  | 'dot'
  | 'rset'
  | 'quit';

/** Raw bytes or none, and then perhaps a rude end. `{}` is silence. */
interface Act {
  readonly raw?: string;
  /** One write per byte, each in its own turn of the event loop. */
  readonly bytewise?: boolean;
  /** It waits for this promise, and so does each later act. */
  readonly held?: Promise<void>;
  /** `fin` ends the connection, `rst` resets it, `deaf` stops reading from it. None of them is followed by TLS. */
  readonly after?: 'fin' | 'rst' | 'deaf';
}

/** A string is a reply without its line end; undefined is the honest answer. */
export type Answer = string | Act | undefined;

/** A scripted answer may depend on these. */
export interface Now {
  /** The line just received; empty for greeting and content. */
  readonly command: string;
  /** The number of the connection, from 1. */
  readonly connection: number;
}

export type Script = Partial<Record<Moment, Answer | ((now: Now) => Answer)>>;

interface Mail {
  readonly from: string;
  readonly to: readonly string[];
  /** As sent, without the dots of RFC 5321 §4.5.2. */
  readonly content: Buffer;
  /** True when it came over TLS. */
  readonly secure: boolean;
  readonly user: string | null;
}

export interface FakeRelay extends AsyncDisposable {
  readonly port: number;
  /** FIELDPOST_RELAY for it, without TLS. */
  readonly url: string;
  readonly mails: readonly Mail[];
  /** Every command line, in order of arrival. */
  readonly commands: readonly string[];
  /** What arrived in one piece, command lines only: `MAIL…RCPT…DATA` is one entry when pipelined. */
  readonly packets: readonly string[];
  /** Connections accepted so far, and those open now. */
  readonly connections: number;
  readonly open: number;
  /** The server name the client asked for in its last TLS handshake (SNI). */
  readonly servername: string | null;
  /** The names in the certificates of the clients, one for each handshake; null without one. */
  readonly clients: readonly (string | null)[];
  /** Sends it on every open connection, unasked. */
  say(answer: Answer): void;
  /** Resolves when that many mails have been accepted. */
  arrived(count: number): Promise<void>;
  close(): Promise<void>;
}

interface RelayOptions {
  /** Keywords after the first line of EHLO. STARTTLS and AUTH are added where they apply. */
  readonly extensions?: readonly string[];
  readonly tls?: {
    readonly key: string;
    readonly cert: string;
    readonly ciphers?: string;
    /** It asks for a certificate of this CA. */
    readonly ca?: string;
  };
  /** TLS from the first byte; needs `tls`. */
  readonly implicit?: boolean;
  /** Demands these credentials. */
  readonly user?: string;
  readonly password?: string;
  /** Tells which access tokens it takes from the user, by XOAUTH2 and OAUTHBEARER. */
  readonly takes?: (token: string) => boolean;
  readonly mechanisms?: string;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default: any free port. */
  readonly port?: number;
  /** It obeys the first command of each packet, and loses those behind it. */
  readonly chokes?: boolean;
  /** Nagle's algorithm: a reply waits until the client's kernel has acknowledged the one before. */
  readonly nagle?: boolean;
}

const MOMENTS: Readonly<Record<string, Moment>> = {
  EHLO: 'ehlo',
  HELO: 'ehlo',
  STAR: 'starttls',
  AUTH: 'auth',
  MAIL: 'mail',
  RCPT: 'rcpt',
  DATA: 'data',
  RSET: 'rset',
  QUIT: 'quit',
};

function isPositive(answer: Answer): boolean {
  const raw = typeof answer === 'string' ? answer : answer?.raw;
  return raw !== undefined && /^[23]/.test(raw);
}

interface House {
  readonly script: Script;
  readonly options: RelayOptions;
  readonly mails: Mail[];
  readonly commands: string[];
  readonly packets: string[];
  readonly conversations: Set<Conversation>;
  connections: number;
  port: number;
  servername: string | null;
  readonly clients: (string | null)[];
  waiting: { count: number; done: () => void }[];
}

/** Starts a relay that answers by `script`, and honestly where the script says nothing. */
export async function fakeRelay(script: Script = {}, options: RelayOptions = {}): Promise<FakeRelay> {
  const house: House = {
    script,
    options,
    mails: [],
    commands: [],
    packets: [],
    conversations: new Set(),
    connections: 0,
    port: 0,
    servername: null,
    clients: [],
    waiting: [],
  };
  const server: Server = createServer({ noDelay: options.nagle !== true }, (socket) => {
    house.connections += 1;
    new Conversation(house, socket, house.connections).begin();
  });
  server.listen(options.port ?? 0, options.host ?? '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    for (const conversation of house.conversations) conversation.drop();
    if (server.listening) await new Promise((done) => server.close(done));
  };
  const { port } = server.address() as AddressInfo;
  house.port = port;
  return {
    port,
    url: `smtp://127.0.0.1:${port}?tls=never`,
    mails: house.mails,
    commands: house.commands,
    packets: house.packets,
    get connections() {
      return house.connections;
    },
    get open() {
      return house.conversations.size;
    },
    clients: house.clients,
    get servername() {
      return house.servername;
    },
    say(answer) {
      for (const conversation of house.conversations) conversation.act(answer);
    },
    arrived: (count) =>
      new Promise((done) => {
        if (house.mails.length >= count) done();
        else house.waiting.push({ count, done });
      }),
    close,
    [Symbol.asyncDispose]: close,
  };
}

class Conversation {
  readonly #house: House;
  readonly #number: number;
  readonly #tcp: Socket;
  #socket: Socket;
  #secure = false;
  #input: Buffer = Buffer.alloc(0);
  // Not null while a mail's content comes in.
  #content: Buffer[] | null = null;
  #tail = '\r\n';
  #login: 'user' | 'password' | 'token' | 'dismissal' | null = null;
  #claimed = '';
  #mechanism = '';
  #user: string | null = null;
  #from: string | null = null;
  #to: string[] = [];
  #deaf = false;
  readonly #outbox: Act[] = [];

  constructor(house: House, socket: Socket, number: number) {
    this.#house = house;
    this.#tcp = socket;
    this.#socket = socket;
    this.#number = number;
    house.conversations.add(this);
    socket.on('close', () => house.conversations.delete(this));
    socket.on('error', () => undefined);
  }

  begin(): void {
    if (this.#house.options.implicit) this.#shield();
    else this.#listen(this.#tcp);
    this.act(this.#scripted('greeting') ?? '220 relay.test ESMTP');
  }

  drop(): void {
    this.#socket.destroy();
    this.#tcp.destroy();
  }

  /** What the script says for this moment; undefined when it says nothing. */
  #scripted(moment: Moment, command = ''): Answer {
    const said = this.#house.script[moment];
    return typeof said === 'function' ? said({ command, connection: this.#number }) : said;
  }

  act(answer: Answer): void {
    if (answer === undefined) return;
    const act = typeof answer === 'string' ? { raw: `${answer}\r\n` } : answer;
    this.#deaf ||= act.after === 'deaf';
    this.#outbox.push(act);
    if (this.#outbox.length === 1) this.#speak();
  }

  /** Writes what is in the outbox, in order, and byte by byte where that is asked for. */
  #speak(): void {
    const act = this.#outbox[0];
    if (act === undefined || this.#socket.destroyed) return;
    const { held, raw = '', bytewise = false, after } = act;
    if (held !== undefined) {
      const { held: _, ...rest } = act;
      void held.then(() => {
        this.#outbox[0] = rest;
        this.#speak();
      });
      return;
    }
    if (bytewise && raw.length > 1) {
      this.#outbox[0] = { ...act, raw: raw.slice(1) };
      this.#socket.write(raw.slice(0, 1), () => setImmediate(() => this.#speak()));
      return;
    }
    if (raw !== '') this.#socket.write(raw);
    if (after === 'fin') this.#socket.end();
    if (after === 'rst') this.#tcp.resetAndDestroy();
    if (after === 'deaf') this.#socket.pause();
    this.#outbox.shift();
    this.#speak();
  }

  #listen(socket: Socket): void {
    socket.on('data', (chunk) => this.#receive(chunk));
  }

  /** Speaks TLS from here on. */
  #shield(): void {
    const { tls } = this.#house.options;
    if (tls === undefined) throw new Error('a relay without a certificate was asked for TLS');
    this.#tcp.removeAllListeners('data');
    const socket = new TLSSocket(this.#tcp, {
      isServer: true,
      ...tls,
      ...(tls.ca !== undefined && { requestCert: true, rejectUnauthorized: false }),
      SNICallback: (name, done) => {
        this.#house.servername = name;
        done(null);
      },
    });
    socket.on('error', () => this.#tcp.destroy());
    socket.on(
      'secure',
      () => void this.#house.clients.push(String(socket.getPeerCertificate().subject?.CN ?? '') || null),
    );
    this.#socket = socket;
    this.#secure = true;
    this.#input = Buffer.alloc(0);
    this.#listen(socket);
  }

  #receive(chunk: Buffer): void {
    if (this.#content !== null) {
      this.#take(chunk);
      return;
    }
    this.#input = Buffer.concat([this.#input, chunk]);
    const whole = this.#input.lastIndexOf('\r\n') + 2;
    if (whole > 1) this.#house.packets.push(this.#input.toString('utf8', 0, whole));
    let end = this.#input.indexOf('\r\n');
    while (end >= 0 && !this.#deaf && !this.#socket.destroyed) {
      const line = this.#input.toString('utf8', 0, end);
      this.#input = this.#input.subarray(this.#house.options.chokes ? whole : end + 2);
      this.#obey(line);
      if (this.#content !== null) {
        const rest = this.#input;
        this.#input = Buffer.alloc(0);
        if (rest.length > 0) this.#take(rest);
        return;
      }
      end = this.#input.indexOf('\r\n');
    }
  }

  #obey(line: string): void {
    this.#house.commands.push(line);
    if (this.#login !== null) {
      this.act(this.#continueLogin(line));
      return;
    }
    const moment = MOMENTS[line.slice(0, 4).toUpperCase()];
    if (moment === undefined) {
      this.act('500 5.5.2 what?');
      return;
    }
    const scripted = this.#scripted(moment, line);
    if (scripted === undefined) {
      this.act(this.#honest(moment, line));
      return;
    }
    this.act(scripted);
    if (moment === 'data' && isPositive(scripted)) this.#openContent();
    else if (moment === 'starttls') {
      if (isPositive(scripted) && (typeof scripted === 'string' || scripted.after === undefined))
        this.#shield();
    } else if (isPositive(scripted)) this.#honest(moment, line);
  }

  #honest(moment: Moment, line: string): Answer {
    const { options } = this.#house;
    switch (moment) {
      case 'ehlo':
        return line.startsWith('HELO') ? '250 relay.test' : this.#hello();
      case 'starttls':
        if (options.tls === undefined || this.#secure) return '502 5.5.1 no TLS here';
        this.#socket.write('220 2.0.0 go ahead\r\n');
        this.#shield();
        return undefined;
      case 'auth':
        return this.#authenticate(line);
      case 'mail': {
        const [, address] = /^MAIL FROM:<([^>]*)>(?: .*)?$/i.exec(line) ?? [];
        if (address === undefined) return '501 5.5.4 syntax';
        if (options.user !== undefined && this.#user === null) return '530 5.7.0 authenticate first';
        if (this.#from !== null) return '503 5.5.1 nested MAIL';
        this.#from = address;
        return '250 2.1.0 ok';
      }
      case 'rcpt': {
        const [, address] = /^RCPT TO:<([^>]+)>/i.exec(line) ?? [];
        if (address === undefined) return '501 5.5.4 syntax';
        if (this.#from === null) return '503 5.5.1 need MAIL';
        this.#to.push(address);
        return '250 2.1.5 ok';
      }
      case 'data':
        if (this.#to.length === 0) return '503 5.5.1 need RCPT';
        this.#openContent();
        return '354 go ahead';
      case 'rset':
        this.#reset();
        return '250 2.0.0 ok';
      default:
        return { raw: '221 2.0.0 bye\r\n', after: 'fin' };
    }
  }

  #hello(): string {
    const { options } = this.#house;
    const words = [
      'relay.test',
      ...(options.extensions ?? [
        'PIPELINING',
        'SIZE 52428800',
        '8BITMIME',
        'SMTPUTF8',
        'ENHANCEDSTATUSCODES',
      ]),
    ];
    if (options.tls !== undefined && !this.#secure) words.push('STARTTLS');
    if (options.user !== undefined) words.push(`AUTH ${options.mechanisms ?? 'PLAIN LOGIN'}`);
    return words.map((word, index) => `250${index === words.length - 1 ? ' ' : '-'}${word}`).join('\r\n');
  }

  #authenticate(line: string): Answer {
    const [, mechanism = '', initial] = line.split(' ');
    if (/^(?:XOAUTH2|OAUTHBEARER)$/.test(mechanism)) {
      this.#mechanism = mechanism;
      if (initial !== undefined) return this.#admitToken(initial);
      this.#login = 'token';
      return '334 ';
    }
    if (mechanism.toUpperCase() === 'LOGIN') {
      this.#login = 'user';
      return '334 VXNlcm5hbWU6';
    }
    const [, user = '', password = ''] = Buffer.from(initial ?? '', 'base64')
      .toString()
      .split('\0');
    return this.#admit(user, password);
  }

  #admitToken(response: string): Answer {
    const { user, takes = () => false } = this.#house.options;
    const text = Buffer.from(response, 'base64').toString();
    const { port } = this.#house;
    const name = user?.replaceAll('=', '=3D').replaceAll(',', '=2C');
    const head =
      this.#mechanism === 'XOAUTH2'
        ? `user=${user}\x01`
        : `n,a=${name},\x01host=127.0.0.1\x01port=${port}\x01`;
    const [, token = ''] = /auth=Bearer ([!-~]+)/.exec(text) ?? [];
    this.#login = null;
    if (text === `${head}auth=Bearer ${token}\x01\x01` && takes(token)) {
      this.#user = user ?? '';
      return '235 2.7.0 welcome';
    }
    this.#login = 'dismissal';
    return `334 ${Buffer.from('{"status":"invalid_token","schemes":"bearer"}').toString('base64')}`;
  }

  #continueLogin(line: string): Answer {
    if (this.#login === 'token') return this.#admitToken(line);
    if (this.#login === 'dismissal') {
      this.#login = null;
      // RFC 7628 §3.2.3, and what Google says of XOAUTH2.
      const isGood = line === (this.#mechanism === 'XOAUTH2' ? '' : 'AQ==');
      return isGood ? '535 5.7.8 token refused' : '501 5.5.2 not the answer to an error';
    }
    const words = Buffer.from(line, 'base64').toString();
    if (this.#login === 'user') {
      this.#claimed = words;
      this.#login = 'password';
      return '334 UGFzc3dvcmQ6';
    }
    this.#login = null;
    return this.#admit(this.#claimed, words);
  }

  #admit(user: string, password: string): Answer {
    const { options } = this.#house;
    if (user !== options.user || password !== options.password) return '535 5.7.8 wrong credentials';
    this.#user = user;
    return '235 2.7.0 welcome';
  }

  #reset(): void {
    this.#from = null;
    this.#to = [];
    this.#content = null;
  }

  #openContent(): void {
    this.#content = [];
    this.#tail = '\r\n';
  }

  /** Content up to `\r\n.\r\n`, exactly; the line end before it may be the one after DATA. */
  #take(chunk: Buffer): void {
    const content = this.#content;
    if (content === null) return;
    if (content.length === 0) this.act(this.#scripted('content'));
    if (this.#deaf || this.#socket.destroyed) return;
    const seam = this.#tail.length;
    const joined = Buffer.concat([Buffer.from(this.#tail, 'latin1'), chunk]);
    const found = joined.indexOf('\r\n.\r\n');
    if (found < 0) {
      content.push(chunk);
      this.#tail = joined.toString('latin1', Math.max(0, joined.length - 4));
      return;
    }
    content.push(chunk.subarray(0, Math.max(0, found + 5 - seam)));
    this.#end(Buffer.concat([Buffer.from('\r\n'), ...content]));
    const rest = joined.subarray(found + 5);
    if (rest.length > 0) this.#receive(rest);
  }

  #end(framed: Buffer): void {
    // Between the line end after DATA and the final dot; what was doubled becomes single again.
    const content = framed
      .subarray(0, framed.length - 3)
      .toString('latin1')
      .replaceAll('\r\n.', '\r\n')
      .slice(2);
    const mail: Mail = {
      from: this.#from ?? '',
      to: this.#to,
      content: Buffer.from(content, 'latin1'),
      secure: this.#secure,
      user: this.#user,
    };
    this.#reset();
    const scripted = this.#scripted('dot');
    const answer = scripted ?? (mail.to.length > 0 ? '250 2.0.0 queued' : '554 5.5.1 no valid recipients');
    if (isPositive(answer)) this.#keep(mail);
    this.act(answer);
  }

  #keep(mail: Mail): void {
    this.#house.mails.push(mail);
    this.#house.waiting = this.#house.waiting.filter(({ count, done }) => {
      if (this.#house.mails.length < count) return true;
      done();
      return false;
    });
  }
}
