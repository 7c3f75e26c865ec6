/**
 * The snapshots, `store.json` and the one before it, `store.json.1`, as an adapter of lowdb. A checkpoint survives a power
 * cut at any point. If the kernel refuses one of the two names, because it cannot read a directory entry or an inode, the
 * newest snapshot has the other name.
 *
 *     {"crc":"xxxxxxxx","through":{"segment":n,"offset":n},"state":{"format":{"major":n,"minor":n},…,"messages":[
 *     [[…],[…]],
 *     [[…]]
 *     ]}}
 *
 * `crc` is the CRC-32 of all bytes behind its comma. The state includes the journal up to `through`. A line is a list of
 * some hundred messages (message-table.ts): the store reads and writes a line at a time, to save memory and not to hold up
 * others.
 */
import { Buffer } from 'node:buffer';
import { join } from 'node:path';
import { crc32, hex8 } from '../../base/crc.js';
import { type Adapter, writeNew } from '../../base/durable-file.js';
import { isDiskFull, isUnreadable } from '../../base/errors.js';
import type { Disk } from '../../base/system/disk.js';
import { fromDocument, type StoreDocument, toDocument } from './document.js';
import type { Position } from './event.js';
import { FORMAT, type Format, formatOf, isForeign } from './format.js';
import { DAMAGED_BYTES_MAX, type Quarantine } from './quarantine.js';
import type { SnapshotState } from './recovery.js';
import type { State } from './state.js';
import type { Bounds } from './weight.js';

const CURRENT = 'store.json';
const PREVIOUS = 'store.json.1';
const NEWER_NAME = /^store\.json(\.1)?\.newer\d*$/;
/** Names of a new snapshot. The second is used if the kernel refuses the first. */
const TEMPORARIES = ['store.json.new', 'store.json.new2'] as const;

/** One of the two files, as a start found it. */
interface FoundSnapshot {
  readonly state: SnapshotState;
  /** Null for a good one, to save memory. */
  readonly bytes: Buffer | null;
  readonly snapshot: Pick<Snapshot, 'through' | 'format'> | null;
  readonly size: number;
  readAgain(): Promise<Buffer>;
  /** Null if it cannot be read any more. The newest one is kept in memory for the first call. */
  decode(): Promise<Snapshot | null>;
  /** Renames a damaged one that cannot be copied. */
  putAside(): Promise<unknown>;
  /** Copies a newer version's, because a checkpoint replaces it. */
  copyAside(): Promise<unknown>;
}

/** The adapter's parts of the store. */
export interface SnapshotOptions {
  readonly disk: Disk;
  readonly directory: string;
  readonly quarantine: Quarantine;
  readonly bounds: Bounds;
  /** Called with the bytes of memory that a checkpoint no longer needs. */
  readonly dropped: (bytes: number) => void;
}

/** The two files, as a start found them. */
export interface FoundSnapshots {
  readonly current: FoundSnapshot;
  readonly previous: FoundSnapshot;
}

/** `read()` gives the newest good snapshot, `write()` is a checkpoint. */
export class SnapshotAdapter implements Adapter<State> {
  readonly #options: SnapshotOptions;
  /** The journal positions that the two include; null if a snapshot is not good. */
  #current: Position | null = null;
  #previous: Position | null = null;
  #bytes = 0;
  #found: FoundSnapshots | null = null;
  /** Names refused by the kernel. */
  readonly #refused = new Set<string>();

  constructor(options: SnapshotOptions) {
    this.#options = options;
  }

  /** The paths of the two, without refused names. */
  get paths(): string[] {
    return [CURRENT, PREVIOUS].filter((name) => !this.#refused.has(name)).map((name) => this.#path(name));
  }

  /** Size of the newest snapshot. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes of the newest snapshot, the one before it, and the one being written, which are about equally large. */
  get diskBytes(): number {
    return 3 * this.#bytes;
  }

  /** The first segment that a replay needs; 0 while a snapshot is missing. */
  get neededFrom(): number {
    const oldest = this.#refused.has(PREVIOUS) ? this.#current : this.#previous;
    return oldest?.segment ?? 0;
  }

  /** The state of the newest usable snapshot; null if there is none. */
  async read(): Promise<State | null> {
    let previous = await this.#find(PREVIOUS);
    const newest = await this.#find(CURRENT);
    const isUsed = !isBefore(newest, previous);
    // It stays in memory until it is decoded.
    if (!isUsed) await newest.decode();
    let current = isUsed ? newest : { ...newest, ...NOTHING };
    let state = await this.#stateOf(current);
    if (state === null) {
      current = await asBad(current);
      state = await this.#stateOf(previous);
    }
    if (state === null) previous = await asBad(previous);
    this.#found = { current, previous };
    this.#current = current.snapshot?.through ?? null;
    this.#previous = previous.snapshot?.through ?? null;
    this.#bytes = current.size || previous.size;
    for (const name of await this.#options.disk.list(this.#options.directory)) {
      if (NEWER_NAME.test(name)) this.#options.quarantine.newer.add(name);
      if (!isTemporary(name) || (await this.#isRefused(name))) continue;
      await this.#options.disk.remove(this.#path(name));
    }
    return state;
  }

  /** The files that `read` found. They are given once, because they hold the bytes of damaged files. */
  takeFound(): FoundSnapshots {
    const found = this.#found as FoundSnapshots;
    this.#found = null;
    return found;
  }

  /** Writes a checkpoint. The journal up to `state.through` must be synced before. */
  async write(state: State): Promise<void> {
    const { through } = state;
    // Taken now: the state changes while it is written.
    const document = toDocument(state);
    const write = () =>
      writeNew(this.#options.disk, this.#path(this.#temporary), encodeSnapshot(through, document));
    const place = async () => {
      const bytes = await write().catch((error) => this.#writeInLittleRoom(write, error));
      await this.#name(through);
      this.#bytes = bytes;
    };
    await place().catch(async (error) => {
      const refused = this.#refused.size;
      for (const name of [CURRENT, PREVIOUS, ...TEMPORARIES]) await this.#isRefused(name);
      if (this.#refused.size === refused) throw error;
      await place();
    });
    this.#options.dropped(this.#bytes);
  }

  /** On a full disk, removes the older snapshot first, because the newer one is good. */
  async #writeInLittleRoom(write: () => Promise<number>, error: unknown): Promise<number> {
    const { disk, directory } = this.#options;
    if (!isDiskFull(error) || !this.#current || !this.#previous) throw error;
    this.#previous = null;
    await disk.remove(this.#path(PREVIOUS));
    await disk.syncDirectory(directory);
    return await write();
  }

  /** Gives the new snapshot its name. */
  async #name(through: Position): Promise<void> {
    const { disk, directory } = this.#options;
    // A damaged one must not replace the good one before it.
    const replaced = this.#current;
    if (replaced && !this.#refused.has(PREVIOUS)) {
      // A failed rename may have been done: then the next checkpoint replaces the file of either name.
      this.#current = null;
      await disk.rename(this.#path(CURRENT), this.#path(PREVIOUS));
      this.#previous = replaced;
    }
    const isAlone = this.#refused.has(CURRENT);
    await disk.rename(this.#path(this.#temporary), this.#path(isAlone ? PREVIOUS : CURRENT));
    if (isAlone) this.#previous = through;
    else this.#current = through;
    await disk.syncDirectory(directory);
  }

  get #temporary(): string {
    return TEMPORARIES.find((name) => !this.#refused.has(name)) ?? TEMPORARIES[0];
  }

  async #isRefused(name: string): Promise<boolean> {
    if (this.#refused.has(name)) return true;
    if ((await this.#options.quarantine.find(this.#path(name))) !== 'unusable') return false;
    this.#refused.add(name);
    if (name === CURRENT) this.#current = null;
    if (name === PREVIOUS) this.#previous = null;
    return true;
  }

  async #find(name: string): Promise<FoundSnapshot> {
    const { quarantine } = this.#options;
    const path = this.#path(name);
    const putAside = () => quarantine.move(path, 'damaged');
    const copyAside = () => quarantine.copyNewer(path);
    const readAgain = async () => (await this.#read(path, putAside)) ?? Buffer.alloc(0);
    const decodeAgain = async () => decodeSnapshot(await readAgain()) ?? decodeSnapshot(await readAgain());
    const ways = { putAside, copyAside, readAgain, decode: decodeAgain };
    const size = await quarantine.find(path);
    if (size === 'unusable') {
      this.#refused.add(name);
      return { ...NOTHING, state: 'bad', ...ways };
    }
    if (size !== null && size > DAMAGED_BYTES_MAX && !(await this.#beginsWell(name).catch(() => false))) {
      // It is too large for a copy, and perhaps for memory.
      await putAside();
      return { ...NOTHING, state: 'bad', ...ways };
    }
    let bytes = size === null ? null : await this.#read(path, putAside);
    if (bytes === null) return { ...NOTHING, ...ways };
    let snapshot = decodeSnapshot(bytes);
    if (!snapshot && bytes.length > 0) {
      // Memory and buses can fail for a moment: a snapshot is damaged only if its checksum is wrong twice.
      bytes = (await this.#read(path, putAside)) ?? bytes;
      snapshot = decodeSnapshot(bytes);
    }
    const { length } = bytes;
    if (!snapshot) return { state: 'bad', bytes, snapshot, size: length, ...ways };
    const { through, format } = snapshot;
    if (isForeign(format)) return { state: 'newer', bytes, snapshot: null, size: length, ...ways };
    let held = name === CURRENT ? snapshot : null;
    const decode = async () => {
      const found = held ?? (await decodeAgain());
      held = null;
      return found;
    };
    return { state: 'good', bytes: null, snapshot: { through, format }, size: length, ...ways, decode };
  }

  /** Null also for an unexpected shape, even if the checksum is right. */
  async #stateOf(found: FoundSnapshot): Promise<State | null> {
    if (found.state !== 'good') return null;
    try {
      const snapshot = await found.decode();
      if (snapshot === null) return null;
      const state = fromDocument(snapshot.state(), this.#options.bounds);
      state.through = snapshot.through;
      return state;
    } catch {
      return null;
    }
  }

  /** An unreadable file is put aside, because it may be readable later. It counts as empty. */
  async #read(path: string, putAside: () => Promise<unknown>): Promise<Buffer | null> {
    try {
      return await this.#options.disk.readWhole(path);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      await putAside();
      return Buffer.alloc(0);
    }
  }

  async #beginsWell(name: string): Promise<boolean> {
    const file = await this.#options.disk.open(this.#path(name), 'read');
    try {
      return beginsLikeSnapshot(await file.read(0, HEAD_BYTES_MAX));
    } finally {
      await file.close();
    }
  }

  #path(name: string): string {
    return join(this.#options.directory, name);
  }
}

const NOTHING = { state: 'absent', bytes: null, snapshot: null, size: 0 } as const;

function isTemporary(name: string): boolean {
  return (TEMPORARIES as readonly string[]).includes(name);
}

/** True if both are good and the first is older: the kernel refused its name until a repair. */
function isBefore({ snapshot: one }: FoundSnapshot, { snapshot: other }: FoundSnapshot): boolean {
  if (!one || !other) return false;
  const [a, b] = [one.through, other.through];
  return a.segment < b.segment || (a.segment === b.segment && a.offset < b.offset);
}

/** Turns a snapshot with a right checksum but an unusable state into a bad one. */
async function asBad(found: FoundSnapshot): Promise<FoundSnapshot> {
  if (found.state !== 'good') return found;
  return { ...found, state: 'bad', bytes: await found.readAgain(), snapshot: null };
}

const HEAD = /^\{"crc":"([0-9a-f]{8})","through":(\{"segment":\d+,"offset":\d+\}),"state":/;
/** The first member of the state: the version is known before the state is parsed. */
const FORMAT_MEMBER = /^\{"format":(\{"major":\d+,"minor":\d+\})/;
/** `beginsLikeSnapshot` looks at so many bytes. */
export const HEAD_BYTES_MAX = 200;
const TAIL = '\n]}}\n';
const CRC_AT = '{"crc":"'.length;
const SUMMED_FROM = '{"crc":"xxxxxxxx",'.length;

/** A snapshot with a right checksum. */
interface Snapshot {
  readonly through: Position;
  readonly format: Format;
  /** Parses it. */
  state(): StoreDocument;
}

/** The bytes of a snapshot, each piece made on demand. The checksum stands at their begin, and is known at their end. */
export function* encodeSnapshot(
  through: Position,
  { messages, ...rest }: StoreDocument,
): Generator<Buffer, { bytes: Buffer; at: number }, void> {
  const members = JSON.stringify({ format: FORMAT, ...rest }).slice(0, -1);
  const head = `{"crc":"xxxxxxxx","through":${JSON.stringify(through)},"state":${members},"messages":[`;
  let piece = Buffer.from(head);
  let crc = crc32(piece.subarray(SUMMED_FROM));
  yield piece;
  let separator = '\n';
  for (const line of messages) {
    piece = Buffer.from(separator + JSON.stringify(line));
    crc = crc32(piece, crc);
    yield piece;
    separator = ',\n';
  }
  piece = Buffer.from(TAIL);
  yield piece;
  return { bytes: Buffer.from(hex8(crc32(piece, crc))), at: CRC_AT };
}

/** Null if the bytes are not a whole snapshot. */
export function decodeSnapshot(bytes: Buffer): Snapshot | null {
  const start = bytes.toString('latin1', 0, HEAD_BYTES_MAX);
  const [head = '', crc, through] = HEAD.exec(start) ?? [];
  if (through === undefined || crc !== hex8(crc32(bytes.subarray(SUMMED_FROM)))) return null;
  const format = FORMAT_MEMBER.exec(start.slice(head.length))?.[1];
  return {
    through: JSON.parse(through),
    format: formatOf(format && JSON.parse(format)),
    state() {
      const end = bytes.indexOf('\n');
      const members = JSON.parse(`${bytes.toString('utf8', head.length, end)}]}`);
      const lines = bytes.subarray(end + 1, -TAIL.length);
      return { ...members, messages: linesIn(lines, members.kinds === undefined) };
    },
  };
}

/** The rows of one line after another. In format 1 a line is no list. */
function* linesIn(bytes: Buffer, isOld: boolean): Generator<unknown[], void, void> {
  for (let from = 0; from < bytes.length; ) {
    const at = bytes.indexOf(',\n', from);
    const to = at < 0 ? bytes.length : at;
    const line = bytes.toString('utf8', from, to);
    yield JSON.parse(isOld ? `[${line}]` : line);
    from = to + ',\n'.length;
  }
}

/** True if a file with this head is a snapshot, whole or not. */
function beginsLikeSnapshot(head: Buffer): boolean {
  return HEAD.test(head.toString('latin1'));
}
