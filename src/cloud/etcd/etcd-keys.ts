/**
 * The keys of devices that the operator makes by a call, in etcd: digests of keys, never a key.
 */

import { FieldpostError } from '../../base/errors.js';
import type { DeviceKeys } from '../fleet-store.js';
import { drawKey, type KeyPair, keyOf, readKeys, withMade, writtenKeys } from '../key-pair.js';
import { type Etcd, EtcdError } from './etcd.js';
import { objectIn, type Shelf } from './mirror.js';
import { orUnavailable } from './unavailable.js';

const TRIES = 3;

interface EtcdKeysOptions {
  readonly etcd: Pick<Etcd, 'get' | 'txn'>;
  /** See Mirror.isBehind. */
  readonly isBehind: (revision: number) => boolean;
  readonly randomBytes: (count: number) => Uint8Array;
}

type Held = KeyPair & { readonly revision: number };

/** All keys that were made. */
export class EtcdKeys implements DeviceKeys {
  readonly #options: EtcdKeysOptions;
  readonly #held = new Map<string, Held>();
  readonly shelf: Shelf;

  constructor(options: EtcdKeysOptions) {
    this.#options = options;
    const held = this.#held;
    this.shelf = {
      get names() {
        return held.keys();
      },
      put: (id, { value, modRevision }) => this.#keep(id, value, modRevision),
      deleted: (id, revision) => {
        if ((held.get(id)?.revision ?? 0) <= revision) held.delete(id);
      },
    };
  }

  get ids(): Iterable<string> {
    return this.#held.keys();
  }

  has(id: string): boolean {
    return this.#held.has(id);
  }

  opens(id: string, given: Buffer): boolean {
    const held = this.#held.get(id);
    const used = held === undefined ? null : keyOf(held, given);
    if (used === 'next') void this.#endEarlier(id, held as Held);
    return used !== null;
  }

  async make(id: string): Promise<string> {
    const { key, made } = drawKey(this.#options.randomBytes);
    for (let tries = 1; tries <= TRIES; tries++) {
      const { found } = await orUnavailable(this.#options.etcd.get(`keys/${id}`));
      const held = found && readable(found.value);
      const replacing = this.#replace(id, found?.modRevision ?? 0, withMade(held, made));
      if (await orUnavailable(replacing)) return key;
    }
    throw new FieldpostError('unavailable', 'Others change the keys of this device all the time');
  }

  async remove(id: string): Promise<void> {
    const { revision } = await orUnavailable(this.#options.etcd.txn([], [{ delete: `keys/${id}` }]));
    this.shelf.deleted(id, revision);
  }

  /** The device has its new key: the earlier one opens no longer. If that cannot be stored, the next use tries again. */
  async #endEarlier(id: string, { next, revision }: Held): Promise<void> {
    try {
      await this.#replace(id, revision, { key: next as Buffer, next: null });
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
    }
  }

  async #replace(id: string, revision: number, keys: KeyPair): Promise<boolean> {
    const put = `keys/${id}`;
    const value = JSON.stringify(writtenKeys(keys));
    const result = await this.#options.etcd.txn([{ key: put, modRevision: revision }], [{ put, value }]);
    if (result.succeeded && this.#options.isBehind(result.revision)) this.#keep(id, value, result.revision);
    return result.succeeded;
  }

  #keep(id: string, value: string, revision: number): void {
    if ((this.#held.get(id)?.revision ?? 0) >= revision) return;
    this.#held.set(id, { ...read(value), revision });
  }
}

/** Throws SyntaxError if it is no value of writtenKeys. */
function read(text: string): KeyPair {
  const keys = readKeys(objectIn(text));
  if (keys === null) throw new SyntaxError('no keys');
  return keys;
}

/** Null: a value that cannot be read counts as absent. The mirror logs it. */
function readable(text: string): KeyPair | null {
  try {
    return read(text);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
