/**
 * Records the outcomes of messages. Before a message is offered, it makes sure that there is room for the outcome. An
 * outcome that the store cannot record is kept and tried again; until then no transport sends anything.
 */
import { type ErrorCode, FieldpostError, wordsOf } from '../../base/errors.js';
import { STORAGE_RETRY_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import type { Outcomes } from '../../base/views.js';
import type { Verdict } from '../message/message.js';
import type { Store } from '../store/store.js';

/** Error codes after which the store can record the outcome later. */
const PASSING: readonly ErrorCode[] = ['storage-full', 'storage-failed', 'busy'];

/** An outcome that is to be recorded. */
interface Unrecorded {
  readonly id: string;
  readonly verdict: Verdict;
  /** The peer that was asked; undefined: none. */
  readonly relay: string | undefined;
}

/** What delivery does after an outcome was recorded. */
interface OutcomeListener {
  /** The store has deferred the message. */
  deferred(id: string): void;
  /** All outcomes are recorded, and there is room for more. */
  relieved(): void;
  /** Called for each recorded outcome; left out: nobody listens. */
  readonly tell?: ((kind: Verdict['kind'], id: string) => void) | undefined;
}

/** Records outcomes, and keeps those that the store cannot take yet. */
export class OutcomeWriter {
  /** How many messages were sent, deferred, failed and expired. */
  readonly outcomes: Outcomes = { sent: 0, deferred: 0, failed: 0, expired: 0 };
  readonly #store: Store;
  readonly #log: Log;
  readonly #listener: OutcomeListener;
  /** In order. Their messages stay claimed, so that they are not sent again. */
  readonly #waiting = new Set<Unrecorded>();
  #trying: Promise<void> | null = null;
  /** True after the log line about missing room. */
  #isToldOfRoom = false;
  readonly #retry: Alarm;

  constructor(options: { store: Store; clock: Clock; log: Log }, listener: OutcomeListener) {
    this.#store = options.store;
    this.#retry = new Alarm(options.clock, () => void this.tryAgain());
    this.#log = options.log;
    this.#listener = listener;
  }

  /** True while an outcome is not recorded. */
  get isStuck(): boolean {
    return this.#waiting.size > 0;
  }

  /** True between two tries to write outcomes or to make room. */
  get isWaiting(): boolean {
    return this.#retry.isSet;
  }

  /**
   * True if the outcome of one more message can certainly be recorded. If not, it tries to make room until there is some,
   * and then calls relieved().
   */
  mayOffer(): boolean {
    if (!this.isStuck && this.#store.hasReserve) return true;
    if (!this.isWaiting) void this.tryAgain();
    return false;
  }

  /** Resolves when the outcome is written, or kept for a later try. */
  async record(entry: Unrecorded): Promise<void> {
    const error = await this.#write(entry);
    if (error === null) return;
    this.#waiting.add(entry);
    this.#log.error('outcome not recorded', {
      id: entry.id,
      outcome: entry.verdict.kind,
      reason: wordsOf(error),
    });
    this.#retry.in(STORAGE_RETRY_MS);
  }

  /** Tries to write the waiting outcomes, and to make room for more. */
  tryAgain(): Promise<void> {
    this.#trying ??= this.#tryAll().then((isDone) => {
      this.#trying = null;
      if (isDone) this.#listener.relieved();
      else this.#retry.in(STORAGE_RETRY_MS);
    });
    return this.#trying;
  }

  /** True if no outcome waits any more, and there is room. */
  async #tryAll(): Promise<boolean> {
    this.#retry.off();
    // Fill the reserve first: after an error the store tries its disk again only for this call.
    const hasReserve = await this.#fillReserve();
    for (const entry of this.#waiting) {
      if ((await this.#write(entry)) !== null) break;
      this.#waiting.delete(entry);
    }
    return !this.isStuck && hasReserve;
  }

  async #fillReserve(): Promise<boolean> {
    try {
      if (!this.#store.hasReserve) await this.#store.fillReserve();
      this.#isToldOfRoom = false;
      return true;
    } catch (error) {
      if (!isPassing(error)) throw error;
      // The log already has a line about the waiting outcome.
      if (this.#isToldOfRoom || this.isStuck) return false;
      this.#log.warn('sending waits', { reason: wordsOf(error) });
      this.#isToldOfRoom = true;
      return false;
    }
  }

  /** Tries once more. A message whose outcome is not recorded then may be sent twice after a restart. */
  async stop(): Promise<void> {
    this.#retry.end();
    if (this.isStuck) await this.tryAgain();
    await this.#trying;
  }

  /** Returns null, or why the store could not record it. */
  async #write(entry: Unrecorded): Promise<FieldpostError | null> {
    try {
      await this.#store.settle(entry.id, entry.verdict);
    } catch (error) {
      if (isPassing(error)) return error;
      throw error;
    }
    this.#tell(entry);
    this.outcomes[entry.verdict.kind]++;
    this.#listener.tell?.(entry.verdict.kind, entry.id);
    if (entry.verdict.kind === 'deferred') this.#listener.deferred(entry.id);
    return null;
  }

  #tell({ id, verdict, relay }: Unrecorded): void {
    const fields = { id, relay, reply: verdict.reply };
    if (verdict.kind === 'sent') this.#log.info('sent', fields);
    else if (verdict.kind === 'failed') this.#log.warn('failed', fields);
    else if (verdict.kind === 'expired') this.#log.warn('expired', fields);
    else this.#log.warn('deferred', { ...fields, delayMs: verdict.delayMs });
  }
}

function isPassing(error: unknown): error is FieldpostError {
  return error instanceof FieldpostError && PASSING.includes(error.code);
}
