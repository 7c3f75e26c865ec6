/**
 * The exchange of commands and replies with a relay: one group of commands at a time, or pipelined if the relay allows it;
 * a deadline for each answer. A deadline, an error or an unexpected reply ends the conversation and destroys the connection,
 * so that no late reply is taken for the answer to another command.
 */
import { Readable } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { KIB, REPLY_CHARS_MAX } from '../../../base/limits.js';
import { Alarm } from '../../../base/retry/alarm.js';
import type { Clock } from '../../../base/system/clock.js';
import { oneLine, withoutSecrets } from '../../../base/text.js';
import {
  type Ending,
  isLastLine,
  lateEnding,
  linesWithoutSecrets,
  type Phase,
  parseReply,
  type Reply,
  SessionError,
  socketEnding,
  type Trouble,
} from './protocol.js';

export const REPLY_BYTES_MAX = 64 * KIB;
/** Pauses this long between all replies to one pipelined write mean that the relay delays each of them. */
export const TRICKLE_MS = 500;
/**
 * A pause this long between two replies to one pipelined write is a stall if it costs more than the pipelining saves. Linux
 * delays an acknowledgement by 40 ms; a timer tick of 10 ms can make it 30 ms, and we may be late to read the first reply.
 */
export const STALL_MS = 25;
/** After this many stalled writes in a row, commands are sent one at a time. */
export const STALLED_WRITES_MAX = 3;

/**
 * What a session tells of its way, besides its end: the name has an address; the address that was connected; the
 * certificate, before it is verified, and after; a mechanism of AUTH that is tried; each reply that refuses nothing.
 */
export type SessionStep =
  | { readonly kind: 'resolved' }
  | { readonly kind: 'connected'; readonly address: string }
  | { readonly kind: 'certificate'; readonly socket: TLSSocket }
  | { readonly kind: 'verified' }
  | { readonly kind: 'login'; readonly mechanism: string }
  | {
      readonly kind: 'reply';
      readonly phase: Phase;
      readonly reply: Reply;
      readonly lines: readonly string[];
    };

/** Is told each step of a session as it happens. */
export type SessionWatch = (step: SessionStep) => void;

/** The connection. Its owner calls received, line and lost. */
interface Wire {
  /** Rejects when the connection is lost. */
  write(data: string | Buffer | Readable): Promise<unknown>;
  /** Destroys the connection, at once. */
  close(): Promise<unknown>;
}

/** Commands that are under way: the phase of each, and the replies so far. */
export interface Group {
  readonly phases: Phase[];
  readonly replies: Reply[];
  /** The lines of the last reply. */
  lines: readonly string[];
  /** The first reply that refuses. It decides; later replies do not matter. */
  refusal: Ending | null;
}

interface Pending extends Group {
  readonly deadlineMs: number;
  readonly source: Readable | null;
  readonly resolve: (group: Group) => void;
  readonly reject: (error: SessionError) => void;
}

/** One conversation per connection. */
export class Conversation {
  readonly pipelining = new Pipelining();
  readonly #wire: Wire;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #watch: SessionWatch | undefined;
  /** The first is under way. The commands of the others were sent too; their replies will follow. */
  readonly #groups: Pending[] = [];
  /** Moved with each reply: cheaper than a timer for each. */
  readonly #deadline: Alarm;
  #deadlineMs = 0;
  #doubt: Ending | null = null;
  #closed: Promise<unknown> = Promise.resolve();
  #lines: string[] = [];
  /** The beginning of a line that has not ended. */
  #partial = '';
  #pendingChars = 0;
  #isMidLine = false;
  #secrets: readonly string[] = [];

  /** `timeoutMs`: the default deadline of each answer. */
  constructor(wire: Wire, options: { timeoutMs: number; clock: Clock; watch?: SessionWatch }) {
    this.#wire = wire;
    this.#timeoutMs = options.timeoutMs;
    this.#clock = options.clock;
    this.#watch = options.watch;
    this.#deadline = new Alarm(options.clock, () => this.#late());
  }

  /** Why the conversation has ended; null before that. */
  get doubt(): Ending | null {
    return this.#doubt;
  }

  get isBusy(): boolean {
    return this.#groups.length > 0;
  }

  /**
   * Writes a group of commands; resolves with all their replies. `deadlineMs` holds for each reply. Rejects with
   * SessionError, and the conversation has ended.
   */
  exchange(phases: Phase[], data: string | Buffer | Readable, deadlineMs = this.#timeoutMs): Promise<Group> {
    const done = this.begin(phases, deadlineMs, data instanceof Readable ? data : null);
    // Nothing else of a command is told: it may be a secret.
    const mechanism = this.#watch && /^AUTH ([\w-]+)/.exec(String(data))?.[1];
    if (mechanism) this.#watch?.({ kind: 'login', mechanism });
    if (this.#doubt === null) this.#wire.write(data).catch((error) => this.lost(error));
    return done;
  }

  /**
   * A group for which nothing is written here: the greeting, a handshake that finish() ends, or commands that
   * went out with the group before (RFC 2920).
   */
  begin(phases: Phase[], deadlineMs = this.#timeoutMs, source: Readable | null = null): Promise<Group> {
    // The relay sent text without being asked. After STARTTLS such text would be taken for text under TLS.
    if (!this.isBusy && (this.#isMidLine || this.#lines.length > 0))
      this.end(troubleIn(phases[0] ?? 'mail', 'garbage', 'sent more replies than there were commands'));
    return new Promise((resolve, reject) => {
      if (this.#doubt !== null) {
        reject(new SessionError(this.#doubt));
        return;
      }
      this.#groups.push({
        phases,
        replies: [],
        lines: [],
        refusal: null,
        deadlineMs,
        source,
        resolve,
        reject,
      });
      if (this.#groups.length > 1) return;
      this.pipelining.wrote(this.#clock.bootMs());
      this.extend(deadlineMs);
    });
  }

  /** Sets the phase of the group under way, which has one step, and restarts its deadline. */
  enter(phase: Phase, deadlineMs = this.#timeoutMs): void {
    const [group] = this.#groups;
    if (group !== undefined) group.phases[0] = phase;
    this.extend(deadlineMs);
  }

  /** Restarts the deadline of the group under way. */
  extend(deadlineMs = this.#timeoutMs): void {
    if (!this.isBusy) return;
    this.#deadlineMs = deadlineMs;
    this.#deadline.in(deadlineMs);
  }

  /** Also called after the last group, whose deadline stays: the next group moves it. */
  #late(): void {
    if (this.isBusy) void this.end(lateEnding(this.#phase, this.#deadlineMs));
  }

  finish(): void {
    const group = this.#groups.shift();
    if (group === undefined) return;
    const [next] = this.#groups;
    if (next !== undefined) this.extend(next.deadlineMs);
    group.resolve(group);
  }

  /** Returns the group if it was not refused. Otherwise ends the conversation, and throws SessionError. */
  demand(group: Group): Group {
    if (group.refusal !== null) this.end(group.refusal);
    if (this.#doubt !== null) throw new SessionError(this.#doubt);
    return group;
  }

  get #phase(): Phase {
    const [group] = this.#groups;
    return group?.phases[group.replies.length] ?? 'mail';
  }

  /** Text has arrived. line() is called for each whole line. */
  received(chunk: string): void {
    this.#isMidLine = !chunk.endsWith('\n');
    if (this.#partial.length < REPLY_CHARS_MAX) this.#partial += chunk.slice(0, REPLY_CHARS_MAX);
    this.#pendingChars += chunk.length;
    if (this.#pendingChars > REPLY_BYTES_MAX)
      this.end(troubleIn(this.#phase, 'garbage', 'its reply has no end'));
  }

  /** From now on these are taken out of all that the relay says: it may repeat a login in any later reply. */
  hide(secrets: readonly string[]): void {
    this.#secrets = secrets;
  }

  line(line: string): void {
    if (this.#doubt !== null) return;
    const isLast = isLastLine(line);
    this.#lines.push(line);
    this.#partial = '';
    if (isLast === false) return;
    const said = this.#lines;
    const reply = isLast === null ? null : parseReply(said);
    // A line without a code does not take back the reply that has begun before it.
    this.#lines = isLast === null ? said.slice(0, -1) : [];
    this.#pendingChars = 0;
    if (reply === null) {
      const shown = oneLine(withoutSecrets(line, this.#secrets));
      this.end(troubleIn(this.#phase, 'garbage', `said "${shown}", which is no SMTP reply`));
      return;
    }
    const lines = this.#secrets.length === 0 ? said : linesWithoutSecrets(said, this.#secrets);
    this.#answer(lines === said ? reply : { ...reply, text: parseReply(lines)?.text ?? '' }, lines);
  }

  #answer(reply: Reply, lines: readonly string[]): void {
    const [group] = this.#groups;
    const phase = this.#phase;
    const isRefusal = reply.code >= 400;
    if (!isRefusal && (group === undefined || !isExpected(phase, reply.code))) {
      this.end(troubleIn(phase, 'garbage', `said "${reply.text}" unexpectedly`));
      return;
    }
    if (group !== undefined) {
      group.replies.push(reply);
      group.lines = lines;
      if (isRefusal) group.refusal ??= { phase, reply };
      else if (reply.code !== 334) this.#watch?.({ kind: 'reply', phase, reply, lines });
    }
    // 421: the relay closes the connection. After a reply in the middle of the content it cannot go on.
    if (group === undefined || reply.code === 421 || phase === 'content') this.end({ phase, reply });
    else if (group.replies.length === group.phases.length) this.finish();
    // The deadline holds for each reply.
    else this.extend(group.deadlineMs);
    this.pipelining.replied(this.#clock.bootMs(), !this.isBusy);
  }

  /** The wire is broken, or was ended by the relay: then nothing was thrown. */
  lost(thrown: unknown = ''): void {
    this.end(socketEnding(this.#phase, thrown, this.#clock.wallMs()));
  }

  /** Ends the conversation over trouble that only the caller could see. Throws SessionError. */
  fail(phase: Phase, kind: Trouble['kind'], words: string): never {
    const ending = troubleIn(phase, kind, words);
    this.end(ending);
    throw new SessionError(ending);
  }

  /** Ends it from our side, whatever is under way. Resolves when the connection is closed. */
  hangUp(): Promise<unknown> {
    return this.end(troubleIn(this.#phase, 'lost', 'the session was closed'));
  }

  /** The reply that has begun, if it accepts. */
  #begun(): Reply | null {
    const [line = this.#partial] = this.#lines;
    const reply = parseReply(linesWithoutSecrets([line], this.#secrets));
    return reply !== null && reply.code < 300 ? reply : null;
  }

  /** The one way out: the connection is destroyed, and whoever waits is told why. Resolves when it is closed. */
  end(ending: Ending): Promise<unknown> {
    if (this.#doubt !== null) return this.#closed;
    const [group, ...others] = this.#groups.splice(0);
    // A relay that refuses and hangs up has refused.
    this.#doubt = group?.refusal ?? ending;
    this.#deadline.end();
    // Otherwise it would be read to its end for nothing.
    group?.source?.destroy();
    // The code of its first line decides, even if the reply does not end.
    const begun = group?.phases[group.replies.length] === 'dot' ? this.#begun() : null;
    // Close in a later microtask, because the caller that reported the end may still use the connection.
    this.#closed = Promise.resolve()
      .then(() => this.#wire.close())
      .catch(() => undefined);
    if (group !== undefined && begun !== null) {
      group.replies.push(begun);
      group.resolve(group);
    } else group?.reject(new SessionError(this.#doubt));
    // The relay did not get to the later groups: their messages were not tried.
    for (const { reject } of others) reject(new SessionError({ ...this.#doubt, phase: 'mail' }));
    return this.#closed;
  }
}

function isExpected(phase: Phase, code: number): boolean {
  if (phase === 'data') return code === 354;
  // Before its final dot a message can only be refused. During a TLS handshake there are no replies.
  if (phase === 'content' || phase === 'tls') return false;
  return code < 300 || ((phase === 'auth' || phase === 'token') && code === 334);
}

/**
 * Whether pipelining saves time with one relay: when its replies come decides, never why they are late. A relay with Nagle's
 * algorithm sends the first of several replies at once. The others wait for our kernel's acknowledgement, which comes after
 * 40 ms because we have nothing to send.
 */
export class Pipelining {
  /** The shortest time from a write to the first reply. */
  #roundTripMs = Number.POSITIVE_INFINITY;
  /** The last write, or the last reply to it. */
  #lastMs = 0;
  /** Replies to the last write, and the waits between them. */
  #replies = 0;
  #shortestMs = 0;
  #longestMs = 0;
  /** Stalled writes in a row. */
  #stalled = 0;
  #pays = true;

  /** False once it has cost more than it saved. This holds for as long as the connection. */
  get pays(): boolean {
    return this.#pays;
  }

  /** It is not to be used. */
  end(): void {
    this.#pays = false;
  }

  /** One or more commands go out in one write. */
  wrote(nowMs: number): void {
    this.#lastMs = nowMs;
    this.#replies = 0;
    this.#shortestMs = Number.POSITIVE_INFINITY;
    this.#longestMs = 0;
  }

  /** One of them is answered; `isLast`: all of them are. */
  replied(nowMs: number, isLast: boolean): void {
    const waitMs = nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    if (this.#replies++ === 0) {
      this.#roundTripMs = Math.min(this.#roundTripMs, waitMs);
      return;
    }
    this.#shortestMs = Math.min(this.#shortestMs, waitMs);
    this.#longestMs = Math.max(this.#longestMs, waitMs);
    if (isLast) this.#judge();
  }

  #judge(): void {
    // One command at a time, each command but the first costs one more round trip.
    const savedMs = (this.#replies - 1) * this.#roundTripMs;
    const isStalled = this.#longestMs >= STALL_MS && this.#longestMs > savedMs;
    this.#stalled = isStalled ? this.#stalled + 1 : 0;
    // A relay that delays each reply delays EHLO too, so its round trip says nothing.
    if (this.#stalled === STALLED_WRITES_MAX || this.#shortestMs >= TRICKLE_MS) this.#pays = false;
  }
}

function troubleIn(phase: Phase, kind: Trouble['kind'], words: string): Ending {
  return { phase, trouble: { kind, words } };
}
