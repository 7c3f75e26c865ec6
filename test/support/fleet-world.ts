/**
 * Several instances of the cloud over one etcd, devices that call them, and faults between them, on one clock. Notes who is
 * told what by which machine, and who called which. A machine keeps what it accepted when its instance is killed.
 *
 *   await using world = new FleetWorld();
 *   await world.start('a');
 *   world.add('pump-1');
 *   await world.clock.advance(MINUTE_MS);
 */

import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { Clock, Timer } from '../../src/base/system/clock.js';
import { People } from '../../src/cloud/document.js';
import { openEtcdFleet } from '../../src/cloud/etcd/fleet.js';
import type { FleetStore, News, NewsOfDevice, Telling } from '../../src/cloud/fleet-store.js';
import { CLOUD_GRACE_MS } from '../../src/cloud/presence.js';
import { FakeClock } from './clock.js';
import { FakeEtcd } from './fake-etcd.js';
import { seededRandom, testSeed } from './random.js';
import { keptLog } from './system.js';
import { newsIn, tellingBut } from './telling.js';

export const DELAYS = { delayMs: 90 * SECOND_MS, stopDelayMs: 15 * MINUTE_MS };
/** A delay, a check for silence, and the way through the store. */
export const OFFLINE_MS = DELAYS.delayMs + 12 * SECOND_MS;
const EVERY_MS = 30 * SECOND_MS;
const RETRY_MS_MAX = 20 * SECOND_MS;
/** How often a device calls the same machine again. */
const STAYS = 0.7;

export interface Told {
  readonly machine: string;
  readonly device: string;
  readonly kind: News['kind'];
  readonly id: string;
  readonly atMs: number;
  /** Wall time since which it is so, as people are told; null: they are told of none. */
  readonly sinceMs: number | null;
}

/** A heartbeat that an instance took. */
export interface Call {
  readonly machine: string;
  readonly device: string;
  readonly atMs: number;
  /** The machine of the device's home, as etcd had it then. */
  readonly home: string | null;
}

/** A process on a machine. */
interface Running {
  readonly machine: string;
  readonly client: string;
  readonly fleet: FleetStore;
  readonly clock: KilledClock;
}

/** The clock of a process: when it is killed its timers never fire. */
class KilledClock implements Clock {
  readonly #clock: FakeClock;
  isKilled = false;

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  get boot() {
    return this.#clock.boot;
  }
  wallMs = () => this.#clock.wallMs();
  bootMs = () => this.#clock.bootMs();
  awakeMs = () => this.#clock.awakeMs();
  trust = () => this.#clock.trust();
  confirm = () => this.#clock.confirm();
  doubt = () => this.#clock.doubt();

  after(ms: number, wake: () => void): Timer {
    return this.#clock.after(ms, () => {
      if (!this.isKilled) wake();
    });
  }
}

export class FleetWorld implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly server: FakeEtcd;
  readonly random: () => number;
  readonly told: Told[] = [];
  readonly calls: Call[] = [];
  readonly log = keptLog();
  readonly running = new Map<string, Running>();
  readonly devices = new Map<string, FleetDevice>();
  /** Messages of devices, by the machine that accepted them. */
  readonly accepted: { readonly machine: string; readonly key: string }[] = [];
  /** Keys of messages that no machine accepts. */
  readonly refusedKeys = new Set<string>();
  /** What a machine does with news: tells all of them, or what a test says. */
  tells = (machine: string, all: readonly NewsOfDevice[], _isLast: boolean): Telling =>
    this.tellAll(machine, all);
  /** By machine: the ids of the news that it has accepted. */
  readonly #journals = new Map<string, Set<string>>();
  #starts = 0;

  /** Instances on these machines; silence counts. */
  static async calm(...machines: readonly string[]): Promise<FleetWorld> {
    const world = new FleetWorld();
    for (const machine of machines) await world.start(machine);
    await world.clock.advance(CLOUD_GRACE_MS + MINUTE_MS);
    return world;
  }

  /** Everything random follows from the seed. */
  constructor(seed = testSeed()) {
    this.random = seededRandom(seed);
    this.server = new FakeEtcd(this.clock, this.random);
  }

  /** Starts an instance on a machine. Rejects if etcd is away. */
  async start(machine: string): Promise<FleetStore> {
    const client = `${machine}#${++this.#starts}`;
    const clock = new KilledClock(this.clock);
    const fleet = await openEtcdFleet({
      etcd: this.server.client(client),
      clock,
      log: this.log.log,
      randomBytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(this.random() * 256)),
      hostname: machine,
      delays: DELAYS,
      people: new People(),
      tell: async (all, isLast) => this.tells(machine, all, isLast),
      accept: async (_draft, { key }) => {
        if (this.refusedKeys.has(key)) throw new Error('the outbox refuses it');
        this.accepted.push({ machine, key });
      },
    });
    await fleet.start();
    this.running.set(machine, { machine, client, fleet, clock });
    return fleet;
  }

  /** Kills the instance of a machine at once. */
  kill(machine: string): void {
    const running = this.running.get(machine);
    if (running === undefined) return;
    running.clock.isKilled = true;
    this.server.cut(running.client);
    this.running.delete(machine);
  }

  async stop(machine: string): Promise<void> {
    const running = this.running.get(machine);
    this.running.delete(machine);
    await running?.fleet.stop();
  }

  /** Stops all instances. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const machine of this.machines) await this.stop(machine);
  }

  cut(machine: string): void {
    const running = this.running.get(machine);
    if (running !== undefined) this.server.cut(running.client);
  }

  heal(machine: string): void {
    const running = this.running.get(machine);
    if (running !== undefined) this.server.heal(running.client);
  }

  /** A device that sends heartbeats from now on. */
  add(id: string): FleetDevice {
    const device = new FleetDevice(id, this);
    this.devices.set(id, device);
    device.speak();
    return device;
  }

  fleetOf(machine: string): FleetStore {
    const running = this.running.get(machine);
    if (running === undefined) throw new Error(`${machine} does not run`);
    return running.fleet;
  }

  /** The machine that leads; null: none does. */
  get leader(): string | null {
    return this.machines.find((machine) => this.fleetOf(machine).office.isLeader) ?? null;
  }

  /** The machines with a running instance. */
  get machines(): string[] {
    return [...this.running.keys()];
  }

  /** What etcd has of a device; `home`: a machine. */
  recordOf(device: string): Record<string, unknown> & { readonly home: string | null } {
    const value = JSON.parse(this.server.keyOf(`at/${device}`)?.value ?? '{"h":""}');
    return { ...value, home: value.h.split('-')[0] || null };
  }

  toldOf(device: string): string[] {
    const seen = new Set<string>();
    const news = this.told.filter((one) => one.device === device && !seen.has(one.id) && seen.add(one.id));
    return news.map(({ kind }) => kind);
  }

  tellAll(machine: string, all: readonly NewsOfDevice[]): Telling {
    const journal = this.#journals.get(machine) ?? new Set();
    this.#journals.set(machine, journal);
    for (const one of newsIn(all)) {
      const { id, device, kind } = one;
      const sinceMs = 'sinceMs' in one ? (one.sinceMs ?? null) : null;
      if (journal.has(id)) continue;
      journal.add(id);
      this.told.push({ machine, device, kind, id, atMs: this.clock.bootMs(), sinceMs });
    }
    return tellingBut(all, () => false);
  }
}

/** A device: a heartbeat every 30 s; after a failure it tries another instance, with growing pauses. */
export class FleetDevice {
  readonly id: string;
  readonly #world: FleetWorld;
  readonly #bootMs: number;
  #timer: Timer | null = null;
  #failures = 0;
  /** The machine that took the last call. */
  #machine = '';

  constructor(id: string, world: FleetWorld) {
    this.id = id;
    this.#world = world;
    this.#bootMs = world.clock.bootMs();
  }

  get isSilent(): boolean {
    return this.#timer === null;
  }

  speak(): void {
    if (this.isSilent) this.#next(this.#world.random() * EVERY_MS);
  }

  silence(): void {
    this.#timer?.stop();
    this.#timer = null;
  }

  /** Says something at once, to this machine or any. Returns whether an instance has taken it. */
  say(said: 'running' | 'stopping' | 'moved', machine?: string): boolean {
    const { calls, clock, random, running } = this.#world;
    const all = [...running.values()];
    // Mostly the one that took the last call: a connection, or a load balancer that hashes.
    const wanted = machine ?? (random() < STAYS ? this.#machine : '');
    const one = running.get(wanted) ?? all[Math.floor(random() * all.length)];
    if (one === undefined) return false;
    const atMs = clock.bootMs();
    const { home } = this.#world.recordOf(this.id);
    try {
      const report = { said, everyMs: EVERY_MS, sent: { bootId: this.id, uptimeMs: atMs - this.#bootMs } };
      void Promise.resolve(one.fleet.watch.heard(this.id, report)).catch(() => undefined);
      calls.push({ machine: one.machine, device: this.id, atMs, home });
      this.#machine = one.machine;
      return true;
    } catch {
      this.#machine = '';
      return false;
    }
  }

  #next(ms: number): void {
    this.#timer = this.#world.clock.after(ms, () => {
      this.#failures = this.say('running') ? 0 : this.#failures + 1;
      const retryMs = Math.min(SECOND_MS * 2 ** this.#failures, RETRY_MS_MAX);
      this.#next(this.#failures === 0 ? EVERY_MS : retryMs * (0.5 + this.#world.random() / 2));
    });
  }
}
