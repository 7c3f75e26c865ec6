/**
 * Keeps memory in step with etcd: lists all keys once, then follows one watch. Each kind of keys has a shelf. A watch that
 * ends is opened again where it ended; after a compaction everything is listed anew.
 */
import { FieldpostError } from '../../base/errors.js';
import { SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import { type Change, type Etcd, EtcdError, type KeyValue } from './etcd.js';

/** The pause before a watch is opened again. */
export const FLEET_RETRY_MS = 300;
/** How long a caller waits until memory has what it has written. */
const REACH_MS = 10 * SECOND_MS;

/** Memory of one kind of keys. A name is a key without its kind. */
export interface Shelf {
  names(): Iterable<string>;
  /** Throws SyntaxError for a value that cannot be read: then the key counts as absent. */
  put(name: string, found: Pick<KeyValue, 'value' | 'modRevision' | 'createRevision'>): void;
  deleted(name: string, revision: number): void;
}

interface MirrorOptions {
  readonly etcd: Pick<Etcd, 'list' | 'watch'>;
  readonly clock: Clock;
  readonly log: Pick<Log, 'error'>;
}

/** By kind of keys. */
type Shelves = Readonly<Record<string, Shelf>>;

/** What the parts of the fleet's store share. */
export interface FleetParts {
  readonly etcd: Etcd;
  readonly clock: Clock;
  readonly log: Log;
  readonly randomBytes: (count: number) => Uint8Array;
  readonly mirror: Mirror;
}

/** All keys of the fleet, as they were at one revision. */
export class Mirror {
  readonly #options: MirrorOptions;
  readonly #retrying: Alarm;
  #shelves: Shelves = {};
  #revision = 0;
  #watch: { close(): void } | null = null;
  #isClosed = false;
  /** Those that wait for a revision. */
  readonly #waiting = new Set<() => void>();

  constructor(options: MirrorOptions) {
    this.#options = options;
    this.#retrying = new Alarm(options.clock, () => void this.#resume());
  }

  /**
   * True: the watch has not brought this revision, so memory may take what an own transaction has written with it.
   * Otherwise memory is newer already.
   */
  isBehind(revision: number): boolean {
    return this.#revision < revision;
  }

  /** Resolves when memory is at this revision. Rejects with EtcdError after REACH_MS. */
  async reached(revision: number): Promise<void> {
    if (!this.isBehind(revision)) return;
    await new Promise<void>((resolve, reject) => {
      const look = () => {
        if (this.isBehind(revision) && !this.#isClosed) return;
        timer.stop();
        this.#waiting.delete(look);
        resolve();
      };
      const timer = this.#options.clock.after(REACH_MS, () => {
        this.#waiting.delete(look);
        reject(new EtcdError('unavailable', 'the watch of etcd is behind'));
      });
      this.#waiting.add(look);
    });
  }

  /** Lists everything and begins to follow. Rejects with EtcdError. */
  async open(shelves: Shelves): Promise<void> {
    this.#shelves = shelves;
    await this.#list();
    this.#follow();
  }

  close(): void {
    this.#isClosed = true;
    this.#retrying.end();
    this.#watch?.close();
    for (const look of this.#waiting) look();
  }

  /** Opens the watch again. Its connection may be dead without a word. */
  restart(): void {
    if (this.#watch === null) return;
    this.#watch.close();
    this.#follow();
  }

  #follow(): void {
    if (this.#isClosed) return;
    this.#watch = this.#options.etcd.watch('', this.#revision + 1, {
      changes: (changes, revision) => {
        for (const change of changes) this.#apply(change);
        this.#stepped(revision);
      },
      ended: (why) => this.#ended(why),
    });
  }

  #ended({ kind }: EtcdError): void {
    this.#watch = null;
    if (kind === 'compacted') this.#revision = 0;
    this.#retrying.in(FLEET_RETRY_MS);
  }

  async #resume(): Promise<void> {
    try {
      if (this.#revision === 0) await this.#list();
      this.#follow();
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      // The instance's own tick notices that memory is old, and says why.
      this.#retrying.in(FLEET_RETRY_MS);
    }
  }

  /** What memory has and etcd has not is gone. */
  async #list(): Promise<void> {
    const listed = new Set<string>();
    const revision = await this.#options.etcd.list('', (found) => {
      for (const entry of found) {
        listed.add(entry.key);
        this.#apply({ kind: 'put', ...entry });
      }
    });
    for (const [kind, shelf] of Object.entries(this.#shelves)) {
      const gone = [...shelf.names()].filter((name) => !listed.has(name === '' ? kind : `${kind}/${name}`));
      for (const name of gone) shelf.deleted(name, revision);
    }
    this.#stepped(revision);
  }

  #stepped(revision: number): void {
    this.#revision = revision;
    for (const look of this.#waiting) look();
  }

  #apply(change: Change): void {
    const end = change.key.indexOf('/');
    const [kind, name] = end < 0 ? [change.key, ''] : [change.key.slice(0, end), change.key.slice(end + 1)];
    const shelf = this.#shelves[kind];
    try {
      if (change.kind === 'put') shelf?.put(name, change);
      else shelf?.deleted(name, change.modRevision);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      shelf?.deleted(name, change.modRevision);
      this.#options.log.error('etcd value damaged', { key: change.key });
    }
  }
}

/** Turns a failure of etcd into unavailable, or storage-failed if it refuses. */
export async function orUnavailable<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
    if (error.kind === 'unavailable') {
      const words = `The fleet's store cannot be reached: ${error.message}`;
      throw new FieldpostError('unavailable', words, { cause: error });
    }
    throw new FieldpostError('storage-failed', `etcd refuses: ${error.message}`, { cause: error });
  }
}
