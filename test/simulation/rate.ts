/**
 * FIELDPOST_RELAY_RATE in a simulated world: in no window a relay gets more. A process that dies forgets what was under way.
 */
import type { RateWindow } from '../../src/base/views.js';
import type { World } from './world.js';

export class Rate {
  readonly #world: World;
  /** By relay: when it took mails, since the device's process last died. */
  readonly #taken = new Map<string, number[]>();

  constructor(world: World) {
    this.#world = world;
  }

  get #windows(): readonly RateWindow[] {
    return this.#world.live.relayRate ?? [];
  }

  /** How long so many mails wait at most for their turn. */
  waitMs(mails: number): number {
    const paces = this.#windows.map(
      ({ limit, windowMs }) => (Math.ceil(mails / Math.max(1, limit - 2)) + 1) * windowMs,
    );
    return paces.reduce((sum, one) => sum + one, 0);
  }

  /** True in a world with a rate. */
  get isSet(): boolean {
    return this.#windows.length > 0;
  }

  /** A relay has a mail. */
  taken(relay: string): void {
    if (!this.isSet) return;
    const { timeline, model } = this.#world;
    const all = this.#taken.get(relay) ?? [];
    this.#taken.set(relay, all);
    all.push(timeline.nowMs);
    for (const { limit, windowMs } of this.#windows) {
      const count = all.filter((atMs) => timeline.nowMs - atMs < windowMs).length;
      if (count > limit)
        model.violation(`${relay} has got ${count} mails in ${windowMs} ms, and ${limit} are its limit`);
    }
  }

  /** The device's process has died, without a stop. */
  died(): void {
    this.#taken.clear();
  }
}
