/**
 * What the watch and the news desk of one machine keep: `presence.json`, a durable file of `{device id: WrittenDevice}`, with
 * the news that people have not been told yet. It is written as a whole, at most each second. What memory has and the file
 * has not:
 *
 *   from             on                                                            to
 *   nothing          a heartbeat that changes nothing, or news that are dropped   times
 *   nothing, times   any other change, or PRESENCE_WRITE_MS after a write          vital
 *   times, vital     a write begins                                                nothing
 *   nothing          it fails                                                      vital
 */
import { join } from 'node:path';
import { DurableFile, type Low, openLow } from '../../base/durable-file.js';
import { FieldpostError, wordsOf } from '../../base/errors.js';
import { mapOf, shapeOf } from '../../base/json.js';
import { SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { Disk } from '../../base/system/disk.js';
import type { Log, LogFields } from '../../base/system/log.js';
import { type DeviceNews, isNews, type KeptNews, type News, newsAt } from '../fleet-store.js';
import { type Marks, marksIn, writtenMarks } from '../marks.js';
import { isMoment, MOMENT, type Moment } from '../moment.js';
import type { DeskLedger, NewsDesk } from '../news.js';
import {
  afterAbsence,
  CLOUD_GRACE_MS,
  type DeviceStatus,
  firstHeard,
  NO_STATUS,
  type Presence,
  SAID,
  type Said,
  type Sent,
  statusOf,
} from '../presence.js';
import type { Happening } from '../texts/texts.js';
import { type Decision, isUntrue, PRESENCE_WRITE_MS, type Watched, type WatchLedger } from '../watch.js';

/** Pause between two writes: changes in between are written together. */
const WRITE_PAUSE_MS = SECOND_MS;
/** The pause after a write that failed. */
const RETRY_MS = 5 * SECOND_MS;

interface FileLedgerOptions {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly log: Log;
  readonly directory: string;
  readonly devices: Map<string, Watched>;
  readonly desk: NewsDesk;
}

/** A decision that is not written yet. */
interface Deciding {
  readonly id: string;
  readonly decision: Decision;
  readonly resolve: (isKept: boolean) => void;
}

/** A caller that waits until a change is on the disk. */
interface Waiting {
  readonly resolve: () => void;
  readonly reject: (reason: FieldpostError) => void;
}

/** The ledger of one instance. */
export class FileLedger implements WatchLedger, DeskLedger {
  readonly noteMs = 0;
  readonly #options: FileLedgerOptions;
  readonly #file: Low<Written>;
  readonly #alarm: Alarm;
  #writtenMs = Number.NEGATIVE_INFINITY;
  #unwritten: 'nothing' | 'times' | 'vital' = 'nothing';
  #writing: Promise<void> | null = null;
  #deciding: Deciding[] = [];
  #waiting: Waiting[] = [];
  /** Counts news: their order. */
  #news = 0;
  /** Why the last write failed; null: it succeeded. A new reason is logged. */
  #reason: string | null = null;

  /** Reads presence.json into `devices` and `desk`. The time since it was written does not count as silence. */
  static async open(options: FileLedgerOptions): Promise<FileLedger> {
    const ledger = new FileLedger(options);
    await ledger.#read();
    return ledger;
  }

  private constructor(options: FileLedgerOptions) {
    this.#options = options;
    const { disk, clock, log } = options;
    const path = join(options.directory, 'presence.json');
    const onDamage = (paths: LogFields) => log.error('cloud file damaged', paths);
    this.#file = openLow(new DurableFile({ disk, path, parse: writtenIn, onDamage }), {});
    this.#alarm = new Alarm(clock, () => this.#writeSoon());
  }

  /** Writes the last changes. */
  async stop(): Promise<void> {
    this.#alarm.end();
    // The end of a slow write begins the next one.
    while (this.#writing !== null) await this.#writing;
    if (this.#unwritten !== 'nothing') await this.#write();
  }

  noted(): void {}

  note(_id: string, isVital: boolean): void {
    this.#changed(isVital ? 'vital' : 'times');
  }

  decide(id: string, decision: Decision): Promise<boolean> {
    return new Promise((resolve) => {
      this.#deciding.push({ id, decision, resolve });
      this.#changed('vital');
    });
  }

  async forget(id: string): Promise<void> {
    const { devices, desk } = this.#options;
    devices.delete(id);
    for (const news of desk.newsOf(id)) desk.remove(news);
    await this.#kept();
  }

  /** Memory has it already. If a crash loses it, the outbox knows what was told. */
  async settle(): Promise<void> {
    this.#changed('times');
  }

  #kept(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#changed('vital');
    });
  }

  #changed(what: 'times' | 'vital'): void {
    if (this.#unwritten === 'vital' || this.#unwritten === what) return;
    this.#unwritten = what;
    if (what === 'vital') this.#writeSoon();
    else if (!this.#alarm.isSet) this.#alarm.at(this.#writtenMs + PRESENCE_WRITE_MS);
  }

  /** Writes now, or when the pause since the last write is over. */
  #writeSoon(): void {
    if (this.#writing !== null || this.#unwritten === 'nothing') return;
    const pauseMs = this.#reason === null ? WRITE_PAUSE_MS : RETRY_MS;
    const mayMs = this.#writtenMs + pauseMs;
    if (mayMs > this.#options.clock.bootMs()) {
      this.#alarm.at(mayMs);
      return;
    }
    this.#alarm.off();
    this.#writing = this.#write().finally(() => {
      this.#writing = null;
      if (this.#unwritten === 'vital') this.#writeSoon();
      else if (this.#unwritten === 'times') this.#alarm.at(this.#writtenMs + PRESENCE_WRITE_MS);
    });
  }

  /** Never rejects: whoever waits learns of it, and the next write has what this one should have. */
  async #write(): Promise<void> {
    // Devices that fall silent together are written together.
    await null;
    const { clock, devices, desk, log } = this.#options;
    const deciding = this.#deciding.splice(0).filter(({ id, decision, resolve }) => {
      const device = devices.get(id);
      if (device !== undefined && !isUntrue(device, decision)) return true;
      resolve(false);
      return false;
    });
    const waiting = this.#waiting.splice(0);
    const firstOrder = this.#news + 1;
    const decided = new Map(
      deciding.map(({ id, decision }, n) => [id, { ...decision, order: firstOrder + n }]),
    );
    this.#news += deciding.length;
    this.#file.data = Object.fromEntries(
      Array.from(devices, ([id, device]) => [id, writtenOf(device, desk.keptOf(id), decided.get(id))]),
    );
    this.#writtenMs = clock.bootMs();
    this.#unwritten = 'nothing';
    try {
      await this.#file.write();
      this.#reason = null;
      for (const [n, { decision, resolve }] of deciding.entries()) {
        for (const id of decision.dropped) desk.remove(id);
        if (decision.news !== null) desk.add(decision.news, firstOrder + n);
        resolve(true);
      }
      for (const { resolve } of waiting) resolve();
    } catch (error) {
      this.#unwritten = 'vital';
      const reason = `The devices cannot be kept: ${wordsOf(error)}`;
      if (reason !== this.#reason) log.error('devices not kept', { reason: wordsOf(error) });
      this.#reason = reason;
      for (const { resolve } of deciding) resolve(false);
      for (const { reject } of waiting)
        reject(new FieldpostError('storage-failed', reason, { cause: error }));
    } finally {
      // Memory has the devices in another form already.
      this.#file.data = {};
    }
  }

  async #read(): Promise<void> {
    const { clock, devices, desk } = this.#options;
    await this.#file.read();
    for (const [id, written] of Object.entries(this.#file.data)) {
      devices.set(id, restored(written, clock.bootMs()));
      for (const { order = this.#news + 1, ...news } of written.news) {
        this.#news = Math.max(this.#news, order);
        desk.add({ ...newsAt(news), device: id }, order);
      }
    }
    this.#file.data = {};
  }
}

/** A device in the file. */
export interface WrittenDevice extends Pick<Presence, 'said' | 'everyMs'> {
  /** What people were told, or are to be told. */
  readonly state: Presence['state'];
  /** Left out: not known. */
  readonly sent?: Sent;
  /** Left out: 1. */
  readonly damping?: number;
  readonly heard: Moment;
  /** Left out: it is online. */
  readonly away?: Moment;
  /** Files of earlier versions may not have it. */
  readonly since?: Moment | null;
  /** Left out if the device reports nothing of itself. */
  readonly status?: DeviceStatus;
  /** Left out: they say nothing. */
  readonly marks?: Partial<Marks>;
  /** Files of earlier versions have neither the moment nor the order. */
  readonly news: readonly (Omit<News, 'atMs'> &
    Happening & { readonly atMs?: number; readonly order?: number })[];
}

/** The content of the file. */
type Written = Readonly<Record<string, WrittenDevice>>;

/** The device for the file, with what is decided. */
function writtenOf(
  { presence, told, heard, away, since, status, ...device }: Watched,
  kept: readonly KeptNews[],
  decided?: Decision & { readonly order: number },
): WrittenDevice {
  const { said, everyMs, damping, sent } = presence;
  const news = kept
    .filter(({ news }) => !decided?.dropped.includes(news.id))
    .map(({ news, order }) => newsFor(news, order));
  if (decided !== undefined && decided.news !== null) news.push(newsFor(decided.news, decided.order));
  const marks = writtenMarks({ ...device.marks, ...decided?.marks });
  const state = decided?.told ?? told;
  const left = state === 'offline' ? (away ?? heard) : null;
  return {
    ...{ state, said, everyMs, heard, since, news },
    ...(sent && { sent }),
    ...(damping > 1 && { damping }),
    ...(left !== null && { away: left }),
    ...(status !== NO_STATUS && { status }),
    ...(marks !== null && { marks }),
  };
}

function newsFor({ device: _, ...news }: DeviceNews, order: number) {
  return { ...news, order };
}

const isNamed = shapeOf({ id: '', 'order?': 1 });
const isFile = mapOf({
  state: (value) => value === 'online' || value === 'offline',
  said: (value) => SAID.includes(value as Said),
  everyMs: 1.5,
  'sent?': { bootId: '', uptimeMs: 1.5, 'sequence?': 1.5 },
  'damping?': 1,
  heard: MOMENT,
  'away?': MOMENT,
  'since?': (value) => value === null || isMoment(value),
  'status?': {},
  'marks?': {},
  news: [(one) => isNamed(one) && isNews(one)],
});

/** The content of the file; null if the value has another shape. */
export const writtenIn = (value: unknown) => (isFile(value) ? (value as Written) : null);

/** The device from the file. The time until `nowMs` does not count as silence. */
function restored(
  { state, damping = 1, heard, away, since = null, status, marks, ...rest }: WrittenDevice,
  nowMs: number,
): Watched {
  const { said, everyMs, sent = null } = rest;
  const fresh = afterAbsence(firstHeard(nowMs), nowMs, CLOUD_GRACE_MS);
  return {
    presence: { ...fresh, state, said, everyMs, sent, damping, unsteadyMs: damping > 1 ? nowMs : null },
    ...{
      told: state,
      heard,
      away: away ?? (state === 'offline' ? heard : null),
      since,
      status: status === undefined ? NO_STATUS : statusOf({ ...status }),
      marks: marksIn(marks),
    },
    ...{ home: '', revision: 0, notedMs: nowMs },
  };
}
