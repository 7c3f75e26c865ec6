/**
 * Many devices and one cloud that is gone for a while: how many requests reach it each second. The devices are the
 * link's real state machine (link-state.ts) on a simulated clock; coming online, each asks for its destinations,
 * too. Used by the test of the link, and by `node scripts/simulate-fleet.mjs` with 100,000 devices.
 */
import {
  firstState,
  type LinkSettings,
  type LinkState,
  overdueMs,
  step,
} from '../../src/cloud/link-state.js';
import { HEARTBEAT_TIMEOUT_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/limits.js';

export interface FleetOptions {
  readonly devices: number;
  readonly random: () => number;
  readonly outageMs?: number;
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

export function simulateFleet(options: FleetOptions): FleetFigures {
  const { devices, random, outageMs = HOUR_MS, silent = false, settings = SETTINGS } = options;
  const downMs = LEAD_MS;
  const upMs = downMs + outageMs;
  const endMs = upMs + TAIL_MS;
  const states: LinkState[] = [];
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
    const before = states[device] as LinkState;
    const isUp = atMs < downMs || atMs >= upMs;
    count(atMs);
    const tookMs = isUp || !silent ? ANSWER_MS : HEARTBEAT_TIMEOUT_MS;
    const endedMs = atMs + tookMs;
    let state = before;
    if (overdueMs(state) < endedMs)
      state = step(state, { kind: 'late' }, overdueMs(state), random(), settings);
    const event = isUp ? ({ kind: 'good' } as const) : ({ kind: 'failed', reason: 'away' } as const);
    state = step(state, event, endedMs, random(), settings);
    states[device] = state;
    if (isUp && before.mode !== 'online') {
      count(endedMs);
      if (atMs >= upMs) onlineAtMs[device] = endedMs - upMs;
    }
    agenda.add(device, Math.max(state.nextMs, endedMs));
  };
  for (let device = 0; device < devices; device++) {
    const atMs = random() * settings.heartbeatMs;
    states.push(firstState(atMs));
    agenda.add(device, atMs);
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
