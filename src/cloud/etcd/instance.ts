/**
 * This instance among the others of the fleet: its lease, who leads, and how old its memory is.
 *
 * An instance writes its key at each tick. When the watch brings that write back, memory was complete at the moment of the
 * write. The leader is the instance with the oldest key: it stays so until its lease ends.
 */
import { SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Office } from '../fleet-store.js';
import { type Compare, EtcdError, EtcdRefusal } from './etcd.js';
import { FLEET_STALE_MS, FLEET_TICK_MS } from './layout.js';
import type { FleetParts, Shelf } from './mirror.js';

/** An instance that is gone for this long loses its devices, and the office of the leader. */
const LEASE_S = 10;
/** An instance that writes, and whose watch brings nothing for this long, gives up its lease: it can decide nothing. */
const BLIND_MS = 3 * FLEET_STALE_MS;

interface InstanceOptions extends FleetParts {
  /** The instance's id begins with the host's name. */
  readonly hostname: string;
  /** This instance is gone, and perhaps this one leads now. */
  readonly gone: (instance: string) => void;
  /** Memory is at this revision: called at each tick. */
  readonly ticked: (revision: number) => void;
}

/** An instance and its lease. */
interface Leased {
  readonly id: string;
  readonly lease: string;
}

/** The lease and the office of one instance. Each lease has an instance id of its own. */
export class Instance implements Office {
  readonly #options: InstanceOptions;
  readonly #ticking: Alarm;
  /** The revision that made each instance's key. */
  readonly #all = new Map<string, number>();
  #self: Leased | null = null;
  /** The lease lasts until then at least. */
  #leasedMs = Number.NEGATIVE_INFINITY;
  /** Memory was complete at this moment. */
  #freshMs = Number.NEGATIVE_INFINITY;
  /** From then on the watch should bring its ticks. */
  #watchedMs = Number.NEGATIVE_INFINITY;
  #ticks = 0;
  #tick: Promise<void> | null = null;
  /** Memory follows the last tick. */
  #following: Promise<void> | null = null;
  /** When the first tick in a row failed; null: the last one worked. */
  #awayMs: number | null = null;
  /** True: the last failed tick was answered by a member, so it is the cluster that is away, and not this instance. */
  #isAnswered = false;
  #shown = '';
  readonly shelf: Shelf = {
    names: () => this.#all.keys(),
    put: (id, { createRevision }) => void this.#all.set(id, createRevision),
    deleted: (id) => {
      this.#all.delete(id);
      this.#options.gone(id);
    },
  };

  constructor(options: InstanceOptions) {
    this.#options = options;
    this.#ticking = new Alarm(options.clock, () => this.#startTick());
  }

  /** Begins to tick. Resolves after the first tick, whether or not it worked. */
  async start(): Promise<void> {
    this.#startTick();
    await this.#tick;
  }

  /** Renews a lease that is over, or takes another one: the last records can be written with it. Resolves also without one. */
  async renew(): Promise<void> {
    await this.#tick;
    if (this.#isLeased) return;
    this.#startTick();
    await this.#tick;
    await this.#following;
  }

  /** Gives up the lease. */
  async stop(): Promise<void> {
    this.#ticking.end();
    await this.#tick;
    await this.#giveUp();
  }

  /** '' without a lease. */
  get id(): string {
    return this.#self?.id ?? '';
  }

  /** True: the instance has this id, and lives. */
  has(id: string): boolean {
    return this.#all.has(id);
  }

  get #isLeased(): boolean {
    return this.#options.clock.bootMs() < this.#leasedMs;
  }

  /** False: memory is old, or the lease may have run out. */
  get mayDecide(): boolean {
    const isFresh = this.#options.clock.bootMs() - this.#freshMs <= FLEET_STALE_MS;
    return isFresh && this.#isLeased && this.#all.has(this.id);
  }

  /**
   * False: the others may believe that this instance is gone, and watch its devices. As long as members say that the cluster
   * has no leader, the others cannot decide anything either.
   */
  get isServing(): boolean {
    return this.#isLeased || this.#isAnswered;
  }

  get isLeader(): boolean {
    const mine = this.#isLeased ? this.#all.get(this.id) : undefined;
    return mine !== undefined && [...this.#all.values()].every((revision) => revision >= mine);
  }

  answersFor(home: string): boolean {
    return this.has(home) ? home === this.id : this.isLeader;
  }

  /** A condition that holds until the lease has run out. Throws an EtcdError without a lease. */
  alive(): Compare {
    const createRevision = this.#isLeased ? this.#all.get(this.id) : undefined;
    if (createRevision === undefined) throw new EtcdError('unavailable', 'this instance has no lease');
    return { key: `instance/${this.id}`, createRevision };
  }

  #startTick(): void {
    this.#tick = this.#beat().finally(() => {
      this.#tick = null;
      this.#ticking.in(FLEET_TICK_MS);
    });
  }

  async #beat(): Promise<void> {
    const { etcd, clock, log, mirror } = this.#options;
    try {
      const sentMs = await this.#keepLease();
      const { id, lease } = this.#self as Leased;
      const { revision } = await etcd.txn(
        [],
        [{ put: `instance/${id}`, value: String(++this.#ticks), lease }],
      );
      if (this.#awayMs !== null) {
        log.info('etcd back', { afterMs: Math.round(clock.bootMs() - this.#awayMs) });
        // The watch was away, too.
        this.#watchedMs = sentMs;
      }
      this.#awayMs = null;
      this.#following = this.#followed(sentMs, revision);
      this.#show();
      if (sentMs - Math.max(this.#freshMs, this.#watchedMs) > BLIND_MS) {
        await this.#giveUp();
        throw new EtcdError('unavailable', 'the watch of etcd tells nothing');
      }
      if (clock.bootMs() - this.#freshMs > FLEET_STALE_MS / 2) mirror.restart();
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      this.#isAnswered = error.cause instanceof EtcdRefusal;
      // The lease may be gone, or etcd refuses writes: the next tick takes another lease.
      if (error.kind === 'refused') this.#become(null);
      if (this.#awayMs === null) log.warn('etcd away', { reason: error.message });
      this.#awayMs ??= clock.bootMs();
    }
  }

  /** Memory is complete at `sentMs` when the watch brings back what was written after it. */
  async #followed(sentMs: number, revision: number): Promise<void> {
    try {
      await this.#options.mirror.reached(revision);
      this.#freshMs = sentMs;
      this.#options.ticked(revision);
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
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

  async #giveUp(): Promise<void> {
    const self = this.#self;
    this.#become(null);
    if (self !== null) await this.#options.etcd.revoke(self.lease).catch(() => undefined);
  }

  #become(self: Leased | null): void {
    this.#self = self;
    this.#ticks = 0;
    this.#watchedMs = this.#options.clock.bootMs();
    if (self === null) this.#leasedMs = Number.NEGATIVE_INFINITY;
  }

  #show(): void {
    const { size: instances } = this.#all;
    const shown = `${instances} ${this.isLeader}`;
    if (shown !== this.#shown) this.#options.log.info('fleet shared', { instances, leads: this.isLeader });
    this.#shown = shown;
  }
}
