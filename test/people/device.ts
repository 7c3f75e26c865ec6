/**
 * A device of a world of people: it calls the cloud every few minutes, falls silent, comes back, and says what it is told to
 * say. It notes what it has said, and whether that was taken.
 */
import { SECOND_MS } from '../../src/base/limits.js';
import type { Timer } from '../../src/base/system/clock.js';
import type { Chance } from '../simulation/chance.js';
import type { DeviceHistory, Heard } from './history.js';
import { type Deed, EVERY_MS } from './plan.js';
import type { World } from './world.js';

const KEY = { Authorization: 'Bearer key', 'Content-Type': 'application/json' };
const RETRY_MS = 20 * SECOND_MS;
/** How often a device calls the machine again that took its last call. */
const STAYS = 0.8;
/** A device tries so often to say a last word. */
const LAST_TRIES = 5;

export class Device {
  readonly id: string;
  readonly history: DeviceHistory = { heard: [], quiets: [], versions: [], drills: [] };
  readonly #world: World;
  readonly #chance: Chance;
  #timer: Timer | null = null;
  #boot = 1;
  #bootedMs = 0;
  #machine = '';
  #silentUntilMs = 0;
  #stuckUntilMs = 0;
  /** What is not known to the cloud yet. */
  #quiet: { readonly untilMs: number; readonly askedMs: number; readonly why: string } | null = null;

  constructor(id: string, world: World, chance: Chance) {
    this.id = id;
    this.#world = world;
    this.#chance = chance;
  }

  /** Begins to call. `phase`: a part of the pause between two calls. */
  speak(phase: number): void {
    this.#next(phase * EVERY_MS + this.#chance.random() * SECOND_MS);
  }

  /** Says its last, and is silent. */
  silence({ forMs, boots, says, last }: Deed & { do: 'silence' }): void {
    const { timeline } = this.#world;
    const isFirst = timeline.nowMs >= this.#silentUntilMs;
    this.#silentUntilMs = Math.max(this.#silentUntilMs, timeline.nowMs + Math.round(forMs));
    this.#timer?.stop();
    this.#timer = null;
    if (isFirst && (says !== undefined || last !== undefined)) void this.#sayLast({ says, last });
    const untilMs = this.#silentUntilMs;
    if (boots) {
      this.#boot++;
      this.#bootedMs = untilMs;
    }
    timeline.at(untilMs, () => {
      if (this.#timer === null && timeline.nowMs >= this.#silentUntilMs)
        this.#next(this.#chance.random() * SECOND_MS);
    });
  }

  async #sayLast({ says = 'running', last }: { says: Heard['said'] | undefined; last: string | undefined }) {
    for (let tries = 0; tries < LAST_TRIES; tries++) if (await this.#say(says, last ?? null)) return;
  }

  quiet(forMs: number, why: string): void {
    const { nowMs } = this.#world.timeline;
    this.#quiet = { untilMs: nowMs + forMs, askedMs: nowMs, why };
    if (this.#timer !== null) this.#next(0);
  }

  /** Notes that the operator asks for quiet; call the result when the cloud has it. */
  quieted(forMs: number): () => void {
    const { timeline } = this.#world;
    const askedMs = timeline.nowMs;
    // The operator's call counts from its arrival.
    this.history.quiets.push({ atMs: askedMs, askedMs, untilMs: askedMs + forMs, isCertain: false });
    return () => {
      const { nowMs: atMs } = timeline;
      this.history.quiets.push({ atMs, askedMs, untilMs: atMs + forMs, isCertain: true });
    };
  }

  stick(forMs: number): void {
    this.#stuckUntilMs = Math.max(this.#stuckUntilMs, this.#world.timeline.nowMs + forMs);
  }

  #next(ms: number): void {
    const { timeline } = this.#world;
    this.#timer?.stop();
    const timer = timeline.after(ms, () => {
      void this.#say('running', null).then((isTaken) => {
        if (this.#timer !== timer) return;
        this.#next(isTaken ? EVERY_MS : RETRY_MS * (1 + this.#chance.random()));
      });
    });
    this.#timer = timer;
  }

  /** Returns whether the cloud has taken it. */
  async #say(said: Heard['said'], last: string | null): Promise<boolean> {
    const { timeline, up } = this.#world;
    if (up.length === 0) return false;
    const stays = up.includes(this.#machine) && this.#chance.is(STAYS);
    const machine = stays ? this.#machine : this.#chance.one(up);
    const { nowMs: atMs } = timeline;
    const isStuck = atMs < this.#stuckUntilMs;
    const quiet = this.#quiet;
    const quietMs = quiet && Math.max(0, quiet.untilMs - atMs);
    const body = {
      ...{ state: said, intervalMs: EVERY_MS, version: '1.0.0' },
      ...{ bootId: `${this.id}-${this.#boot}`, uptimeMs: atMs - this.#bootedMs + 1 },
      relay: isStuck ? 'failing' : 'ok',
      queue: { queued: isStuck ? 3 : 0, deferred: 0, failed: isStuck ? 3 : 0 },
      ...(quiet !== null && { quietMs, why: quiet.why }),
      ...(last !== null && { last }),
    };
    const path = `/devices/${this.id}/heartbeat`;
    const answer = await this.#world.ask(machine, {
      method: 'PUT',
      path,
      headers: KEY,
      body: JSON.stringify(body),
    });
    const isTaken = answer !== null && answer.status < 300;
    const isRefused = answer !== null && !isTaken;
    if (isRefused && answer.status < 500)
      this.#world.found.push(`a heartbeat is answered ${answer.status}: ${answer.body}`);
    this.#machine = isTaken ? machine : '';
    this.history.heard.push({ atMs, isCertain: isTaken, said, last, isStuck, boot: this.#boot, machine });
    if (quiet !== null && quietMs !== null) {
      const { askedMs } = quiet;
      this.history.quiets.push({ atMs, askedMs, untilMs: atMs + quietMs, isCertain: isTaken });
      if (isTaken && this.#quiet === quiet) this.#quiet = null;
    }
    return isTaken;
  }
}
