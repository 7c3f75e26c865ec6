/**
 * Checkpoints: each writes a new snapshot, and frees the segments that neither a snapshot nor any content needs. Before
 * that it may compact the journal: it copies old content to the journal's end, so that old segments can go.
 *
 * A purge overwrites the text of final messages. Without one the text stays until other records overwrite it. The power may
 * be cut at any point: nothing is overwritten while a snapshot, or the journal behind it, needs it.
 *
 * Only one of these runs at a time.
 */
import { join } from 'node:path';
import { FieldpostError, wordsOf } from '../../base/errors.js';
import { KIB, MIB, SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { Disk, DiskFile } from '../../base/system/disk.js';
import type { Log } from '../../base/system/log.js';
import { Turns } from '../../base/turns.js';
import type { Message, Place } from '../message/message.js';
import type { Contents } from './contents.js';
import type { MovedMessage } from './event.js';
import type { Journal } from './journal.js';
import type { Damaged } from './quarantine.js';
import { sumOf } from './record.js';
import { overwrite, overwriteAt, type Segments } from './segments.js';
import type { SnapshotAdapter } from './snapshot.js';
import type { State } from './state.js';

/** A checkpoint is due when so much was appended, */
export const CHECKPOINT_BYTES_MIN = MIB;
/** and so many times the snapshot's size. A larger factor spares flash, a smaller one the next start. */
const CHECKPOINT_SNAPSHOT_FACTOR = 3;
/** A checkpoint that a start finds due waits this long, because the daemon serves first, */
export const CHECKPOINT_AFTER_START_MS = SECOND_MS;
/** unless this many times the bytes are due: many starts may be killed before the next checkpoint. */
export const OVERDUE_FACTOR = 3;
/**
 * A sweep makes a checkpoint when finished segments take this many times what a checkpoint waits for. The two snapshots need
 * less: each the segments between two checkpoints.
 */
export const DONE_FACTOR = 4;
/** A compaction frees at least so much, unless the disk is nearly full. */
export const COMPACT_BYTES_MIN = 8 * MIB;
/** Content that one record of a compaction moves. */
const COMPACT_RECORD_BYTES = 256 * KIB;
/** Roughly what such a record takes for a message besides its content. */
const MOVED_EVENT_BYTES = 256;
/** Segments whose content a purge moves before the snapshots tell its new places. */
const PURGED_AT_ONCE = 8;

interface CheckpointsOptions {
  readonly state: State;
  readonly journal: Journal;
  readonly segments: Segments;
  readonly contents: Contents;
  readonly snapshots: SnapshotAdapter;
  /** Writes a snapshot. */
  readonly write: () => Promise<void>;
  readonly disk: Disk;
  readonly directory: string;
  readonly log: Log;
  readonly clock: Clock;
  /** A reload changes this object. */
  readonly budget: { readonly maxSpoolBytes: number };
  /**
   * Bytes that the start has replayed. They bring the next checkpoint nearer, because many short runs without one would
   * fill the disk.
   */
  readonly replayedBytes: number;
}

/** All checkpoints of a ledger. */
export class Checkpoints {
  readonly #options: CheckpointsOptions;
  readonly #turns = new Turns();
  /** Set while a start's checkpoint waits. */
  readonly #startAlarm: Alarm;
  /** Bytes appended up to the last checkpoint. */
  #appendedBytes: number;
  #hasEnded = false;

  constructor(options: CheckpointsOptions) {
    this.#options = options;
    this.#startAlarm = new Alarm(options.clock, () => this.makeIfDue());
    this.#appendedBytes = -options.replayedBytes;
  }

  /** Begins the checkpoint of a start: later if it can wait. */
  start(): void {
    if (this.pendingBytes > this.#dueBytes) this.#startAlarm.in(CHECKPOINT_AFTER_START_MS);
    this.makeIfDue();
  }

  /** Bytes appended since the last checkpoint, also if that failed. */
  get pendingBytes(): number {
    return this.#options.journal.appendedBytes - this.#appendedBytes;
  }

  /** Bytes of the segments before the current one that hold no content. The second checkpoint from now frees them. */
  get doneBytes(): number {
    const { segments, journal, state } = this.#options;
    const { segment: current } = journal.position;
    const done = segments.numbers.filter((number) => number < current && !state.liveBytes.has(number));
    return done.reduce((sum, number) => sum + segments.sizeOf(number), 0);
  }

  /** True if doneBytes is more than two snapshots need, because content was dropped or checkpoints failed. */
  get isMuchDone(): boolean {
    return this.doneBytes > DONE_FACTOR * this.#dueBytes;
  }

  get #dueBytes(): number {
    return Math.max(CHECKPOINT_BYTES_MIN, CHECKPOINT_SNAPSHOT_FACTOR * this.#options.snapshots.bytes);
  }

  /** Begins a checkpoint if enough was appended. */
  makeIfDue(): void {
    const factor = this.#startAlarm.isSet ? OVERDUE_FACTOR : 1;
    if (this.pendingBytes > factor * this.#dueBytes) void this.make();
  }

  /**
   * Begins a checkpoint, unless one is under way. Resolves when it is done, also if it failed. `isShort`: the disk is nearly
   * full.
   */
  async make(isShort = false): Promise<void> {
    if (!this.#turns.isFree) return await this.#turns.idle();
    const appendedBytes = this.#options.journal.appendedBytes;
    await this.#turns
      .do(() =>
        this.#make(isShort).finally(() => {
          // Also after a failure: else a checkpoint would follow every record.
          this.#appendedBytes = appendedBytes;
        }),
      )
      .catch((error) => this.#failed(error));
  }

  #failed(error: unknown): void {
    this.#options.log.warn('checkpoint failed', { reason: wordsOf(error) });
  }

  /** Resolves when none is under way. From now on none begins by itself, and a purge stops. */
  end(): Promise<void> {
    this.#hasEnded = true;
    this.#startAlarm.end();
    return this.#turns.idle();
  }

  /** Rejects like Journal.append, or with the disk's error. */
  async #make(isShort: boolean): Promise<void> {
    const { state, journal, segments, snapshots, write } = this.#options;
    // No snapshot needs these segments for a replay. They stay only for their content.
    const oldSegments = () => segments.numbers.filter((segment) => segment < snapshots.neededFrom);
    // Free unneeded segments even if the disk has no room to move content out of the others.
    await this.#compact(oldSegments(), isShort).catch((error) => this.#failed(error));
    // Make this list before the sync. An outcome recorded during the sync may be lost, so its content must stay.
    const done = segments.numbers.filter((segment) => !state.liveBytes.has(segment));
    await journal.sync();
    await write();
    const old = new Set(oldSegments());
    const failures: unknown[] = [];
    for (const segment of done) {
      // If one segment cannot be freed, the others still are.
      if (old.has(segment)) await segments.free(segment).catch((error) => failures.push(error));
    }
    if (failures.length > 0) throw failures[0];
  }

  /** Moves the content of these segments if at least half of their bytes, and enough of them, is not needed. */
  async #compact(segments: readonly number[], isShort: boolean): Promise<void> {
    const { liveBytes, messages } = this.#options.state;
    const old = segments.filter((segment) => liveBytes.has(segment));
    const heldBytes = old.reduce((sum, segment) => sum + this.#options.segments.sizeOf(segment), 0);
    const contentBytes = old.reduce((sum, segment) => sum + (liveBytes.get(segment) as number), 0);
    const floor = isShort ? 0 : Math.min(COMPACT_BYTES_MIN, this.#options.budget.maxSpoolBytes / 4);
    const isEnough = (movedBytes: number) => heldBytes - movedBytes > Math.max(floor, movedBytes);
    // Usually not even without the events: then no message is looked at.
    if (!isEnough(contentBytes)) return;
    const moving = messages.withContentIn(new Set(old));
    if (isEnough(contentBytes + moving.length * MOVED_EVENT_BYTES)) await this.#moveContents(moving);
  }

  /** Takes all ids off the list, and moves the content that can be read. Rejects like Journal.append. */
  async #moveContents(moving: string[]): Promise<void> {
    while (moving.length > 0) await this.#moveSome(moving);
  }

  /** Takes ids off the list, enough for one record, and moves those that can be read. */
  async #moveSome(moving: string[]): Promise<void> {
    const { state, journal } = this.#options;
    const contents: Buffer[] = [];
    const messages: MovedMessage[] = [];
    let bytes = 0;
    let last = null as Place | null;
    for (let id = moving[0]; id !== undefined; id = moving[0]) {
      // Its content may be dropped meanwhile.
      const message = state.messages.get(id);
      const place = message?.place ?? null;
      const before = messages.at(-1);
      const isCopy =
        before !== undefined && place?.segment === last?.segment && place?.offset === last?.offset;
      if (!isCopy && bytes >= COMPACT_RECORD_BYTES) break;
      moving.shift();
      // The recipients of one mail share its content.
      bytes += MOVED_EVENT_BYTES;
      if (isCopy && message) {
        messages.push({ ...acceptanceOf(message), length: before.length, crc: before.crc, shares: true });
        continue;
      }
      const content = message && place && (await this.#options.contents.read(place).catch(() => null));
      if (!content) continue;
      last = place;
      contents.push(content);
      messages.push({ ...acceptanceOf(message), ...sumOf(content) });
      bytes += content.length;
    }
    if (messages.length > 0)
      await journal.append({ events: [{ e: 'relocated', messages }], contents }, 'synced');
  }

  /**
   * Resolves once neither journal nor snapshots hold the content of a message that was final at the call, nor `damaged` its
   * copies. Rejects like Journal.append or with the disk's error; a part is overwritten then.
   */
  purge(damaged: Damaged | null): Promise<void> {
    return this.#turns.do(async () => {
      this.#mustGoOn();
      const unreadable = await this.#purgeJournal();
      if (damaged !== null) await this.#purgeDamaged(damaged);
      if (unreadable === 0) return;
      throw new FieldpostError('storage-failed', `${unreadable} segments hold content that cannot be read`, {
        hint: 'the rest is purged; try again when the messages have been sent, or have failed',
      });
    });
  }

  #mustGoOn(): void {
    if (this.#hasEnded) throw new FieldpostError('stopping', 'the daemon is stopping');
  }

  /** Gives how many segments stay, because content in them cannot be read. */
  async #purgeJournal(): Promise<number> {
    const { state, journal, segments, write } = this.#options;
    // A new segment syncs the outcomes first, so that the next start does not need the content of final messages.
    await journal.beginAnew(() => segments.purgeAhead());
    const from = journal.position.segment;
    const snapshots = await this.#openSnapshots();
    const old = segments.numbers.filter((number) => number < from);
    let unreadable = 0;
    try {
      do {
        this.#mustGoOn();
        const group = old.splice(0, PURGED_AT_ONCE);
        const failure = await this.#moveContents(state.messages.withContentIn(new Set(group))).then(
          () => null,
          (error: unknown) => error,
        );
        // Twice, so that the older snapshot needs neither the old segments nor the lines that tell where content went: one
        // damaged line would else lose all that it moved.
        for (let count = 0; count < 2; count++) {
          await journal.sync();
          await write();
        }
        while (snapshots.length > 0) {
          await overwrite(snapshots[0] as DiskFile);
          await snapshots.shift()?.close();
        }
        const left = await this.#purgeSegments(group);
        // Without room for all of them, those that are purged make room.
        if (failure !== null && left.length === group.length) throw failure;
        if (failure !== null) old.unshift(...left);
        else unreadable += left.length;
      } while (old.length > 0);
    } finally {
      for (const file of snapshots) await file.close().catch(() => undefined);
    }
    return unreadable;
  }

  /** Opens the snapshots before new ones take their names. */
  async #openSnapshots(): Promise<DiskFile[]> {
    const { disk, snapshots } = this.#options;
    const files: DiskFile[] = [];
    for (const path of snapshots.paths) {
      const found = await disk.look(path);
      if (found?.kind === 'file') files.push(await disk.open(path, 'update'));
    }
    return files;
  }

  /** Overwrites the segments that hold no content any more. Gives the others: some of their content was not moved. */
  async #purgeSegments(group: readonly number[]): Promise<number[]> {
    const { segments, contents, state } = this.#options;
    const left: number[] = [];
    for (const segment of group) {
      if (state.liveBytes.has(segment)) {
        left.push(segment);
        continue;
      }
      // No read of it may be under way.
      await contents.idle();
      await segments.purge(segment);
    }
    return left;
  }

  /** Overwrites the copies, and damaged files that were too large for a copy and so were renamed. */
  async #purgeDamaged(damaged: Damaged): Promise<void> {
    const { disk, directory } = this.#options;
    await damaged.purge((path) => overwriteAt(disk, path));
    for (const place of [directory, join(directory, 'journal')]) {
      const names = (await disk.list(place)).filter((name) => /\.damaged\d*$/.test(name));
      for (const path of names.map((name) => join(place, name))) {
        if ((await disk.look(path))?.kind !== 'file') continue;
        await overwriteAt(disk, path);
        await disk.remove(path);
      }
      if (names.length > 0) await disk.syncDirectory(place);
    }
  }
}

function acceptanceOf({ id, type, destination, from, subject, attachments, ...message }: Message) {
  const { extras, accepted: at, reachMs, more } = message;
  const common = { id, type, destination, from, subject, attachments, at, reachMs };
  return { ...more, ...common, ...(extras && { extras }) };
}
