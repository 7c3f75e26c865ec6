/**
 * The state and what makes it last: lock, recovery, journal, checkpoints, and what to do when the disk refuses.
 * It knows files and events; what may happen to a message is journaled-store.ts's business, its only user.
 */
import { dirname, join } from 'node:path';
import { FieldpostError } from '../errors.js';
import { STORAGE_RETRY_MS } from '../limits.js';
import type { Place } from '../message/message.js';
import { bootNews, stampOf } from '../message/stamp.js';
import { Alarm } from '../retry/alarm.js';
import type { Clock } from '../system/clock.js';
import type { Disk } from '../system/disk.js';
import type { Lock, TakeLock } from '../system/lock.js';
import type { Log } from '../system/log.js';
import { Aside, lockDirectory } from './aside.js';
import { Checkpoints } from './checkpoints.js';
import { Contents } from './contents.js';
import { Damaged } from './damaged.js';
import type { StoreEvent } from './event.js';
import type { RandomBytes } from './ids.js';
import { Journal, type Urgency } from './journal.js';
import { Mark } from './mark.js';
import { PatientDisk } from './patient-disk.js';
import { liveBytesOf, neededFiles } from './places.js';
import { purge } from './purge.js';
import { type Replayed, replay, tellOf } from './replay.js';
import { Segments } from './segments.js';
import { type FoundSnapshot, openLow, SnapshotAdapter, type SnapshotOptions } from './snapshot.js';
import { Spool } from './spool.js';
import { apply, type State } from './state.js';
import { asTrouble, syncAbove } from './trouble.js';
import { type BoundsOptions, boundsOf } from './weight.js';

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

/** The recovered state, and the ways to change it so that it lasts. */
export class Ledger {
  /** The attachments' files. What the state no longer needs is removed here, once that is on the device. */
  readonly spool: Spool;
  readonly #options: LedgerOptions;
  readonly #lock: Lock;
  readonly #segments: Segments;
  readonly #contents: Contents;
  readonly #aside: Aside;
  readonly #mark: Mark;
  readonly #damaged: Damaged;
  readonly #adapter: SnapshotAdapter;
  readonly #low: ReturnType<typeof openLow>;
  #journal: Journal | null = null;
  #replayed: Replayed | null = null;
  #trouble: FieldpostError | null = null;
  readonly #mendAlarm: Alarm;
  readonly #checkpoints: Checkpoints;
  #closed = false;

  /** Recovers what the last run left. Throws `already-running`, or what the disk says if it cannot be read. */
  static async open(options: LedgerOptions): Promise<Ledger> {
    const lock = await lockDirectory(options);
    const disk = new PatientDisk(options);
    const ledger = new Ledger({ ...options, disk }, lock);
    try {
      await ledger.#recover();
      disk.endPatience();
    } catch (error) {
      await lock.release();
      throw error;
    }
    return ledger;
  }

  private constructor(options: LedgerOptions, lock: Lock) {
    const { disk, clock, directory, randomBytes, log, budget, dropped = () => undefined } = options;
    this.#options = options;
    this.#aside = new Aside(disk, log);
    this.#lock = lock;
    this.#segments = new Segments(disk, join(directory, 'journal'));
    this.spool = new Spool(disk, join(directory, 'spool'), randomBytes);
    this.#contents = new Contents((...range) => this.#segments.read(...range));
    this.#damaged = new Damaged(disk, join(directory, 'damaged'), budget.maxSpoolBytes);
    this.#mark = new Mark(disk, clock, join(directory, 'synced'));
    this.#adapter = new SnapshotAdapter({
      disk,
      directory,
      ...{ aside: this.#aside, dropped },
      position: () => this.#theJournal.position,
      replay: (current, previous) => this.#replay(current, previous),
    });
    this.#mendAlarm = new Alarm(clock, () => void this.#theJournal.mend());
    this.#low = openLow(this.#adapter, boundsOf(options));
    const { maxSpoolBytes } = budget;
    this.#checkpoints = new Checkpoints({ log, maxSpoolBytes, tidied: () => this.#tidied });
  }

  get state(): State {
    return this.#low.data;
  }

  /** Why nothing can be kept at the moment, or null. */
  get trouble(): FieldpostError | null {
    return this.#trouble;
  }

  /** Pieces that recovery could not read, of this start and earlier ones, and files of a newer version. */
  get damage() {
    return { damaged: this.#damaged.count + this.#aside.newer.size, ...this.#aside.names };
  }

  /** Bytes in journal, spool and snapshots. Copies in damaged/ have a budget of their own. */
  get usedBytes(): number {
    return this.#segments.bytes + this.spool.bytes + this.#adapter.diskBytes;
  }

  /** True if more than half of the journal is done with. */
  get isMostlyDone(): boolean {
    return liveBytesOf(this.state) < this.#segments.bytes / 2;
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
    await this.#theJournal.append(record, urgency).catch((error) => {
      if (error instanceof FieldpostError && error.code === 'storage-full') void this.checkpoint();
      throw error;
    });
    this.#checkpoints.makeIfDue();
  }

  /** Bytes that outcomes may still fill for certain, also on a full disk. */
  get outcomeRoomBytes(): number {
    return this.#theJournal.reserveBytes;
  }

  /** Resolves once OUTCOME_RESERVE_BYTES are free for outcomes. Rejects like `record`. */
  async makeOutcomeRoom(): Promise<void> {
    // A disk that has refused is asked again now, not only when the timer says so.
    if (this.#trouble) await this.#theJournal.mend();
    // Whatever is synced leaves that room behind it, and takes a new segment if there is not as much.
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

  /** Removes these files once no record that may be found by the next start promises them. */
  release(files: readonly string[]): void {
    this.state.released.push(...files);
    if (!this.#theJournal.isInDoubt) this.#removeReleased();
  }

  /** Sync the record, then unlink: whatever gave these up is on the device. */
  #removeReleased(): void {
    const files = this.state.released.splice(0);
    if (files.length > 0) void this.spool.remove(files);
  }

  /** Reads a content back. Throws `storage-damaged` if it is lost, and `storage-failed` where that may change. */
  read(place: Place): Promise<Buffer> {
    return this.#contents.read(place);
  }

  /** Begins a checkpoint if that lets go of a segment, or `isShort`; resolves when it is done, also if it failed. */
  async checkpoint(isShort = false): Promise<void> {
    if (this.#closed) return;
    if (isShort || this.#checkpoints.doneBytes > 0) await this.#checkpoints.make(isShort);
  }

  /** Lets go of what the disk did not let go of before, and of segments that are done with, where these are many. */
  async sweep(): Promise<void> {
    if (this.#trouble) return;
    await this.spool.remove([]);
    if (this.#checkpoints.isMuchDone) await this.checkpoint();
  }

  /** Writes what is pending, checkpoints if anything changed, and lets go of the directory. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#mendAlarm.end();
    await this.#checkpoints.idle();
    if (this.#trouble) await this.#theJournal.mend();
    if (this.#checkpoints.pendingBytes > 0 && !this.#trouble) await this.#checkpoints.make();
    await this.#theJournal.close();
    await this.#mark.close();
    await this.#segments.close();
    await this.spool.idle;
    await this.#lock.release();
  }

  get #theJournal(): Journal {
    if (!this.#journal) throw new Error('the ledger is not open');
    return this.#journal;
  }

  async #recover(): Promise<void> {
    const { disk, directory, log } = this.#options;
    await Promise.all([this.#segments, this.spool, this.#damaged].map((part) => part.open(this.#aside)));
    await Promise.all([disk.syncDirectory(directory), syncAbove(disk, dirname(directory))]);
    await this.#low.read();
    const replayed = this.#replayed as Replayed;
    this.#replayed = null;
    this.#checkpoints.begin(replayed.bytes);
    // Behind a gap history begins anew: in a segment that the next start finds at the end of a snapshot.
    if (replayed.unproven.length > 0 || replayed.gap) await this.#theJournal.mend();
    this.#checkpoints.makeIfDue();
    const strays = await this.spool.learn(neededFiles(this.state));
    if (tellOf(replayed, this.state, log, join(directory, 'damaged'))) {
      // Files of uploads that were cut off, and of messages that were final in time; or a newer version's.
      if (this.#aside.newer.size === 0) this.release(strays);
      return await this.spool.idle;
    }
    // What cannot be read may have spoken of files that nothing else does: this start leaves those alone. The next one
    // shall not meet the same damage, nor judge these messages once more.
    await this.#checkpoints.make();
  }

  /** What lowdb's `read` gives: the good snapshot and all that the journal says happened after it. */
  async #replay(current: FoundSnapshot, previous: FoundSnapshot): Promise<State> {
    const { clock, randomBytes } = this.#options;
    const [segments, damaged, aside] = [this.#segments, this.#damaged, this.#aside];
    const found = { segments, damaged, aside, current, previous, mark: await this.#mark.read() };
    const replayed = await replay({ ...found, bounds: boundsOf(this.#options), now: stampOf(clock) });
    const { state, follows, unproven } = replayed;
    if (state.storeId === '') state.storeId = Buffer.from(randomBytes(8)).toString('hex');
    // Of these the sweep thinks for itself.
    state.released.length = 0;
    this.#replayed = replayed;
    this.#journal = new Journal({
      segments,
      clock,
      storeId: state.storeId,
      follows,
      unproven,
      apply: (record, contentsAt) => apply(state, record.events, contentsAt),
      onProven: () => {
        this.#mark.note(this.#theJournal.position);
        this.#removeReleased();
      },
      onTrouble: (trouble) => this.#onTrouble(trouble),
    });
    return state;
  }

  /** Overwrites what no message needs any more: see purge.ts. Throws storage-full, storage-failed, stopping. */
  async purge(withDamaged: boolean): Promise<void> {
    const { disk, directory } = this.#options;
    const rest = { disk, directory, contents: this.#contents, isStopping: () => this.#closed };
    await this.#checkpoints
      .without(() => purge({ ...this.#tidied, ...rest, damaged: withDamaged ? this.#damaged : null }))
      .catch((error) => Promise.reject(asTrouble(error)));
    await this.spool.remove([]);
  }

  get #tidied() {
    const [segments, adapter] = [this.#segments, this.#adapter];
    return { ledger: this, journal: this.#theJournal, segments, adapter, write: () => this.#low.write() };
  }

  #onTrouble(trouble: FieldpostError | null): void {
    const { log } = this.#options;
    if (trouble && !this.#trouble)
      log.error('storage failed', { reason: trouble.message, hint: trouble.hint || undefined });
    if (!trouble && this.#trouble) log.info('storage ok');
    this.#trouble = trouble;
    if (trouble) this.#mendAlarm.in(STORAGE_RETRY_MS);
    else this.#mendAlarm.off();
    // Each try took a segment. They go with the second: the snapshot before needs them until then.
    if (!trouble) void this.checkpoint().then(() => this.checkpoint());
  }
}
