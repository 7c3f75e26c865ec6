/**
 * The state and what makes it last: lock, journal, checkpoints, and what to do when the disk refuses. It knows files and
 * events; what may happen to a message is not its business. Used by journaled-store.ts.
 */
import { join } from 'node:path';
import { FieldpostError } from '../errors.js';
import { MINUTE_MS, STORAGE_RETRY_MS } from '../limits.js';
import type { Message, Place, Stamp, Verdict } from '../message/message.js';
import { ageMs, bootNews, stampOf } from '../message/stamp.js';
import { Alarm } from '../retry/alarm.js';
import type { Clock } from '../system/clock.js';
import type { Disk } from '../system/disk.js';
import type { Lock, TakeLock } from '../system/lock.js';
import type { Log } from '../system/log.js';
import { lockDirectory } from './aside.js';
import { Checkpoints } from './checkpoints.js';
import { asDiskError } from './disk-error.js';
import type { StoreEvent } from './event.js';
import type { RandomBytes } from './ids.js';
import { Journal, type Urgency } from './journal.js';
import { openParts, type Parts } from './opening.js';
import { PatientDisk } from './patient-disk.js';
import { liveBytesOf, neededFiles } from './places.js';
import { purge } from './purge.js';
import { Reachability } from './reachability.js';
import { tellOf } from './replay.js';
import type { SnapshotOptions } from './snapshot.js';
import type { Spool } from './spool.js';
import { apply, type State } from './state.js';
import type { BoundsOptions } from './weight.js';

/** The world it lives in. */
export interface LedgerOptions extends BoundsOptions, Partial<Pick<SnapshotOptions, 'dropped'>> {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly log: Log;
  readonly randomBytes: RandomBytes;
  readonly takeLock: TakeLock;
  readonly directory: string;
  readonly budget: { readonly maxSpoolBytes: number };
}

/** An outcome carries the count of reachable time when it has grown by this. A crash loses at most as much. */
const REACH_STEP_MS = MINUTE_MS;

/** The recovered state, and the only way to change it so that it lasts. */
export class Ledger {
  readonly state: State;
  /** The attachments' files. What the state no longer needs is removed here, once that is on the device. */
  readonly spool: Spool;
  readonly reachability: Reachability;
  readonly #options: LedgerOptions;
  readonly #lock: Lock;
  readonly #parts: Parts;
  readonly #journal: Journal;
  readonly #mendAlarm: Alarm;
  readonly #checkpoints: Checkpoints;
  #closed = false;

  /** Recovers what the last run left. Throws `already-running`, or what the disk says if it cannot be read. */
  static async open(given: LedgerOptions): Promise<Ledger> {
    const lock = await lockDirectory(given);
    const disk = new PatientDisk(given);
    const options = { ...given, disk };
    try {
      const ledger = new Ledger(options, lock, await openParts(options));
      await ledger.#begin();
      disk.endPatience();
      return ledger;
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  private constructor(options: LedgerOptions, lock: Lock, parts: Parts) {
    const { clock, log, budget } = options;
    const { segments, spool, syncedFile, adapter, low, replayed } = parts;
    const { maxSpoolBytes } = budget;
    this.#options = options;
    this.#lock = lock;
    this.#parts = parts;
    this.state = low.data;
    this.spool = spool;
    this.reachability = new Reachability(this.state.reachMs);
    this.#journal = new Journal({
      ...{ segments, clock, storeId: this.state.storeId },
      ...{ follows: replayed.follows, unproven: replayed.unproven },
      apply: (record, contentsAt) => apply(this.state, record.events, contentsAt),
      onProven: () => {
        syncedFile.note(this.#journal.position);
        this.#removeReleased();
      },
      onTrouble: (trouble, before) => this.#onTrouble(trouble, before),
    });
    this.#mendAlarm = new Alarm(clock, () => void this.#journal.mend());
    const work = { ledger: this, journal: this.#journal, segments, adapter, write: () => this.#write() };
    this.#checkpoints = new Checkpoints({ ...work, log, maxSpoolBytes, replayedBytes: replayed.bytes });
  }

  /** Makes lasting what the start has found, and removes files that no message needs. */
  async #begin(): Promise<void> {
    const { aside, replayed } = this.#parts;
    // After a gap the history starts again, in a new segment that the next snapshot ends in.
    if (replayed.unproven.length > 0 || replayed.gap) await this.#journal.mend();
    this.#checkpoints.makeIfDue();
    const strays = await this.spool.learn(neededFiles(this.state));
    if (tellOf(replayed, this.state, this.#options.log, join(this.#options.directory, 'damaged'))) {
      // Files of uploads that were cut off, and of final messages. Beside a newer version's files they may be its own.
      if (aside.newer.size === 0) this.giveUpFiles(strays);
      return await this.spool.idle;
    }
    // Records that cannot be read may name files that no other record names: this start keeps all files. The checkpoint
    // keeps the next start from meeting the same damage and judging these messages again.
    await this.#checkpoints.make();
  }

  /** Why nothing can be kept at the moment, or null. */
  get trouble(): FieldpostError | null {
    return this.#journal.trouble;
  }

  /** Pieces that recovery could not read, of this start and earlier ones, and files of a newer version. */
  get damage() {
    const { damaged, aside } = this.#parts;
    return { damaged: damaged.count + aside.newer.size, ...aside.names };
  }

  /** Bytes in journal, spool and snapshots. Copies in damaged/ have a budget of their own. */
  get usedBytes(): number {
    return this.#parts.segments.bytes + this.spool.bytes + this.#parts.adapter.diskBytes;
  }

  /** True if more than half of the journal is done with. */
  get isMostlyDone(): boolean {
    return liveBytesOf(this.state) < this.#parts.segments.bytes / 2;
  }

  /**
   * Resolves once the events are in the journal, as sure as asked, and applied. What has become known of this boot goes
   * ahead of them. Rejects like Journal.append.
   */
  async record(
    events: readonly StoreEvent[],
    urgency: Urgency,
    contents: readonly Buffer[] = [],
  ): Promise<void> {
    const record = { events: [...this.#bootEvents(), ...events], contents };
    await this.#journal.append(record, urgency).catch((error) => {
      if (error instanceof FieldpostError && error.code === 'storage-full') void this.checkpoint();
      throw error;
    });
    this.#checkpoints.makeIfDue();
  }

  /** Now, or `laterMs` from now. */
  now(laterMs = 0): Stamp {
    return stampOf(this.#options.clock, laterMs);
  }

  /** How long ago that was. Where this is not certain, it is too small, never too large. */
  ageMs(stamp: Stamp): number {
    return ageMs(stamp, this.#options.clock, this.state.boots);
  }

  /** What the age of a message starts from, if it starts now. */
  birth(): { at: Stamp; reachMs: number } {
    const at = this.now();
    return { at, reachMs: this.reachability.startMs(at.bootMs) };
  }

  /** The event for a message that got this verdict. */
  outcomeOf({ id, attempts: before }: Message, verdict: Verdict): StoreEvent {
    const { kind, reply } = verdict;
    const { countedMs } = this.reachability;
    const reach = countedMs - this.state.reachMs >= REACH_STEP_MS ? { reachMs: countedMs } : {};
    const common = { id, attempts: kind === 'expired' ? before : before + 1, reply, ...reach };
    if (kind !== 'deferred') return { e: kind, ...common, at: this.now() };
    return { e: kind, ...common, due: this.now(verdict.delayMs) };
  }

  /** Bytes that outcomes can still fill, also on a full disk. */
  get reserveBytes(): number {
    return this.#journal.reserveBytes;
  }

  /** Resolves once OUTCOME_RESERVE_BYTES are free for outcomes. Rejects like `record`. */
  async fillReserve(): Promise<void> {
    // A disk that has refused is tried now, before the alarm rings.
    if (this.trouble) await this.#journal.mend();
    // A synced record leaves the reserve behind it, in a new segment if need be.
    await this.record([], 'synced');
  }

  /** Records a leap of the wall clock, so that it misdates nothing of this boot when that is read in another. */
  async keepClock(): Promise<void> {
    // No stamp refers to a boot in which nothing was recorded.
    if (!this.state.boots.has(this.#options.clock.boot) || this.#bootEvents().length === 0) return;
    // What cannot be written now is written with the next record.
    await this.record([], 'written').catch(() => undefined);
  }

  #bootEvents(): StoreEvent[] {
    const { clock } = this.#options;
    const news = bootNews(clock, this.state.boots);
    if (news === null) return [];
    return [
      { e: 'boot', boot: clock.boot, startMs: news.startMs, ...(news.confirmed && { confirmed: true }) },
    ];
  }

  /** Removes these files once no record that the next start may find needs them. */
  giveUpFiles(files: readonly string[]): void {
    this.state.released.push(...files);
    if (!this.#journal.isInDoubt) this.#removeReleased();
  }

  /** Sync the record, then unlink: the records that gave these files up are on the device. */
  #removeReleased(): void {
    const files = this.state.released.splice(0);
    if (files.length > 0) void this.spool.remove(files);
  }

  /** Reads a content back. Throws `storage-damaged` if it is lost, and `storage-failed` where that may change. */
  read(place: Place): Promise<Buffer> {
    return this.#parts.contents.read(place);
  }

  /** Makes a checkpoint if that frees a segment, or if the disk `isShort`. Resolves when it is done, also if it failed. */
  async checkpoint(isShort = false): Promise<void> {
    if (this.#closed) return;
    if (isShort || this.#checkpoints.doneBytes > 0) await this.#checkpoints.make(isShort);
  }

  /** Removes files that could not be removed before, and frees segments where many are not needed. */
  async sweep(): Promise<void> {
    if (this.trouble) return;
    await this.spool.remove([]);
    if (this.#checkpoints.isMuchDone) await this.checkpoint();
  }

  /** Writes what is pending, makes a checkpoint if anything changed, and frees the lock. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#mendAlarm.end();
    await this.#checkpoints.idle();
    if (this.trouble) await this.#journal.mend();
    if (this.#checkpoints.pendingBytes > 0 && !this.trouble) await this.#checkpoints.make();
    await this.#journal.close();
    await this.#parts.syncedFile.close();
    await this.#parts.segments.close();
    await this.spool.idle;
    await this.#lock.release();
  }

  /** Overwrites what no message needs any more: see purge.ts. Throws storage-full, storage-failed, stopping. */
  async purge(withDamaged: boolean): Promise<void> {
    const { disk, directory } = this.#options;
    const work = { ledger: this, journal: this.#journal, write: () => this.#write() };
    const damaged = withDamaged ? this.#parts.damaged : null;
    await this.#checkpoints
      .without(() =>
        purge({ disk, directory, ...this.#parts, ...work, damaged, isStopping: () => this.#closed }),
      )
      .catch((error) => Promise.reject(asDiskError(error)));
    await this.spool.remove([]);
  }

  /** Writes a snapshot. lowdb hands the state to the adapter in this same synchronous step. */
  #write(): Promise<void> {
    this.state.through = this.#journal.position;
    return this.#parts.low.write();
  }

  #onTrouble(trouble: FieldpostError | null, before: FieldpostError | null): void {
    const { log } = this.#options;
    if (trouble && !before)
      log.error('storage failed', { reason: trouble.message, hint: trouble.hint || undefined });
    if (!trouble && before) log.info('storage ok');
    if (trouble) this.#mendAlarm.in(STORAGE_RETRY_MS);
    else this.#mendAlarm.off();
    // Each try took a segment. The second checkpoint frees them: the older snapshot needs them until then.
    if (!trouble) void this.checkpoint().then(() => this.checkpoint());
  }
}
