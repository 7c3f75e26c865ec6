/**
 * Export and import of a cloud's state. An export is lines of JSON:
 *
 *   {"fieldpost":"cloud-export","version":1,"at":"2026-11-27T09:00:00.000Z"}
 *   {"kind":"document",...}                                        records (state-record.ts), by kind and id
 *   {"kind":"end","document":2,"keys":1,"presence":2,"sha256":"…"}    how many, and SHA-256 of all bytes before this line
 *
 * An import reads its file twice: it writes nothing before it has checked all.
 */
import { createHash } from 'node:crypto';
import { Octets } from '../base/collections.js';
import { formatProblem } from '../base/config/settings.js';
import type { Environment, ReadText, StatOf } from '../base/config/types.js';
import { replaceBy } from '../base/durable-file.js';
import { FieldpostError } from '../base/errors.js';
import { isJsonObject, type JsonObject, objectIn } from '../base/json.js';
import { KIB, MIB } from '../base/limits.js';
import type { DiskFile } from '../base/system/disk.js';
import type { Output } from '../base/system/process.js';
import { isoOf } from '../base/text.js';
import type { System } from '../mail/engine.js';
import { connectEtcd, directoryOf } from './cloud.js';
import { orUnavailable } from './etcd/mirror.js';
import { EtcdState } from './etcd/state.js';
import { FileState } from './files/state.js';
import { CLOUD_SETTINGS } from './settings.js';
import { isRecord, KINDS, orFailed, type StateRecord, type StateStore } from './state-record.js';

const VERSION = 1;
/** One line: a document in JSON. */
const LINE_BYTES_MAX = 8 * MIB;
/** One write, and one read. */
const PIECE_BYTES = 256 * KIB;

/** How many records an export has, by kind. */
export type StateCounts = Readonly<Record<StateRecord['kind'], number>>;

/** The outside of an export or import. */
export interface TransferSystem
  extends Pick<System, 'disk' | 'clock' | 'takeLock' | 'connect' | 'openHttps'> {
  readonly read: ReadText;
  readonly statOf: StatOf;
  readonly stdout: Output;
  readonly hostname: string;
}

/** Exports the state to a new file at `out`, or to standard output. Rejects with FieldpostError. */
export async function exportCloud(
  env: Environment,
  system: TransferSystem,
  out: string | null,
): Promise<StateCounts> {
  const { disk, clock, stdout } = system;
  const orUnwritten = <T>(work: () => Promise<T>) =>
    orFailed(`${out ?? 'The export'} cannot be written`, work);
  return await withStore(env, system, async (store) => {
    if (out === null)
      return await exportState(store, clock.wallMs(), (bytes) =>
        orUnwritten(async () => {
          stdout.write(bytes.toString());
          await stdout.flushed?.();
        }),
      );
    const there = await orUnwritten(() => disk.look(out));
    if (there !== null && there.kind !== 'file')
      throw new FieldpostError('conflict', `${out} is there, and is no regular file`);
    const fill = (file: DiskFile) => {
      let at = 0;
      return exportState(store, clock.wallMs(), async (bytes) => {
        await file.write(bytes, at);
        at += bytes.length;
      });
    };
    return await orUnwritten(() => replaceBy(disk, out, fill));
  });
}

/** Imports the state from the file at `path` into an empty store. Rejects with FieldpostError. */
export async function importCloud(
  env: Environment,
  system: TransferSystem,
  path: string,
): Promise<StateCounts> {
  return await withStore(env, system, async (store) => {
    const orUnread = <T>(work: () => Promise<T>) => orFailed(`${path} cannot be read`, work, 'not-found');
    const file = await orUnread(() => system.disk.open(path, 'read'));
    try {
      return await orUnread(() => importState(store, file));
    } finally {
      await file.close();
    }
  });
}

/**
 * What tells of the store, and what is no setting at all. Other settings need secrets that only the service has, such as the
 * relay's password, and a backup must not depend on them.
 */
function storeSettings(env: Environment): Environment {
  const isNeeded = (key: string) =>
    /^FIELDPOST_(?:STATE_DIR$|CLOUD_SERVER_STORE)/.test(key) || !CLOUD_SETTINGS.secretByKey.has(key);
  return Object.fromEntries(Object.entries(env).filter(([key]) => isNeeded(key)));
}

/** Uses the store of the settings in `env`. */
async function withStore<T>(
  env: Environment,
  system: TransferSystem,
  use: (store: StateStore) => Promise<T>,
): Promise<T> {
  const parsed = CLOUD_SETTINGS.parse(storeSettings(env), system.read, system);
  if ('problems' in parsed)
    throw new FieldpostError('bad-config', parsed.problems.map(formatProblem).join('\n'), {
      hint: 'fieldpost-cloud check',
    });
  const { config } = parsed;
  const store: StateStore =
    config.cloudServerStore === null
      ? new FileState({ ...system, directory: directoryOf(config) })
      : new EtcdState(await connectEtcd(config, system));
  try {
    return await orUnavailable(use(store));
  } finally {
    await store.close();
  }
}

/** Writes all records of the store, in pieces. */
export async function exportState(
  store: Pick<StateStore, 'read'>,
  atMs: number,
  write: (bytes: Buffer) => Promise<void>,
): Promise<StateCounts> {
  const hash = createHash('sha256');
  const piece = new Octets();
  const counts = { document: 0, keys: 0, presence: 0 };
  const add = async (value: object) => {
    const line = Buffer.from(`${JSON.stringify(value)}\n`);
    if (line.length > LINE_BYTES_MAX) throw new FieldpostError('too-large', 'A document is too large');
    hash.update(line);
    piece.push(line);
    if (piece.length >= PIECE_BYTES) await write(piece.take());
  };
  await add({ fieldpost: 'cloud-export', version: VERSION, at: isoOf(atMs) });
  await store.read(async (record) => {
    // Better no export than one that cannot be imported.
    if (!isRecord(record))
      throw new FieldpostError('storage-damaged', `What is stored of ${JSON.stringify(record)} is damaged`);
    counts[record.kind]++;
    await add(record);
  });
  await add({ kind: 'end', ...counts, sha256: hash.copy().digest('hex') });
  await write(piece.take());
  return counts;
}

/** Puts all records of the file into the store. */
export async function importState(store: StateStore, file: Pick<DiskFile, 'read'>): Promise<StateCounts> {
  const devices = new Set<string>();
  const { sha256 } = await readExport(file, async (record) => {
    store.check(record);
    if (devices.add(record.id).size > store.devicesMax)
      throw new FieldpostError('too-large', `The store takes at most ${store.devicesMax} devices`);
  });
  await store.begin(sha256);
  const { sha256: again, ...counts } = await readExport(file, (record) => store.put(record));
  if (again !== sha256) throw notWhole('it has changed meanwhile');
  await store.end();
  return counts;
}

const notWhole = (why: string) => new FieldpostError('invalid', `This is no whole export: ${why}`);

/** Gives each record of an export. Rejects with invalid, at the latest at its end, if it is not as it was written. */
async function readExport(
  file: Pick<DiskFile, 'read'>,
  each: (record: StateRecord) => Promise<void>,
): Promise<StateCounts & { readonly sha256: string }> {
  const hash = createHash('sha256');
  const counts = { document: 0, keys: 0, presence: 0 };
  let end: JsonObject | null = null;
  let last = '';
  let line = 0;
  for await (const bytes of linesOf(file)) {
    line++;
    if (end !== null) throw notWhole('lines follow its last one');
    const value = objectIn(bytes);
    if (line === 1) assertHeader(value);
    else if (value?.kind === 'end') end = value;
    else {
      const order = isRecord(value) ? `${KINDS.indexOf(value.kind)} ${value.id}` : '';
      if (!isRecord(value) || order <= last) throw notWhole(`line ${line} is damaged`);
      last = order;
      counts[value.kind]++;
      await each(value);
    }
    if (end === null) hash.update(bytes).update('\n');
  }
  if (end === null) throw notWhole('its last line is missing');
  const sha256 = hash.digest('hex');
  if (end.sha256 !== sha256 || KINDS.some((kind) => end?.[kind] !== counts[kind]))
    throw notWhole('it has been changed');
  return { ...counts, sha256 };
}

function assertHeader(value: unknown): void {
  if (!isJsonObject(value) || value.fieldpost !== 'cloud-export') throw notWhole('its first line is missing');
  if (value.version !== VERSION)
    throw new FieldpostError(
      'invalid',
      `This export has version ${value.version}, and this program knows ${VERSION}`,
    );
}

/** The lines of a file, without their ends. What follows the last end is no line. */
async function* linesOf(file: Pick<DiskFile, 'read'>): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for (let at = 0; ; ) {
    const piece = await file.read(at, PIECE_BYTES);
    if (piece.length === 0) return;
    at += piece.length;
    let bytes = Buffer.concat([rest, piece]);
    for (let end = bytes.indexOf('\n'); end >= 0; end = bytes.indexOf('\n')) {
      yield bytes.subarray(0, end);
      bytes = bytes.subarray(end + 1);
    }
    if (bytes.length > LINE_BYTES_MAX) throw notWhole('a line is too long');
    rest = bytes;
  }
}
