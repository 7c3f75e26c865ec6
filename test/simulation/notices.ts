/**
 * Checks which mails people get about a simulated device. The heartbeats that reach the cloud say which mails must come.
 * The witness gets them all, because no one removes it from the address book.
 */
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { Call, LinkWatcher } from './link.js';
import { WITNESS } from './people.js';
import { durationMs, STOP_DELAY } from './settings.js';
import type { Answer } from './wire.js';
import type { World } from './world.js';

/** The part of a heartbeat that counts here. */
interface Heartbeat {
  readonly state: 'running' | 'stopping' | 'moved';
  readonly intervalMs: number;
  readonly bootId: string;
  readonly uptimeMs: number;
}

/** A heartbeat later than this may be of another process. */
const OVERTAKEN_MS = MINUTE_MS;
/** A device may miss one heartbeat and be late with the next, so many intervals in all. */
const HEARTBEATS = 2.5;
/** For a device that is often silent the cloud waits up to this many delays. */
const DAMPED = 8;
/** How long the cloud waits for devices after its own restart. */
const GRACE_MS = 5 * MINUTE_MS;
/** How often within a delay the cloud looks for silent devices. */
const LOOKS = 10;
/** A mail arrives within this time. */
const MAIL_MS = 2 * MINUTE_MS;
/** The cloud has stored that it sent a mail after this time, at its next look for silent devices. */
const TOLD_WRITTEN_MS = 6 * MINUTE_MS;
/** The cloud has stored a heartbeat after this time. */
const WRITTEN_MS = 5 * SECOND_MS;

/** The mails of a device do not leave, or leave again. */
const MAILS = /its mails (?:do not leave|again)$/;
const REMINDER = / is still offline after /;

export class Notices implements LinkWatcher {
  readonly #world: World;
  readonly #delayMs: number;
  /** The last heartbeat that counts, and when it was heard. */
  #last: Heartbeat | null = null;
  #heardMs = 0;
  /** When the first heartbeat came since people were told that the device is offline, and since the cloud runs. */
  #backMs: number | null = null;
  /** When a heartbeat ended a silence that people may still be told about; null: none did. */
  #lateMs: number | null = null;
  /** The last mail to the witness; null: either may come next. */
  #told: 'offline' | 'back' | null = null;
  /** The device was silent that long before: the cloud waits longer. */
  #wasLate = false;
  /** Since when the witness stands in the cloud's document, and since when the cloud runs. */
  #witnessMs: number | null = null;
  #cloudMs: number | null = null;
  /** The cloud may have died before it stored that it sent a mail. */
  #mayTellAgain = false;
  /** The cloud may have forgotten the last heartbeat. */
  #isDoubtful = false;
  /** By Message-ID: the number of the cloud's process that sent it. */
  readonly #mails = new Map<string, number>();
  #cloudLives = 0;

  constructor(world: World) {
    this.#world = world;
    this.#delayMs = durationMs(world.swarm.cloudDelay);
  }

  /** The cloud's document is this now; null: there is none. */
  document(destinations: readonly unknown[] | null): void {
    const { nowMs } = this.#world.timeline;
    const isIn =
      destinations?.some((entry) => (entry as { destination?: string })?.destination === WITNESS) === true;
    // The witness misses mails while it is not in the document.
    const isSteady =
      this.#last !== null && nowMs - this.#heardMs < this.#leastMs(this.#last) && !this.#mayBeTold;
    if (!isIn) this.#told = null;
    else if (this.#witnessMs === null && isSteady) this.#told = 'back';
    this.#witnessMs = isIn ? (this.#witnessMs ?? nowMs) : null;
  }

  cloudStarted(): void {
    this.#cloudMs = this.#world.timeline.nowMs;
    this.#cloudLives++;
  }

  cloudEnded(): void {
    this.#mayTellAgain = this.#mayBeTold;
    this.#cloudMs = null;
    this.#backMs = null;
    if (this.#world.timeline.nowMs - this.#heardMs < WRITTEN_MS) this.#isDoubtful = true;
    // Sending times are not kept.
    if (this.#last !== null) this.#last = { ...this.#last, bootId: '' };
  }

  answered({ kind, body }: Call, { status }: Answer): void {
    if (kind !== 'heartbeat' || status !== 200 || body === null) return;
    const { timeline } = this.#world;
    const next = JSON.parse(body) as Heartbeat;
    const last = this.#last;
    const sinceMs = timeline.nowMs - this.#heardMs;
    const isOvertaken = last !== null && next.bootId === last.bootId && next.uptimeMs < last.uptimeMs;
    if (isOvertaken && sinceMs < OVERTAKEN_MS) return;
    if (last !== null && sinceMs >= this.#leastMs(last)) {
      this.#lateMs = timeline.nowMs;
      this.#wasLate = true;
    }
    this.#last = next;
    this.#heardMs = timeline.nowMs;
    this.#isDoubtful = false;
    if (next.state !== 'moved') this.#backMs ??= timeline.nowMs;
    else {
      // No mail about an earlier silence comes any more.
      this.#told = null;
      this.#lateMs = null;
    }
  }

  /** A mail has reached somebody. */
  mail(to: string, subject: string, messageId: string): void {
    if (to !== WITNESS) return;
    const { timeline, model } = this.#world;
    const life = this.#mails.get(messageId);
    if (life !== undefined) {
      if (life === this.#cloudLives) model.violation(`people are told twice by one mail: ${subject}`);
      return;
    }
    this.#mails.set(messageId, this.#cloudLives);
    // What its mails do is another matter.
    if (MAILS.test(subject)) return;
    if (REMINDER.test(subject)) {
      if (this.#told === 'back' && !this.#isDoubtful && !this.#mayBeLate)
        model.violation(`people are reminded of an outage that is over: ${subject}`);
      return;
    }
    const what = /is back online$/.test(subject) ? 'back' : 'offline';
    if (what === this.#told && !this.#isDoubtful) model.violation(`people are told again: ${subject}`);
    const last = this.#last;
    const silentMs = timeline.nowMs - this.#heardMs;
    if (what === 'offline') {
      const isLong = last !== null && silentMs >= this.#leastMs(last);
      if (!isLong && !this.#mayBeLate && !this.#isDoubtful)
        model.violation(`people are told ${subject} ${silentMs / SECOND_MS} s after a heartbeat`);
      if (last?.state === 'moved' && silentMs > MAIL_MS && !this.#isDoubtful)
        model.violation(`people are told ${subject}, although the device has moved`);
      this.#wasLate = true;
      this.#lateMs = null;
      this.#backMs = isLong ? null : timeline.nowMs;
    }
    this.#told = what;
  }

  /** Checks that due mails have come. */
  look(): void {
    const { timeline, model } = this.#world;
    const { nowMs } = timeline;
    const last = this.#last;
    if (last === null || this.#cloudMs === null || this.#witnessMs === null || this.#isDoubtful) return;
    const silentFromMs = Math.max(this.#heardMs, this.#cloudMs + GRACE_MS);
    const patienceMs = this.#leastMs(last, this.#wasLate ? DAMPED : 1) + this.#delayMs / 4 + MAIL_MS;
    const isLate = nowMs - silentFromMs > patienceMs && this.#witnessMs < this.#heardMs;
    if (this.#told === 'back' && last.state !== 'moved' && isLate) {
      model.violation(
        `nobody is told that the device was last heard ${(nowMs - this.#heardMs) / SECOND_MS} s ago`,
      );
      this.#told = null;
    }
    if (this.#told === 'offline' && this.#backMs !== null) {
      const backMs = Math.max(this.#backMs, this.#witnessMs);
      if (nowMs - backMs > MAIL_MS && this.#witnessMs <= this.#backMs) {
        model.violation(`nobody is told that the device is back since ${(nowMs - backMs) / SECOND_MS} s`);
        this.#told = null;
      }
    }
  }

  /** True if a mail about a silence that is over may still come. */
  get #mayBeLate(): boolean {
    const knownMs = Math.max(this.#lateMs ?? Number.NEGATIVE_INFINITY, this.#cloudMs ?? 0);
    return this.#lateMs !== null && this.#world.timeline.nowMs - knownMs <= MAIL_MS;
  }

  /** True if a mail may come that the witness has missed: at once, or from a cloud that restarts. */
  get #mayBeTold(): boolean {
    const { nowMs } = this.#world.timeline;
    if (this.#lateMs !== null && nowMs - this.#lateMs <= TOLD_WRITTEN_MS + this.#delayMs / LOOKS) return true;
    return this.#mayTellAgain && (this.#cloudMs === null || nowMs - this.#cloudMs <= MAIL_MS);
  }

  /** The shortest silence that people are told about. */
  #leastMs({ state, intervalMs }: Heartbeat, damping = 1): number {
    const delay = damping * Math.max(this.#delayMs, HEARTBEATS * intervalMs);
    return state === 'stopping' ? Math.max(durationMs(STOP_DELAY), delay) : delay;
  }
}
