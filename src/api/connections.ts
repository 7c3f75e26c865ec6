/**
 * The connections of the api: how many there are, which of them wait for what, and how they end. A client
 * that is refused while it still writes is given the time to read why: closing at once would make the kernel
 * answer its next bytes with a reset, which throws away what it has not read yet.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { FieldpostError } from '../errors.js';
import {
  CONNECTIONS_MAX,
  NEW_CONNECTION_MS,
  REFUSED_LINGER_BYTES,
  REFUSED_LINGER_MS,
  REQUEST_IDLE_MS,
  SECOND_MS,
} from '../limits.js';
import type { Clock } from '../system/clock.js';
import { rawProblem } from './problem.js';

/** A body on its way in. */
export interface Receiving {
  readonly req: IncomingMessage;
  /** Ends its request with an error. */
  readonly fail: (error: FieldpostError) => void;
  /** To be called with each chunk. */
  readonly came: () => void;
  /** True while we do not read: it is not the client who is slow. */
  isOurTurn: boolean;
  /** When its last chunk came, on the boot's clock. */
  cameMs: number;
}

/** By which socket a client came in; `send`: a unix socket for those who may send, and nothing else. */
export type Door = 'tcp' | 'unix' | 'send';

/** One client connection and what is going on over it. */
export interface Connection {
  readonly socket: Socket;
  readonly kind: Door;
  /** Requests begun and not yet answered: more than one only if the client pipelines. */
  open: number;
  /** No further request is taken from it; what still arrives is thrown away. */
  closing: boolean;
  /** True until its first request; false from the outset for one that comes while we stop. */
  isNew: boolean;
  /** Written once the open requests are answered, then the connection ends. */
  parting: string | null;
  /** The request that began last. */
  latest: IncomingMessage | null;
  /** Its body that is being received. */
  receiving: Receiving | null;
  /** Why there will be no more of its body, where that was known before anybody read it. */
  broken: FieldpostError | null;
  idleSinceMs: number;
  /** To be called when one of its requests is done with. */
  readonly answered: () => void;
}

/** All of them; each limit on connections is kept here. */
export class Connections {
  readonly #clock: Clock;
  readonly #all = new Map<Socket, Connection>();
  /** No new requests; every answer is the last of its connection. */
  stopping = false;
  /** Of bodies and texts of all requests, as much as is in memory. */
  keptBytes = 0;
  #isWatching = false;
  #whenEmpty: (() => void) | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes a new connection in. If there are too many, the one that idled longest, else the new one, must go. */
  add(socket: Socket, kind: Door): void {
    const connection: Connection = {
      socket,
      kind,
      open: 0,
      closing: false,
      isNew: !this.stopping,
      parting: null,
      latest: null,
      receiving: null,
      broken: null,
      idleSinceMs: this.#clock.bootMs(),
      answered: () => this.#answered(connection),
    };
    const full = this.#all.size >= CONNECTIONS_MAX && !this.#dropIdle();
    this.#all.set(socket, connection);
    socket.once('close', () => {
      this.#all.delete(socket);
      if (this.#all.size === 0) this.#whenEmpty?.();
    });
    if (full) this.end(connection, rawProblem(tooMany()));
  }

  of(socket: Socket): Connection | undefined {
    return this.#all.get(socket);
  }

  /** From now until received(), a body must bring a byte every REQUEST_IDLE_MS. */
  receive(connection: Connection, req: IncomingMessage, fail: (error: FieldpostError) => void): Receiving {
    const receiving: Receiving = {
      req,
      fail,
      came: () => {
        receiving.cameMs = this.#clock.bootMs();
      },
      isOurTurn: false,
      cameMs: this.#clock.bootMs(),
    };
    connection.receiving = receiving;
    if (!this.#isWatching) this.#watchFor(REQUEST_IDLE_MS);
    return receiving;
  }

  /** The body of `req` has come, or has been given up. The client may have begun the next one already. */
  received(connection: Connection, req: IncomingMessage): void {
    if (connection.receiving?.req === req) connection.receiving = null;
  }

  /** Ends the connection with the bytes of a last answer, after those of the requests still open. */
  end(connection: Connection, lastAnswer: string): void {
    connection.closing = true;
    if (connection.open > 0) connection.parting = lastAnswer;
    else if (connection.socket.writable) {
      connection.socket.end(lastAnswer);
      discard(connection.socket, connection.socket);
      this.#linger(connection.socket);
    }
  }

  /** To be called before an answer with `Connection: close`: the client may still be writing its request. */
  lingerAfterAnswer(connection: Connection, req: IncomingMessage): void {
    const { socket } = connection;
    connection.closing = true;
    discard(req, socket);
    // This is what node:http calls after the last answer; by itself it closes both directions at once.
    socket.destroySoon = () => {
      socket.end();
      this.#linger(socket);
    };
  }

  /**
   * Closes those without a request; resolves when all are gone, which is forced after `withinMs`. Those that have not
   * asked yet may be about to: a program that has just connected would take a reset for a refusal.
   */
  async stop(withinMs: number): Promise<void> {
    this.stopping = true;
    this.#dropSilent((connection) => !connection.isNew);
    if (this.#all.size === 0) return;
    const patience = this.#clock.after(NEW_CONNECTION_MS, () => this.#dropSilent(() => true));
    const deadline = this.#clock.after(withinMs, () => {
      for (const socket of this.#all.keys()) socket.destroy();
    });
    await new Promise<void>((resolve) => {
      this.#whenEmpty = resolve;
    });
    patience.stop();
    deadline.stop();
  }

  #dropSilent(mayGo: (connection: Connection) => boolean): void {
    for (const connection of this.#all.values())
      if (connection.open === 0 && !connection.closing && mayGo(connection)) connection.socket.destroy();
  }

  #answered(connection: Connection): void {
    connection.open--;
    if (connection.open > 0) return;
    connection.idleSinceMs = this.#clock.bootMs();
    if (connection.parting !== null) this.end(connection, connection.parting);
    else if (this.stopping) connection.socket.end();
  }

  /** Makes room. A connection used within the last second may have its next request under way to us. */
  #dropIdle(): boolean {
    let longest: Connection | null = null;
    for (const connection of this.#all.values()) {
      if (connection.open > 0 || connection.closing) continue;
      if (longest === null || connection.idleSinceMs < longest.idleSinceMs) longest = connection;
    }
    if (longest === null || this.#clock.bootMs() - longest.idleSinceMs < SECOND_MS) return false;
    longest.closing = true;
    longest.socket.destroy();
    return true;
  }

  /** Lets what the client still sends come for a while. */
  #linger(socket: Socket): void {
    const deadline = this.#clock.after(REFUSED_LINGER_MS, () => socket.destroy());
    socket.once('close', () => deadline.stop());
  }

  // One timer for all, and only while a body is on its way: one for each body would cost more than the rest.
  #watchFor(ms: number): void {
    this.#isWatching = true;
    this.#clock.after(ms, () => {
      this.#isWatching = false;
      const nowMs = this.#clock.bootMs();
      let nextMs = Number.POSITIVE_INFINITY;
      for (const { receiving } of this.#all.values()) {
        if (receiving === null) continue;
        if (receiving.isOurTurn) receiving.cameMs = nowMs;
        const leftMs = receiving.cameMs + REQUEST_IDLE_MS - nowMs;
        if (leftMs <= 0) receiving.fail(idleBody());
        else nextMs = Math.min(nextMs, leftMs);
      }
      if (nextMs < Number.POSITIVE_INFINITY) this.#watchFor(nextMs);
    });
  }
}

/** Throws away what comes from `source`, and closes the socket when it is too much. */
function discard(source: Readable, socket: Socket): void {
  let leftBytes = REFUSED_LINGER_BYTES;
  source.on('data', (chunk: Buffer) => {
    leftBytes -= chunk.length;
    if (leftBytes < 0) socket.destroy();
  });
}

function tooMany(): FieldpostError {
  return new FieldpostError('unavailable', `All ${CONNECTIONS_MAX} connections are in use`, {
    hint: 'close those that are not needed, or try again',
  });
}

function idleBody(): FieldpostError {
  return new FieldpostError('timeout', `No byte of the body came for ${REQUEST_IDLE_MS / SECOND_MS} s`, {
    hint: 'nothing was queued; send it again',
  });
}
