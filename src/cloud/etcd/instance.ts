/**
 * This instance among the others of the fleet: its lease, its roles, and how old its memory is.
 */

import { FLEET_LEASE_S, FLEET_STALE_MS, FLEET_TICK_MS, SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import { type Compare, type Etcd, EtcdError } from './etcd.js';
import { Freshness } from './freshness.js';
import { Grace } from './grace.js';
import type { Shelf } from './mirror.js';
import { type Leased, Roles } from './roles.js';

interface InstanceOptions {
  readonly etcd: Pick<Etcd, 'txn' | 'grant' | 'keepAlive' | 'revoke'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly randomBytes: (count: number) => Uint8Array;
  /** The instance's id begins with the host's name. */
  readonly hostname: string;
  /** This instance has the role from now on. */
  readonly gained: (role: string) => void;
  /** True: the role must not move to another instance now. */
  readonly isBusy: (role: string) => boolean;
  /** The watch of etcd may be dead without a word. */
  readonly watchIsStale: () => void;
}

interface Other {
  readonly createRevision: number;
  /** Grows with each of its ticks. */
  readonly ticks: number;
  /** When this instance first saw it. */
  readonly sinceMs: number;
}

/** The lease, the roles and the freshness of one instance. Each lease has an instance id of its own. */
export class Instance {
  readonly #options: InstanceOptions;
  readonly #ticking: Alarm;
  readonly #all = new Map<string, Other>();
  readonly #freshness: Freshness;
  readonly #grace: Grace;
  readonly #roles: Roles;
  #self: Leased | null = null;
  /** The lease lasts until then at least. */
  #leasedMs = Number.NEGATIVE_INFINITY;
  #ticks = 0;
  #tick: Promise<void> | null = null;
  /** When the first tick in a row failed; null: the last one worked. */
  #awayMs: number | null = null;
  #shown = '';
  readonly shelves: Readonly<Record<'instance' | 'owner' | 'grace', Shelf>>;

  constructor(options: InstanceOptions) {
    const { etcd, clock, log, gained, isBusy } = options;
    this.#options = options;
    this.#ticking = new Alarm(clock, () => this.#startTick());
    this.#freshness = new Freshness(() => this.#otherTicks());
    this.#grace = new Grace(etcd, log);
    this.#roles = new Roles({ etcd, gained, isBusy });
    const all = this.#all;
    const instance: Shelf = {
      get names() {
        return all.keys();
      },
      put: (id, { value, createRevision }) => {
        const before = all.get(id);
        if (before === undefined) this.#roles.changed();
        const sinceMs = before?.sinceMs ?? clock.bootMs();
        all.set(id, { ticks: Number(value), sinceMs, createRevision });
      },
      deleted: (id) => {
        all.delete(id);
        this.#roles.changed();
      },
    };
    this.shelves = { instance, owner: this.#roles.shelf, grace: this.#grace.shelf };
  }

  /** Begins to tick; memory has just been listed. Resolves after the first tick, whether or not it worked. */
  async start(): Promise<void> {
    this.#freshness.begin(this.#options.clock.bootMs());
    this.#startTick();
    await this.#tick;
  }

  /** Gives up the lease with all roles. */
  async stop(): Promise<void> {
    this.#ticking.end();
    await this.#tick;
    const self = this.#self;
    this.#become(null);
    if (self !== null) await this.#options.etcd.revoke(self.lease).catch(() => undefined);
  }

  /** Memory was complete at this moment. */
  get freshMs(): number {
    return this.#freshness.freshMs;
  }

  /** False: memory is older than FLEET_STALE_MS, or the lease may have run out. */
  get isSteady(): boolean {
    const nowMs = this.#options.clock.bootMs();
    return nowMs < this.#leasedMs && nowMs - this.freshMs <= FLEET_STALE_MS;
  }

  /** Holds in a transaction until the lease has run out; empty while memory does not know this instance yet. */
  get alive(): readonly Compare[] {
    const id = this.#self?.id ?? '';
    const createRevision = this.#all.get(id)?.createRevision;
    return createRevision === undefined ? [] : [{ key: `instance/${id}`, createRevision }];
  }

  /** True: silence does not count. */
  get isGrace(): boolean {
    return this.#grace.isOn || !this.#freshness.isJudged;
  }

  /** The instances that live, this one included. */
  get count(): number {
    return this.#all.size;
  }

  get roles(): number {
    return this.#roles.count;
  }

  /** For the condition of a decision: the revision that gave this instance the role; null: it may not decide. */
  mine(role: string): number | null {
    return this.#options.clock.bootMs() < this.#leasedMs ? this.#roles.mine(role) : null;
  }

  /** Memory is at this revision. */
  stepped(revision: number): void {
    if (this.#freshness.stepped(revision)) this.#grace.declare();
    if (this.#roles.isChanged) void this.#move();
  }

  #startTick(): void {
    this.#tick = this.#beat().finally(() => {
      this.#tick = null;
      this.#ticking.in(FLEET_TICK_MS);
    });
  }

  async #beat(): Promise<void> {
    const { clock, log, watchIsStale } = this.#options;
    try {
      const sentMs = await this.#keepLease();
      const { id, lease } = this.#self as Leased;
      const tick = { put: `instance/${id}`, value: String(++this.#ticks), lease };
      const { revision } = await this.#options.etcd.txn([], [tick]);
      if (this.#freshness.sent(sentMs, revision)) this.#grace.declare();
      if (this.#awayMs !== null)
        log.info('etcd back', { afterMs: Math.round(clock.bootMs() - this.#awayMs) });
      this.#awayMs = null;
      this.#show();
      await this.#grace.write();
      if (clock.bootMs() - this.freshMs > FLEET_STALE_MS / 2) watchIsStale();
      // Not awaited: the lease must be renewed meanwhile.
      void this.#move();
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      // The lease may be gone, or etcd refuses writes: the next tick takes another lease.
      if (error.kind === 'refused') this.#become(null);
      if (this.#awayMs === null) log.warn('etcd away', { reason: error.message });
      this.#awayMs ??= clock.bootMs();
    }
  }

  /** Renews the lease, or takes one. Resolves with the moment at which that began. */
  async #keepLease(): Promise<number> {
    const { etcd, clock, hostname, randomBytes } = this.#options;
    if (this.#self !== null) {
      const sentMs = clock.bootMs();
      const ttlS = await etcd.keepAlive(this.#self.lease);
      if (ttlS > 0) {
        this.#leasedMs = sentMs + Math.min(ttlS, FLEET_LEASE_S) * SECOND_MS;
        return sentMs;
      }
      this.#become(null);
    }
    const sentMs = clock.bootMs();
    const lease = await etcd.grant(FLEET_LEASE_S);
    this.#become({ id: `${hostname}-${Buffer.from(randomBytes(6)).toString('hex')}`, lease });
    this.#leasedMs = sentMs + FLEET_LEASE_S * SECOND_MS;
    return sentMs;
  }

  #become(self: Leased | null): void {
    this.#self = self;
    this.#roles.self = self;
    this.#ticks = 0;
    if (self === null) this.#leasedMs = Number.NEGATIVE_INFINITY;
  }

  async #move(): Promise<void> {
    const { clock } = this.#options;
    if (!this.isSteady) return;
    const since = new Map([...this.#all].map(([id, { sinceMs }]) => [id, sinceMs]));
    try {
      await this.#roles.move(since, clock.bootMs());
    } catch (error) {
      // The next tick tells of it, and tries again.
      if (!(error instanceof EtcdError)) throw error;
    }
  }

  #show(): void {
    const { count: instances, roles } = this;
    const shown = `${instances} ${roles}`;
    if (shown !== this.#shown) this.#options.log.info('fleet shared', { instances, roles });
    this.#shown = shown;
  }

  #otherTicks(): Map<string, number> {
    const others = [...this.#all].filter(([id]) => id !== this.#self?.id);
    return new Map(others.map(([id, { ticks }]) => [id, ticks]));
  }
}
