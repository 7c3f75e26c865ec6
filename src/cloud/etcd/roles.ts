/**
 * The roles of the fleet and who has them: a key for each, under the lease of its owner. Roles move if an instance comes or
 * goes.
 */

import { FLEET_STALE_MS } from '../../base/limits.js';
import type { Etcd } from './etcd.js';
import { ROLES, rightfulOwner } from './layout.js';
import type { Shelf } from './mirror.js';

/** Keys of one transaction: each takes a condition and an operation. */
const KEYS_MAX = 64;

interface Owner {
  readonly instance: string;
  readonly createRevision: number;
}

interface RolesOptions {
  readonly etcd: Pick<Etcd, 'txn'>;
  /** This instance has the role from now on. */
  readonly gained: (role: string) => void;
  /** True: the role must not move now; the next move() looks again. */
  readonly isBusy: (role: string) => boolean;
}

/** An instance and its lease. */
export interface Leased {
  readonly id: string;
  readonly lease: string;
}

/** The owners of all roles. */
export class Roles {
  readonly #options: RolesOptions;
  readonly #owners = new Map<string, Owner>();
  #self: Leased | null = null;
  /** Roles that are being given up: etcd may have done so already. */
  readonly #leaving = new Set<string>();
  #rightful: { readonly instances: string; readonly owners: ReadonlyMap<string, string | null> } | null =
    null;
  #isMoving = false;
  #isChanged = false;
  readonly shelf: Shelf;

  constructor(options: RolesOptions) {
    this.#options = options;
    const owners = this.#owners;
    this.shelf = {
      get names() {
        return owners.keys();
      },
      put: (role, { value, createRevision }) => {
        const before = owners.get(role);
        owners.set(role, { instance: value, createRevision });
        const isNew = before?.instance !== value || before.createRevision !== createRevision;
        if (isNew && value === this.#self?.id) options.gained(role);
      },
      deleted: (role) => {
        owners.delete(role);
        this.changed();
      },
    };
  }

  /** An owner or an instance is gone, or another instance is there: roles may have to move. */
  changed(): void {
    this.#isChanged = true;
  }

  get isChanged(): boolean {
    return this.#isChanged;
  }

  /** The roles of this instance. */
  get count(): number {
    let count = 0;
    for (const { instance } of this.#owners.values()) if (instance === this.#self?.id) count++;
    return count;
  }

  /** This instance; null: it has no lease, and so no role. */
  set self(self: Leased | null) {
    this.#self = self;
  }

  /** For the condition of a decision: the revision that gave this instance the role; null: it does not have it. */
  mine(role: string): number | null {
    if (this.#leaving.has(role)) return null;
    const owner = this.#owners.get(role);
    return owner !== undefined && owner.instance === this.#self?.id ? owner.createRevision : null;
  }

  /**
   * Claims the free roles that are rightfully ours. Gives up our roles that are rightfully those of another instance, once it
   * has lived for FLEET_STALE_MS.
   * `since`: when each living instance was first seen. Rejects with EtcdError.
   */
  async move(since: ReadonlyMap<string, number>, nowMs: number): Promise<void> {
    const self = this.#self;
    if (self === null || this.#isMoving || !since.has(self.id)) return;
    this.#isMoving = true;
    this.#isChanged = false;
    try {
      const free: string[] = [];
      const given: (readonly [role: string, createRevision: number])[] = [];
      for (const [role, rightful] of this.#rightfulOf([...since.keys()])) {
        const revision = this.mine(role);
        if (!this.#owners.has(role) && rightful === self.id) free.push(role);
        const isSettled = rightful !== null && nowMs - (since.get(rightful) ?? nowMs) >= FLEET_STALE_MS;
        if (revision !== null && isSettled && rightful !== self.id) given.push([role, revision]);
      }
      while (given.length > 0) await this.#giveUp(given.splice(0, KEYS_MAX));
      while (free.length > 0) await this.#claim(free.splice(0, KEYS_MAX), self);
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
        roles.map(([role, createRevision]) => ({ key: keyOf(role), createRevision })),
        roles.map(([role]) => ({ delete: keyOf(role) })),
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
      roles.map((role) => ({ key: keyOf(role), modRevision: 0 })),
      roles.map((role) => ({ put: keyOf(role), value: id, lease })),
    );
  }
}

/** The key of a role's owner. */
export function keyOf(role: string): string {
  return `owner/${role}`;
}
