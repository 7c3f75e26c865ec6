/**
 * Many devices that send real heartbeats to a cloud: each is the daemon's own link and client, with an id, a boot and a phase
 * of its own. They share the connections of a pool, as behind a load balancer, and turn to the next server if one fails.
 *
 *   await using fleet = new FleetLoad({ urls, devices: 20_000, heartbeatMs: 30_000, random });
 *   fleet.start();
 *   fleet.devices[7].silence();
 */

import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { CloudError } from '../../src/base/retry/call-error.js';
import type { Clock, Timer } from '../../src/base/system/clock.js';
import type { HttpAnswer, HttpRequest } from '../../src/base/system/https.js';
import { CloudClient, type HeartbeatReport } from '../../src/device/link/client.js';
import { COMMON_BOOT_MS, Link } from '../../src/device/link/link.js';
import { ConnectionPool } from './connection-pool.js';

/** The most connections to one server. */
const CONNECTIONS = 32;

export interface FleetLoadOptions {
  /** The servers, as FIELDPOST_CLOUD names one. All devices start with one of them in turn. */
  readonly urls: readonly string[];
  readonly devices: number;
  readonly heartbeatMs: number;
  /** In [0, 1). */
  readonly random: () => number;
  readonly keyOf: (id: string) => string;
  readonly clock: Clock;
}

/** Devices, and what the servers answered them. */
export class FleetLoad implements AsyncDisposable {
  readonly devices: readonly LoadDevice[];
  /** Heartbeats that were answered with 200, and failed tries by their status or the code of the error. */
  readonly counts = new Map<string, number>();
  readonly #options: FleetLoadOptions;
  readonly #pool: ConnectionPool;
  #isStopped = false;

  constructor(options: FleetLoadOptions) {
    this.#options = options;
    this.#pool = new ConnectionPool({ connections: CONNECTIONS });
    const outside: Outside = {
      ...options,
      send: this.#pool.send,
      count: (what) => this.counts.set(what, (this.counts.get(what) ?? 0) + 1),
    };
    this.devices = Array.from({ length: options.devices }, (_, index) => {
      const id = fleetId(index);
      return new LoadDevice(id, options.keyOf(id), index % options.urls.length, outside);
    });
  }

  /** Each device sends its first heartbeat at a random moment within the interval. */
  start(): void {
    const { heartbeatMs, random, clock } = this.#options;
    for (const device of this.devices) {
      clock.after(random() * heartbeatMs, () => {
        if (!this.#isStopped && device.silentMs === null) device.start();
      });
    }
  }

  /** Ends all devices without a goodbye, and closes their connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopped = true;
    for (const device of this.devices) device.silence();
    this.#pool.close();
  }
}

/** The id of a device of a fleet. */
export function fleetId(index: number): string {
  return `fleet-${String(index).padStart(6, '0')}`;
}

interface Outside extends Pick<FleetLoadOptions, 'urls' | 'heartbeatMs' | 'random' | 'clock'> {
  readonly send: ConnectionPool['send'];
  readonly count: (what: string) => void;
}

/** The paths of the client's requests follow it; each goes to the device's present server. */
const BASE = 'http://cloud.invalid';
const MAYBE_NEXT = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'CUT_SHORT', 'EHOSTUNREACH', 'ENETUNREACH'];
const SILENT_LOG = { debug() {}, info() {}, warn() {}, error() {} };

/** One request with a heartbeat. The cloud may have heard it even if the answer did not come. */
export interface Try {
  /** The server. */
  readonly url: string;
  readonly state: HeartbeatReport['state'];
  readonly sentMs: number;
  /** When the answer 200 came; null: it did not. */
  okMs: number | null;
}

/** The link of a running device. A device that is cut off sends nothing more. */
interface Life {
  readonly link: Link;
  isCut: boolean;
}

/** One device. All moments are on the boot's clock of this machine. */
export class LoadDevice {
  readonly id: string;
  /** All of its requests, in order. */
  readonly tries: Try[] = [];
  /** When the last answer 200 came; null: never. */
  okMs: number | null = null;
  /** The longest time without an answer 200, but for times of its own silence: from one answer to the next. */
  gapMs = 0;
  /** Since when it is silent: silence() or goodbye() was called; null: it is not. */
  silentMs: number | null = null;
  readonly #outside: Outside;
  readonly #client: CloudClient;
  #clock: BootedClock;
  #life: Life | null = null;
  #target: number;
  /** It fell silent since the last answer 200. */
  #wasSilent = false;

  constructor(id: string, key: string, target: number, outside: Outside) {
    this.id = id;
    this.#outside = outside;
    this.#target = target;
    // The boots of a fleet are long ago, and at different times.
    this.#clock = new BootedClock(outside.clock, outside.random, COMMON_BOOT_MS * (1 + outside.random()));
    this.#client = new CloudClient(
      { url: BASE, deviceId: id, key },
      { send: (request) => this.#send(request), clock: outside.clock, version: '0.1.0' },
    );
  }

  /** The server of its next heartbeat. */
  get url(): string {
    return this.#outside.urls[this.#target] as string;
  }

  /** Sends its first heartbeat now. */
  start(): void {
    if (this.#life !== null) return;
    const { heartbeatMs, random } = this.#outside;
    const link = new Link({
      client: {
        heartbeat: async (report, signal) => {
          // The link says goodbye when it stops; a power cut does not.
          if (life.isCut) throw new CloudError('the device is silent');
          return await this.#beat(report, signal);
        },
      },
      config: { heartbeatMs, backoffMinMs: SECOND_MS, backoffMaxMs: 5 * MINUTE_MS },
      report: () => ({ queue: { queued: 0, deferred: 0, failed: 0 }, version: '0.1.0' }),
      ...{ clock: this.#clock, random, log: SILENT_LOG },
    });
    const life: Life = { link, isCut: false };
    this.#life = life;
    link.start({ online: () => undefined, destinations: () => undefined });
  }

  /** Falls silent at once, as in a power cut: a heartbeat under way is given up, and there is no goodbye. */
  silence(): void {
    if (this.silentMs !== null) return;
    this.silentMs = this.#outside.clock.bootMs();
    if (this.#life === null) return;
    this.#life.isCut = true;
    void this.#life.link.stop();
    this.#life = null;
  }

  /** Boots, and sends heartbeats again within LINK_SPREAD_MS. */
  resume(): void {
    if (this.silentMs === null) return;
    this.silentMs = null;
    this.#wasSilent = true;
    this.#clock = new BootedClock(this.#outside.clock, this.#outside.random, 0);
    this.start();
  }

  /** Stops as the daemon does, and falls silent. */
  async goodbye(): Promise<void> {
    if (this.#life === null) return;
    const { link } = this.#life;
    this.#life = null;
    this.silentMs = this.#outside.clock.bootMs();
    await link.stop();
  }

  async #beat(report: HeartbeatReport, signal: AbortSignal) {
    const { clock, count } = this.#outside;
    const answer = await this.#client.heartbeat(report, signal);
    count('200');
    const nowMs = clock.bootMs();
    if (this.okMs !== null && !this.#wasSilent) this.gapMs = Math.max(this.gapMs, nowMs - this.okMs);
    this.#wasSilent = false;
    this.okMs = nowMs;
    return answer;
  }

  /** Tries the next server at once if this one cannot be reached, and later if it answers with an error or not at all. */
  async #send(request: HttpRequest): Promise<HttpAnswer> {
    const { clock, urls, send, count } = this.#outside;
    const { state } = JSON.parse(request.body ?? '') as HeartbeatReport;
    for (let tries = 1; ; tries++) {
      const one: Try = { url: this.url, state, sentMs: clock.bootMs(), okMs: null };
      this.tries.push(one);
      try {
        const answer = await send({ ...request, url: `${this.url}${request.url.slice(BASE.length)}` });
        if (answer.status === 200) {
          one.okMs = clock.bootMs();
          return answer;
        }
        count(String(answer.status));
        if (answer.status >= 500) this.#next();
        return answer;
      } catch (error) {
        const { code = '' } = error as { code?: string };
        count(code);
        if (code !== 'ABORT_ERR') this.#next();
        if (!MAYBE_NEXT.includes(code) || tries >= urls.length) throw error;
      }
    }
  }

  #next(): void {
    this.#target = (this.#target + 1) % this.#outside.urls.length;
  }
}

/** The clock of a device that booted `agoMs` ago, with a boot id of its own. */
class BootedClock implements Clock {
  readonly boot: string;
  readonly #clock: Clock;
  readonly #bornMs: number;

  constructor(clock: Clock, random: () => number, agoMs: number) {
    this.boot = Math.floor(random() * 2 ** 32)
      .toString(16)
      .padStart(8, '0');
    this.#clock = clock;
    this.#bornMs = clock.bootMs() - Math.floor(agoMs);
  }

  bootMs(): number {
    return this.#clock.bootMs() - this.#bornMs;
  }

  awakeMs(): number {
    return this.#clock.awakeMs();
  }

  wallMs(): number {
    return this.#clock.wallMs();
  }

  trust(): ReturnType<Clock['trust']> {
    return this.#clock.trust();
  }

  confirm(): void {}

  doubt(): void {}

  after(ms: number, wake: () => void): Timer {
    return this.#clock.after(ms, wake);
  }
}
