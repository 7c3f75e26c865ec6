/**
 * One client connection of a service, and how long it has been silent.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { FieldpostError } from '../errors.js';
import { REFUSED_LINGER_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';
import type { Receiving } from './body-watch.js';

/** The kind of listener a client connected to; `send`: a unix socket on which clients may only send. */
export type Door = 'tcp' | 'unix' | 'send';

/** One client connection. */
export interface Connection {
  readonly socket: Socket;
  readonly kind: Door;
  /** True while it waits for a place; the daemon does not read from it. */
  isWaiting: boolean;
  /** Requests without an answer: more than one only if the client pipelines. */
  open: number;
  /** Starts of pipelined requests, in their order. */
  readonly queue: (() => void)[];
  /** True: the daemon takes no more requests from it and discards what still arrives. */
  closing: boolean;
  /** Requests discarded since then. */
  ignored: number;
  /** True until its first request; always false for a connection that is made during the stop. */
  isNew: boolean;
  /** The connection's last answer. It is sent after the answers to open requests, then the connection ends. */
  parting: string | null;
  /** Ends the wait of its request (long-polls.ts); null if it does not wait. */
  endPoll: (() => void) | null;
  /** The request that began last. */
  latest: IncomingMessage | null;
  receiving: Receiving | null;
  /** Why the body broke off before a handler read it. */
  broken: FieldpostError | null;
  /** Bytes of the body that are in memory. */
  keptBytes: number;
  /** The answer that the client has not taken yet: its size, and when it was written. */
  answer: { readonly bytes: number; readonly sinceMs: number } | null;
  /** When it was made, got its place, or had its last answer, on the boot's clock; and the bytes received by then. */
  idleSinceMs: number;
  idleBytesRead: number;
}

/** A connection that was made at `nowMs` on the boot's clock. */
export function newConnection(socket: Socket, kind: Door, nowMs: number): Connection {
  return {
    socket,
    kind,
    isWaiting: false,
    open: 0,
    queue: [],
    closing: false,
    ignored: 0,
    isNew: true,
    parting: null,
    endPoll: null,
    latest: null,
    receiving: null,
    broken: null,
    keptBytes: 0,
    answer: null,
    idleSinceMs: nowMs,
    idleBytesRead: 0,
  };
}

/** When the client last sent or read anything, on the boot's clock; null while it waits for the daemon. */
export function silentSinceMs({ open, receiving, answer, idleSinceMs }: Connection): number | null {
  if (open === 0) return idleSinceMs;
  if (receiving !== null) return receiving.isOurTurn ? null : receiving.cameMs;
  return answer?.sinceMs ?? null;
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
