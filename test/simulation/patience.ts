/**
 * Checks that the device obeys every Retry-After: it waits that long, and a random time more, because otherwise a whole
 * fleet comes back in one second.
 */
import { HOUR_MS, SECOND_MS } from '../../src/base/limits.js';
import type { HttpAnswer } from '../../src/base/system/https.js';
import type { Call, LinkWatcher } from './link.js';
import type { World } from './world.js';

/** The longest pause before a device calls again. */
const ASKED_MS_MAX = HOUR_MS;
/** The longest pause, as a multiple of the Retry-After. */
const SPREAD = 1.1;
/** The spread of shorter pauses is too small to check. */
const SPREAD_FROM_MS = 20 * SECOND_MS;
/** How many pauses may be exact to the millisecond by chance. */
const EXACT_MAX = 2;

export class Patience implements LinkWatcher {
  readonly #world: World;
  /** Until when a kind of call must wait. */
  readonly #untilMs = new Map<string, number>();
  /** When the last pause is over, with its spread. */
  #overMs = 0;
  #exact = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** A new process knows no Retry-After of the one before. */
  processEnded(): void {
    this.#untilMs.clear();
  }

  /** True while any call of the device may have to wait. */
  get mayWait(): boolean {
    return this.#world.timeline.nowMs <= this.#overMs;
  }

  asked(call: Call): void {
    const what = whatOf(call);
    const untilMs = what === null ? undefined : this.#untilMs.get(what);
    if (what === null || untilMs === undefined) return;
    const earlyMs = untilMs - this.#world.timeline.nowMs;
    if (earlyMs > 0)
      this.#world.model.violation(`${what} is asked ${earlyMs} ms before the Retry-After is over`);
    if (earlyMs === 0 && ++this.#exact > EXACT_MAX)
      this.#world.model.violation('pauses of a Retry-After are not spread');
    this.#untilMs.delete(what);
  }

  told(call: Call, answer: HttpAnswer | null): void {
    const what = whatOf(call);
    const askedMs = answer === null ? null : askedMsOf(answer);
    if (what === null || askedMs === null) return;
    const waitsMs = Math.min(askedMs, ASKED_MS_MAX);
    this.#overMs = Math.max(this.#overMs, this.#world.timeline.nowMs + SPREAD * waitsMs);
    if (waitsMs >= SPREAD_FROM_MS) this.#untilMs.set(what, this.#world.timeline.nowMs + waitsMs);
  }
}

/** The kind of call that waits: messages wait by type. Null: it need not wait, as a goodbye. */
function whatOf({ kind, body }: Call): string | null {
  if (kind === 'destinations') return kind;
  const { type, state } = JSON.parse(body ?? '{}') as { type?: number; state?: string };
  if (kind === 'heartbeat') return state === 'running' ? kind : null;
  return `${kind} of type ${type}`;
}

function askedMsOf({ headers }: HttpAnswer): number | null {
  const asked = headers['retry-after'];
  if (asked === undefined) return null;
  return /^\d+$/.test(asked)
    ? Number(asked) * SECOND_MS
    : Date.parse(asked) - Date.parse(String(headers.date));
}
