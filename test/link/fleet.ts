/**
 * Many devices and one cloud that is gone for a while, or a power cut that boots them all in the same seconds: what reaches
 * the cloud each second. The devices are the link's real state machine (link.ts) on a simulated clock. Coming online
 * for the first time, each asks for its destinations, too.
 */
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { CLOUD_IDLE_MS } from '../../src/base/system/https.js';
import { NETWORK_QUIET_MS } from '../../src/base/system/network-watch.js';
import { HEARTBEAT_TIMEOUT_MS } from '../../src/device/link/client.js';
import {
  commonMs,
  firstState,
  type LinkEvent,
  type LinkSettings,
  type LinkState,
  overdueMs,
  step,
} from '../../src/device/link/link.js';

/**
 * What a request meets while the cloud is away. `refused`: no connection. `busy`: a load balancer answers 503 at once.
 * `unanswered`: a connection, but no answer. `power cut`: nothing, because the devices are off. They boot within 5 s at
 * the end of the outage, and get their network 15 s after it.
 */
export type Outage = 'refused' | 'busy' | 'unanswered' | 'power cut';

export interface FleetOptions {
  readonly devices: number;
  readonly random: () => number;
  readonly outage: Outage;
  readonly outageMs: number;
  /** The share of devices whose address book was edited during the outage. */
  readonly edited?: number;
  readonly settings?: LinkSettings;
}

/** Of each second of the simulation. A handshake is a new connection. */
interface Calls {
  /** Heartbeats and document calls. */
  readonly requests: Uint32Array;
  readonly handshakes: Uint32Array;
  readonly documents: Uint32Array;
}

/**
 * The mean of a second while all is well, and the most of any second: while the cloud is away, and from its return on. And
 * how many from its return to the end.
 */
export interface Rate {
  readonly steady: number;
  readonly during: number;
  readonly after: number;
  readonly sum: number;
}

export interface FleetFigures extends Record<keyof Calls, Rate> {
  /** From the cloud's return until all, and until 90 % of all, are online. */
  readonly allOnlineMs: number;
  readonly mostOnlineMs: number;
}

const SETTINGS: LinkSettings = {
  heartbeatMs: 30 * SECOND_MS,
  backoffMinMs: SECOND_MS,
  backoffMaxMs: 5 * MINUTE_MS,
};
const EDITED = 0.01;
const LEAD_MS = 5 * MINUTE_MS;
const TAIL_MS = 15 * MINUTE_MS;
/** How long the cloud takes to answer. */
const ANSWER_MS = 50;
/** A power cut's end: within how long all boot, and when their network is there. */
const BOOT_MS = 5 * SECOND_MS;
const NETWORK_MS = 15 * SECOND_MS;

/** Runs a fleet through one outage. */
export function simulateFleet(options: FleetOptions): FleetFigures {
  return new Fleet(options).run();
}

class Fleet {
  readonly #options: FleetOptions;
  readonly #settings: LinkSettings;
  readonly #isPowerCut: boolean;
  readonly #upMs: number;
  readonly #endMs: number;
  readonly #calls: Calls;
  readonly #agenda: Agenda;
  readonly #states: LinkState[] = [];
  readonly #bootedMs: Float64Array;
  /** When the device is told that its network has changed. */
  readonly #wakes: Float64Array;
  /** Until when its connection is kept. */
  readonly #keptMs: Float64Array;
  /** Whether it has been online since its boot. */
  readonly #wasOnline: Uint8Array;
  readonly #edited: Uint8Array;
  /** How long after the cloud's return each is online; 0 if it has not noticed the outage. */
  readonly #onlineMs: Float64Array;

  constructor(options: FleetOptions) {
    const { devices, random, outage, outageMs, edited = EDITED, settings = SETTINGS } = options;
    this.#options = options;
    this.#settings = settings;
    this.#isPowerCut = outage === 'power cut';
    this.#upMs = LEAD_MS + outageMs;
    this.#endMs = this.#upMs + TAIL_MS;
    const seconds = () => new Uint32Array(this.#endMs / SECOND_MS);
    this.#calls = { requests: seconds(), handshakes: seconds(), documents: seconds() };
    this.#agenda = new Agenda(this.#endMs);
    this.#keptMs = new Float64Array(devices).fill(Number.NEGATIVE_INFINITY);
    this.#wakes = new Float64Array(devices).fill(Number.POSITIVE_INFINITY);
    this.#bootedMs = new Float64Array(devices);
    this.#wasOnline = new Uint8Array(devices);
    this.#edited = new Uint8Array(devices).map(() => (random() < edited ? 1 : 0));
    this.#onlineMs = new Float64Array(devices).fill(this.#isPowerCut ? Number.POSITIVE_INFINITY : 0);
  }

  run(): FleetFigures {
    const { devices, random } = this.#options;
    for (let device = 0; device < devices; device++) {
      // Without a power cut the devices booted long ago.
      const bootedMs = this.#isPowerCut ? this.#upMs + random() * BOOT_MS : -HOUR_MS;
      this.#bootedMs[device] = bootedMs;
      const startMs = this.#isPowerCut ? bootedMs : random() * this.#settings.heartbeatMs;
      const state = firstState(startMs, this.#commonMs(device, startMs), random());
      this.#states.push(state);
      this.#agenda.add(device, state.nextMs);
      if (!this.#isPowerCut) continue;
      const wakeMs = this.#upMs + NETWORK_MS + NETWORK_QUIET_MS * (1 + random());
      this.#wakes[device] = wakeMs;
      this.#agenda.add(device, wakeMs);
    }
    this.#agenda.run((device, atMs) => this.#happen(device, atMs));
    return this.#figures();
  }

  /** Over how long this device spreads its first calls. */
  #commonMs(device: number, atMs: number): number {
    const bootMs = () => atMs - (this.#bootedMs[device] as number);
    return commonMs({ clock: { bootMs }, config: this.#settings });
  }

  #happen(device: number, atMs: number): void {
    const state = this.#states[device] as LinkState;
    if (atMs >= (this.#wakes[device] as number)) {
      this.#wakes[device] = Number.POSITIVE_INFINITY;
      const woken = this.#step(device, { kind: 'wake', withinMs: this.#commonMs(device, atMs) }, atMs);
      this.#agenda.add(device, Math.max(atMs, woken.nextMs));
      return;
    }
    // An event that a wake has overtaken is over.
    if (atMs >= state.nextMs) this.#beat(device, atMs, state);
  }

  /** A heartbeat at `atMs`, followed to its end. */
  #beat(device: number, atMs: number, before: LinkState): void {
    const { outage } = this.#options;
    const downMs = this.#isPowerCut ? 0 : LEAD_MS;
    const isUp = atMs < downMs || atMs >= this.#upMs + (this.#isPowerCut ? NETWORK_MS : 0);
    const endedMs = atMs + (isUp || outage !== 'unanswered' ? ANSWER_MS : HEARTBEAT_TIMEOUT_MS);
    if (isUp || outage === 'busy') this.#call(device, atMs, endedMs);
    else {
      if (!this.#isPowerCut) this.#count('requests', atMs);
      if (outage === 'unanswered' && !this.#isConnected(device, atMs)) this.#count('handshakes', atMs);
      this.#keptMs[device] = Number.NEGATIVE_INFINITY;
    }
    if (!isUp) this.#onlineMs[device] = Number.POSITIVE_INFINITY;
    if (overdueMs(before) < endedMs) this.#step(device, { kind: 'late' }, overdueMs(before));
    const event = isUp ? ({ kind: 'good' } as const) : ({ kind: 'failed', reason: 'away' } as const);
    const { nextMs } = this.#step(device, event, endedMs);
    if (isUp && before.mode !== 'online') this.#online(device, endedMs);
    this.#agenda.add(device, Math.max(nextMs, endedMs));
  }

  /** As Sync.online: the first time since the boot it asks for the document, later only after an edit. */
  #online(device: number, atMs: number): void {
    const isBack = atMs >= this.#upMs;
    const isEdited = isBack && this.#edited[device] === 1;
    if (!this.#wasOnline[device] || isEdited) {
      const beginsMs = atMs + this.#options.random() * this.#commonMs(device, atMs);
      // After a PUT the document is fetched again, to compare it.
      const calls = isEdited ? ['GET', 'PUT', 'GET'] : ['GET'];
      for (const at of calls.keys()) this.#askDocument(device, beginsMs + at * ANSWER_MS);
    }
    this.#wasOnline[device] = 1;
    if (!isBack) return;
    this.#edited[device] = 0;
    if (this.#onlineMs[device] === Number.POSITIVE_INFINITY) this.#onlineMs[device] = atMs - this.#upMs;
  }

  #askDocument(device: number, atMs: number): void {
    this.#call(device, atMs, atMs + ANSWER_MS);
    this.#count('documents', atMs);
  }

  /** A request that is answered, on a kept connection if there is one. */
  #call(device: number, atMs: number, endedMs: number): void {
    this.#count('requests', atMs);
    if (!this.#isConnected(device, atMs)) this.#count('handshakes', atMs);
    this.#keptMs[device] = Math.max(this.#keptMs[device] as number, endedMs + CLOUD_IDLE_MS);
  }

  #isConnected(device: number, atMs: number): boolean {
    return atMs < (this.#keptMs[device] as number);
  }

  #count(kind: keyof Calls, atMs: number): void {
    const second = Math.floor(atMs / SECOND_MS);
    this.#calls[kind][second] = (this.#calls[kind][second] ?? 0) + 1;
  }

  #step(device: number, event: LinkEvent, atMs: number): LinkState {
    const state = step(
      this.#states[device] as LinkState,
      event,
      atMs,
      this.#options.random(),
      this.#settings,
    );
    this.#states[device] = state;
    return state;
  }

  #figures(): FleetFigures {
    const { devices } = this.#options;
    const of = (kind: keyof Calls, fromMs: number, untilMs: number) =>
      this.#calls[kind].subarray(fromMs / SECOND_MS, untilMs / SECOND_MS);
    const peak = (seconds: Uint32Array) => seconds.reduce((most, one) => Math.max(most, one), 0);
    const sumOf = (seconds: Uint32Array) => seconds.reduce((sum, one) => sum + one, 0);
    const rate = (kind: keyof Calls): Rate => {
      const quiet = of(kind, this.#endMs - LEAD_MS, this.#endMs);
      const sinceUp = of(kind, this.#upMs, this.#endMs);
      return {
        steady: sumOf(quiet) / quiet.length,
        during: peak(of(kind, LEAD_MS, this.#upMs)),
        after: peak(sinceUp),
        sum: sumOf(sinceUp),
      };
    };
    const back = this.#onlineMs.sort();
    return {
      requests: rate('requests'),
      handshakes: rate('handshakes'),
      documents: rate('documents'),
      allOnlineMs: back[devices - 1] as number,
      mostOnlineMs: back[Math.floor(devices * 0.9)] as number,
    };
  }
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
export function fleetReport({ devices, outage, outageMs }: FleetOptions, figures: FleetFigures): string {
  const { requests, handshakes, documents, allOnlineMs, mostOnlineMs } = figures;
  const times = (when: 'during' | 'after') => {
    const share = (requests[when] / requests.steady).toFixed(2);
    return `${requests[when]} requests (${share} × the steady rate), ${handshakes[when]} handshakes, ${documents[when]} document calls`;
  };
  const secondsOf = (ms: number) => Math.round(ms / SECOND_MS);
  return [
    `${devices} devices, ${outage} for ${secondsOf(outageMs)} s`,
    `  steady, each second:    ${Math.round(requests.steady)} requests, ${Math.round(handshakes.steady)} handshakes, ${Math.round(documents.steady)} document calls`,
    `  peak while it is away:  ${times('during')}`,
    `  peak when it is back:   ${times('after')}`,
    `  back online: 90 % within ${secondsOf(mostOnlineMs)} s, all within ${secondsOf(allOnlineMs)} s`,
  ].join('\n');
}
