/**
 * This instance among the others of the fleet: its lease, its roles, and how old its memory is.
 *
 * An instance writes its key at each tick. When the watch brings that write back, memory was complete at the moment of the
 * write. Silence counts up to this moment, and no further. If it lies far behind the one before, something was away: this
 * instance alone, if the ticks of others went on, or etcd as a whole. After an outage of etcd silence does not count for a
 * time of grace.
 */
import { SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Log } from '../../base/system/log.js';
import { CLOUD_GRACE_MS } from '../presence.js';
import { type Compare, type Etcd, EtcdError } from './etcd.js';
import {
  chunksOf,
  FLEET_STALE_MS,
  FLEET_TICK_MS,
  KEYS_MAX,
  ownerKey,
  ROLES,
  rightfulOwner,
} from './layout.js';
import type { FleetParts, Shelf } from './mirror.js';

/** An instance that is gone for this long loses its roles. */
const LEASE_S = 10;

interface InstanceOptions extends FleetParts {
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
  readonly #freshness = new Freshness(() => this.#otherTicks());
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
    const { clock } = options;
    this.#options = options;
    this.#ticking = new Alarm(clock, () => this.#startTick());
    this.#grace = new Grace(options);
    this.#roles = new Roles(options);
    const instance: Shelf = {
      names: () => this.#all.keys(),
      put: (id, { value, createRevision }) => {
        const before = this.#all.get(id);
        if (before === undefined) this.#roles.isChanged = true;
        const sinceMs = before?.sinceMs ?? clock.bootMs();
        this.#all.set(id, { ticks: Number(value), sinceMs, createRevision });
      },
      deleted: (id) => {
        this.#all.delete(id);
        this.#roles.isChanged = true;
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
        this.#leasedMs = sentMs + Math.min(ttlS, LEASE_S) * SECOND_MS;
        return sentMs;
      }
      this.#become(null);
    }
    const sentMs = clock.bootMs();
    const lease = await etcd.grant(LEASE_S);
    this.#become({ id: `${hostname}-${Buffer.from(randomBytes(6)).toString('hex')}`, lease });
    this.#leasedMs = sentMs + LEASE_S * SECOND_MS;
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
    const [instances, roles] = [this.#all.size, this.#roles.count];
    const shown = `${instances} ${roles}`;
    if (shown !== this.#shown) this.#options.log.info('fleet shared', { instances, roles });
    this.#shown = shown;
  }

  #otherTicks(): Map<string, number> {
    const others = [...this.#all].filter(([id]) => id !== this.#self?.id);
    return new Map(others.map(([id, { ticks }]) => [id, ticks]));
  }
}

interface Owner {
  readonly instance: string;
  readonly createRevision: number;
}

type RolesOptions = Pick<InstanceOptions, 'etcd' | 'gained' | 'isBusy'>;

/** An instance and its lease. */
interface Leased {
  readonly id: string;
  readonly lease: string;
}

/**
 * The owners of all roles: a key for each, under the lease of its owner. Roles move if an instance comes or goes.
 */
class Roles {
  readonly #options: RolesOptions;
  readonly #owners = new Map<string, Owner>();
  /** This instance; null: it has no lease, and so no role. */
  self: Leased | null = null;
  /** Roles that are being given up: etcd may have done so already. */
  readonly #leaving = new Set<string>();
  #rightful: { readonly instances: string; readonly owners: ReadonlyMap<string, string | null> } | null =
    null;
  #isMoving = false;
  /** An owner or an instance is gone, or another instance is there: roles may have to move. */
  isChanged = false;
  readonly shelf: Shelf = {
    names: () => this.#owners.keys(),
    put: (role, { value, createRevision }) => {
      const before = this.#owners.get(role);
      this.#owners.set(role, { instance: value, createRevision });
      const isNew = before?.instance !== value || before.createRevision !== createRevision;
      if (isNew && value === this.self?.id) this.#options.gained(role);
    },
    deleted: (role) => {
      this.#owners.delete(role);
      this.isChanged = true;
    },
  };

  constructor(options: RolesOptions) {
    this.#options = options;
  }

  /** The roles of this instance. */
  get count(): number {
    let count = 0;
    for (const { instance } of this.#owners.values()) if (instance === this.self?.id) count++;
    return count;
  }

  /** For the condition of a decision: the revision that gave this instance the role; null: it does not have it. */
  mine(role: string): number | null {
    if (this.#leaving.has(role)) return null;
    const owner = this.#owners.get(role);
    return owner !== undefined && owner.instance === this.self?.id ? owner.createRevision : null;
  }

  /**
   * Claims the free roles that are rightfully ours. Gives up our roles that are rightfully those of another instance, once it
   * has lived for FLEET_STALE_MS.
   * `since`: when each living instance was first seen. Rejects with EtcdError.
   */
  async move(since: ReadonlyMap<string, number>, nowMs: number): Promise<void> {
    const self = this.self;
    if (self === null || this.#isMoving || !since.has(self.id)) return;
    this.#isMoving = true;
    this.isChanged = false;
    try {
      const free: string[] = [];
      const given: (readonly [role: string, createRevision: number])[] = [];
      for (const [role, rightful] of this.#rightfulOf([...since.keys()])) {
        const revision = this.mine(role);
        if (!this.#owners.has(role) && rightful === self.id) free.push(role);
        const isSettled = rightful !== null && nowMs - (since.get(rightful) ?? nowMs) >= FLEET_STALE_MS;
        if (revision !== null && isSettled && rightful !== self.id) given.push([role, revision]);
      }
      for (const chunk of chunksOf(given, KEYS_MAX)) await this.#giveUp(chunk);
      for (const chunk of chunksOf(free, KEYS_MAX)) await this.#claim(chunk, self);
    } finally {
      this.#isMoving = false;
    }
  }

  /** Computed anew only if an instance comes or goes: each tick asks. */
  #rightfulOf(instances: readonly string[]): ReadonlyMap<string, string | null> {
    const names = instances.join('\n');
    if (this.#rightful?.instances !== names) {
      const owners = new Map(ROLES.map((role) => [role, rightfulOwner(role, instances)]));
      this.#rightful = { instances: names, owners };
    }
    return this.#rightful.owners;
  }

  async #giveUp(given: readonly (readonly [role: string, createRevision: number])[]): Promise<void> {
    const roles = given.filter(([role]) => !this.#options.isBusy(role));
    if (roles.length === 0) return;
    for (const [role] of roles) this.#leaving.add(role);
    try {
      const { succeeded } = await this.#options.etcd.txn(
        roles.map(([role, createRevision]) => ({ key: ownerKey(role), createRevision })),
        roles.map(([role]) => ({ delete: ownerKey(role) })),
      );
      // At once: the watch may be late, and the next owner acts already.
      if (!succeeded) return;
      for (const [role, createRevision] of roles)
        if (this.#owners.get(role)?.createRevision === createRevision) this.#owners.delete(role);
    } finally {
      for (const [role] of roles) this.#leaving.delete(role);
    }
  }

  /** If one of them is taken already, none is claimed; the watch tells, and the next move claims the others. */
  async #claim(roles: readonly string[], { id, lease }: Leased): Promise<void> {
    await this.#options.etcd.txn(
      roles.map((role) => ({ key: ownerKey(role), modRevision: 0 })),
      roles.map((role) => ({ put: ownerKey(role), value: id, lease })),
    );
  }
}

/** The ticks of the other instances, by instance. */
type OtherTicks = ReadonlyMap<string, number>;

/** The moment at which memory was complete. All moments are on the boot's clock. */
class Freshness {
  readonly #others: () => OtherTicks;
  readonly #pending: { readonly sentMs: number; readonly revision: number }[] = [];
  /** Memory is at this revision. */
  #revision = 0;
  freshMs = Number.NEGATIVE_INFINITY;
  /** The ticks of others at the last judgement, and its moment; null before begin(). */
  #judged: { readonly atMs: number; readonly ticks: OtherTicks } | null = null;
  /**
   * False while it is unknown whether the fleet was served before this instance began: for FLEET_STALE_MS, because the keys
   * of dead instances stay for as long.
   */
  isJudged = false;

  constructor(others: () => OtherTicks) {
    this.#others = others;
  }

  /** Memory is complete now, for the first time. */
  begin(nowMs: number): void {
    this.freshMs = nowMs;
    this.#judge();
  }

  /** A tick that began at `sentMs` was written with this revision. Returns what stepped() does. */
  sent(sentMs: number, revision: number): boolean {
    this.#pending.push({ sentMs, revision });
    // The watch may be faster than the answer.
    return this.stepped(this.#revision);
  }

  /** Memory is at this revision. True: there was an outage. */
  stepped(revision: number): boolean {
    this.#revision = revision;
    if (this.#judged === null) return false;
    let next = this.#pending[0];
    while (next !== undefined && next.revision <= revision) {
      this.freshMs = Math.max(this.freshMs, next.sentMs);
      this.#pending.shift();
      next = this.#pending[0];
    }
    const gapMs = this.freshMs - this.#judged.atMs;
    if (this.isJudged && gapMs <= FLEET_STALE_MS) {
      if (gapMs > 0) this.#judge();
      return false;
    }
    if (gapMs < FLEET_STALE_MS) return false;
    // An instance that has come since may have been away as well: after an outage all of them start.
    const { ticks: before } = this.#judged;
    const progress = Math.max(
      0,
      ...[...this.#others()].map(([name, ticks]) => ticks - (before.get(name) ?? ticks)),
    );
    // At the start the one question is whether others served before.
    const isServed = this.isJudged ? progress * FLEET_TICK_MS >= gapMs / 2 : progress > 0;
    this.#judge();
    this.isJudged = true;
    return !isServed;
  }

  #judge(): void {
    this.#judged = { atMs: this.freshMs, ticks: new Map(this.#others()) };
  }
}

/**
 * The time after an outage in which silence does not count: devices retry with pauses of up to CLOUD_GRACE_MS. A key under a
 * lease of that length tells all instances, also those that start meanwhile.
 */
class Grace {
  readonly #etcd: Pick<Etcd, 'txn' | 'grant'>;
  readonly #log: Pick<Log, 'info'>;
  #isThere = false;
  #isOwed = false;
  #isWriting = false;
  readonly shelf: Shelf = {
    names: () => (this.#isThere ? [''] : []),
    put: () => this.#set(true),
    deleted: () => this.#set(false),
  };

  constructor({ etcd, log }: Pick<FleetParts, 'etcd' | 'log'>) {
    this.#etcd = etcd;
    this.#log = log;
  }

  /** True: silence does not count. */
  get isOn(): boolean {
    return this.#isThere || this.#isOwed;
  }

  /** There was an outage up to now. The key is written at the next write(). */
  declare(): void {
    this.#isOwed = true;
  }

  /** Writes the key if it is owed. Rejects with EtcdError; then it is still owed. */
  async write(): Promise<void> {
    if (!this.#isOwed || this.#isWriting) return;
    this.#isWriting = true;
    try {
      const lease = await this.#etcd.grant(CLOUD_GRACE_MS / SECOND_MS);
      await this.#etcd.txn([], [{ put: 'grace', value: '1', lease }]);
    } finally {
      this.#isWriting = false;
    }
  }

  #set(isThere: boolean): void {
    if (isThere && !this.#isThere) this.#log.info('grace begun', { forMs: CLOUD_GRACE_MS });
    if (!isThere && this.#isThere) this.#log.info('grace over');
    this.#isThere = isThere;
    if (isThere) this.#isOwed = false;
  }
}
