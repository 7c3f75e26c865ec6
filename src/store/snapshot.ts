/**
 * The snapshots, `store.json` and the one before it, `store.json.1`, as the adapter of lowdb. lowdb's own
 * file adapter rewrites without a sync; here `read` is the newest good snapshot plus what the journal says
 * happened after it, and `write` is a checkpoint that survives a power cut at any point.
 *
 *     {"crc":"xxxxxxxx","through":{"segment":n,"offset":n},"state":{"format":{"major":n,"minor":n},…,"messages":[
 *     {…},{…},
 *     {…}
 *     ]}}
 *
 * `crc` is the CRC-32 of all bytes behind its comma; `format` is told in format.ts; `through` is the journal position the state includes. Messages stand
 * many to a line, so that they can be read and written without all of them being in memory twice.
 * This is the only file that knows lowdb.
 */
import { join } from 'node:path';
import { type Adapter, Low } from 'lowdb';
import { systemCodeOf } from '../errors.js';
import { DAMAGED_BYTES_MAX } from '../limits.js';
import type { Disk } from '../system/disk.js';
import type { Aside } from './aside.js';
import { crc32, hex8 } from './crc.js';
import { fromDocument, type MessageDocument, type StoreDocument, toDocument } from './document.js';
import type { Position } from './event.js';
import { FORMAT, type Format, formatOf, isForeign } from './format.js';
import type { SnapshotState } from './recovery.js';
import { emptyState, type State } from './state.js';
import type { Bounds } from './weight.js';

const CURRENT = 'store.json';
const PREVIOUS = 'store.json.1';
const NEWER_NAME = /^store\.json(\.1)?\.newer\d*$/;
const TEMPORARY = 'store.json.new';

const HEAD = /^\{"crc":"([0-9a-f]{8})","through":(\{"segment":\d+,"offset":\d+\}),"state":/;
/** Older programs look for nothing in front of the state, so it is the first member of that. */
const FORMAT_MEMBER = /^\{"format":(\{"major":\d+,"minor":\d+\})/;
const HEAD_BYTES_MAX = 200;
const TAIL = '\n]}}\n';
const SUMMED_FROM = '{"crc":"xxxxxxxx",'.length;

/** One of the two files, as it was found. */
export interface FoundSnapshot {
  readonly state: SnapshotState;
  readonly bytes: Buffer | null;
  readonly snapshot: Snapshot | null;
  /** Renames it, where it was damaged and there is no room for a copy. */
  putAside(): Promise<unknown>;
  /** Keeps a copy of a newer version's beside it, as a checkpoint will take its place. */
  copyAside(): Promise<unknown>;
}

/** A good one. */
export interface Snapshot {
  readonly through: Position;
  readonly format: Format;
  /** Parses it, which of ten thousand messages takes a while: done only for the one that is used. */
  state(): StoreDocument;
}

/** What the adapter needs of the ledger. */
export interface SnapshotOptions {
  readonly disk: Disk;
  readonly directory: string;
  readonly aside: Aside;
  /** The journal position that the state includes, asked for in the same synchronous step in which it is read. */
  readonly position: () => Position;
  /** Replays the journal behind whichever snapshot is good. */
  readonly replay: (current: FoundSnapshot, previous: FoundSnapshot) => Promise<State>;
}

/** lowdb over the journaled store: `read()` recovers, `write()` is a checkpoint. */
export function openLow(adapter: SnapshotAdapter, bounds: Bounds): Low<State> {
  return new Low(adapter, emptyState(bounds));
}

/** lowdb's adapter over the two snapshot files. */
export class SnapshotAdapter implements Adapter<State> {
  readonly #options: SnapshotOptions;
  /** `through` of the files under their two names, where good. */
  #current: Position | null = null;
  #previous: Position | null = null;
  #bytes = 0;

  constructor(options: SnapshotOptions) {
    this.#options = options;
  }

  /** The newest and the one before it, where they are there. */
  get paths(): string[] {
    return [CURRENT, PREVIOUS].map((name) => this.#path(name));
  }

  /** Size of the newest snapshot. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes of the one in use, the one before it, and the one being written, all about as large. */
  get diskBytes(): number {
    return 3 * this.#bytes;
  }

  /** Segments before this one are needed by neither snapshot for a replay; 0 while there are not yet two. */
  get neededFrom(): number {
    return this.#previous?.segment ?? 0;
  }

  async read(): Promise<State> {
    const [current, previous] = await Promise.all([this.#find(CURRENT), this.#find(PREVIOUS)]);
    this.#current = current.snapshot?.through ?? null;
    this.#previous = previous.snapshot?.through ?? null;
    this.#bytes = (current.bytes ?? previous.bytes)?.length ?? 0;
    if ((await this.#options.aside.find(this.#path(TEMPORARY))) !== 'unusable')
      await this.#options.disk.remove(this.#path(TEMPORARY));
    for (const name of await this.#options.disk.list(this.#options.directory))
      if (NEWER_NAME.test(name)) this.#options.aside.newer.add(name);
    return await this.#options.replay(current, previous);
  }

  /** What the journal holds up to `position()` must be synced before. */
  async write(state: State): Promise<void> {
    const { disk, directory, position } = this.#options;
    const through = position();
    const bytes = encodeSnapshot(through, toDocument(state));
    await this.#writeTemporary(bytes).catch(async (error) => {
      if (!['ENOSPC', 'EDQUOT'].includes(systemCodeOf(error)) || !this.#current || !this.#previous)
        throw error;
      // On a disk that is full of our own files only the older snapshot can make room. The newer one is good.
      this.#previous = null;
      await disk.remove(this.#path(PREVIOUS));
      await disk.syncDirectory(directory);
      await this.#writeTemporary(bytes);
    });
    // A current one that was not good must not take the place of the good one before it.
    const replaced = this.#current;
    if (replaced) {
      // Of a rename that fails nobody knows whether it was done: what then stands under either name is replaced.
      this.#current = null;
      await disk.rename(this.#path(CURRENT), this.#path(PREVIOUS));
      this.#previous = replaced;
    }
    await disk.rename(this.#path(TEMPORARY), this.#path(CURRENT));
    this.#current = through;
    this.#bytes = bytes.length;
    await disk.syncDirectory(directory);
  }

  async #writeTemporary(bytes: Buffer): Promise<void> {
    const { disk } = this.#options;
    await disk.remove(this.#path(TEMPORARY));
    const file = await disk.open(this.#path(TEMPORARY), 'create');
    try {
      await file.write(bytes, 0);
      await file.sync();
    } finally {
      await file.close();
    }
  }

  async #find(name: string): Promise<FoundSnapshot> {
    const { aside } = this.#options;
    const path = this.#path(name);
    const putAside = () => aside.move(path, 'damaged');
    const copyAside = () => aside.copy(path, 'newer');
    const ways = { putAside, copyAside };
    const size = await aside.find(path);
    if (size === 'unusable') return { state: 'bad', bytes: null, snapshot: null, ...ways };
    if (size !== null && size > DAMAGED_BYTES_MAX && !(await this.#beginsWell(name).catch(() => false))) {
      // Too large for a copy, and perhaps for our memory.
      await putAside();
      return { state: 'bad', bytes: null, snapshot: null, ...ways };
    }
    let bytes = await this.#read(path, putAside);
    if (bytes === null) return { state: 'absent', bytes, snapshot: null, ...ways };
    let snapshot = decodeSnapshot(bytes);
    if (!snapshot && bytes.length > 0) {
      // Memory and buses err for a moment, too: damage is a checksum that is wrong twice.
      bytes = (await this.#read(path, putAside)) ?? bytes;
      snapshot = decodeSnapshot(bytes);
    }
    if (snapshot && isForeign(snapshot.format)) return { state: 'newer', bytes, snapshot: null, ...ways };
    return { state: snapshot ? 'good' : 'bad', bytes, snapshot, ...ways };
  }

  /** What the disk does not give today it may give another day: that file is put aside, and counts as empty. */
  async #read(path: string, putAside: () => Promise<unknown>): Promise<Buffer | null> {
    try {
      return await this.#options.disk.readWhole(path);
    } catch (error) {
      if (systemCodeOf(error) !== 'EIO') throw error;
      await putAside();
      return Buffer.alloc(0);
    }
  }

  async #beginsWell(name: string): Promise<boolean> {
    const file = await this.#options.disk.open(this.#path(name), 'read');
    try {
      return HEAD.test((await file.read(0, HEAD_BYTES_MAX)).toString('latin1'));
    } finally {
      await file.close();
    }
  }

  #path(name: string): string {
    return join(this.#options.directory, name);
  }
}

/** The bytes of a snapshot file. */
export function encodeSnapshot(through: Position, { messages, ...rest }: StoreDocument): Buffer {
  const position = JSON.stringify(through);
  const members = JSON.stringify({ format: FORMAT, ...rest }).slice(0, -1);
  let text = `{"crc":"xxxxxxxx","through":${position},"state":${members},"messages":[`;
  let separator = '\n';
  for (const batch of messages) {
    text += separator + JSON.stringify(batch).slice(1, -1);
    separator = ',\n';
  }
  const bytes = Buffer.from(text + TAIL);
  bytes.write(hex8(crc32(bytes.subarray(SUMMED_FROM))), '{"crc":"'.length, 'latin1');
  return bytes;
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
      // Once all stood in one line.
      if (end === bytes.length - 1) {
        const { messages, ...rest } = JSON.parse(bytes.toString()).state;
        return { ...rest, messages: [messages] };
      }
      const rest = JSON.parse(`${bytes.toString('utf8', head.length, end)}]}`);
      return { ...rest, messages: messagesOf(bytes, end + 1) };
    },
  };
}

/** A line at a time: what is made of it is dead before the next. */
function* messagesOf(bytes: Buffer, start: number): Iterable<MessageDocument[]> {
  const end = bytes.length - TAIL.length;
  for (let from = start; from < end; ) {
    const at = bytes.indexOf(',\n', from);
    const to = at < 0 ? end : at;
    yield JSON.parse(`[${bytes.toString('utf8', from, to)}]`);
    from = to + ',\n'.length;
  }
}

/** The state of a snapshot that was found good, or an empty one. */
export function stateOf(found: FoundSnapshot | null, bounds: Bounds): State {
  return found?.snapshot ? fromDocument(found.snapshot.state(), bounds) : emptyState(bounds);
}
