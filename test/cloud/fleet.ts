/**
 * Many devices and one cloud that is gone for a while, or a power cut that boots them all in the same seconds: how many
 * requests reach the cloud each second. The devices are the link's real state machine (link-state.ts) on a simulated clock.
 * Coming online for the first time, each asks for its destinations, too. Used by the test of the link, and by
 * `node scripts/simulate-fleet.mjs` with 100,000 devices.
 */
import {
  firstState,
  type LinkSettings,
  type LinkState,
  overdueMs,
  spreadMs,
  step,
} from '../../src/cloud/link-state.js';
import { HEARTBEAT_TIMEOUT_MS, HOUR_MS, MINUTE_MS, NETWORK_QUIET_MS, SECOND_MS } from '../../src/limits.js';

export interface FleetOptions {
  readonly devices: number;
  readonly random: () => number;
  readonly outageMs?: number;
  /** All boot within 5 s at the end of the outage, and get their network 10 s after that. */
  readonly boot?: boolean;
  /** What a request meets during the outage: it fails at once (refused, 503), or there is no answer at all. */
  readonly silent?: boolean;
  readonly settings?: LinkSettings;
}

export interface FleetFigures {
  /** Requests per second while all is well, by the settings. */
  readonly steady: number;
  /** The most requests of any one second: while the cloud is away, and from its return on. */
  readonly peakDuring: number;
  readonly peakAfter: number;
  /** From the cloud's return until all, and until 90 % of all, are online. */
  readonly allOnlineMs: number;
  readonly mostOnlineMs: number;
}

const SETTINGS: LinkSettings = {
  heartbeatMs: 30 * SECOND_MS,
  backoffMinMs: SECOND_MS,
  backoffMaxMs: 5 * MINUTE_MS,
};
const LEAD_MS = 5 * MINUTE_MS;
const TAIL_MS = 15 * MINUTE_MS;
/** How long the cloud takes to answer. */
const ANSWER_MS = 50;
/** A power cut's end: within how long all boot, and when their network is there. */
const BOOT_MS = 5 * SECOND_MS;
const NETWORK_MS = 15 * SECOND_MS;

export function simulateFleet(options: FleetOptions): FleetFigures {
  const { devices, random, outageMs = HOUR_MS, silent = false, boot = false, settings = SETTINGS } = options;
  const downMs = LEAD_MS;
  const upMs = downMs + outageMs;
  const endMs = upMs + TAIL_MS;
  // Booted devices meet a cloud that has been there all the time, but no network for the first seconds.
  const isWell = (atMs: number) => (boot ? atMs >= upMs + NETWORK_MS : atMs < downMs || atMs >= upMs);
  const states: LinkState[] = [];
  const booted: boolean[] = [];
  const wakes: number[] = [];
  const requests = new Uint32Array(endMs / SECOND_MS);
  const onlineAtMs = new Float64Array(devices).fill(Number.NaN);
  // Devices by the second of their next event, and by whether a heartbeat of theirs is under way.
  const agenda = new Agenda(endMs);
  const count = (atMs: number) => {
    const second = Math.floor(atMs / SECOND_MS);
    requests[second] = (requests[second] ?? 0) + 1;
  };
  /** A heartbeat at `atMs`, followed to its end. */
  const beat = (device: number, atMs: number) => {
    const wakeMs = wakes[device] ?? Number.POSITIVE_INFINITY;
    if (atMs >= wakeMs) {
      wakes[device] = Number.POSITIVE_INFINITY;
      const woken = { kind: 'wake', withinMs: spreadMs(settings) } as const;
      states[device] = step(states[device] as LinkState, woken, atMs, random(), settings);
      agenda.add(device, Math.max(atMs, (states[device] as LinkState).nextMs));
      return;
    }
    const before = states[device] as LinkState;
    // An event that a wake has overtaken.
    if (atMs < before.nextMs) return;
    const isUp = isWell(atMs);
    if (isUp || !boot) count(atMs);
    const tookMs = isUp || !silent ? ANSWER_MS : HEARTBEAT_TIMEOUT_MS;
    const endedMs = atMs + tookMs;
    let state = before;
    if (overdueMs(state) < endedMs)
      state = step(state, { kind: 'late' }, overdueMs(state), random(), settings);
    const event = isUp ? ({ kind: 'good' } as const) : ({ kind: 'failed', reason: 'away' } as const);
    state = step(state, event, endedMs, random(), settings);
    states[device] = state;
    if (isUp && before.mode !== 'online') {
      // Later ones have the ETag of the heartbeat, which is the one they know.
      if (!booted[device]) count(boot ? endedMs + random() * spreadMs(settings) : endedMs);
      booted[device] = true;
      if (atMs >= upMs) onlineAtMs[device] = endedMs - upMs;
    }
    agenda.add(device, Math.max(state.nextMs, endedMs));
  };
  for (let device = 0; device < devices; device++) {
    const atMs = boot ? upMs + random() * BOOT_MS : random() * settings.heartbeatMs;
    const state = firstState(atMs, boot ? spreadMs(settings) : 0, random());
    states.push(state);
    agenda.add(device, state.nextMs);
    wakes.push(boot ? upMs + NETWORK_MS + NETWORK_QUIET_MS * (1 + random()) : Number.POSITIVE_INFINITY);
    if (boot) agenda.add(device, wakes[device] as number);
  }
  agenda.run(beat);

  const peak = (fromMs: number, untilMs: number) =>
    requests.subarray(fromMs / SECOND_MS, untilMs / SECOND_MS).reduce((most, one) => Math.max(most, one), 0);
  const back = onlineAtMs.filter((ms) => !Number.isNaN(ms)).sort();
  return {
    steady: devices / (settings.heartbeatMs / SECOND_MS),
    peakDuring: peak(downMs, upMs),
    peakAfter: peak(upMs, endMs),
    allOnlineMs: back.length < devices ? Number.POSITIVE_INFINITY : (back[devices - 1] ?? 0),
    mostOnlineMs: back[Math.floor(devices * 0.9)] ?? Number.POSITIVE_INFINITY,
  };
}

/** Events in the order of their seconds; within a second their order does not matter to anybody. */
class Agenda {
  readonly #seconds: (readonly [device: number, atMs: number])[][];

  constructor(endMs: number) {
    this.#seconds = Array.from({ length: Math.ceil(endMs / SECOND_MS) }, () => []);
  }

  add(device: number, atMs: number): void {
    this.#seconds[Math.floor(atMs / SECOND_MS)]?.push([device, atMs]);
  }

  /** What is added meanwhile happens as well, also within the second that is on. */
  run(happen: (device: number, atMs: number) => void): void {
    for (const [second, events] of this.#seconds.entries()) {
      for (const [device, atMs] of events) happen(device, atMs);
      this.#seconds[second] = [];
    }
  }
}

/** The figures as lines for people. */
export function fleetReport(devices: number, outageMs: number, figures: FleetFigures): string {
  const { steady, peakDuring, peakAfter, allOnlineMs, mostOnlineMs } = figures;
  const times = (peak: number) => `${peak} requests/s, ${(peak / steady).toFixed(2)} × the steady rate`;
  return [
    `${devices} devices, the cloud away for ${outageMs / MINUTE_MS} min; steady rate ${Math.round(steady)} requests/s`,
    `  peak while it is away:  ${times(peakDuring)}`,
    `  peak when it is back:   ${times(peakAfter)}`,
    `  back online: 90 % within ${Math.round(mostOnlineMs / SECOND_MS)} s, all within ${Math.round(allOnlineMs / SECOND_MS)} s`,
  ].join('\n');
}
