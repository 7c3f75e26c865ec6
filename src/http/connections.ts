/**
 * The client connections of a service, within their limits: who has a place, who waits for one, how each ends. A client
 * that is refused while it still writes gets time to read why: if we closed at once, the kernel would answer its next
 * bytes with a reset, and the client would lose the answer. http.ts makes it.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { FieldpostError } from '../errors.js';
import {
  CONNECTIONS_MAX,
  CONNECTIONS_WAITING_MAX,
  DROPPED_BYTES_MIN,
  NEW_CONNECTION_MS,
  PLACE_CHECK_MS,
  PLACE_WAIT_MS,
  REFUSED_LINGER_MS,
  SECOND_MS,
} from '../limits.js';
import { Alarm } from '../retry/alarm.js';
import type { Clock } from '../system/clock.js';
import { BodyWatch, type Receiving } from './body-watch.js';
import { type Connection, type Door, discard, newConnection, silentSinceMs } from './connection.js';
import type { HttpMemory } from './http-memory.js';
import { rawProblem } from './problem.js';
import { allTaken, answersLeft, bodiesTooLarge, gaveWay, stoppingNow } from './refusals.js';

/** All client connections of a service. */
export class Connections {
  readonly #clock: Clock;
  /** How many bytes the bodies and the answers of all connections may take. */
  readonly memory: HttpMemory;
  readonly #bodies: BodyWatch;
  readonly #all = new Map<Socket, Connection>();
  /** The connections that wait for a place, in the order of their arrival. */
  readonly #waiting = new Set<Connection>();
  readonly #placeAlarm: Alarm;
  /** No new requests; every answer is the last of its connection. */
  stopping = false;
  #whenEmpty: (() => void) | null = null;

  constructor(clock: Clock, memory: HttpMemory) {
    this.#clock = clock;
    this.memory = memory;
    this.#bodies = new BodyWatch(clock);
    this.#placeAlarm = new Alarm(clock, () => this.#refuseTooLong());
  }

  /** Adds a new connection. If all places are taken it waits for one, unread; if too many wait already, it is refused. */
  add(socket: Socket, kind: Door): void {
    const connection = newConnection(socket, kind, this.#clock.bootMs(), (it) => this.#answered(it));
    connection.isNew = !this.stopping;
    this.#all.set(socket, connection);
    socket.once('close', () => {
      this.#all.delete(socket);
      this.#waiting.delete(connection);
      if (this.#all.size === 0) this.#whenEmpty?.();
      this.#givePlaces();
    });
    if (this.#waiting.size === 0 && this.#taken() <= CONNECTIONS_MAX) return;
    if (this.#waiting.size >= CONNECTIONS_WAITING_MAX) {
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
   * Runs `start` once the earlier requests of the connection are answered and the client has taken the answers (RFC 9112
   * §9.3.2). Until then nothing more is read from it, so that unread answers do not pile up.
   */
  inTurn(connection: Connection, start: () => void): void {
    connection.open++;
    if (connection.open === 1) {
      start();
      return;
    }
    connection.queue.push(start);
    connection.socket.pause();
  }

  /**
   * Counts bytes of a body, or of a form's texts, which stay in memory until the answer is out. Throws busy if the sum is
   * too large; connections whose bodies have stalled are ended first.
   */
  keep(connection: Connection, bytes: number): void {
    for (;;) {
      let sum = bytes;
      for (const { keptBytes } of this.#all.values()) sum += keptBytes;
      if (sum <= this.memory.bodiesBytes) break;
      if (!this.#dropSilent(({ keptBytes, receiving }) => keptBytes > 0 && receiving !== null))
        throw bodiesTooLarge(this.memory.bodiesBytes);
    }
    connection.keptBytes += bytes;
  }

  /** Watches a body until received(): a byte must arrive every REQUEST_IDLE_MS. */
  receive(connection: Connection, req: IncomingMessage, fail: (error: FieldpostError) => void): Receiving {
    connection.receiving = this.#bodies.begin(req, fail);
    return connection.receiving;
  }

  /** The body of `req` is complete, or was given up. The client may have begun the next one already. */
  received(connection: Connection, req: IncomingMessage): void {
    if (connection.receiving?.req !== req) return;
    this.#bodies.end(connection.receiving);
    connection.receiving = null;
  }

  /** An answer was written. It counts until the client has taken it, or at least the kernel has. */
  sent(connection: Connection, bytes: number): void {
    connection.answer = { bytes, sinceMs: this.#clock.bootMs() };
  }

  /**
   * Throws busy unless an answer of this size fits into memory beside those that clients have not taken yet. Connections
   * that have left their answers longest are ended first.
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
      discard(connection.socket, connection.socket, this.memory.streamed);
      // A connection that waited for a place is paused.
      connection.socket.resume();
      this.#linger(connection.socket);
    }
  }

  /** To be called before an answer with `Connection: close`: the client may still be writing its request. */
  lingerAfterAnswer(connection: Connection, req: IncomingMessage): void {
    const { socket } = connection;
    this.#close(connection);
    // Requests behind an answer with `Connection: close` are not carried out.
    connection.open -= connection.queue.length;
    connection.queue.length = 0;
    discard(req, socket, this.memory.streamed);
    socket.resume();
    // node:http calls this after the last answer; its own version closes both directions at once.
    socket.destroySoon = () => {
      socket.end();
      this.#linger(socket);
    };
  }

  /**
   * Closes the connections without a request; resolves when all are gone, which is forced after `withinMs`. New ones are
   * closed later: a program that has just connected would take a reset for a refusal.
   */
  async stop(withinMs: number): Promise<void> {
    this.stopping = true;
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

  #answered(connection: Connection): void {
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

  /** It gives its place to others. */
  #close(connection: Connection): void {
    connection.closing = true;
    if (this.#waiting.size > 0) queueMicrotask(() => this.#givePlaces());
  }

  /** Gives free places to the connections that have waited longest. Looks again as long as any waits. */
  #givePlaces(): void {
    for (const connection of this.#waiting) {
      if (this.#taken() >= CONNECTIONS_MAX && !this.#dropSilent(() => true)) break;
      this.#waiting.delete(connection);
      connection.isWaiting = false;
      connection.idleSinceMs = this.#clock.bootMs();
      connection.socket.resume();
    }
    if (this.#waiting.size > 0 && !this.#placeAlarm.isSet) this.#placeAlarm.in(PLACE_CHECK_MS);
  }

  /** Refuses the connections that have waited too long for a place. */
  #refuseTooLong(): void {
    const sinceMs = this.#clock.bootMs() - PLACE_WAIT_MS;
    for (const it of this.#waiting) if (it.idleSinceMs <= sinceMs) this.#refuse(it, allTaken());
    this.#givePlaces();
  }

  /** How many places are taken. Closing connections do not count. */
  #taken(): number {
    let count = 0;
    for (const { isWaiting, closing } of this.#all.values()) if (!isWaiting && !closing) count++;
    return count;
  }

  /** Ends a connection that waits for a place. */
  #refuse(connection: Connection, why: FieldpostError): void {
    this.#waiting.delete(connection);
    connection.isWaiting = false;
    this.end(connection, rawProblem(why));
  }

  /**
   * Ends the connection that has been silent longest, of those that `mayGo` allows; false if there is none. A connection
   * that was used within the last second is spared: its next bytes may be under way.
   */
  #dropSilent(mayGo: (connection: Connection) => boolean): boolean {
    let longest: Connection | null = null;
    let longestMs = this.#clock.bootMs() - SECOND_MS + 1;
    for (const connection of this.#all.values()) {
      if (connection.isWaiting || connection.closing || !mayGo(connection)) continue;
      const sinceMs = silentSinceMs(connection);
      if (sinceMs === null || sinceMs >= longestMs) continue;
      longest = connection;
      longestMs = sinceMs;
    }
    if (longest === null) return false;
    this.#giveWay(longest);
    return true;
  }

  /** Tells that buffers of this size are no longer used. Small ones are collected soon anyway. */
  drop(bytes: number): void {
    if (bytes >= DROPPED_BYTES_MIN) this.memory.dropped(bytes);
  }

  /** Its body and its answer are no longer in use. */
  #forget(connection: Connection): void {
    this.drop(connection.keptBytes + (connection.answer?.bytes ?? 0));
    connection.answer = null;
    connection.keptBytes = 0;
  }

  /** Ends a connection for another one. It is told why if it has asked for something and can still read. */
  #giveWay(connection: Connection): void {
    const { socket, receiving, open, isNew, idleBytesRead } = connection;
    this.#close(connection);
    this.#forget(connection);
    if (receiving !== null) receiving.fail(gaveWay());
    else if (open === 0 && (isNew || socket.bytesRead > idleBytesRead)) {
      this.end(connection, rawProblem(gaveWay()));
    } else socket.destroy();
  }

  /** Keeps reading what the client sends for REFUSED_LINGER_MS, then closes the socket. */
  #linger(socket: Socket): void {
    const deadline = this.#clock.after(REFUSED_LINGER_MS, () => socket.destroy());
    socket.once('close', () => deadline.stop());
  }
}
