/**
 * One client connection of a service, and how long it has been silent; the watch of bodies that stall, and the requests
 * whose answer waits for an event.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { FieldpostError } from '../errors.js';
import { REQUEST_IDLE_MS, SECOND_MS } from '../limits.js';
import { Alarm } from '../retry/alarm.js';
import type { Clock } from '../system/clock.js';
import { counted } from '../text.js';

/** After a refusal the rest of the body is discarded for this long. */
export const REFUSED_LINGER_MS = 2 * SECOND_MS;
/** Connections that are served at the same time. */
export const CONNECTIONS_MAX = 64;
/** Requests that may wait for an event at the same time. Their connections come on top of CONNECTIONS_MAX. */
export const POLLS_MAX = CONNECTIONS_MAX / 2;
/** The same of streams, whose answers do not end by themselves. */
export const STREAMS_MAX = 16;

/** The kind of listener a client connected to; `send`: a unix socket on which clients may only send. */
export type Door = 'tcp' | 'unix' | 'send';

/** One client connection. */
export class Connection {
  readonly socket: Socket;
  readonly kind: Door;
  /** The path of the unix socket; empty for TCP. */
  readonly path: string;
  /** The user at the other end, once it is looked up; null if that is unknown. */
  uid: number | null | undefined;
  /** True while it waits for a place; the daemon does not read from it. */
  isWaiting = false;
  /** Requests without an answer: more than one only if the client pipelines. */
  open = 0;
  /** Starts of pipelined requests, in their order. */
  readonly queue: (() => void)[] = [];
  /** True: the daemon takes no more requests from it and discards what still arrives. */
  closing = false;
  /** Requests discarded since then. */
  ignored = 0;
  /** True until its first request; always false for a connection that is made during the stop. */
  isNew: boolean;
  /** The connection's last answer. It is sent after the answers to open requests, then the connection ends. */
  parting: string | null = null;
  /** Ends the wait of its request; null if it does not wait. */
  endPoll: (() => void) | null = null;
  /** The request that began last. */
  latest: IncomingMessage | null = null;
  receiving: Receiving | null = null;
  /** Why the body broke off before a handler read it. */
  broken: FieldpostError | null = null;
  /** Bytes of the body that are in memory. */
  keptBytes = 0;
  /** The answer that the client has not taken yet: its size, and when it was written. */
  answer: { readonly bytes: number; readonly sinceMs: number } | null = null;
  /** When it was made, got its place, or had its last answer, on the boot's clock; and the bytes received by then. */
  idleSinceMs: number;
  idleBytesRead = 0;

  /** Made at `nowMs` on the boot's clock. */
  constructor(socket: Socket, kind: Door, path: string, isNew: boolean, nowMs: number) {
    this.socket = socket;
    this.kind = kind;
    this.path = path;
    this.isNew = isNew;
    this.idleSinceMs = nowMs;
  }

  /** When the client last sent or read anything, on the boot's clock; null while it waits for the daemon. */
  get silentSinceMs(): number | null {
    if (this.open === 0) return this.idleSinceMs;
    if (this.receiving !== null) return this.receiving.isOurTurn ? null : this.receiving.cameMs;
    return this.answer?.sinceMs ?? null;
  }
}

/**
 * Closes the socket after REFUSED_LINGER_MS, unless the client closes it first. The caller reads what the client still
 * sends: with unread bytes the kernel would send a reset, and the client would lose the last answer.
 */
export function linger(socket: Socket, clock: Clock): void {
  const deadline = clock.after(REFUSED_LINGER_MS, () => socket.destroy());
  socket.once('close', () => deadline.stop());
}

/**
 * Discards what comes from `source` until `linger` closes the socket, however much it is: a reset would overtake the answer
 * of a client that writes on before it reads. `streamed` gets each size.
 */
export function discard(source: Readable, streamed: (bytes: number) => void): void {
  source.on('data', (chunk: Buffer) => streamed(chunk.length));
}

/** A body that is being received. */
export interface Receiving {
  readonly req: IncomingMessage;
  readonly fail: (error: FieldpostError) => void;
  /** The caller calls it for each chunk, once it is taken. */
  readonly came: (bytes: number) => void;
  /** Bytes so far. */
  bytes: number;
  /** True while the daemon does not read: then the client is not to blame. */
  isOurTurn: boolean;
  /** When its last chunk arrived, on the boot's clock. */
  cameMs: number;
}

/** Ends requests whose body stalls: between begin() and end() a byte must arrive every REQUEST_IDLE_MS. */
export class BodyWatch {
  readonly #clock: Clock;
  readonly #all = new Set<Receiving>();
  // One alarm for all bodies: a timer for each would cost more than the rest of the watch.
  readonly #alarm: Alarm;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#alarm = new Alarm(clock, () => this.#look());
  }

  begin(req: IncomingMessage, fail: (error: FieldpostError) => void): Receiving {
    const receiving: Receiving = {
      req,
      fail,
      came: (bytes) => {
        receiving.cameMs = this.#clock.bootMs();
        receiving.bytes += bytes;
      },
      bytes: 0,
      isOurTurn: false,
      cameMs: this.#clock.bootMs(),
    };
    this.#all.add(receiving);
    if (!this.#alarm.isSet) this.#alarm.in(REQUEST_IDLE_MS);
    return receiving;
  }

  end(receiving: Receiving): void {
    this.#all.delete(receiving);
  }

  #look(): void {
    const nowMs = this.#clock.bootMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const receiving of this.#all) {
      if (receiving.isOurTurn) receiving.cameMs = nowMs;
      const idleMs = receiving.cameMs + REQUEST_IDLE_MS;
      if (idleMs <= nowMs) receiving.fail(stalled(receiving));
      else nextMs = Math.min(nextMs, idleMs);
    }
    this.#alarm.at(nextMs);
  }
}

function stalled({ req, bytes }: Receiving): FieldpostError {
  const missing = Math.max(0, Number(req.headers['content-length'] ?? 0) - bytes);
  const still = missing === 0 ? '' : `, and ${counted(missing, 'byte')} of its Content-Length did not come`;
  const words = `No byte of the body came for ${REQUEST_IDLE_MS / SECOND_MS} s${still}`;
  const again = missing === 0 ? 'send it again' : 'if the Content-Length is right, send it again';
  return new FieldpostError('timeout', words, { hint: `nothing was queued; ${again}` });
}

/**
 * Long polls: requests whose answer waits for an event. Their connections need no place meanwhile, so that other clients
 * are served.
 */
export class LongPolls {
  readonly #clock: Clock;
  readonly #freed: () => void;
  readonly #max: number;
  readonly #ends = new Set<() => void>();
  #stopped = false;

  /** `freed` is called when a connection leaves its place to others; at most `max` wait. */
  constructor(clock: Clock, freed: () => void, max: number) {
    this.#clock = clock;
    this.#freed = freed;
    this.#max = max;
  }

  /** True if no more may wait. */
  get isFull(): boolean {
    return this.#ends.size >= this.#max;
  }

  /**
   * Resolves with true when `until` does. Its signal tells it to resolve early: after `ms` (null: never), when the client ends its side or
   * sends its next request, and at the stop. Resolves with false, at once, if the request cannot wait.
   */
  async wait(
    connection: Connection,
    ms: number | null,
    until: (signal: AbortSignal) => Promise<void>,
  ): Promise<boolean> {
    const { socket, closing, queue } = connection;
    // A paused socket (queue) would not tell that the client has left.
    const isLast = closing || queue.length > 0 || socket.readableEnded || socket.destroyed;
    if (this.#stopped || isLast || this.isFull) return false;
    const early = new AbortController();
    const end = () => early.abort();
    const deadline = ms === null ? null : this.#clock.after(ms, end);
    // A client that is killed and one that only ends its side (nc -N) look alike: the second one gets its answer now.
    for (const event of ['end', 'close']) socket.once(event, end);
    connection.endPoll = end;
    const { timeout = 0 } = socket;
    socket.setTimeout(0);
    this.#ends.add(end);
    this.#freed();
    try {
      await until(early.signal);
    } finally {
      this.#ends.delete(end);
      connection.endPoll = null;
      for (const event of ['end', 'close']) socket.off(event, end);
      deadline?.stop();
      socket.setTimeout(timeout);
    }
    return true;
  }

  /** Ends all waits, and allows no more. */
  stop(): void {
    this.#stopped = true;
    for (const end of this.#ends) end();
  }
}
