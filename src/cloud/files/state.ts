/**
 * Export and import of the state in files. An import begins with IMPORT_FILE and ends with its removal. It holds the lock of
 * the directory.
 */
import { dirname, join } from 'node:path';
import type { StatOf } from '../../base/config/types.js';
import { dataIn, lineOf, replace } from '../../base/durable-file.js';
import { FieldpostError, systemCodeOf } from '../../base/errors.js';
import { isJsonObject } from '../../base/json.js';
import type { Clock } from '../../base/system/clock.js';
import type { Disk } from '../../base/system/disk.js';
import type { Lock, TakeLock } from '../../base/system/lock.js';
import { inLanes } from '../../base/turns.js';
import { CLOUD_DEVICES_MAX } from '../devices.js';
import { newsAt } from '../fleet-store.js';
import { isDeviceId } from '../keys.js';
import { marksIn } from '../marks.js';
import { type Moment, momentAt, wallMsOf } from '../moment.js';
import { NO_STATUS, statusOf } from '../presence.js';
import {
  asTold,
  type DocumentRecord,
  isUntold,
  marksFor,
  newsFor,
  orFailed,
  type PresenceRecord,
  type StateRecord,
  type StateStore,
} from '../state-record.js';
import { DOCUMENT_FILE, DOCUMENTS_CHARS_MAX, keptIn } from './documents.js';
import { assertImported, IMPORT_FILE, keepNames } from './fleet.js';
import { writtenIn as keysIn } from './keys.js';
import { writtenIn as devicesIn, type WrittenDevice } from './ledger.js';

/** Documents that are written at a time. */
const LANES = 8;

interface FileStateOptions {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly takeLock: TakeLock;
  readonly statOf: StatOf;
  /** Its parent is the state directory. */
  readonly directory: string;
}

/** The state in files. */
export class FileState implements StateStore {
  readonly devicesMax = CLOUD_DEVICES_MAX;
  readonly #options: FileStateOptions;
  #lock: Lock | null = null;
  #chars = 0;
  /** What end() writes. */
  readonly #documents: DocumentRecord[] = [];
  readonly #keys = new Map<string, object>();
  readonly #devices = new Map<string, WrittenDevice>();

  constructor(options: FileStateOptions) {
    this.#options = options;
  }

  async read(each: (record: StateRecord) => Promise<void>): Promise<void> {
    try {
      await this.#readAll(each);
    } catch (error) {
      const isDenied = error instanceof FieldpostError && systemCodeOf(error.cause) === 'EACCES';
      throw (isDenied && this.#notOurs('export')) || error;
    }
  }

  async #readAll(each: (record: StateRecord) => Promise<void>): Promise<void> {
    const { disk, directory, clock } = this.#options;
    const names = await orFailed('The state cannot be read', async () => {
      await assertImported(disk, directory);
      const isThere = (await disk.look(join(directory, 'documents'))) !== null;
      return isThere ? await disk.list(join(directory, 'documents')) : null;
    });
    if (names === null) throw new FieldpostError('not-found', `There is no state of a cloud in ${directory}`);
    const ids = names.flatMap((name) => DOCUMENT_FILE.exec(name)?.[1] ?? []).filter(isDeviceId);
    for (const id of ids.sort()) {
      // It may have been removed meanwhile.
      const kept = await this.#read([`documents/${id}.json`], keptIn);
      if (kept !== null) await each({ kind: 'document', id, ...kept });
    }
    for (const [id, keys] of sorted((await this.#read(['keys.json', 'keys.json.1'], keysIn)) ?? {}))
      await each({ kind: 'keys', id, ...keys });
    for (const [id, device] of sorted((await this.#read(['presence.json'], devicesIn)) ?? {}))
      await each(recordOf(id, device, (moment) => (moment ? wallMsOf(moment, clock) : null)));
  }

  check(record: StateRecord): void {
    if (record.kind === 'document') this.#chars += JSON.stringify(record.document).length;
    if (this.#chars > DOCUMENTS_CHARS_MAX)
      throw new FieldpostError(
        'too-large',
        `Files take documents of ${DOCUMENTS_CHARS_MAX} characters in all`,
      );
  }

  async begin(digest: string): Promise<void> {
    const { disk, takeLock, directory } = this.#options;
    // The cloud could not change files of another user.
    const notOurs = this.#notOurs('import FILE');
    if (notOurs !== null) throw notOurs;
    await stored(async () => {
      await disk.makeDirectory(join(directory, 'outbox'));
      this.#lock = await takeLock(join(directory, 'outbox', 'lock')).catch((error) => {
        if (!(error instanceof FieldpostError && error.code === 'already-running')) throw error;
        const hint = 'stop it first: sudo systemctl stop fieldpost-cloud';
        throw new FieldpostError('already-running', `a cloud uses ${directory}`, { hint, cause: error });
      });
      const begun = await this.#read([IMPORT_FILE], digestIn);
      if (begun === digest) return;
      await this.#assertEmpty(begun !== null);
      await disk.makeDirectory(join(directory, 'documents'));
      await this.#write(IMPORT_FILE, { sha256: digest });
      await keepNames(disk, directory);
    });
  }

  async put(record: StateRecord): Promise<void> {
    if (record.kind === 'document') this.#documents.push(record);
    else if (record.kind === 'keys') this.#keys.set(record.id, { key: record.key, next: record.next });
    else this.#devices.set(record.id, writtenOf(record));
  }

  async end(): Promise<void> {
    const { disk, directory } = this.#options;
    await stored(async () => {
      await inLanes(LANES, this.#documents, ({ id, revision, document }) =>
        this.#write(`documents/${id}.json`, { revision, document }),
      );
      if (this.#devices.size > 0) await this.#write('presence.json', Object.fromEntries(this.#devices));
      if (this.#keys.size > 0) await this.#write('keys.json', Object.fromEntries(this.#keys));
      await disk.remove(join(directory, IMPORT_FILE));
      await disk.syncDirectory(directory);
    });
  }

  async close(): Promise<void> {
    await this.#lock?.release();
  }

  /** What to do if the files belong to another user; null: they do not, as far as is known. */
  #notOurs(command: string): FieldpostError | null {
    const stateDir = dirname(this.#options.directory);
    const [found, own] = [stateDir, '/proc/self'].map(this.#options.statOf);
    if (!found || !own || found.uid === own.uid) return null;
    return new FieldpostError(
      'forbidden',
      `${stateDir} belongs to user ${found.uid}, and this is user ${own.uid}`,
      {
        hint: `run it as that user: sudo -u '#${found.uid}' fieldpost-cloud ${command}`,
      },
    );
  }

  async #assertEmpty(isBegun: boolean): Promise<void> {
    const { disk, directory } = this.#options;
    const documents = await disk.list(join(directory, 'documents'));
    const names = [...documents.map((name) => `documents/${name}`), ...(await disk.list(directory))];
    const found = names.find((name) => /^(?:documents\/.*|(?:keys|presence)\.json(?:\.1)?)$/.test(name));
    if (!isBegun && found === undefined) return;
    throw new FieldpostError(
      'conflict',
      isBegun
        ? `An import of another file into ${directory} has not ended`
        : `${directory} is not empty: it has ${found}`,
      { hint: `move its documents/, keys.json*, presence.json* and ${IMPORT_FILE} to another place first` },
    );
  }

  async #write(name: string, data: object): Promise<void> {
    await replace(this.#options.disk, join(this.#options.directory, name), lineOf(data));
  }

  /**
   * The data of the first file that is whole; null: there is none. Rejects with storage-damaged: the cloud itself puts a
   * damaged file aside, at its next start.
   */
  async #read<T>(names: readonly string[], parse: (value: unknown) => T | null): Promise<T | null> {
    const { disk, directory } = this.#options;
    let failure: unknown = null;
    for (const name of names) {
      const path = join(directory, name);
      try {
        const bytes = await orFailed(`${name} cannot be read`, () => disk.readWhole(path));
        const found = bytes && dataIn(bytes, parse);
        if (found !== null) return found;
        if (bytes !== null) throw new FieldpostError('storage-damaged', `The file ${path} is damaged`);
      } catch (error) {
        failure = error;
      }
    }
    if (failure !== null) throw failure;
    return null;
  }
}

const stored = (work: () => Promise<void>) => orFailed('The import cannot be stored', work);

const sorted = <T>(of: Readonly<Record<string, T>>) =>
  Object.entries(of).sort(([one], [other]) => (one < other ? -1 : 1));

const digestIn = (value: unknown) =>
  isJsonObject(value) && typeof value.sha256 === 'string' ? value.sha256 : null;

function recordOf(
  id: string,
  { state, said, everyMs, damping = 1, heard, away, since, status, marks, news }: WrittenDevice,
  wallMs: (moment: Moment | null | undefined) => number | null,
): PresenceRecord {
  const times = { heardMs: wallMs(heard), awayMs: wallMs(away), sinceMs: wallMs(since) };
  const all = news.map(({ order = 0, ...one }) => ({ ...newsAt(one), order }));
  const [first] = news.filter(isUntold).toSorted((one, other) => (one.order ?? 0) - (other.order ?? 0));
  const record = { ...times, told: state, said, everyMs, damping, status: statusOf({ ...status }) };
  return asTold({ kind: 'presence', id, ...record, ...marksFor(marksIn(marks)), ...newsFor(all) }, first);
}

function writtenOf(record: PresenceRecord): WrittenDevice {
  const { told, heardMs, awayMs, sinceMs, said, everyMs, damping, status, marks, news = [] } = record;
  const shown = statusOf({ ...status });
  const since = sinceMs === null ? null : momentAt(sinceMs);
  return {
    ...{ state: told, said, everyMs, heard: momentAt(heardMs), since, news },
    ...(damping > 1 && { damping }),
    ...(told === 'offline' && { away: momentAt(awayMs) }),
    ...(shown !== NO_STATUS && { status: shown }),
    ...(marks !== undefined && { marks }),
  };
}
