/**
 * The connections of a service: how many there are, which of them wait for what, and how they end. A client
 * that is refused while it still writes is given the time to read why: closing at once would make the kernel
 * answer its next bytes with a reset, which throws away what it has not read yet. http.ts makes them.
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

/** All of them; each limit on connections is kept here. */
export class Connections {
  readonly #clock: Clock;
  /** How much the bodies, and the answers, of all may take. */
  readonly memory: HttpMemory;
  readonly #bodies: BodyWatch;
  readonly #all = new Map<Socket, Connection>();
  /** Those that wait for a place, the first come first. */
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

  /** Takes a new connection in. Where all places are taken it waits for one, unread; where too many wait, it is refused. */
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
    // node:http has asked for its data, and gets it from the next tick on.
    queueMicrotask(() => connection.isWaiting && socket.pause());
    this.#givePlaces();
  }

  of(socket: Socket): Connection | undefined {
    return this.#all.get(socket);
  }

  /** True while somebody waits for a place: then every answer is the last of its connection. */
  get othersWait(): boolean {
    return this.#waiting.size > 0;
  }

  /**
   * Runs `start` once the requests before it are answered and their answers taken (RFC 9112 §9.3.2); until then
   * nothing more is read from the connection, so that unread answers do not pile up.
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
   * So much more of a body, or of a form's texts, stays in memory until the answer is out. Throws busy when that is
   * too much; bodies that have stopped coming give way first.
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

  /** From now until received(), a body must bring a byte every REQUEST_IDLE_MS. */
  receive(connection: Connection, req: IncomingMessage, fail: (error: FieldpostError) => void): Receiving {
    connection.receiving = this.#bodies.begin(req, fail);
    return connection.receiving;
  }

  /** The body of `req` has come, or has been given up. The client may have begun the next one already. */
  received(connection: Connection, req: IncomingMessage): void {
    if (connection.receiving?.req !== req) return;
    this.#bodies.end(connection.receiving);
    connection.receiving = null;
  }

  /** The answer has been given to the kernel, which may not take all of it before the client does. */
  sent(connection: Connection, bytes: number): void {
    connection.answer = { bytes, sinceMs: this.#clock.bootMs() };
  }

  /**
   * Throws busy unless an answer of so many bytes fits into memory, beside those that clients have not taken yet.
   * Those whose answers have been left longest give way first.
   */
  makeRoomForAnswer(bytes: number): void {
    for (;;) {
      let sum = 0;
      for (const { answer } of this.#all.values()) sum += answer?.bytes ?? 0;
      if (sum === 0 || sum + bytes <= this.memory.answersBytes) return;
      if (!this.#dropSilent(({ answer }) => answer !== null)) throw answersLeft();
    }
  }

  /** Ends the connection with the bytes of a last answer, after those of the requests still open. */
  end(connection: Connection, lastAnswer: string): void {
    this.#close(connection);
    if (connection.open > 0) connection.parting = lastAnswer;
    else if (connection.socket.writable) {
      connection.socket.end(lastAnswer);
      discard(connection.socket, connection.socket, this.memory.streamed);
      // One that waited for a place has not been read from.
      connection.socket.resume();
      this.#linger(connection.socket);
    }
  }

  /** To be called before an answer with `Connection: close`: the client may still be writing its request. */
  lingerAfterAnswer(connection: Connection, req: IncomingMessage): void {
    const { socket } = connection;
    this.#close(connection);
    // What follows an answer with `Connection: close` is not carried out.
    connection.open -= connection.queue.length;
    connection.queue.length = 0;
    discard(req, socket, this.memory.streamed);
    socket.resume();
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

  /** From here on it holds its place no more. */
  #close(connection: Connection): void {
    connection.closing = true;
    if (this.#waiting.size > 0) queueMicrotask(() => this.#givePlaces());
  }

  /** Gives the free places to those that have waited longest for one. As long as somebody waits, it looks again. */
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

  /** Refuses those that have waited too long for a place. */
  #refuseTooLong(): void {
    const sinceMs = this.#clock.bootMs() - PLACE_WAIT_MS;
    for (const it of this.#waiting) if (it.idleSinceMs <= sinceMs) this.#refuse(it, allTaken());
    this.#givePlaces();
  }

  /** How many places are taken. Those that are closing hold theirs no more. */
  #taken(): number {
    let count = 0;
    for (const { isWaiting, closing } of this.#all.values()) if (!isWaiting && !closing) count++;
    return count;
  }

  /** Ends one that waits for a place. */
  #refuse(connection: Connection, why: FieldpostError): void {
    this.#waiting.delete(connection);
    connection.isWaiting = false;
    this.end(connection, rawProblem(why));
  }

  /**
   * Ends, of the connections that `mayGo` names, the one that has been silent longest; false if there is none. What
   * was used within the last second may have its next bytes under way to us.
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

  /** So many octets are done with. A few are gone soon by themselves. */
  drop(bytes: number): void {
    if (bytes >= DROPPED_BYTES_MIN) this.memory.dropped(bytes);
  }

  /** What was kept of its body and its answer is done with. */
  #forget(connection: Connection): void {
    this.drop(connection.keptBytes + (connection.answer?.bytes ?? 0));
    connection.answer = null;
    connection.keptBytes = 0;
  }

  /** It is told why, where it has asked for something and can still hear it. */
  #giveWay(connection: Connection): void {
    const { socket, receiving, open, isNew, idleBytesRead } = connection;
    this.#close(connection);
    this.#forget(connection);
    if (receiving !== null) receiving.fail(gaveWay());
    else if (open === 0 && (isNew || socket.bytesRead > idleBytesRead)) {
      this.end(connection, rawProblem(gaveWay()));
    } else socket.destroy();
  }

  /** Lets what the client still sends come for a while. */
  #linger(socket: Socket): void {
    const deadline = this.#clock.after(REFUSED_LINGER_MS, () => socket.destroy());
    socket.once('close', () => deadline.stop());
  }
}
