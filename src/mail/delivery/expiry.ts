/**
 * When a message is too old to be offered. SMS, calls and pushes age all the time, because a day-old alarm call is
 * harmful: they expire offered or not, also on hold and without a link. So does a message that says how long it is of use.
 * One look over the store and one alarm serve all of them. Any other email ages only while a relay can be reached; it
 * expires after an offer that failed.
 */

import { SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import { ageMs } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import type { Message, MessageType, Verdict } from '../message/message.js';
import type { MailConfig } from '../settings.js';
import { CLOUD } from '../settings.js';
import type { IsWanted, Store } from '../store/store.js';
import type { OutcomeWriter } from './outcome-writer.js';

/** The types that age all the time. */
export type AgeingType = Exclude<MessageType, 1>;

/** What expiry is given. */
interface ExpiryOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** Read each time: a reload may change it. */
  readonly config: Pick<MailConfig, 'maxAgeMs'>;
  readonly writer: OutcomeWriter;
  /** Why the cloud takes no such message; null if it does, or was not asked. */
  readonly reasonOf: (message: Message) => string | null;
}

/** Lets messages expire; idle until started. */
export class Expiry {
  readonly #options: ExpiryOptions;
  readonly #alarm: Alarm;
  #isRunning = false;
  #looking: Promise<void> | null = null;
  /** Boot time at which a message may be too old. */
  #dueMs = 0;
  /** Whether the wall clock was confirmed at the last look. */
  #isConfirmed = false;

  constructor(options: ExpiryOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock, () => this.#pump());
  }

  start(): void {
    this.#isRunning = true;
    this.#pump();
  }

  async stop(): Promise<void> {
    this.#isRunning = false;
    this.#alarm.end();
    await this.#looking;
  }

  /**
   * Call it after messages were accepted or queued again, and after the wall clock was confirmed. `lifeMs`: the shortest
   * life that one of them gave itself.
   */
  nudge(lifeMs = Number.POSITIVE_INFINITY): void {
    const { config, clock } = this.#options;
    const { 2: sms, 3: phone, 4: push } = config.maxAgeMs;
    this.#expect(clock.bootMs() + Math.min(sms, phone, push, lifeMs));
  }

  /** Looks at all messages: the limits are new, or the store can record outcomes again. */
  lookAtAll(): void {
    this.#expect(0);
  }

  /** A claim of this message ended without a final outcome. While it was claimed it could not expire. */
  expect(message: Message): void {
    if (!ages(message)) return;
    this.#expect(this.#options.clock.bootMs() + Math.max(0, this.#leftMs(message)));
  }

  /** True if a claimed message must not be offered; with `wasOffered`, if it must not be offered again. */
  isOver(message: Message, wasOffered: boolean): boolean {
    return (ages(message) || wasOffered) && this.#leftMs(message) <= 0;
  }

  /** The verdict on a message that is too old to be offered. */
  verdictOn(message: Message): Verdict {
    const { type, lastReply } = message;
    const [reason, peer] = type === 1 ? [null, 'a relay'] : [this.#options.reasonOf(message), 'the cloud'];
    return {
      kind: 'expired',
      reply: lastReply ?? reason ?? `it grew too old before it was offered to ${peer}`,
    };
  }

  #expect(dueMs: number): void {
    this.#dueMs = Math.min(this.#dueMs, dueMs);
    this.#pump();
  }

  get #mayWork(): boolean {
    return this.#isRunning && !this.#options.writer.isStuck;
  }

  #pump(): void {
    if (this.#looking !== null || !this.#mayWork) return;
    this.#lookAtWall();
    this.#alarm.at(this.#dueMs);
    if (this.#options.clock.bootMs() < this.#dueMs) return;
    this.#alarm.off();
    this.#looking = this.#expireAll().finally(() => {
      this.#looking = null;
      this.#pump();
    });
  }

  /** When the wall clock is confirmed, messages of other boots may turn out to be too old. */
  #lookAtWall(): void {
    const isConfirmed = this.#options.clock.trust() === 'confirmed';
    if (isConfirmed && !this.#isConfirmed) this.#dueMs = 0;
    this.#isConfirmed = isConfirmed;
  }

  async #expireAll(): Promise<void> {
    const { store, clock, writer } = this.#options;
    const old: Message[] = [];
    this.#dueMs = Number.POSITIVE_INFINITY;
    for (const list of [store.queued(ages), store.deferred(ages)]) {
      for (const message of list) {
        const leftMs = this.#leftMs(message);
        if (leftMs <= 0) old.push(message);
        else this.#dueMs = Math.min(this.#dueMs, clock.bootMs() + leftMs);
      }
    }
    for (const { id } of old) {
      if (!this.#mayWork) {
        // The expiry cannot be recorded now: look again when the store works.
        this.#dueMs = 0;
        return;
      }
      const message = store.claim(id, 'expire');
      if (message)
        await writer.record({
          id,
          verdict: this.verdictOn(message),
          relay: message.type === 1 ? undefined : CLOUD,
        });
      // It is being cancelled, which may fail. A queue that is sending it calls expect().
      else if (store.get(id)?.status !== 'sending')
        this.#dueMs = Math.min(this.#dueMs, clock.bootMs() + SECOND_MS);
    }
  }

  /** How much longer a message may live. */
  #leftMs(message: Message): number {
    const { store, clock, config } = this.#options;
    const maxMs = config.maxAgeMs[message.type];
    const allMs = () => ageMs(message.retried ?? message.accepted, clock, store.boots);
    const ofTypeMs =
      maxMs - (message.type === 1 ? Math.max(0, store.reachability.countedMs - message.reachMs) : allMs());
    const lifeMs = message.extras?.lifeMs;
    return lifeMs === undefined ? ofTypeMs : Math.min(ofTypeMs, lifeMs - allMs());
  }
}

/** True for a message that ages all the time. */
const ages: IsWanted = ({ type, extras }) => type !== 1 || extras?.lifeMs !== undefined;
