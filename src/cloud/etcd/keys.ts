/**
 * The keys of devices that the operator makes by a call, in etcd: digests of keys, never a key.
 */
import { FieldpostError } from '../../base/errors.js';
import { objectIn } from '../../base/json.js';
import type { DeviceKeys } from '../fleet-store.js';
import { drawKey, HeldKeys, type KeyPair, readKeys, withMade, writtenKeys } from '../keys.js';
import { EtcdError } from './etcd.js';
import { type FleetParts, orUnavailable, type Shelf } from './mirror.js';

const TRIES = 3;

type Held = KeyPair & { readonly revision: number };

/** All keys that were made. */
export class EtcdKeys extends HeldKeys<Held> implements DeviceKeys {
  readonly #parts: FleetParts;
  readonly shelf: Shelf = {
    names: () => this.held.keys(),
    put: (id, { value, modRevision }) => this.#keep(id, value, modRevision),
    deleted: (id, revision) => {
      if ((this.held.get(id)?.revision ?? 0) <= revision) this.held.delete(id);
    },
  };

  constructor(parts: FleetParts) {
    super();
    this.#parts = parts;
  }

  async make(id: string): Promise<string> {
    const { key, made } = drawKey(this.#parts.randomBytes);
    for (let tries = 1; tries <= TRIES; tries++) {
      const found = await orUnavailable(this.#parts.etcd.get(`keys/${id}`));
      const held = found && readKeys(objectIn(found.value));
      const replacing = this.#replace(id, found?.modRevision ?? 0, withMade(held, made));
      if (await orUnavailable(replacing)) return key;
    }
    throw new FieldpostError('unavailable', 'Others change the keys of this device all the time');
  }

  async remove(id: string): Promise<void> {
    const { revision } = await orUnavailable(this.#parts.etcd.txn([], [{ delete: `keys/${id}` }]));
    this.shelf.deleted(id, revision);
  }

  /** If it cannot be stored, the next use tries again. */
  protected override async endEarlier(id: string, key: Buffer, { revision }: Held): Promise<void> {
    try {
      await this.#replace(id, revision, { key, next: null });
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
    }
  }

  async #replace(id: string, revision: number, keys: KeyPair): Promise<boolean> {
    const put = `keys/${id}`;
    const value = JSON.stringify(writtenKeys(keys));
    const result = await this.#parts.etcd.txn([{ key: put, modRevision: revision }], [{ put, value }]);
    if (result.succeeded && this.#parts.mirror.isBehind(result.revision))
      this.#keep(id, value, result.revision);
    return result.succeeded;
  }

  #keep(id: string, value: string, revision: number): void {
    if ((this.held.get(id)?.revision ?? 0) >= revision) return;
    const keys = readKeys(objectIn(value));
    if (keys === null) throw new SyntaxError('no keys');
    this.held.set(id, { ...keys, revision });
  }
}
