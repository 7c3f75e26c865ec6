/**
 * The relay beside a device that loses its power: a server that others wrote. What it takes it holds against the model.
 * Used by device.ts.
 */
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { SMTPServer, type SMTPServerSession } from 'smtp-server';
import type { Chance } from '../simulation/chance.js';
import { readMail } from '../simulation/mail.js';
import { CROWDED, NOBODY } from '../simulation/relay.js';

export interface Taken {
  readonly token: string;
  readonly digest: string;
  readonly messageId: string;
  /** When its transaction began. */
  readonly sinceMs: number;
}

/** It answers up to so long after the final dot. */
const ANSWER_MS_MAX = 15;

export class PowerRelay {
  /** Whether the device is on: what comes from one that is off has never been sent. */
  isHeard = true;
  /** Full mailboxes are emptied. */
  isRoomy = false;
  readonly #chance: Chance;
  readonly #onTaken: (taken: Taken) => void;
  readonly #sockets = new Set<Socket>();
  readonly #beginnings = new WeakMap<SMTPServerSession, number>();
  readonly #server: SMTPServer;

  constructor(chance: Chance, onTaken: (taken: Taken) => void) {
    this.#chance = chance;
    this.#onTaken = onTaken;
    this.#server = new SMTPServer({
      disabledCommands: ['AUTH', 'STARTTLS'],
      logger: false,
      onMailFrom: (_, session, done) => {
        this.#beginnings.set(session, performance.now());
        done();
      },
      onRcptTo: ({ address }, _, done) => done(this.#refusal(address)),
      onData: (stream, session, done) => {
        const chunks: Buffer[] = [];
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        stream.on('end', () => this.#take(Buffer.concat(chunks), session, done));
      },
    });
    this.#server.on('error', () => undefined);
    this.#server.server.on('connection', (socket: Socket) => {
      if (!this.isHeard) socket.destroy();
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server.server, 'listening');
    return (this.#server.server.address() as AddressInfo).port;
  }

  /** The device is gone, and with it its connections. */
  deafen(): void {
    this.isHeard = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.deafen();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #refusal(address: string): Error | null {
    if (address.startsWith(NOBODY)) return replying(550, '5.1.1 no such user');
    return address.startsWith(CROWDED) && !this.isRoomy ? replying(452, '4.2.2 mailbox full') : null;
  }

  #take(content: Buffer, session: SMTPServerSession, done: () => void): void {
    if (!this.isHeard) return;
    this.#onTaken({ ...readMail(content.toString('latin1')), sinceMs: this.#beginnings.get(session) ?? 0 });
    setTimeout(done, this.#chance.below(ANSWER_MS_MAX));
  }
}

function replying(responseCode: number, words: string): Error {
  return Object.assign(new Error(words), { responseCode });
}
