/**
 * How to talk to a relay, whatever is said: one group of commands at a time, or pipelined where the relay allows it; a
 * deadline for each answer; replies are counted and read here. A deadline, an error or an unexpected reply ends the
 * conversation and destroys the connection, so that no late reply is taken for the answer to another command.
 * Used by smtp-session.ts and smtp-transport.ts.
 */
import { Readable } from 'node:stream';
import { REPLY_BYTES_MAX, TRICKLE_MS } from '../../limits.js';
import type { Clock, Timer } from '../../system/clock.js';
import { oneLine } from '../../text.js';
import { type Ending, isLastLine, type Phase, parseReply, type Reply, type Trouble } from './reply.js';
import { lateEnding, socketEnding } from './trouble.js';

/** What carries the bytes; it tells of what happens by received, line and lost. */
export interface Wire {
  /** Rejects when the connection is lost. */
  write(data: string | Buffer | Readable): Promise<unknown>;
  /** Destroys the connection, at once. */
  close(): Promise<unknown>;
}

/** A conversation that never began, or did not survive. */
export class SessionError extends Error {
  readonly ending: Ending;

  constructor(ending: Ending) {
    super('reply' in ending ? ending.reply.text : ending.trouble.words);
    this.name = 'SessionError';
    this.ending = ending;
  }
}

/** Commands that are under way: the phase of each, and the replies so far. */
export interface Group {
  readonly phases: Phase[];
  readonly replies: Reply[];
  /** The lines of the last reply. */
  lines: readonly string[];
  /** The first reply that refuses: it decides, whatever the others say. */
  refusal: Ending | null;
  /** Each reply came long after the one before: the relay delays them, and nothing is gained by pipelining. */
  hasTrickled: boolean;
}

interface Pending extends Group {
  readonly deadlineMs: number;
  readonly source: Readable | null;
  readonly resolve: (group: Group) => void;
  readonly reject: (error: SessionError) => void;
}

/** Made for one connection; of no use after its end. */
export class Conversation {
  readonly #wire: Wire;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  /** The first is under way; what is behind it has been said as well, and its replies will follow. */
  readonly #groups: Pending[] = [];
  #deadline: Timer | null = null;
  #doubt: Ending | null = null;
  #closed: Promise<unknown> = Promise.resolve();
  #lines: string[] = [];
  #pendingChars = 0;
  #isMidLine = false;
  #repliedMs = 0;

  /** `timeoutMs` is the deadline of each answer to a group that names no other. */
  constructor(wire: Wire, options: { timeoutMs: number; clock: Clock }) {
    this.#wire = wire;
    this.#timeoutMs = options.timeoutMs;
    this.#clock = options.clock;
  }

  /** Why the conversation is over; null while it is not. */
  get doubt(): Ending | null {
    return this.#doubt;
  }

  get isBusy(): boolean {
    return this.#groups.length > 0;
  }

  /**
   * Writes a group of commands; resolves with all their replies, for each of which `deadlineMs` counts. Rejects with
   * SessionError, and all is over.
   */
  exchange(phases: Phase[], data: string | Buffer | Readable, deadlineMs = this.#timeoutMs): Promise<Group> {
    const done = this.begin(phases, deadlineMs, data instanceof Readable ? data : null);
    if (this.#doubt === null) this.#wire.write(data).catch((error) => this.lost(error));
    return done;
  }

  /**
   * A group for which nothing is written here: the greeting, a handshake that finish() ends, or commands that
   * went out with the group before (RFC 2920).
   */
  begin(phases: Phase[], deadlineMs = this.#timeoutMs, source: Readable | null = null): Promise<Group> {
    // Nobody asked for it; and after STARTTLS it would be read as if it had come through TLS.
    if (!this.isBusy && (this.#isMidLine || this.#lines.length > 0))
      this.end(this.trouble(phases[0] ?? 'mail', 'garbage', 'said more than it was asked for'));
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
        hasTrickled: phases.length > 1,
        deadlineMs,
        source,
        resolve,
        reject,
      });
      if (this.#groups.length === 1) this.extend(deadlineMs);
    });
  }

  /** The only step of the group under way has come to this phase. */
  enter(phase: Phase, deadlineMs = this.#timeoutMs): void {
    const [group] = this.#groups;
    if (group !== undefined) group.phases[0] = phase;
    this.extend(deadlineMs);
  }

  /** Starts the deadline of the group under way anew. */
  extend(deadlineMs = this.#timeoutMs): void {
    if (!this.isBusy) return;
    this.#deadline?.stop();
    this.#deadline = this.#clock.after(deadlineMs, () => this.end(lateEnding(this.#phase, deadlineMs)));
  }

  finish(): void {
    const group = this.#groups.shift();
    if (group === undefined) return;
    this.#deadline?.stop();
    const [next] = this.#groups;
    if (next !== undefined) this.extend(next.deadlineMs);
    group.resolve(group);
  }

  /** The group if it was not refused; otherwise all is over, and SessionError is thrown. */
  demand(group: Group): Group {
    if (group.refusal !== null) this.end(group.refusal);
    if (this.#doubt !== null) throw new SessionError(this.#doubt);
    return group;
  }

  get #phase(): Phase {
    const [group] = this.#groups;
    return group?.phases[group.replies.length] ?? 'mail';
  }

  /** The wire brought text, of which line() will tell the whole lines. */
  received(chunk: string): void {
    this.#isMidLine = !chunk.endsWith('\n');
    this.#pendingChars += chunk.length;
    if (this.#pendingChars > REPLY_BYTES_MAX)
      this.end(this.trouble(this.#phase, 'garbage', 'its reply has no end'));
  }

  line(line: string): void {
    if (this.#doubt !== null) return;
    const isLast = isLastLine(line);
    this.#lines.push(line);
    if (isLast === false) return;
    const lines = this.#lines;
    const reply = isLast === null ? null : parseReply(lines);
    this.#lines = [];
    this.#pendingChars = 0;
    if (reply !== null) this.#answer(reply, lines);
    else this.end(this.trouble(this.#phase, 'garbage', `said "${oneLine(line)}", which is no SMTP reply`));
  }

  #answer(reply: Reply, lines: readonly string[]): void {
    const [group] = this.#groups;
    const phase = this.#phase;
    const isRefusal = reply.code >= 400;
    if (!isRefusal && (group === undefined || !isExpected(phase, reply.code))) {
      this.end(this.trouble(phase, 'garbage', `said "${reply.text}" out of turn`));
      return;
    }
    const nowMs = this.#clock.bootMs();
    if (group !== undefined) {
      if (group.replies.length > 0 && nowMs - this.#repliedMs < TRICKLE_MS) group.hasTrickled = false;
      group.replies.push(reply);
      group.lines = lines;
      if (isRefusal) group.refusal ??= { phase, reply };
    }
    // 421 is a good-bye. A reply to content that is not yet through leaves us in the middle of it.
    if (group === undefined || reply.code === 421 || phase === 'content') this.end({ phase, reply });
    else if (group.replies.length === group.phases.length) this.finish();
    // The deadline is meant for each answer.
    else this.extend(group.deadlineMs);
    this.#repliedMs = nowMs;
  }

  /** The wire is broken, or was ended by the relay: then nothing was thrown. */
  lost(thrown: unknown = ''): void {
    this.end(socketEnding(this.#phase, thrown, this.#clock.wallMs()));
  }

  trouble(phase: Phase, kind: Trouble['kind'], words: string): Ending {
    return { phase, trouble: { kind, words } };
  }

  /** Ends the conversation over trouble that only the caller could see. Throws SessionError. */
  fail(phase: Phase, kind: Trouble['kind'], words: string): never {
    const ending = this.trouble(phase, kind, words);
    this.end(ending);
    throw new SessionError(ending);
  }

  /** Ends it from our side, whatever is under way. Resolves when the connection is closed. */
  hangUp(): Promise<unknown> {
    return this.end(this.trouble(this.#phase, 'lost', 'the session was closed'));
  }

  /** The one way out: the connection is destroyed, and whoever waits is told why. Resolves when it is closed. */
  end(ending: Ending): Promise<unknown> {
    if (this.#doubt !== null) return this.#closed;
    const [group, ...others] = this.#groups.splice(0);
    // A relay that refuses and hangs up has refused.
    this.#doubt = group?.refusal ?? ending;
    this.#deadline?.stop();
    // Left alone, it would be read to its end although nobody takes it.
    group?.source?.destroy();
    // Not from within: whatever told us of the end may still have the connection in its hands.
    this.#closed = Promise.resolve()
      .then(() => this.#wire.close())
      .catch(() => undefined);
    group?.reject(new SessionError(this.#doubt));
    // To them nothing has been said: their turn had not come.
    for (const { reject } of others) reject(new SessionError({ ...this.#doubt, phase: 'mail' }));
    return this.#closed;
  }
}

function isExpected(phase: Phase, code: number): boolean {
  if (phase === 'data') return code === 354;
  // Before its final dot, a message can only be refused; and in a handshake the relay does not speak.
  if (phase === 'content' || phase === 'tls') return false;
  return code < 300 || (phase === 'auth' && code === 334);
}
