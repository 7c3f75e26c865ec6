/** The SMTP server on a free port, with an intake that collects octets, and clients for it. */

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Test } from 'tap';
import type { ErrorCode } from '../../src/base/errors.js';
import type { LogFields } from '../../src/base/system/log.js';
import type { BeginMail, MailIntake, MailTerms } from '../../src/mail/message/message.js';
import type { SmtpParts } from '../../src/mail/smtp-server/session.js';
import { createSmtpServer } from '../../src/mail/smtp-server/smtp-server.js';
import { FakeClock, withoutPauses } from '../support/clock.js';

/** A mail as the fake intake has it. */
export interface Taken extends MailTerms {
  readonly octets: Buffer;
}

export interface DoorOptions extends Partial<SmtpParts> {
  readonly isExposed?: boolean;
  /** Called at each step of an intake; what it throws, the intake throws. */
  readonly at?: (step: 'begin' | 'write' | 'finish', bytes: number) => Promise<void> | void;
}

export const ENVELOPE = 'MAIL FROM:<a@x.org>\r\nRCPT TO:<b@y.org>\r\nDATA\r\n';

/** Opens a server; it is stopped with the test. */
export async function openDoor(t: Test, options: DoorOptions = {}) {
  const clock = new FakeClock();
  const mails: Taken[] = [];
  const refused: ErrorCode[] = [];
  const logged: [event: string, fields: LogFields][] = [];
  let discarded = 0;
  let open = 0;
  const { at = () => undefined, isExposed = false } = options;
  const begin: BeginMail = async (terms) => {
    await at('begin', 0);
    open++;
    const pieces: Buffer[] = [];
    let bytes = 0;
    const intake: MailIntake = {
      write(octets) {
        bytes += octets.length;
        pieces.push(octets);
        return at('write', bytes);
      },
      async finish() {
        await at('finish', bytes);
        open--;
        mails.push({ ...terms, octets: Buffer.concat(pieces) });
        return terms.to.map((_, n) => `id${mails.length}-${n}`);
      },
      async discard() {
        open--;
        discarded++;
      },
    };
    return intake;
  };
  const add = (event: string, fields: LogFields = {}) => void logged.push([event, fields]);
  const server = createSmtpServer({
    begin,
    refused: (code) => void refused.push(code),
    name: () => 'pump-3.example.com',
    limitBytes: () => 1_000_000,
    homesOf: (address) => [address],
    tokens: [],
    tls: null,
    clock: withoutPauses(clock),
    log: { debug: add, info: add, warn: add, error: add },
    ...options,
  });
  const listener = server.makeServer(isExposed);
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const { port } = listener.address() as { port: number };
  const sockets = new Set<Socket>();
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
    listener.close();
    const stopped = server.stop(1);
    await clock.advance(100_000);
    await stopped;
  });
  return {
    port,
    clock,
    mails,
    logged,
    /** The codes by which refusals count. */
    refused,
    server,
    listener,
    /** Intakes that are neither accepted nor discarded. */
    get open() {
      return open;
    },
    get discarded() {
      return discarded;
    },
    async dial(allowHalfOpen = false) {
      const client = new Client(connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen }));
      sockets.add(client.socket);
      return client;
    },
    /** A client that has heard the greeting, and the answer to EHLO. */
    async greeted() {
      const client = await this.dial();
      await client.hear();
      await client.ask('EHLO me');
      return client;
    },
  };
}

/** A client that sends what it is given and reads one reply at a time. */
export class Client {
  readonly closed: Promise<unknown>;
  #socket: Socket;
  #heard = '';
  #isEnded = false;
  readonly #more: (() => void)[] = [];

  constructor(socket: Socket) {
    this.#socket = socket;
    this.closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => undefined);
    this.listenTo(socket);
  }

  get socket(): Socket {
    return this.#socket;
  }

  /** Goes on with another socket, such as one with TLS over the same connection. */
  listenTo(socket: Socket): void {
    this.#socket.removeAllListeners('data');
    this.#socket = socket;
    const wake = () => {
      for (const one of this.#more.splice(0)) one();
    };
    socket.on('data', (bytes) => {
      this.#heard += bytes.toString('latin1');
      wake();
    });
    for (const event of ['end', 'close'] as const) {
      socket.on(event, () => {
        this.#isEnded = true;
        wake();
      });
    }
  }

  /** The next whole reply; what came before the end of the connection; empty after it. */
  async hear(): Promise<string> {
    for (;;) {
      const reply = /^(?:\d{3}-.*\r\n)*\d{3} .*\r\n/.exec(this.#heard)?.[0];
      if (reply !== undefined) {
        this.#heard = this.#heard.slice(reply.length);
        return reply.trimEnd();
      }
      if (this.#isEnded) return this.#heard;
      await new Promise<void>((resolve) => this.#more.push(resolve));
    }
  }

  send(text: string | Buffer): void {
    this.#socket.write(text);
  }

  async ask(line: string): Promise<string> {
    this.send(`${line}\r\n`);
    return this.hear();
  }

  /** Sends it all at once and gives the codes of so many replies. */
  async codes(text: string | Buffer, count: number): Promise<number[]> {
    this.send(text);
    const codes: number[] = [];
    while (codes.length < count) codes.push(Number((await this.hear()).slice(0, 3)));
    return codes;
  }

  /** Everything that still comes until the server ends the connection. */
  async rest(): Promise<string> {
    while (!this.#isEnded) await once(this.#socket, 'end').catch(() => undefined);
    return this.#heard.trimEnd();
  }

  /** Begins a mail; the 354 has come. */
  async data(): Promise<void> {
    await this.ask('MAIL FROM:<a@x.org>');
    await this.ask('RCPT TO:<b@y.org>');
    await this.ask('DATA');
  }
}
