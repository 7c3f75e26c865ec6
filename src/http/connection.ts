/**
 * One client connection of a service, and how long it has been silent. connections.ts keeps them all.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { FieldpostError } from '../errors.js';
import { REFUSED_LINGER_BYTES } from '../limits.js';
import type { Receiving } from './body-watch.js';

/** The kind of listener a client connected to; `send`: a unix socket on which clients may only send. */
export type Door = 'tcp' | 'unix' | 'send';

/** One client connection and the requests on it. */
export interface Connection {
  readonly socket: Socket;
  readonly kind: Door;
  /** All places are taken: nothing is read from it until one is free. */
  isWaiting: boolean;
  /** Requests that have begun and are not answered yet: more than one only if the client pipelines. */
  open: number;
  /** Starts the requests that arrived while another was being answered, in their order. */
  readonly queue: (() => void)[];
  /** No more requests are taken from it; what still arrives is discarded. */
  closing: boolean;
  /** Requests that were discarded because the connection is closing. */
  ignored: number;
  /** True until its first request; always false for a connection that is made while we stop. */
  isNew: boolean;
  /** The last answer: written after those of the open requests; then the connection ends. */
  parting: string | null;
  /** The request that began last. */
  latest: IncomingMessage | null;
  /** The body that is being received. */
  receiving: Receiving | null;
  /** Why the body broke off, if that was known before a handler read it. */
  broken: FieldpostError | null;
  /** Bytes of its request's body that are in memory. */
  keptBytes: number;
  /** The answer that the client has not taken yet: its size, and when it was written. */
  answer: { readonly bytes: number; readonly sinceMs: number } | null;
  /** When it was made, got its place, or had its last answer; on the boot's clock. */
  idleSinceMs: number;
  /** Bytes that it had sent by then. */
  idleBytesRead: number;
  /** To be called when a request is finished, answered or not. */
  readonly answered: () => void;
}

/** A new connection. `answered` is called when one of its requests is finished. */
export function newConnection(
  socket: Socket,
  kind: Door,
  nowMs: number,
  answered: (connection: Connection) => void,
): Connection {
  const connection: Connection = {
    socket,
    kind,
    isWaiting: false,
    open: 0,
    queue: [],
    closing: false,
    ignored: 0,
    isNew: true,
    parting: null,
    latest: null,
    receiving: null,
    broken: null,
    keptBytes: 0,
    answer: null,
    idleSinceMs: nowMs,
    idleBytesRead: 0,
    answered: () => answered(connection),
  };
  return connection;
}

/** Since when the client has neither sent nor read anything, on the boot's clock; null while it waits for us. */
export function silentSinceMs({ open, receiving, answer, idleSinceMs }: Connection): number | null {
  if (open === 0) return idleSinceMs;
  if (receiving !== null) return receiving.isOurTurn ? null : receiving.cameMs;
  return answer?.sinceMs ?? null;
}

/** Discards what comes from `source`, and closes the socket if it is too much. `streamed` is told each size. */
export function discard(source: Readable, socket: Socket, streamed: (bytes: number) => void): void {
  let leftBytes = REFUSED_LINGER_BYTES;
  source.on('data', (chunk: Buffer) => {
    streamed(chunk.length);
    leftBytes -= chunk.length;
    if (leftBytes < 0) socket.destroy();
  });
}
