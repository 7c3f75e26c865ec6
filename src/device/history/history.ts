/**
 * The history of the device: how many messages came and left, how many waited for how long, and whether relay and cloud
 * could be reached.
 *
 * The rows are in memory. The file `history` of the state directory gets what is new at most once an hour and at a clean
 * stop, and at most DAY_BYTES a day. An hour that went on as it began writes nothing. If a day is too busy for that, its
 * hours are kept without their ten minutes. A file is renamed to `history.1` after 30 days; records.ts has its format.
 * Nothing syncs it: a power cut loses the rows that are not written, as does a disk that refuses them.
 *
 * Rows are placed on the wall clock by the boot's clock. While the wall clock is known to be wrong, they stay in memory,
 * and nobody sees them. A leap of the clock moves the rows of this run.
 */
import { Buffer } from 'node:buffer';
import { dirname, join } from 'node:path';
import { wordsOf } from '../../base/errors.js';
import { DAY_MS, HOUR_MS, KIB, MINUTE_MS, SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import { EARLIEST_WALL_MS, startMsOf } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import type { Disk } from '../../base/system/disk.js';
import type { Log } from '../../base/system/log.js';
import { Turns } from '../../base/turns.js';
import type { HistoryEntry } from '../../base/views.js';
import { isPredicted, leapRecord, predictedS, recordsIn, recordsOf } from './records.js';
import {
  byHours,
  type HistoryRow,
  HOURS_MAX,
  hourOf,
  type Numbered,
  percentOf,
  type Step,
  shareOf,
  Table,
  TEN_MS,
  TENS_MAX,
  TENS_OF_HOUR,
} from './rows.js';

/** Written in a day, at most. */
export const DAY_BYTES = KIB;
/** An hour without its ten minutes takes no more: so much is kept back for each that is to come. */
const HOUR_BYTES = 36;
const FILE_MS = 30 * DAY_MS;
/** A larger file is not ours. */
const FILE_BYTES_MAX = 64 * KIB;
const STEP_MS: Readonly<Record<Step, number>> = { '10m': TEN_MS, '1h': HOUR_MS };
/** A wait that is so much longer or shorter than predicted is as predicted. */
const SAME_S = 5;
const TENS_OF_DAY = DAY_MS / TEN_MS;
const HOURS_OF_DAY = 24;

/** Whether a peer is there, and since when on the boot's clock; null: that is not known. */
export interface PeerSight {
  readonly isUp: boolean | null;
  readonly sinceMs: number;
}

/** The device at one moment. The counters run since the start. */
export interface Sight {
  readonly accepted: number;
  readonly sent: number;
  readonly failed: number;
  readonly waiting: number;
  readonly oldestAgeMs: number;
  readonly relay: PeerSight;
  readonly link: PeerSight;
}

/** The outside of the history, and what it looks at. */
export interface HistoryOptions {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly log: Log;
  readonly directory: string;
  look(): Sight;
}

/** A row with its time in ms. */
export type ShownRow = Omit<HistoryEntry, 'at'> & { readonly at: number };

/** How long a peer was there, and not there. */
class Uptime {
  #upMs = 0;
  #knownMs = 0;

  /** `row`: what is known of the first `knownMs` already. */
  constructor(share = 0, knownMs = 0) {
    const percent = percentOf(share);
    if (percent === null) return;
    this.#upMs = (percent / 100) * knownMs;
    this.#knownMs = knownMs;
  }

  add(isUp: boolean | null, ms: number): void {
    if (isUp === null) return;
    this.#knownMs += ms;
    if (isUp) this.#upMs += ms;
  }

  get share(): number {
    return this.#knownMs === 0 ? 0 : shareOf(Math.round((100 * this.#upMs) / this.#knownMs));
  }
}

/** The row that is not over yet. */
interface Open {
  readonly number: number;
  counts: Pick<HistoryRow, 'accepted' | 'sent' | 'failed' | 'waitingMax' | 'oldestS'>;
  readonly relay: Uptime;
  readonly link: Uptime;
}

/** Reads the history, and goes on with it. Never rejects: what cannot be read is not there. */
export async function openHistory(options: HistoryOptions): Promise<History> {
  const history = new History(options);
  await history.load();
  return history;
}

/** Opened by `openHistory`. */
export class History {
  readonly #options: HistoryOptions;
  readonly #path: string;
  readonly #table = new Table();
  readonly #alarm: Alarm;
  readonly #turns = new Turns();
  /** When this boot began, by the wall clock by which the rows are numbered. */
  #startMs = 0;
  /** False until the wall clock was trusted for the first time in this run. */
  #isPlaced = false;
  #open: Open | null = null;
  #before: Sight;
  #beforeMs: number;
  /** The first row of this run. */
  #from = 0;
  /** The first row that is not written, and a leap of written rows that is not. */
  #unwritten = 0;
  #leap: { readonly from: number; readonly delta: number } | null = null;
  /** Octets written in this day, and the first row of the file; null: there is none. */
  #day = 0;
  #dayBytes = 0;
  #fileFrom: number | null = null;
  /** A failure was logged. */
  #isTold = false;
  #isSoon = false;

  constructor(options: HistoryOptions) {
    this.#options = options;
    this.#path = join(options.directory, 'history');
    this.#alarm = new Alarm(options.clock, () => this.#tick());
    this.#before = { ...options.look(), accepted: 0, sent: 0, failed: 0 };
    this.#beforeMs = options.clock.bootMs();
  }

  /** Reads the files, and begins. Never rejects. */
  async load(): Promise<void> {
    const { clock } = this.#options;
    const records = [];
    for (const path of [`${this.#path}.1`, this.#path]) {
      const found = await this.#read(path);
      this.#fileFrom = null;
      for (const { end, length, apply } of found) {
        apply(this.#table);
        records.push({ end, length });
        this.#fileFrom ??= end;
      }
    }
    const next = this.#table.end ?? Math.floor(EARLIEST_WALL_MS / TEN_MS);
    this.#startMs = next * TEN_MS - clock.bootMs();
    this.#from = next;
    this.#unwritten = next;
    this.#place();
    this.#day = Math.floor(this.#number / TENS_OF_DAY);
    // A record that ends later was written in this day, or just before.
    for (const { end, length } of records) if (end >= this.#day * TENS_OF_DAY) this.#dayBytes += length;
    this.#begin();
    this.#tick();
  }

  /** A message was accepted. Looks within a minute whether it waits. */
  nudge(): void {
    if (this.#isSoon) return;
    this.#isSoon = true;
    this.#setAlarm();
  }

  /** The rows, the oldest first; the last one is not over yet. */
  rows(step: Step): ShownRow[] {
    this.#look();
    const open = this.#open as Open;
    this.#table.put(open.number, rowOf(open));
    return this.#table.rows(step, this.#isPlaced ? open.number + 1 : this.#from).map(([number, row]) => ({
      at: number * STEP_MS[step],
      accepted: row.accepted,
      sent: row.sent,
      failed: row.failed,
      waitingMax: row.waitingMax,
      oldestWaitMs: row.oldestS * SECOND_MS,
      relayUp: partOf(row.relay),
      linkUp: partOf(row.link),
    }));
  }

  /** Writes what is new. Never rejects. */
  async close(): Promise<void> {
    this.#alarm.end();
    this.#look();
    const { number } = this.#open as Open;
    this.#table.put(number, rowOf(this.#open as Open));
    await this.#write(number + 1, true);
  }

  /** The row of this moment, by the clock that numbers the rows. */
  get #number(): number {
    return Math.floor((this.#startMs + this.#options.clock.bootMs()) / TEN_MS);
  }

  #tick(): void {
    this.#look();
    const open = this.#open as Open;
    const number = this.#number;
    if (number > open.number) {
      this.#table.put(open.number, this.#rounded(open));
      this.#begin();
      if (hourOf(number) > hourOf(open.number)) void this.#write(number, false);
    }
    this.#isSoon = this.#before.waiting > 0;
    this.#setAlarm();
  }

  #setAlarm(): void {
    const endMs = ((this.#open as Open).number + 1) * TEN_MS - this.#startMs;
    const soonMs = this.#options.clock.bootMs() + MINUTE_MS;
    this.#alarm.at(this.#isSoon ? Math.min(soonMs, endMs) : endMs);
  }

  /** Begins the row of this moment. It goes on if the run before has begun it. */
  #begin(): void {
    const number = this.#number;
    const known = this.#isPlaced && this.#open === null ? this.#table.get(number) : null;
    if (this.#open === null) {
      this.#from = number;
      this.#unwritten = Math.min(this.#unwritten, number);
    }
    const knownMs = this.#startMs + this.#options.clock.bootMs() - number * TEN_MS;
    const relay = new Uptime(known?.relay, knownMs);
    const link = new Uptime(known?.link, knownMs);
    this.#open = {
      number,
      counts: known ?? { accepted: 0, sent: 0, failed: 0, waitingMax: 0, oldestS: 0 },
      relay,
      link,
    };
  }

  /** Adds to the open row what came since the last look. */
  #look(): void {
    const { look, clock } = this.#options;
    const [then, thenMs] = [this.#before, this.#beforeMs];
    const now = look();
    const nowMs = clock.bootMs();
    this.#before = now;
    this.#beforeMs = nowMs;
    this.#place();
    const open = this.#open as Open;
    for (const peer of ['relay', 'link'] as const) {
      const changedMs = Math.min(nowMs, Math.max(thenMs, now[peer].sinceMs));
      open[peer].add(then[peer].isUp, changedMs - thenMs);
      open[peer].add(now[peer].isUp, nowMs - changedMs);
    }
    const { accepted, sent, failed, waitingMax, oldestS } = open.counts;
    open.counts = {
      accepted: accepted + now.accepted - then.accepted,
      sent: sent + now.sent - then.sent,
      failed: failed + now.failed - then.failed,
      waitingMax: Math.max(waitingMax, now.waiting),
      oldestS: Math.max(oldestS, Math.round(now.oldestAgeMs / SECOND_MS)),
    };
  }

  /** Follows the wall clock, if that is trusted. */
  #place(): void {
    const { clock } = this.#options;
    if (clock.trust() === 'wrong') return;
    const startMs = startMsOf(clock);
    const delta = Math.round((startMs - this.#startMs) / TEN_MS);
    this.#startMs = startMs;
    const isFirst = !this.#isPlaced;
    this.#isPlaced = true;
    const open = this.#open;
    if (open === null || (delta === 0 && !isFirst)) return;
    this.#table.shift(this.#from, delta);
    if (this.#unwritten > this.#from)
      this.#leap = { from: this.#leap?.from ?? this.#from, delta: (this.#leap?.delta ?? 0) + delta };
    this.#from += delta;
    this.#unwritten += delta;
    this.#open = { ...open, number: open.number + delta };
  }

  /** The finished row. A wait that goes on is as long as predicted, so that nothing need be written. */
  #rounded(open: Open): HistoryRow {
    const row = rowOf(open);
    const before = this.#table.get(open.number - 1);
    const oldestS = before === null ? 0 : predictedS(before);
    return oldestS > 0 && Math.abs(row.oldestS - oldestS) <= SAME_S ? { ...row, oldestS } : row;
  }

  /** Writes the rows before `end` that are not written. Never rejects. */
  #write(end: number, isLast: boolean): Promise<void> {
    return this.#turns
      .do(() => this.#writeNow(end, isLast))
      .then(
        () => {
          this.#isTold = false;
        },
        (error) => {
          if (!this.#isTold)
            this.#options.log.warn('history not kept', { path: this.#path, reason: wordsOf(error) });
          this.#isTold = true;
        },
      );
  }

  async #writeNow(end: number, isLast: boolean): Promise<void> {
    if (!this.#isPlaced) return;
    const tens = this.#table.tensFrom(this.#unwritten).filter(([number]) => number < end);
    if (tens.length === 0 || (!isLast && this.#leap === null && this.#isAsBefore(tens))) return;
    // These are in memory by the hour alone: the time before was quiet, or could not be written.
    const firstHour = Math.max(Math.ceil(this.#unwritten / TENS_OF_HOUR), hourOf(end) - HOURS_MAX);
    const hours = this.#table.hoursFrom(firstHour).map(([hour, row]): Numbered => [hour * TENS_OF_HOUR, row]);
    const leap = this.#leap;
    const old = [...(leap ? [leapRecord(leap.from, leap.delta)] : []), ...recordsOf(hours, 1)];
    const day = Math.floor(this.#number / TENS_OF_DAY);
    if (day !== this.#day) this.#dayBytes = 0;
    this.#day = day;
    const leftBytes = DAY_BYTES - this.#dayBytes;
    const whole = [...old, ...recordsOf(tens, 0)];
    // For each hour of the day to come, and for a clean stop.
    const keptHours = HOURS_OF_DAY - (hourOf(this.#number) % HOURS_OF_DAY) - (isLast ? 1 : 0);
    const keptBytes = keptHours * HOUR_BYTES;
    const isRoom = sizeOf(whole) + keptBytes <= leftBytes;
    const records = isRoom ? whole : [...old, ...recordsOf(byHours(tens), 1)];
    // Without room they wait in memory for the next day.
    if (sizeOf(records) > leftBytes) return;
    const count = end - this.#unwritten;
    this.#dayBytes += sizeOf(records);
    this.#unwritten = end;
    this.#leap = null;
    try {
      await this.#append(Buffer.concat(records), end);
    } catch (error) {
      this.#unwritten -= count;
      this.#leap ??= leap;
      throw error;
    }
  }

  /** True if nothing happened in these rows, and all was as before them. */
  #isAsBefore(tens: readonly Numbered[]): boolean {
    return tens.every(([number, row], i) => {
      const before = this.#table.get(number - 1);
      // Of more than 48 hours the first were looked at before.
      return before === null ? i === 0 && tens.length === TENS_MAX : isPredicted(row, before);
    });
  }

  async #append(bytes: Buffer, end: number): Promise<void> {
    const { disk } = this.#options;
    let found = await disk.look(this.#path);
    const isOld = this.#fileFrom !== null && (end - this.#fileFrom) * TEN_MS > FILE_MS;
    if (found?.kind === 'file' && (isOld || found.bytes + bytes.length > FILE_BYTES_MAX)) {
      await disk.rename(this.#path, `${this.#path}.1`);
      found = null;
    }
    if (found !== null && found.kind !== 'file') throw new Error('it is not a file');
    const file = await disk.open(this.#path, found === null ? 'create' : 'update');
    try {
      await file.write(bytes, found?.bytes ?? 0);
    } finally {
      await file.close();
    }
    if (found !== null) return;
    this.#fileFrom = end;
    await disk.syncDirectory(dirname(this.#path));
  }

  async #read(path: string): Promise<ReturnType<typeof recordsIn>> {
    const { disk } = this.#options;
    const found = await disk.look(path).catch(() => null);
    if (found?.kind !== 'file' || found.bytes > FILE_BYTES_MAX) return [];
    const bytes = await disk.readWhole(path).catch(() => null);
    return recordsIn(bytes ?? Buffer.alloc(0));
  }
}

function rowOf({ counts, relay, link }: Open): HistoryRow {
  const { accepted, sent, failed, waitingMax, oldestS } = counts;
  return { accepted, sent, failed, waitingMax, oldestS, relay: relay.share, link: link.share };
}

function partOf(share: number): number | null {
  const percent = percentOf(share);
  return percent === null ? null : percent / 100;
}

function sizeOf(records: readonly Buffer[]): number {
  return records.reduce((sum, { length }) => sum + length, 0);
}
