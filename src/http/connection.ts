/**
 * One client connection of the api, and for how long it has kept us waiting. connections.ts keeps them all.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { FieldpostError } from '../errors.js';
import { REFUSED_LINGER_BYTES } from '../limits.js';
import type { Receiving } from './body-watch.js';

/** By which socket a client came in; `send`: a unix socket for those who may send, and nothing else. */
export type Door = 'tcp' | 'unix' | 'send';

/** One client connection and what is going on over it. */
export interface Connection {
  readonly socket: Socket;
  readonly kind: Door;
  /** All places are taken: it is not read from before one is free. */
  isWaiting: boolean;
  /** Requests begun and not yet answered: more than one only if the client pipelines. */
  open: number;
  /** Starts the requests that came while another was being answered, in their order. */
  readonly queue: (() => void)[];
  /** No further request is taken from it; what still arrives is thrown away. */
  closing: boolean;
  /** Requests that were thrown away because the connection is closing. */
  ignored: number;
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
  /** Of the body of its request, as much as is in memory. */
  keptBytes: number;
  /** The answer that the client has not taken yet: its size, and when it was written. */
  answer: { readonly bytes: number; readonly sinceMs: number } | null;
  /** When it was made, was given a place, or had its last answer; on the boot's clock. */
  idleSinceMs: number;
  /** What it had sent by then. */
  idleBytesRead: number;
  /** To be called when one of its requests is done with. */
  readonly answered: () => void;
}

/** One that was just made. `answered` is told when one of its requests is done with. */
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

/** Since when nothing has come from the client or been taken by it, on the boot's clock; null while it is our turn. */
export function silentSinceMs({ open, receiving, answer, idleSinceMs }: Connection): number | null {
  if (open === 0) return idleSinceMs;
  if (receiving !== null) return receiving.isOurTurn ? null : receiving.cameMs;
  return answer?.sinceMs ?? null;
}

/** Throws away what comes from `source`, and closes the socket when it is too much. `streamed` is told how much it was. */
export function discard(source: Readable, socket: Socket, streamed: (bytes: number) => void): void {
  let leftBytes = REFUSED_LINGER_BYTES;
  source.on('data', (chunk: Buffer) => {
    streamed(chunk.length);
    leftBytes -= chunk.length;
    if (leftBytes < 0) socket.destroy();
  });
}
