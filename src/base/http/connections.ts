/**
 * The client connections of a service, within their limits: which have a place, which wait for one, how each ends.
 * A refused client that still writes gets time to read the answer: if the daemon closed at once, the kernel would
 * answer the next bytes with a reset, and the client would lose the answer.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { FieldpostError } from '../errors.js';
import { HTTP_MEMORY_SHARE, KIB, MIB, SECOND_MS } from '../limits.js';
import { Alarm } from '../retry/alarm.js';
import type { Clock } from '../system/clock.js';
import {
  BodyWatch,
  CONNECTIONS_MAX,
  Connection,
  type Door,
  discard,
  LongPolls,
  linger,
  POLLS_MAX,
  type Receiving,
  STREAMS_MAX,
} from './connection.js';
import { rawProblem } from './problem.js';

/** Further connections that wait, unread, until one of the served ones ends. */
export const CONNECTIONS_WAITING_MAX = 192;
/** All connections that are open at once, including those that are being refused. */
export const CONNECTIONS_OPEN_MAX = 512;
/** Sessions of the SMTP server, which uses descriptors beside the connections of the HTTP servers. */
export const SMTP_CONNECTIONS_MAX = 32;
/** A connection waits for its place at most this long. */
export const PLACE_WAIT_MS = 5 * SECOND_MS;
/** While connections wait, silent ones are looked for at this interval. */
const PLACE_CHECK_MS = SECOND_MS / 4;
/** A stop waits at most this long for the first request of a new connection. */
export const NEW_CONNECTION_MS = SECOND_MS;
/** All bodies and texts of forms that are in memory at the same time. */
export const BODIES_BYTES_MAX = 16 * MIB;
/** All answers that clients have not read yet. A small one does not count. */
export const ANSWERS_BYTES_MAX = 4 * MIB;
/** The garbage collector hears of a request that kept this much, once that is no longer used (system/memory.ts). */
const DROPPED_BYTES_MIN = 64 * KIB;

/** Connections that may be open at a time. */
interface Places {
  /** Over HTTP: with a request under way, or idle. */
  readonly served: number;
  /** Further ones that wait, unread, until one of those ends. */
  readonly waiting: number;
  /** All over HTTP, with those that are being refused. */
  readonly open: number;
  /** Sessions over SMTP. */
  readonly sessions: number;
}

/** The places of each server where the process may open `descriptors` more files. */
export function placesIn(descriptors = Number.POSITIVE_INFINITY): Places {
  const share = Math.max(1, Math.floor(descriptors / 6));
  const served = Math.min(CONNECTIONS_MAX, share);
  const waiting = Math.min(CONNECTIONS_WAITING_MAX, share);
  const sessions = Math.min(SMTP_CONNECTIONS_MAX, share);
  // A form and a mail over SMTP each need a file beside their connection.
  const left = Math.max(served + waiting + 1, descriptors - served - 2 * sessions);
  return { served, waiting, open: Math.min(CONNECTIONS_OPEN_MAX, left), sessions };
}

/** Told of buffers that are no longer used, so that a garbage collection can free them in time. */
export interface MemoryListeners {
  /** Called with the number of bytes that were passed on, or discarded on arrival. */
  readonly streamed?: ((bytes: number) => void) | undefined;
  /** Called with the number of bytes of bodies and answers that were kept for a while. */
  readonly dropped?: ((bytes: number) => void) | undefined;
}

/** Limits for all bodies, and for all unread answers, in memory at the same time; and the listeners. */
interface HttpMemory {
  readonly bodiesBytes: number;
  readonly answersBytes: number;
  readonly streamed: (bytes: number) => void;
  readonly dropped: (bytes: number) => void;
}

/** The limits by the memory of the process: together no more than HTTP_MEMORY_SHARE of it. */
export function httpMemory(
  limitBytes: number,
  { streamed = () => undefined, dropped = () => undefined }: MemoryListeners,
): HttpMemory {
  const shareBytes = Math.floor(limitBytes * HTTP_MEMORY_SHARE);
  return {
    bodiesBytes: Math.min(BODIES_BYTES_MAX, shareBytes * 0.75),
    answersBytes: Math.min(ANSWERS_BYTES_MAX, shareBytes * 0.25),
    streamed,
    dropped,
  };
}

/** All client connections of a service. */
export class Connections {
  readonly #clock: Clock;
  readonly #places: Places;
  readonly memory: HttpMemory;
  readonly polls: LongPolls;
  readonly streams: LongPolls;
  readonly #bodies: BodyWatch;
  readonly #all = new Map<Socket, Connection>();
  /** In the order of their arrival. */
  readonly #waiting = new Set<Connection>();
  readonly #placeAlarm: Alarm;
  /** True: no new requests; every answer is the last of its connection. */
  stopping = false;
  #whenEmpty: (() => void) | null = null;

  constructor(clock: Clock, memory: HttpMemory, places: Places) {
    this.#clock = clock;
    this.#places = places;
    this.memory = memory;
    const freed = () => this.#givePlaces();
    this.polls = new LongPolls(clock, freed, POLLS_MAX);
    this.streams = new LongPolls(clock, freed, STREAMS_MAX);
    this.#bodies = new BodyWatch(clock);
    this.#placeAlarm = new Alarm(clock, () => this.#refuseTooLong());
  }

  /** Gives a new connection a place, or lets it wait for one, unread; refuses it if too many wait already. */
  add(socket: Socket, kind: Door, path: string): void {
    const connection = new Connection(socket, kind, path, !this.stopping, this.#clock.bootMs());
    this.#all.set(socket, connection);
    socket.once('close', () => {
      this.#all.delete(socket);
      this.#waiting.delete(connection);
      if (this.#all.size === 0) this.#whenEmpty?.();
      this.#givePlaces();
    });
    const { served, waiting, open } = this.#places;
    if (this.#all.size > open && !this.#freeDescriptor(open)) {
      this.end(connection, rawProblem(allTaken()));
      socket.destroySoon();
      return;
    }
    if (this.#waiting.size === 0 && this.#taken() <= served) return;
    if (this.#waiting.size >= waiting) {
      this.end(connection, rawProblem(allTaken()));
      return;
    }
    this.#waiting.add(connection);
    connection.isWaiting = true;
    // node:http has started to read it already; data arrives from the next tick on.
    queueMicrotask(() => connection.isWaiting && socket.pause());
    this.#givePlaces();
  }

  of(socket: Socket): Connection | undefined {
    return this.#all.get(socket);
  }

  /** True while a connection waits for a place: then every answer is the last of its connection. */
  get othersWait(): boolean {
    return this.#waiting.size > 0;
  }

  /**
   * The time of a client is up: calls `end` after `ms`, unless its first bytes or the end of its request come until then.
   * After a stall node:http looks at its clock before it reads what came meanwhile. With the first bytes it starts the
   * time anew.
   */
  unlessItComes(socket: Socket, ms: number, end: () => void): void {
    const connection = this.of(socket);
    if (connection === undefined) {
      end();
      return;
    }
    const { latest, isWaiting } = connection;
    const isFresh = socket.bytesRead === 0 && !isWaiting;
    const wasWhole = latest?.complete;
    const timer = this.#clock.after(ms, () => {
      const hasBegun = isFresh && socket.bytesRead > 0;
      const isWhole = connection.latest?.complete && (connection.latest !== latest || !wasWhole);
      if (!hasBegun && !isWhole) end();
    });
    socket.once('close', () => timer.stop());
  }

  /**
   * Runs `start` once the client has taken the answers to the earlier requests of the connection (RFC 9112 §9.3.2).
   * Until then the daemon reads nothing more from it, so that unread answers do not pile up.
   */
  inTurn(connection: Connection, start: () => void): void {
    connection.open++;
    if (connection.open === 1) {
      start();
      return;
    }
    connection.endPoll?.();
    connection.queue.push(start);
    connection.socket.pause();
  }

  /**
   * Counts bytes of a body that stay in memory until the answer is out. Ends connections with stalled bodies to make
   * room; throws busy if the sum is still too large.
   */
  keep(connection: Connection, bytes: number): void {
    for (;;) {
      let sum = bytes;
      for (const { keptBytes } of this.#all.values()) sum += keptBytes;
      if (sum <= this.memory.bodiesBytes) break;
      if (!this.#dropSilent(({ keptBytes, receiving }) => keptBytes > 0 && receiving !== null))
        throw tooMuchAtOnce(this.memory.bodiesBytes);
    }
    connection.keptBytes += bytes;
  }

  /** Watches a body until received(): a byte must arrive every REQUEST_IDLE_MS. */
  receive(connection: Connection, req: IncomingMessage, fail: (error: FieldpostError) => void): Receiving {
    connection.receiving = this.#bodies.begin(req, fail);
    return connection.receiving;
  }

  /** Ends the watch: the body of `req` is complete or given up. The client may have begun the next one already. */
  received(connection: Connection, req: IncomingMessage): void {
    if (connection.receiving?.req !== req) return;
    this.#bodies.end(connection.receiving);
    connection.receiving = null;
  }

  /** Counts an answer until the client, or at least the kernel, has taken it. */
  sent(connection: Connection, bytes: number): void {
    connection.answer = { bytes, sinceMs: this.#clock.bootMs() };
  }

  /**
   * Throws busy unless an answer of this size fits into memory beside those that clients have not taken. First ends the
   * connections that have left their answers longest.
   */
  makeRoomForAnswer(bytes: number): void {
    for (;;) {
      let sum = 0;
      for (const { answer } of this.#all.values()) sum += answer?.bytes ?? 0;
      if (sum === 0 || sum + bytes <= this.memory.answersBytes) return;
      if (!this.#dropSilent(({ answer }) => answer !== null)) throw answersLeft();
    }
  }

  /** Ends the connection with a last answer, after the answers of the requests still open. */
  end(connection: Connection, lastAnswer: string): void {
    this.#close(connection);
    if (connection.open > 0) connection.parting = lastAnswer;
    else if (connection.socket.writable) {
      connection.socket.end(lastAnswer);
      discard(connection.socket, this.memory.streamed);
      // A connection that waited for a place is paused.
      connection.socket.resume();
      linger(connection.socket, this.#clock);
    }
  }

  /** A stream has ended: its client gets a moment to read the rest. */
  lingerAfterStream({ socket }: Connection): void {
    if (socket.writableNeedDrain) linger(socket, this.#clock);
  }

  /** Prepares an answer with `Connection: close`: the client may still be writing its request. */
  lingerAfterAnswer(connection: Connection, req: IncomingMessage): void {
    const { socket } = connection;
    this.#close(connection);
    // Requests behind an answer with `Connection: close` are not carried out.
    connection.open -= connection.queue.length;
    connection.queue.length = 0;
    discard(req, this.memory.streamed);
    socket.resume();
    // node:http calls this after the last answer; its own version closes both directions at once.
    socket.destroySoon = () => {
      socket.end();
      linger(socket, this.#clock);
    };
  }

  /**
   * Closes the connections without a request; resolves when all are gone, by force after `withinMs`. New ones get
   * NEW_CONNECTION_MS: a program that has just connected would read a reset as a refusal.
   */
  async stop(withinMs: number): Promise<void> {
    this.stopping = true;
    this.polls.stop();
    this.streams.stop();
    this.#closeIdle((connection) => !connection.isNew);
    if (this.#all.size === 0) return;
    const patience = this.#clock.after(NEW_CONNECTION_MS, () => this.#closeIdle(() => true));
    const deadline = this.#clock.after(withinMs, () => {
      for (const socket of this.#all.keys()) socket.destroy();
    });
    await new Promise<void>((resolve) => {
      this.#whenEmpty = resolve;
    });
    patience.stop();
    deadline.stop();
    this.#placeAlarm.off();
  }

  #closeIdle(mayGo: (connection: Connection) => boolean): void {
    for (const connection of this.#all.values()) {
      if (connection.open > 0 || connection.closing || !mayGo(connection)) continue;
      if (connection.isWaiting) this.#refuse(connection, stoppingNow());
      else connection.socket.destroy();
    }
  }

  /** A request is over, answered or not. */
  answered(connection: Connection): void {
    connection.open--;
    this.#forget(connection);
    if (connection.socket.destroyed) return;
    const next = connection.queue.shift();
    if (connection.queue.length === 0) connection.socket.resume();
    if (next !== undefined) {
      next();
      return;
    }
    connection.idleSinceMs = this.#clock.bootMs();
    connection.idleBytesRead = connection.socket.bytesRead;
    if (connection.parting !== null) this.end(connection, connection.parting);
    else if (this.stopping) connection.socket.end();
  }

  #close(connection: Connection): void {
    connection.closing = true;
    connection.endPoll?.();
    if (this.#waiting.size > 0) queueMicrotask(() => this.#givePlaces());
  }

  /** Gives free places to the connections that have waited longest. Runs again while any waits. */
  #givePlaces(): void {
    for (const connection of this.#waiting) {
      if (this.#taken() >= this.#places.served && !this.#dropSilent(() => true)) break;
      this.#waiting.delete(connection);
      connection.isWaiting = false;
      connection.idleSinceMs = this.#clock.bootMs();
      connection.socket.resume();
    }
    if (this.#waiting.size > 0 && !this.#placeAlarm.isSet) this.#placeAlarm.in(PLACE_CHECK_MS);
  }

  #refuseTooLong(): void {
    const sinceMs = this.#clock.bootMs() - PLACE_WAIT_MS;
    for (const it of this.#waiting) if (it.idleSinceMs <= sinceMs) this.#refuse(it, allTaken());
    this.#givePlaces();
  }

  /** The places that are taken. Closing connections and long polls have none. */
  #taken(): number {
    let count = 0;
    for (const { isWaiting, closing, endPoll } of this.#all.values())
      if (!isWaiting && !closing && endPoll === null) count++;
    return count;
  }

  /** If more than `max` are open, ends the connection that was refused first; false if none is refused. */
  #freeDescriptor(max: number): boolean {
    // A socket that was destroyed in this turn of the event loop has freed its descriptor.
    const open = [...this.#all.values()].filter(({ socket }) => !socket.destroyed);
    if (open.length <= max) return true;
    const refused = open.find((one) => one.closing && one.open === 0);
    refused?.socket.destroy();
    return refused !== undefined;
  }

  #refuse(connection: Connection, why: FieldpostError): void {
    this.#waiting.delete(connection);
    connection.isWaiting = false;
    this.end(connection, rawProblem(why));
  }

  /**
   * Ends the longest silent connection that `mayGo` allows; false if there is none. Spares a connection that was used
   * within the last second: its next bytes may be under way.
   */
  #dropSilent(mayGo: (connection: Connection) => boolean): boolean {
    let longest: Connection | null = null;
    let longestMs = this.#clock.bootMs() - SECOND_MS + 1;
    for (const connection of this.#all.values()) {
      if (connection.isWaiting || connection.closing || !mayGo(connection)) continue;
      const sinceMs = connection.silentSinceMs;
      if (sinceMs === null || sinceMs >= longestMs) continue;
      longest = connection;
      longestMs = sinceMs;
    }
    if (longest === null) return false;
    this.#giveWay(longest);
    return true;
  }

  /** Reports unused buffers of this size. Small ones are collected soon anyway. */
  drop(bytes: number): void {
    if (bytes >= DROPPED_BYTES_MIN) this.memory.dropped(bytes);
  }

  #forget(connection: Connection): void {
    this.drop(connection.keptBytes + (connection.answer?.bytes ?? 0));
    connection.answer = null;
    connection.keptBytes = 0;
  }

  /** Ends a connection for another one; tells it why if it has sent something and can still read. */
  #giveWay(connection: Connection): void {
    const { socket, receiving, open, isNew, idleBytesRead } = connection;
    this.#close(connection);
    this.#forget(connection);
    if (receiving !== null) receiving.fail(gaveWay());
    else if (open === 0 && (isNew || socket.bytesRead > idleBytesRead)) {
      this.end(connection, rawProblem(gaveWay()));
    } else socket.destroy();
  }
}

function allTaken(): FieldpostError {
  return new FieldpostError('busy', 'All connections are in use', {
    hint: 'close those that are not needed, or try again',
  });
}

function tooMuchAtOnce(maxBytes: number): FieldpostError {
  return new FieldpostError('busy', `The bodies of all requests together exceed ${maxBytes} bytes`, {
    hint: 'nothing was queued; send it again in a moment',
  });
}

function answersLeft(): FieldpostError {
  return new FieldpostError('busy', 'Answers that clients have not read fill the memory', {
    hint: 'read the answers, or try again',
  });
}

/** A silent connection gives its place to another client. */
function gaveWay(): FieldpostError {
  return new FieldpostError('timeout', 'All connections are in use, and this one has been silent longest', {
    hint: 'nothing was queued; send it again',
  });
}

/** The refusal of what comes during the stop. */
export function stoppingNow(): FieldpostError {
  return new FieldpostError('stopping', 'The daemon is stopping', { hint: 'try again when it runs again' });
}
