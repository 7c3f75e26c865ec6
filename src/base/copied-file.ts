/**
 * Data that must not be lost to one bad sector: a durable file at `path`, and the same at `path.1`. Only the cloud has such
 * data.
 */
import { type Adapter, type DurableFileOptions, dataIn, lineOf, replace } from './durable-file.js';

interface CopiedFileOptions<T> extends Pick<DurableFileOptions<T>, 'disk' | 'path' | 'parse'> {
  /** Called before a damaged file is renamed to `copy`; `used` has the same data. */
  readonly onDamage: (paths: { path: string; copy: string; used: string }) => void;
  /** What a read rejects with if the data are lost. The files stay as they are. */
  readonly lost: (path: string) => Error;
}

/**
 * The adapter of these data. A read takes the first row that fits, and then both files are what it took.
 *
 * | `path`  | `path.1` | the data            |
 * |---------|----------|---------------------|
 * | whole   | any      | those of `path`     |
 * | any     | whole    | those of `path.1`   |
 * | missing | missing  | none                |
 * | any     | any      | lost                |
 */
export class CopiedFile<T> implements Adapter<T> {
  readonly #options: CopiedFileOptions<T>;
  readonly #paths: readonly [string, string];

  constructor(options: CopiedFileOptions<T>) {
    this.#options = options;
    this.#paths = [options.path, `${options.path}.1`];
  }

  /** Null: none. Rejects if they are lost; with the disk's error if it may still have them. */
  async read(): Promise<T | null> {
    const { disk, path, onDamage, lost } = this.#options;
    const looked = await Promise.all(this.#paths.map((each) => this.#look(each)));
    const whole = looked.find(({ data }) => data !== null);
    if (!whole?.bytes) {
      const failure = looked.find(({ error }) => error !== null)?.error;
      if (failure) throw failure;
      if (looked.some(({ bytes }) => bytes !== null)) throw lost(path);
      return null;
    }
    for (const { path: other, bytes, data, error } of looked) {
      if (bytes?.equals(whole.bytes)) continue;
      try {
        if (data === null && (bytes ?? error)) {
          const copy = `${other}.damaged`;
          onDamage({ path: other, copy, used: whole.path });
          await disk.rename(other, copy);
        }
        await replace(disk, other, whole.bytes);
      } catch {
        // The next write makes it whole.
      }
    }
    return whole.data;
  }

  /** Replaces both. If it rejects, each is the old or the new one. */
  async write(data: T): Promise<void> {
    const line = lineOf(data);
    for (const path of this.#paths) await replace(this.#options.disk, path, line);
  }

  async #look(path: string) {
    const { disk, parse } = this.#options;
    try {
      const bytes = await disk.readWhole(path);
      return { path, bytes, data: bytes && dataIn(bytes, parse), error: null };
    } catch (error) {
      return { path, bytes: null, data: null, error: error as Error };
    }
  }
}
