/** A store of the cloud's state, its outside, and devices that speak. */
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { DeviceNews, FleetStore } from '../../src/cloud/fleet-store.js';
import { CLOUD_GRACE_MS, type Report } from '../../src/cloud/presence.js';
import type { Sighting } from '../../src/cloud/sighting.js';
import { settled } from '../support/clock.js';
import { DELAYS } from '../support/fleet-world.js';
import type { Outside, Place } from './fleet-stores.js';

export const EVERY_MS = 30 * SECOND_MS;
/** A check for silence, a flush, and a way through the store. */
export const SLACK_MS = DELAYS.delayMs / 10 + 3 * SECOND_MS;
export const ID = 'pump-3';
/** A store, its outside, and devices that speak. */
export class Bench implements AsyncDisposable {
  readonly outside: Outside;
  readonly #place: Place;
  fleet: FleetStore;

  static async start(open: () => Place): Promise<Bench> {
    const place = open();
    const bench = new Bench(place, await place.open());
    await bench.fleet.start();
    // The first time there are no devices that could be silent.
    await bench.outside.clock.advance(CLOUD_GRACE_MS + MINUTE_MS);
    return bench;
  }

  private constructor(place: Place, fleet: FleetStore) {
    this.outside = place.outside;
    this.#place = place;
    this.fleet = fleet;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.fleet.stop();
  }

  async restart(downMs = 0): Promise<void> {
    await this.fleet.stop();
    await this.outside.clock.advance(downMs);
    this.fleet = await this.#place.open();
    await this.fleet.start();
  }

  /** Each revision of etcd takes a turn of its own: many of them take longer than the clock waits. */
  async advance(ms: number): Promise<void> {
    await this.outside.clock.advance(ms);
    for (let times = 0; times < 25; times++) await settled();
  }

  hear(id: string = ID, report: Partial<Report> = {}): void {
    void this.fleet.watch.heard(id, { said: 'running', everyMs: EVERY_MS, sent: null, ...report });
  }

  /** A heartbeat that has reached the store. */
  async beat(id: string = ID, report: Partial<Report> = {}): Promise<void> {
    this.hear(id, report);
    await this.advance(2 * SECOND_MS);
  }

  /** Heartbeats of these devices for so long. */
  async steady(ms: number, ...ids: string[]): Promise<void> {
    for (let passedMs = 0; passedMs < ms; passedMs += EVERY_MS) {
      for (const id of ids) this.hear(id);
      await this.advance(Math.min(EVERY_MS, ms - passedMs));
    }
  }

  /** Heartbeats of a device that say this, for so long. */
  async steadyWith(ms: number, id: string, report: Partial<Report>): Promise<void> {
    for (let passedMs = 0; passedMs < ms; passedMs += EVERY_MS) {
      this.hear(id, report);
      await this.advance(Math.min(EVERY_MS, ms - passedMs));
    }
  }

  /** Lets time pass until this is done. */
  async until(work: Promise<unknown>): Promise<void> {
    let isDone = false;
    const done = work.finally(() => {
      isDone = true;
    });
    while (!isDone) await this.advance(100);
    await done;
  }

  get told(): readonly string[] {
    return this.outside.told;
  }

  /** The last news of this kind. */
  newsOf(kind: string): DeviceNews {
    return this.outside.news.findLast((news) => news.kind === kind) as DeviceNews;
  }

  sighting(id: string = ID): Sighting | null {
    return this.fleet.watch.sighting(id);
  }
}
