/**
 * The keys of devices that the operator makes by a call. `keys.json` and its copy, `keys.json.1`, are durable files of
 * `{device id: WrittenKeys}`: they have digests of keys, never a key.
 */
import { join } from 'node:path';
import { CopiedFile } from '../../base/copied-file.js';
import { type Low, openLow } from '../../base/durable-file.js';
import { FieldpostError } from '../../base/errors.js';
import { mapOf } from '../../base/json.js';
import type { Disk } from '../../base/system/disk.js';
import type { Log, LogFields } from '../../base/system/log.js';
import { Turns } from '../../base/turns.js';
import type { DeviceKeys } from '../fleet-store.js';
import {
  drawKey,
  HeldKeys,
  type KeyPair,
  readKeys,
  type WrittenKeys,
  withMade,
  writtenKeys,
} from '../keys.js';
import { orStorageFailed } from './documents.js';

/** A change that is not on the disk yet: what becomes of the device's keys. Null: none. */
type Change = readonly [id: string, apply: (held: KeyPair | null) => KeyPair | null];

interface FileKeysOptions {
  readonly disk: Disk;
  readonly directory: string;
  readonly log: Pick<Log, 'error'>;
  readonly randomBytes: (count: number) => Uint8Array;
}

/** All keys that were made, in memory and on the disk. */
export class FileKeys extends HeldKeys<KeyPair> implements DeviceKeys {
  readonly #randomBytes: FileKeysOptions['randomBytes'];
  readonly #file: Low<Written>;
  readonly #writes = new Turns();
  /** Changes for the next write, and that write. */
  #changes: Change[] = [];
  #next: Promise<void> | null = null;

  /**
   * Reads the keys in `directory`, which must exist. Rejects with storage-damaged if neither file is whole, and leaves both
   * as they are: without keys it would refuse every device, and people would hear that all of them are offline.
   */
  static async open(options: FileKeysOptions): Promise<FileKeys> {
    const keys = new FileKeys(options);
    await keys.#file.read();
    for (const [id, written] of Object.entries(keys.#file.data))
      keys.held.set(id, readKeys(written) as KeyPair);
    return keys;
  }

  private constructor({ disk, directory, log, randomBytes }: FileKeysOptions) {
    super();
    this.#randomBytes = randomBytes;
    const path = join(directory, 'keys.json');
    const onDamage = (paths: LogFields) => log.error('cloud file damaged', paths);
    this.#file = openLow(new CopiedFile({ disk, path, parse: writtenIn, onDamage, lost }), {});
  }

  /** Resolves when no write is under way. */
  async stop(): Promise<void> {
    await this.#writes.idle();
  }

  async make(id: string): Promise<string> {
    const { key, made } = drawKey(this.#randomBytes);
    await this.#change(id, (held) => withMade(held, made));
    return key;
  }

  async remove(id: string): Promise<void> {
    // A key may be under way to the disk.
    if (this.has(id) || !this.#writes.isFree) await this.#change(id, () => null);
  }

  protected override endEarlier(id: string, key: Buffer): void {
    this.held.set(id, { key, next: null });
    // If this cannot be written, a restart knows the earlier key again, until the new one is used.
    this.#change(id, (held) => held).catch(() => undefined);
  }

  /** Resolves when the change is on the disk. After storage-failed a restart finds the old keys or the new ones. */
  #change(...change: Change): Promise<void> {
    this.#changes.push(change);
    // Changes that come during a write are written together.
    this.#next ??= this.#writes.do(() => {
      this.#next = null;
      return this.#write(this.#changes.splice(0));
    });
    return this.#next;
  }

  async #write(changes: readonly Change[]): Promise<void> {
    const next = new Map(this.held);
    applyAll(changes, next);
    this.#file.data = Object.fromEntries([...next].map(([id, held]) => [id, writtenKeys(held)]));
    await orStorageFailed('The keys cannot be stored', () => this.#file.write());
    // Not `next`: during the write a device may have used its new key.
    applyAll(changes, this.held);
  }
}

function lost(path: string): FieldpostError {
  return new FieldpostError(
    'storage-damaged',
    `The file ${path} with the keys of devices is damaged, and so is its copy, or there is none`,
    { hint: `put a backup of it back; or remove ${path} and ${path}.1, and make a new key for each device` },
  );
}

function applyAll(changes: readonly Change[], held: Map<string, KeyPair>): void {
  for (const [id, apply] of changes) {
    const keys = apply(held.get(id) ?? null);
    if (keys === null) held.delete(id);
    else held.set(id, keys);
  }
}

/** The content of the file. */
type Written = Readonly<Record<string, WrittenKeys>>;

const isFile = mapOf((value) => readKeys(value) !== null);
/** The content of the file; null if the value has another shape. */
export const writtenIn = (value: unknown) => (isFile(value) ? (value as Written) : null);
