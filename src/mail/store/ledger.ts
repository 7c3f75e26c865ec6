/**
 * The state and what makes it durable: lock, journal, checkpoints, and what to do when the disk refuses. It knows files
 * and events, not what may happen to a message.
 */
import { dirname, join } from 'node:path';
import { type Low, openLow } from '../../base/durable-file.js';
import { FieldpostError } from '../../base/errors.js';
import {
  DAY_MS,
  MINUTE_MS,
  OUTCOME_RESERVE_BYTES,
  SEGMENT_BYTES,
  STORAGE_RETRY_MS,
} from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import { ageMs, bootNews, type Stamp, stampOf } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import type { Disk } from '../../base/system/disk.js';
import type { Lock, TakeLock } from '../../base/system/lock.js';
import type { Log } from '../../base/system/log.js';
import { isFinal } from '../../base/views.js';
import { isBookEvent } from '../book/book.js';
import type { Message, Verdict } from '../message/message.js';
import { Checkpoints } from './checkpoints.js';
import { Contents } from './contents.js';
import { asDiskError, patientDisk, syncAbove } from './disk-error.js';
import type { StoreEvent } from './event.js';
import type { RandomBytes } from './ids.js';
import { Journal, type Urgency } from './journal.js';
import { Damaged, Quarantine } from './quarantine.js';
import { Reachability } from './reachability.js';
import { type Replayed, replay, tellOf } from './replay.js';
import { fileOf, Segments } from './segments.js';
import { SnapshotAdapter, type SnapshotOptions } from './snapshot.js';
import { Spool } from './spool.js';
import { apply, emptyState, liveBytesOf, neededFiles, type State } from './state.js';
import { SyncedFile } from './synced-file.js';
import { type BoundsOptions, boundsOf } from './weight.js';

/** The world of the ledger. */
export interface LedgerOptions extends BoundsOptions, Partial<Pick<SnapshotOptions, 'dropped'>> {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly log: Log;
  readonly randomBytes: RandomBytes;
  readonly takeLock: TakeLock;
  readonly directory: string;
  /** A reload changes this object. */
  readonly budget: { readonly maxSpoolBytes: number; readonly failuresTo?: unknown };
}

/** Is given a message whose status may have changed, or `book` after a change of the address book. */
export type Watcher = (changed: Message | 'book') => void;

/** An outcome carries the count of reachable time once it has grown by this. A crash loses at most as much. */
const REACH_STEP_MS = MINUTE_MS;

/** No window of FIELDPOST_RELAY_RATE is longer. */
const RATE_MS_MAX = 31 * DAY_MS;

/** The recovered state, and the only way to change it durably. */
export class Ledger {
  readonly state: State;
  /** The attachments' files. The ledger removes them from here. */
  readonly spool: Spool;
  readonly contents: Contents;
  readonly reachability: Reachability;
  readonly outcomes: OutcomeWatch;
  /** Told of each change, once it is applied. */
  watcher: Watcher | null = null;
  readonly #options: LedgerOptions;
  readonly #lock: Lock;
  readonly #parts: Parts;
  readonly #journal: Journal;
  readonly #mendAlarm: Alarm;
  readonly #checkpoints: Checkpoints;
  #closed = false;

  /**
   * Makes the directory if it is missing, and recovers what the last run left. Rejects with `already-running`, or with the
   * disk's error if it cannot be read.
   */
  static async open(given: LedgerOptions): Promise<Ledger> {
    const lock = await lockDirectory(given);
    const disk = patientDisk(given);
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
    const { clock } = options;
    const { segments, syncedFile, low, replayed } = parts;
    const state = low.data;
    this.#options = options;
    this.#lock = lock;
    this.#parts = parts;
    this.state = state;
    this.spool = parts.spool;
    this.contents = parts.contents;
    this.reachability = new Reachability(state.reachMs);
    this.outcomes = new OutcomeWatch((id) => state.messages.get(id));
    this.#journal = new Journal({
      ...{ segments, clock, storeId: state.storeId, ...replayed },
      apply: ({ events }, contentsAt) => {
        // A message that becomes final may be forgotten at once.
        const before = this.watcher && events.map((event) => messageIn(event, state));
        apply(state, events, contentsAt);
        this.outcomes.noticed(events);
        if (before) this.#tell(events, before);
      },
      onProven: () => {
        syncedFile.note(this.#journal.position);
        this.#removeReleased();
      },
      onTrouble: (trouble, before) => this.#onTrouble(trouble, before),
    });
    this.#mendAlarm = new Alarm(clock, () => void this.#journal.mend());
    // lowdb hands the state to the adapter in this same synchronous step.
    const write = () => {
      state.through = this.#journal.position;
      for (const [relay, tally] of state.sentBy) {
        tally.trim(RATE_MS_MAX, (stamp) => this.ageMs(stamp));
        if (tally.buckets.length === 0) state.sentBy.delete(relay);
      }
      return low.write();
    };
    const work = { state, journal: this.#journal, write, replayedBytes: replayed.bytes };
    this.#checkpoints = new Checkpoints({ ...options, ...parts, ...work });
  }

  #tell(events: readonly StoreEvent[], before: readonly (Message | undefined)[]): void {
    events.forEach((event, at) => {
      const made = event.e === 'accepted' ? event.messages.map(({ id }) => this.state.messages.read(id)) : [];
      for (const message of [before[at], ...made]) if (message) this.watcher?.(message);
      if (isBookEvent(event)) this.watcher?.('book');
    });
  }

  /** Makes durable what the start has found, and removes files that no message needs. */
  async #begin(): Promise<void> {
    const { quarantine, replayed } = this.#parts;
    // After a gap the history continues in a new segment.
    if (replayed.gap) await this.#journal.mend();
    else await this.#journal.resume();
    this.#checkpoints.start();
    const strays = await this.spool.learn(neededFiles(this.state));
    if (tellOf(replayed, this.state, this.#options.log, join(this.#options.directory, 'damaged'))) {
      // Files of interrupted uploads and of final messages; or of a newer version, if it has left other files, too.
      if (quarantine.newer.size === 0) this.giveUpFiles(strays);
      return await this.spool.idle;
    }
    // Records that cannot be read may name files that no other record names: this start keeps all files. With the
    // checkpoint the next start does not meet the same damage and judge these messages again.
    await this.#checkpoints.make();
  }

  /** Why the disk cannot keep data now, or null. */
  get trouble(): FieldpostError | null {
    return this.#journal.trouble;
  }

  /** The number of unreadable pieces and of files of a newer version, and the names of files put aside or unusable. */
  get damage() {
    const { damaged, quarantine } = this.#parts;
    return { damaged: damaged.count + quarantine.newer.size, ...quarantine.names };
  }

  /** See Parts.diskBytes. */
  get diskBytes(): number {
    return this.#parts.diskBytes();
  }

  /**
   * The bytes that count in the budget. Of the current segment only its written part counts, and the reserve for outcomes.
   * One segment more counts always: the current one fills up without asking, and then the next one must fit.
   */
  get usedBytes(): number {
    const { segments, snapshots } = this.#parts;
    const leftBytes = Math.max(0, this.#journal.reserveBytes - OUTCOME_RESERVE_BYTES);
    const journalBytes = segments.bytesUpTo(this.#journal.position.segment) - leftBytes + SEGMENT_BYTES;
    return journalBytes + this.spool.bytes + snapshots.diskBytes;
  }

  /** Removes segments that are kept for later, until so many bytes more are within the budget. */
  async makeWay(neededBytes: number): Promise<void> {
    const { segments } = this.#parts;
    while (segments.isInTheWay(neededBytes)) await this.#journal.giveWay(neededBytes);
  }

  /** True if messages need less than half of the journal. */
  get isMostlyDone(): boolean {
    return liveBytesOf(this.state) < this.#parts.segments.bytes / 2;
  }

  /**
   * Resolves once the events are in the journal, as durable as asked, and applied. If the journal lacks this boot's
   * start time, that is recorded before them. Rejects like Journal.append.
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

  now(laterMs = 0): Stamp {
    return stampOf(this.#options.clock, laterMs);
  }

  /** The age of a stamp. An uncertain age is too small, never too large. */
  ageMs(stamp: Stamp): number {
    return ageMs(stamp, this.#options.clock, this.state.boots);
  }

  /** The start of the age of a message that is accepted or retried now. */
  birth(): { at: Stamp; reachMs: number } {
    const at = this.now();
    return { at, reachMs: this.reachability.startMs(at.bootMs) };
  }

  /** The event that records a verdict. */
  outcomeOf({ id, attempts: before }: Message, verdict: Verdict): StoreEvent {
    const { kind, reply } = verdict;
    const by = kind === 'sent' && verdict.relay !== undefined ? { relay: verdict.relay } : {};
    const { countedMs } = this.reachability;
    const reach = countedMs - this.state.reachMs >= REACH_STEP_MS ? { reachMs: countedMs } : {};
    const common = { id, attempts: kind === 'expired' ? before : before + 1, reply, ...reach };
    if (kind !== 'deferred') return { e: kind, ...common, at: this.now(), ...by };
    return { e: kind, ...common, due: this.now(verdict.delayMs) };
  }

  /** Bytes that outcomes can still fill, also on a full disk. */
  get reserveBytes(): number {
    return this.#journal.reserveBytes;
  }

  /** Resolves once OUTCOME_RESERVE_BYTES are free for outcomes. Rejects like `record`. */
  async fillReserve(): Promise<void> {
    // Tries a disk that has refused now, before the alarm does.
    if (this.trouble) await this.#journal.mend();
    // A synced record leaves the reserve free: if it does not fit before the reserve, a new segment begins.
    await this.record([], 'synced');
  }

  /** Records a leap of the wall clock, so that another boot dates this one correctly. */
  async keepClock(): Promise<void> {
    // No stamp refers to a boot without a record.
    if (!this.state.boots.has(this.#options.clock.boot) || this.#bootEvents().length === 0) return;
    // If this fails, the next record carries it.
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

  /** Removes these files once the next start can find no record that needs them. */
  giveUpFiles(files: readonly string[]): void {
    this.state.released.push(...files);
    if (!this.#journal.isInDoubt) this.#removeReleased();
  }

  /** Sync the record, then unlink: the records that released these files are on the device. */
  #removeReleased(): void {
    const files = this.state.released.splice(0);
    if (files.length > 0) void this.spool.remove(files);
  }

  /**
   * Makes a checkpoint if it frees a segment; always if `isShort` (the disk is nearly full). Resolves when it is done,
   * also if it failed.
   */
  async checkpoint(isShort = false): Promise<void> {
    if (this.#closed) return;
    if (isShort || this.#checkpoints.doneBytes > 0) await this.#checkpoints.make(isShort);
  }

  /** Retries removals of files that failed before, and frees segments if many are not needed. */
  async sweep(): Promise<void> {
    if (this.trouble) return;
    await this.spool.retryRemovals();
    if (this.#checkpoints.isMuchDone) await this.checkpoint();
  }

  /** Writes what is pending, makes a checkpoint if anything changed, and releases the lock. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#mendAlarm.end();
    await this.#checkpoints.end();
    if (this.trouble) await this.#journal.mend();
    if (this.#checkpoints.pendingBytes > 0 && !this.trouble) await this.#checkpoints.make();
    await this.#journal.close();
    await this.#parts.syncedFile.close();
    await this.#parts.segments.close();
    await this.spool.idle;
    await this.#lock.release();
  }

  /** See Store.purge. */
  async purge(withDamaged: boolean): Promise<void> {
    await this.record([{ e: 'purged' }], 'synced');
    await this.#checkpoints.purge(withDamaged ? this.#parts.damaged : null).catch((error) => {
      throw asDiskError(error);
    });
    await this.spool.retryRemovals();
  }

  #onTrouble(trouble: FieldpostError | null, before: FieldpostError | null): void {
    const { log } = this.#options;
    if (trouble && !before)
      log.error('storage failed', { reason: trouble.message, hint: trouble.hint || undefined });
    if (!trouble && before) log.info('storage ok');
    if (trouble) this.#mendAlarm.in(STORAGE_RETRY_MS);
    else this.#mendAlarm.off();
    // Each try began a segment. Two checkpoints free them, because the older snapshot needs them until the second.
    if (!trouble) void this.checkpoint().then(() => this.checkpoint());
  }
}

/** The parts of the store, each with its own files. */
interface Parts {
  readonly segments: Segments;
  readonly spool: Spool;
  readonly contents: Contents;
  readonly quarantine: Quarantine;
  readonly syncedFile: SyncedFile;
  readonly damaged: Damaged;
  readonly snapshots: SnapshotAdapter;
  /** lowdb, whose data is the recovered state. */
  readonly low: Low<State>;
  readonly replayed: Replayed;
  /** Bytes of journal, spool and snapshots. The copies in damaged/ have a budget of their own. */
  readonly diskBytes: () => number;
}

async function lockDirectory({ disk, directory, takeLock, log }: LedgerOptions): Promise<Lock> {
  await disk.makeDirectory(directory);
  const lock = await takeLock(join(directory, 'lock'));
  if (lock.weakness !== undefined) log.warn('lock not on disk', { reason: lock.weakness });
  if (lock.putAside !== undefined) log.warn('put aside', { name: 'lock', as: lock.putAside });
  return lock;
}

/** Builds the parts over their files, and recovers the state. Rejects with the disk's error if it cannot be read. */
async function openParts(options: LedgerOptions): Promise<Parts> {
  const { disk, clock, directory, randomBytes, log, budget, dropped = () => undefined } = options;
  const quarantine = new Quarantine(disk, log);
  const diskBytes = () => segments.bytes + spool.bytes + snapshots.diskBytes;
  const fits = (bytes: number) => diskBytes() + bytes <= budget.maxSpoolBytes;
  const segments = new Segments(disk, join(directory, 'journal'), fits);
  const spool = new Spool(disk, join(directory, 'spool'), randomBytes);
  const copies = join(directory, 'damaged');
  const damaged = new Damaged(disk, copies, budget.maxSpoolBytes);
  const contents = new Contents(
    (...range) => segments.read(...range),
    async ({ segment, offset }, bytes) => {
      const before = damaged.count;
      // As a start names them.
      const piece = bytes === null ? 'missing' : offset;
      const isKept = await damaged.keep(`${fileOf(segment)}.${piece}`, bytes ?? Buffer.alloc(0));
      if (!isKept) segments.keepWhole(segment);
      if (damaged.count > before) log.error('store damaged', { pieces: 1, heldBack: 0, copies });
    },
  );
  const syncedFile = new SyncedFile(disk, clock, join(directory, 'synced'));
  const bounds = boundsOf(options);
  const snapshots = new SnapshotAdapter({ disk, directory, quarantine, bounds, dropped });
  const low = openLow(snapshots, emptyState(bounds));
  await Promise.all([segments, spool, damaged].map((part) => part.open(quarantine)));
  await Promise.all([disk.syncDirectory(directory), syncAbove(disk, dirname(directory))]);
  await low.read();
  const state = low.data;
  const found = { ...snapshots.takeFound(), noted: await syncedFile.read() };
  const replayed = await replay({ segments, damaged, quarantine, state, ...found, now: stampOf(clock) });
  if (state.storeId === '') state.storeId = Buffer.from(randomBytes(8)).toString('hex');
  // The spool finds files that no message needs by itself.
  state.released.length = 0;
  return { segments, spool, contents, quarantine, syncedFile, damaged, snapshots, low, replayed, diskBytes };
}

/** The one message that an event is about. */
function messageIn(event: StoreEvent, { messages }: State): Message | undefined {
  return 'id' in event && typeof event.id === 'string' ? messages.get(event.id) : undefined;
}

/** The calls that wait until a message is final. It costs an outcome nothing if nobody waits. */
export class OutcomeWatch {
  readonly #find: (id: string) => Message | undefined;
  /** By the ids of their messages. */
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(find: (id: string) => Message | undefined) {
    this.#find = find;
  }

  /** Resolves when the message is final or forgotten, or when the signal aborts. */
  whenFinal(id: string, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted || this.#isOver(id)) return Promise.resolve();
    return new Promise((resolve) => {
      const calls = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, calls);
      const end = () => {
        signal?.removeEventListener('abort', end);
        calls.delete(end);
        if (calls.size === 0) this.#waiting.delete(id);
        resolve();
      };
      calls.add(end);
      signal?.addEventListener('abort', end);
    });
  }

  /** Resolves the calls for messages that these events, which are applied, have made final. */
  noticed(events: readonly StoreEvent[]): void {
    if (this.#waiting.size === 0) return;
    for (const event of events) {
      const id = 'id' in event && typeof event.id === 'string' ? event.id : '';
      const calls = this.#waiting.get(id);
      if (calls !== undefined && this.#isOver(id)) for (const end of calls) end();
    }
  }

  #isOver(id: string): boolean {
    const message = this.#find(id);
    return message === undefined || isFinal(message.status);
  }
}
