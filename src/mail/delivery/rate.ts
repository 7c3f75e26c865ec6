/**
 * FIELDPOST_RELAY_RATE: how many mails each relay may still get. In any window of that length, at any time, a relay gets at
 * most so many mails. A mail counts from its claim, and from the moment its end is known for the whole window. One that the
 * relay did not take gives its place back, unless it may have arrived. The store keeps the counts (tally.ts).
 */
import { ageMs, type Stamp, stampOf, startMsOf } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import { keptForUrgent, type RateView, type RateWindow } from '../../base/views.js';
import type { Store } from '../store/store.js';
import { countSent } from '../store/tally.js';

/** The rate of all relays of one transport. */
export class RelayRate {
  readonly #windows: readonly RateWindow[];
  readonly #clock: Clock;
  readonly #store: Pick<Store, 'sentBy' | 'boots'>;
  /** Mails claimed whose end is not recorded, by relay. */
  readonly #underWay = new Map<string, number>();

  constructor(windows: readonly RateWindow[], clock: Clock, store: Pick<Store, 'sentBy' | 'boots'>) {
    this.#windows = windows;
    this.#clock = clock;
    this.#store = store;
  }

  /**
   * How long until this relay may get one more mail, beside `coming` ones that are about to be claimed; 0: it may now.
   * A part of each window is kept for urgent mails.
   */
  waitMs(relay: string, isUrgent: boolean, coming = 0): number {
    const tally = this.#store.sentBy.get(relay);
    const others = this.#underWayTo(relay) + coming;
    let longestMs = 0;
    for (const { limit, windowMs } of this.#windows) {
      const most = limit - (isUrgent ? 0 : keptForUrgent(limit)) - 1 - others;
      // Without an end of those under way, none can follow before a whole window.
      const waitMs = most < 0 ? windowMs : (tally?.waitMs(windowMs, most, this.#ageOf) ?? 0);
      longestMs = Math.max(longestMs, waitMs);
    }
    return longestMs;
  }

  /** A mail for this relay is claimed. */
  begin(relay: string): void {
    this.#underWay.set(relay, this.#underWayTo(relay) + 1);
  }

  /** It is not under way any more: its end is recorded, or it was not taken. */
  end(relay: string): void {
    this.#underWay.set(relay, this.#underWayTo(relay) - 1);
  }

  /** The relay may have taken a mail, and did not say so. */
  doubted(relay: string): void {
    countSent(this.#store.sentBy, relay, stampOf(this.#clock));
  }

  /** What was sent of each window. */
  view(relay: string): RateView {
    const tally = this.#store.sentBy.get(relay);
    const waitMs = this.waitMs(relay, false);
    return {
      used: this.#windows.map(({ limit, windowMs }) => ({
        ...{ limit, windowMs },
        sent: (tally?.within(windowMs, this.#ageOf) ?? 0) + this.#underWayTo(relay),
      })),
      nextMs: waitMs === 0 ? null : startMsOf(this.#clock) + this.#clock.bootMs() + waitMs,
    };
  }

  #underWayTo(relay: string): number {
    return this.#underWay.get(relay) ?? 0;
  }

  readonly #ageOf = (stamp: Stamp) => ageMs(stamp, this.#clock, this.#store.boots);
}
