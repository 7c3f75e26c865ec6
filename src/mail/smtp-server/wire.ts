/**
 * The connection to one SMTP client: lines, replies, and how long the client may take for each.
 */
import type { Socket } from 'node:net';
import { discard, linger } from '../../base/http/connection.js';
import { HEADERS_TIMEOUT_MS, REQUEST_IDLE_MS, REQUEST_TIMEOUT_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { SecureSocket, TlsIdentity } from '../../base/system/tls-door.js';
import { SMTP_GREETING_MS, SMTP_IDLE_MS, SMTP_LINES_A_TURN, SMTP_UNREAD_BYTES_MAX } from '../mail-limits.js';
import { type InputLine, SmtpInput, type TakeOctets } from './input.js';
import { GOODBYE } from './replies.js';

interface WireOptions {
  readonly clock: Clock;
  readonly streamed: (bytes: number) => void;
}

/** One connection, plain or with TLS. */
export class Wire {
  /** The client's address. */
  readonly peer: string;
  /** Resolves when the connection is closed by either side. */
  readonly closed: Promise<unknown>;
  #socket: Socket;
  readonly #options: WireOptions;
  readonly #input: SmtpInput;
  readonly #alarm: Alarm;
  #late: string = GOODBYE.idle;
  #waitingSinceMs: number | null = null;
  #isOver = false;
  #isSecure = false;
  #isInHandshake = false;
  /** Lines since others last had their turn. */
  #lines = 0;

  constructor(socket: Socket, options: WireOptions) {
    this.#socket = socket;
    this.#options = options;
    this.peer = socket.remoteAddress ?? 'unknown';
    this.closed = new Promise((resolve) => socket.once('close', resolve));
    // SmtpInput notices a broken connection.
    socket.on('error', () => undefined);
    this.#input = new SmtpInput(socket);
    this.#alarm = new Alarm(options.clock, () => this.end(this.#late));
  }

  /** True: the last reply is sent, and nothing more is taken. */
  get isOver(): boolean {
    return this.#isOver;
  }

  get isSecure(): boolean {
    return this.#isSecure;
  }

  /** True if the client has sent more than was read. */
  get isAhead(): boolean {
    return this.#input.isAhead;
  }

  /** Since when it has waited for a command, on the boot's clock; null while it does something. */
  get waitingSinceMs(): number | null {
    return this.#waitingSinceMs;
  }

  /** Resolves when an early client has been heard. */
  async beforeGreeting(): Promise<void> {
    this.#waitingSinceMs = this.#options.clock.bootMs();
    this.#input.listen();
    await this.pause(SMTP_GREETING_MS);
  }

  /** The next line; ends the connection if it does not come in time. */
  async line(): Promise<InputLine> {
    this.#waitingSinceMs = this.#options.clock.bootMs();
    this.#ringIn(SMTP_IDLE_MS, GOODBYE.idle);
    // Lines that are here already need no turn of the event loop: a stream of them would stop the whole process.
    if (++this.#lines % SMTP_LINES_A_TURN === 0) await this.pause(0);
    const line = await this.#input.line();
    this.#alarm.off();
    this.#waitingSinceMs = null;
    return this.#isOver ? 'closed' : line;
  }

  /**
   * Gives every octet of a mail to `take`, and each number of octets that came to `onChunk`. False: the connection ended
   * before the mail did.
   */
  async content(take: TakeOctets, onChunk: (bytes: number) => void): Promise<boolean> {
    const { clock, streamed } = this.#options;
    const endMs = clock.bootMs() + REQUEST_TIMEOUT_MS;
    const onWait = () => this.#ringIn(Math.min(REQUEST_IDLE_MS, endMs - clock.bootMs()), GOODBYE.slow);
    const isWhole = await this.#input.content(take, onWait, (bytes) => {
      // While the disk catches up, the client waits for us.
      this.#alarm.off();
      streamed(bytes);
      onChunk(bytes);
    });
    this.#alarm.off();
    return isWhole && !this.#isOver;
  }

  say(reply: string): void {
    if (this.#isOver || !this.#socket.writable) return;
    this.#socket.write(`${reply}\r\n`);
    if (this.#socket.writableLength > SMTP_UNREAD_BYTES_MAX) this.destroy();
  }

  /** Goes on with TLS, or ends the connection and rejects with the reason. */
  async startTls(secure: SecureSocket, identity: TlsIdentity): Promise<void> {
    this.#input.leave();
    this.#isInHandshake = true;
    this.#waitingSinceMs = this.#options.clock.bootMs();
    const deadline = this.#options.clock.after(HEADERS_TIMEOUT_MS, () => this.destroy());
    try {
      this.#socket = await secure(this.#socket, identity);
    } catch (error) {
      this.destroy();
      throw error;
    } finally {
      deadline.stop();
      this.#isInHandshake = false;
      this.#waitingSinceMs = null;
    }
    this.#isSecure = true;
    this.#input.moveTo(this.#socket);
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#options.clock.after(ms, resolve));
  }

  /** Sends a last reply, if there is one, and closes the connection once the client has had time to read it. */
  end(reply: string | null): void {
    if (this.#isOver) return;
    if (this.#isInHandshake) {
      this.destroy();
      return;
    }
    if (reply !== null) this.say(reply);
    this.#isOver = true;
    this.#alarm.end();
    this.#input.leave();
    this.#input.end();
    if (this.#socket.destroyed) return;
    this.#socket.end();
    discard(this.#socket, this.#options.streamed);
    this.#socket.resume();
    linger(this.#socket, this.#options.clock);
  }

  /** Ends the connection without a word. */
  destroy(): void {
    this.#isOver = true;
    this.#alarm.end();
    this.#input.end();
    this.#socket.destroy();
  }

  #ringIn(ms: number, reply: string): void {
    this.#late = reply;
    this.#alarm.in(ms);
  }
}
