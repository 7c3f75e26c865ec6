/**
 * The keys of devices that the operator makes by a call, in one file: `keys.json`. It has digests of keys, never a key.
 * Used by file-fleet.ts.
 */
import { join } from 'node:path';
import { busyOf, FieldpostError, wordsOf } from '../errors.js';
import { digest, isOneOf } from '../http/bearer.js';
import { readSealed, writeSealed } from '../store/sealed.js';
import type { Disk } from '../system/disk.js';
import type { Log, LogFields } from '../system/log.js';
import type { DeviceKeys } from './fleet-store.js';

/** Nobody can guess a key of so many random octets. */
const KEY_BYTES = 32;

/** The digests of a device's keys. */
interface Held {
  readonly key: Buffer;
  /** The key that follows; null: there is none. Its first use ends the earlier one. */
  readonly next: Buffer | null;
}

/** One device in `keys.json`, in base64url. */
interface Written {
  readonly key: string;
  readonly next?: string;
}

/** A change that is not on the disk yet: what becomes of the device's keys. Null: none. */
interface Change {
  readonly id: string;
  readonly apply: (held: Held | null) => Held | null;
  done(): void;
  failed(reason: FieldpostError): void;
}

interface FileKeysOptions {
  readonly disk: Disk;
  readonly directory: string;
  readonly randomBytes: (count: number) => Uint8Array;
  readonly log: Pick<Log, 'error'>;
}

/** All keys that were made, in memory and on the disk. */
export class FileKeys implements DeviceKeys {
  readonly #options: FileKeysOptions;
  readonly #path: string;
  readonly #held = new Map<string, Held>();
  /** Changes for the next write. */
  #changes: Change[] = [];
  #writing: Promise<void> | null = null;

  /** Reads the keys in `directory`, which must exist. */
  static async open(options: FileKeysOptions): Promise<FileKeys> {
    const keys = new FileKeys(options);
    const tell = (paths: LogFields) => options.log.error('cloud file damaged', paths);
    const found = await readSealed(options.disk, keys.#path, tell);
    for (const [id, { key, next }] of Object.entries((found ?? {}) as Record<string, Written>)) {
      const followed = next === undefined ? null : Buffer.from(next, 'base64url');
      keys.#held.set(id, { key: Buffer.from(key, 'base64url'), next: followed });
    }
    return keys;
  }

  private constructor(options: FileKeysOptions) {
    this.#options = options;
    this.#path = join(options.directory, 'keys.json');
  }

  /** Resolves when no write is under way. */
  async stop(): Promise<void> {
    await this.#writing;
  }

  get ids(): Iterable<string> {
    return this.#held.keys();
  }

  has(id: string): boolean {
    return this.#held.has(id);
  }

  opens(id: string, given: Buffer): boolean {
    const held = this.#held.get(id);
    if (held === undefined) return false;
    if (held.next !== null && isOneOf(given, [held.next])) {
      this.#endEarlier(id, held.next);
      return true;
    }
    return isOneOf(given, [held.key]);
  }

  async make(id: string): Promise<string> {
    const key = Buffer.from(this.#options.randomBytes(KEY_BYTES)).toString('base64url');
    const made = digest(key);
    await this.#change(id, (held) =>
      held === null ? { key: made, next: null } : { key: held.key, next: made },
    );
    return key;
  }

  async remove(id: string): Promise<void> {
    // A key may be under way to the disk.
    if (this.has(id) || this.#writing !== null) await this.#change(id, () => null);
  }

  /** The device has its new key: the earlier one opens no longer. */
  #endEarlier(id: string, key: Buffer): void {
    this.#held.set(id, { key, next: null });
    // If this cannot be written, a restart knows the earlier key again, until the new one is used.
    this.#change(id, (held) => held).catch(() => undefined);
  }

  /** Resolves when the change is on the disk. After storage-failed a restart finds the old keys or the new ones. */
  #change(id: string, apply: Change['apply']): Promise<void> {
    return new Promise((done, failed) => {
      this.#changes.push({ id, apply, done, failed });
      this.#writing ??= this.#writeAll();
    });
  }

  /** Writes until there are no more changes. Those that come during a write are written together. */
  async #writeAll(): Promise<void> {
    while (this.#changes.length > 0) {
      const changes = this.#changes.splice(0);
      const next = new Map(this.#held);
      applyAll(changes, next);
      try {
        await writeSealed(this.#options.disk, this.#path, Object.fromEntries([...next].map(writtenOf)));
        // Not `next`: during the write a device may have used its new key.
        applyAll(changes, this.#held);
        for (const { done } of changes) done();
      } catch (error) {
        const words = `The keys cannot be stored: ${wordsOf(error)}`;
        const reason = busyOf(error) ?? new FieldpostError('storage-failed', words, { cause: error });
        for (const { failed } of changes) failed(reason);
      }
    }
    this.#writing = null;
  }
}

function applyAll(changes: readonly Change[], held: Map<string, Held>): void {
  for (const { id, apply } of changes) {
    const keys = apply(held.get(id) ?? null);
    if (keys === null) held.delete(id);
    else held.set(id, keys);
  }
}

function writtenOf([id, { key, next }]: readonly [string, Held]): readonly [string, Written] {
  const text = (of: Buffer) => of.toString('base64url');
  return [id, { key: text(key), ...(next !== null && { next: text(next) }) }];
}
