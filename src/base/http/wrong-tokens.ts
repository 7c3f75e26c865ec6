/**
 * Logs wrong tokens of a door: whoever guesses, or has an old token, may go on for days.
 */
import { HOUR_MS } from '../limits.js';
import { Alarm } from '../retry/alarm.js';
import type { Clock } from '../system/clock.js';
import type { Log, LogFields } from '../system/log.js';

interface WrongTokensParts {
  readonly clock: Pick<Clock, 'bootMs' | 'after'>;
  readonly log: Pick<Log, 'warn'>;
}

/** Logs the first at once, and then once an hour how many came since. */
export class WrongTokens {
  readonly #log: Pick<Log, 'warn'>;
  readonly #alarm: Alarm;
  #count = 0;
  #last: LogFields = {};

  constructor({ clock, log }: WrongTokensParts) {
    this.#log = log;
    this.#alarm = new Alarm(clock, () => this.#logAll());
  }

  /** `last` says whose it was. */
  note(last: LogFields): void {
    this.#count++;
    this.#last = last;
    if (!this.#alarm.isSet) this.#logAll();
  }

  /** Logs the rest. */
  end(): void {
    this.#logAll();
    this.#alarm.end();
  }

  #logAll(): void {
    if (this.#count === 0) return;
    this.#log.warn('wrong tokens', { count: this.#count, ...this.#last });
    this.#count = 0;
    this.#alarm.in(HOUR_MS);
  }
}
