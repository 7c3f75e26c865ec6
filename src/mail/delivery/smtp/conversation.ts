/**
 * The exchange of commands and replies with a relay: one group of commands at a time, or pipelined if the relay allows it;
 * a deadline for each answer. Replies are counted and parsed here. A deadline, an error or an unexpected reply ends the
 * conversation and destroys the connection, so that no late reply is taken for the answer to another command.
 */
import { Readable } from 'node:stream';
import { REPLY_BYTES_MAX, REPLY_CHARS_MAX } from '../../../base/limits.js';
import { Alarm } from '../../../base/retry/alarm.js';
import type { Clock } from '../../../base/system/clock.js';
import { oneLine, withoutSecrets } from '../../../base/text.js';
import { Pipelining } from './pipelining.js';
import {
  type Ending,
  isLastLine,
  linesWithoutSecrets,
  type Phase,
  parseReply,
  type Reply,
  type Trouble,
} from './reply.js';
import { SessionError, type SessionWatch } from './session.js';
import { lateEnding, socketEnding } from './trouble.js';

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
      this.end(this.trouble(phases[0] ?? 'mail', 'garbage', 'sent more replies than there were commands'));
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
      this.end(this.trouble(this.#phase, 'garbage', 'its reply has no end'));
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
      this.end(this.trouble(this.#phase, 'garbage', `said "${shown}", which is no SMTP reply`));
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
      this.end(this.trouble(phase, 'garbage', `said "${reply.text}" unexpectedly`));
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
