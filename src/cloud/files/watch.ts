/**
 * Watches all devices: receives their heartbeats, notices their silence, and tells people each change once, even if this
 * process is killed.
 *
 * `presence.json` is a durable file of `{device id: WrittenDevice}`: the presence of each device, and the news that people
 * have not been told yet. A change is written before it is told, in batches. The outbox ignores news whose id it knows
 * already. What memory has and the file has not:
 *
 *   from             on                                                        to
 *   nothing          a heartbeat that changes nothing, or news that are told   times
 *   nothing, times   any other change, or PRESENCE_WRITE_MS after a write      vital
 *   times, vital     a write begins                                            nothing
 *   nothing          it fails                                                  vital
 */
import { join } from 'node:path';
import { DurableFile, type Low, openLow } from '../../base/durable-file.js';
import { FieldpostError, wordsOf } from '../../base/errors.js';
import { mapOf, shapeOf } from '../../base/json.js';
import { MINUTE_MS, SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import { startMsOf } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import type { Disk } from '../../base/system/disk.js';
import type { LogFields } from '../../base/system/log.js';
import {
  type DeviceNews,
  DIGEST_WINDOW_MS,
  type FleetOptions,
  type FleetWatch,
  isHappening,
  type News,
  type NewsBatch,
} from '../fleet-store.js';
import {
  afterAbsence,
  afterHeartbeat,
  afterSilence,
  CLOUD_GRACE_MS,
  type DeviceStatus,
  firstHeard,
  isOvertaken,
  NO_STATUS,
  type Presence,
  type Report,
  SAID,
  type Said,
  type Sighting,
  sightingOf,
  statusOf,
} from '../presence.js';
import type { Happening } from '../texts/texts.js';

interface WatchOptions extends Omit<FleetOptions, 'people'> {
  readonly disk: Disk;
  readonly directory: string;
}

/** A caller that waits until a change is on the disk. */
interface Waiting {
  resolve(): void;
  reject(reason: FieldpostError): void;
}

/** Checks for silence within each delay; after a tick AWAY_TICKS late, the process or the machine was not running. */
const TICKS = 10;
const AWAY_TICKS = 3;
/** The times at which devices were last heard are written at most this often. */
export const PRESENCE_WRITE_MS = 5 * MINUTE_MS;
/** The most news kept of one device while the outbox refuses them. */
const NEWS_MAX = 4;
/** Pause between two writes: changes in between are written together. */
const WRITE_PAUSE_MS = SECOND_MS;

/** The watch over all devices. */
export class Watch implements FleetWatch {
  readonly #options: WatchOptions;
  readonly #file: Low<Written>;
  readonly #tickMs: number;
  readonly #devices = new Map<string, Watched>();
  /** Devices with news. */
  readonly #newsworthy = new Set<string>();
  readonly #batches: Batches;
  #tickedMs = 0;
  #writtenMs = Number.NEGATIVE_INFINITY;
  /** Changes that are not on the disk yet. Only `times` can wait for PRESENCE_WRITE_MS. */
  #unwritten: 'nothing' | 'times' | 'vital' = 'nothing';
  /** Set from start() to stop(). */
  readonly #ticking: Alarm;
  /** Set to the end of the pause between two writes, or of the open batch. */
  readonly #next: Alarm;
  #writing: Promise<void> | null = null;
  #waiting: Waiting[] = [];
  /** Why the last try to write or tell failed; null: it succeeded. A new reason is logged. */
  #reason: string | null = null;

  /** Reads presence.json. The time since it was written does not count as silence. */
  static async open(options: WatchOptions): Promise<Watch> {
    const watch = new Watch(options);
    await watch.#file.read();
    const oldBatch = watch.#drawId();
    for (const [id, written] of Object.entries(watch.#file.data)) {
      const device = restored(written, options.clock.bootMs(), oldBatch);
      watch.#devices.set(id, device);
      if (device.news.length > 0) watch.#newsworthy.add(id);
      if (device.news.some(({ isKept }) => !isKept)) watch.#unwritten = 'vital';
    }
    watch.#file.data = {};
    return watch;
  }

  private constructor(options: WatchOptions) {
    this.#options = options;
    const { disk, clock, log } = options;
    const path = join(options.directory, 'presence.json');
    const onDamage = (paths: LogFields) => log.error('cloud file damaged', paths);
    this.#file = openLow(new DurableFile({ disk, path, parse: writtenIn, onDamage }), {});
    this.#tickMs = options.delays.delayMs / TICKS;
    this.#ticking = new Alarm(clock, () => {
      this.#ticking.in(this.#tickMs);
      this.#tick();
    });
    this.#next = new Alarm(clock, () => this.#writeSoon());
    this.#batches = new Batches(
      () => clock.bootMs(),
      () => this.#drawId(),
    );
  }

  /** Starts the checks for silence, and tells the news that an earlier run left. */
  start(): void {
    this.#tickedMs = this.#options.clock.bootMs();
    this.#ticking.in(this.#tickMs);
    this.#writeSoon();
  }

  /** Writes the last changes. heard() must not be called afterwards. */
  async stop(): Promise<void> {
    this.#ticking.end();
    this.#next.end();
    await this.#writing;
    if (this.#unwritten !== 'nothing') await this.#write();
  }

  get ids(): Iterable<string> {
    return this.#devices.keys();
  }

  get untold(): number {
    return this.#newsworthy.size;
  }

  has(id: string): boolean {
    return this.#devices.has(id);
  }

  heard(id: string, report: Report): void {
    const { clock, delays, log } = this.#options;
    const nowMs = clock.bootMs();
    const now = momentOf(clock);
    const device = this.#devices.get(id) ?? this.#newDevice(id, nowMs, now);
    const { presence: before, heard } = device;
    if (isOvertaken(before, nowMs, report.sent)) return;
    device.presence = afterHeartbeat(before, nowMs, report, delays);
    device.heard = now;
    device.status = report.status ?? NO_STATUS;
    const isBack = before.state === 'offline' && report.said !== 'moved';
    if (isBack || (before.said === 'moved') !== (report.said === 'moved')) device.since = now;
    if (report.said === 'moved') this.#moved(id, device, before);
    else if (before.state === 'offline') {
      const lastedMs = sinceMs(heard, clock);
      log.info('device online', { device: id, offlineMs: lastedMs ?? undefined });
      this.#add(id, device, { kind: 'back', sinceMs: now.wallMs, lastedMs });
    }
    this.#changed(before.said !== report.said || before.everyMs !== report.everyMs ? 'vital' : 'times');
  }

  forget(id: string): Promise<void> {
    if (!this.#devices.delete(id)) return Promise.resolve();
    this.#newsworthy.delete(id);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#changed('vital');
    });
  }

  *sightings(): Iterable<Sighting> {
    for (const id of this.#devices.keys()) yield this.sighting(id) as Sighting;
  }

  sighting(id: string): Sighting | null {
    const device = this.#devices.get(id);
    if (device === undefined) return null;
    const wallMs = (moment: Moment | null) => moment && wallMsOf(moment, this.#options.clock);
    const { presence, heard, since, status } = device;
    return sightingOf(id, presence, { heardMs: wallMs(heard), sinceMs: wallMs(since), status });
  }

  #newDevice(id: string, nowMs: number, heard: Moment): Watched {
    const first = { presence: firstHeard(nowMs), heard, since: heard };
    const device: Watched = { ...first, status: NO_STATUS, news: [] };
    this.#devices.set(id, device);
    this.#changed('vital');
    return device;
  }

  #moved(id: string, device: Watched, before: Presence): void {
    if (before.said !== 'moved') this.#options.log.info('device moved', { device: id });
    device.news = [];
    this.#newsworthy.delete(id);
  }

  #tick(): void {
    const { clock, delays, log } = this.#options;
    const nowMs = clock.bootMs();
    const wasAway = nowMs - this.#tickedMs > AWAY_TICKS * this.#tickMs;
    this.#tickedMs = nowMs;
    for (const [id, device] of this.#devices) {
      if (wasAway) device.presence = afterAbsence(device.presence, nowMs, CLOUD_GRACE_MS);
      const before = device.presence;
      device.presence = afterSilence(before, nowMs, delays);
      if (device.presence.state === before.state) continue;
      const stopped = before.said === 'stopping';
      log.info('device offline', { device: id, stopped });
      this.#add(id, device, { kind: stopped ? 'stopped' : 'silent', sinceMs: wallMsOf(device.heard, clock) });
    }
    if (this.#unwritten === 'times' && nowMs - this.#writtenMs >= PRESENCE_WRITE_MS) this.#changed('vital');
    // Retry a failed write or notification.
    else if (this.#unwritten === 'vital' || this.#newsworthy.size > 0) this.#writeSoon();
  }

  #changed(what: 'times' | 'vital'): void {
    if (this.#unwritten !== 'vital') this.#unwritten = what;
    if (what === 'vital') this.#writeSoon();
  }

  /** Writes and tells everything now, or when the pause since the last write is over. */
  #writeSoon(): void {
    if (this.#writing !== null) return;
    const mayMs = this.#writtenMs + WRITE_PAUSE_MS;
    if (mayMs > this.#options.clock.bootMs()) {
      this.#next.at(mayMs);
      return;
    }
    this.#writing = this.#writeAndTell().finally(() => {
      this.#writing = null;
      // After a failure the next tick tries again.
      if (this.#reason !== null || !this.#ticking.isSet) return;
      if (this.#unwritten === 'vital') this.#writeSoon();
      // People of many devices wait for the end of the batch.
      else if (this.#newsworthy.size > 0) this.#next.at(this.#batches.closesMs);
    });
  }

  async #writeAndTell(): Promise<void> {
    // Devices that fall silent together are written together: after a crash their batch is whole.
    await null;
    try {
      let refusal: Error | null = null;
      const offered = new Set<string>();
      for (;;) {
        // News is written before it is told: otherwise a crash would lose its id, and people would be told twice.
        if (this.#unwritten === 'vital') await this.#write();
        const batch = this.#batches.next(this.#pending(), offered);
        if (batch === null) break;
        const telling = await this.#options.tell(batch, batch.isClosed);
        refusal ??= telling.refusal;
        this.#drop(batch, telling.told);
      }
      if (refusal !== null) throw refusal;
      this.#reason = null;
    } catch (error) {
      const reason = wordsOf(error);
      if (reason !== this.#reason) this.#options.log.error('notification delayed', { reason });
      this.#reason = reason;
    }
  }

  *#pending(): Iterable<readonly [string, readonly PendingNews[]]> {
    for (const id of this.#newsworthy) yield [id, this.#devices.get(id)?.news ?? []];
  }

  /** Removes news that everybody has been told. */
  #drop(batch: NewsBatch, told: ReadonlySet<string>): void {
    if (told.size === 0) return;
    for (const { device: id } of batch.news) {
      const device = this.#devices.get(id);
      if (device === undefined) continue;
      device.news = device.news.filter(({ news }) => !told.has(news.id));
      if (device.news.length === 0) this.#newsworthy.delete(id);
    }
    this.#changed('times');
  }

  async #write(): Promise<void> {
    this.#file.data = Object.fromEntries([...this.#devices].map(([id, device]) => [id, writtenOf(device)]));
    const kept = [...this.#pending()].flatMap(([, news]) => news);
    const waiting = this.#waiting.splice(0);
    this.#writtenMs = this.#options.clock.bootMs();
    this.#unwritten = 'nothing';
    try {
      await this.#file.write();
      for (const news of kept) news.isKept = true;
      for (const { resolve } of waiting) resolve();
    } catch (error) {
      this.#unwritten = 'vital';
      const words = `The devices cannot be kept: ${wordsOf(error)}`;
      const reason = new FieldpostError('storage-failed', words, { cause: error });
      for (const { reject } of waiting) reject(reason);
      throw error;
    } finally {
      // Memory has the devices in another form already.
      this.#file.data = {};
    }
  }

  #add(id: string, { news }: Watched, happening: Happening): void {
    // Drop a pair in the middle: the first may be told already, and the last is the present state.
    if (news.length >= NEWS_MAX) news.splice(1, 2);
    const batch = this.#batches.current();
    news.push({ news: { ...happening, id: this.#drawId() }, batch, isKept: false });
    this.#newsworthy.add(id);
    this.#changed('vital');
  }

  #drawId(): string {
    return Buffer.from(this.#options.randomBytes(8)).toString('hex');
  }
}

/** A device in memory. */
interface Watched {
  presence: Presence;
  heard: Moment;
  /** The heartbeat that began this presence, or this absence after a move; null: not known. */
  since: Moment | null;
  status: DeviceStatus;
  /** News that somebody has not been told yet, in order. */
  news: PendingNews[];
}

/** A device in the file. */
interface WrittenDevice extends Pick<Presence, 'state' | 'said' | 'everyMs'> {
  readonly heard: Moment;
  /** Files of earlier versions do not have it. */
  readonly since?: Moment | null;
  /** Left out if the device reports nothing of itself, and in files of earlier versions. */
  readonly status?: DeviceStatus;
  /** Files of earlier versions do not have the batch. */
  readonly news: readonly (News & { readonly batch?: string })[];
}

/** The device for the file. */
function writtenOf({ presence, heard, since, status, news }: Watched): WrittenDevice {
  const { state, said, everyMs } = presence;
  const more = status === NO_STATUS ? {} : { status };
  const untold = news.map(({ news, batch }) => ({ ...news, batch }));
  return { state, said, everyMs, heard, since, ...more, news: untold };
}

/** The shape of a moment. */
const MOMENT = { boot: '', bootMs: 1.5, 'wallMs|null': 1.5, confirmed: true };
const isMoment = shapeOf(MOMENT);
const isNamed = shapeOf({ id: '', 'batch?': '' });
const isFile = mapOf({
  state: (value) => value === 'online' || value === 'offline',
  said: (value) => SAID.includes(value as Said),
  everyMs: 1.5,
  heard: MOMENT,
  'since?': (value) => value === null || isMoment(value),
  'status?': {},
  news: [(one) => isNamed(one) && isHappening(one)],
});

/** The content of the file. */
type Written = Readonly<Record<string, WrittenDevice>>;

const writtenIn = (value: unknown) => (isFile(value) ? (value as Written) : null);

/** The device from the file. The time until `nowMs` does not count as silence. News without a batch get `oldBatch`. */
function restored(written: WrittenDevice, nowMs: number, oldBatch: string): Watched {
  const { state, said, everyMs, heard, since = null, status = NO_STATUS, news } = written;
  const fresh = afterAbsence(firstHeard(nowMs), nowMs, CLOUD_GRACE_MS);
  const pending = news.map(({ batch, ...one }) => ({
    news: one,
    batch: batch ?? oldBatch,
    isKept: batch !== undefined,
  }));
  return {
    presence: { ...fresh, state, said, everyMs },
    heard,
    since,
    status: statusOf({ ...status }),
    news: pending,
  };
}

/** News of one device that somebody has not been told yet. */
export interface PendingNews {
  readonly news: News;
  /** The id of its batch. */
  readonly batch: string;
  /** True if it is on the disk, with its batch. */
  isKept: boolean;
}

/** A batch to tell now. */
interface NextBatch extends NewsBatch {
  readonly isClosed: boolean;
}

/** Gives each news its batch. Moments are of the boot's clock. */
export class Batches {
  readonly #nowMs: () => number;
  readonly #drawId: () => string;
  /** The last batch that was opened; batches of an earlier run are closed. */
  #last: string | null = null;
  /** When the last batch closes or closed; Infinity: there was none. */
  closesMs = Number.POSITIVE_INFINITY;

  constructor(nowMs: () => number, drawId: () => string) {
    this.#nowMs = nowMs;
    this.#drawId = drawId;
  }

  /** The open batch. Opens one if there is none. */
  current(): string {
    const nowMs = this.#nowMs();
    if (this.#last === null || nowMs >= this.closesMs) {
      this.#last = this.#drawId();
      this.closesMs = nowMs + DIGEST_WINDOW_MS;
    }
    return this.#last;
  }

  /**
   * A batch with news to offer; null: there is none. The news of one device are told in order: those behind news of an
   * earlier batch wait. `offered` holds the ids of the news and closed batches that were offered already, and gets those of
   * this batch.
   */
  next(
    pending: Iterable<readonly [device: string, readonly PendingNews[]]>,
    offered: Set<string>,
  ): NextBatch | null {
    for (const [id, { news, isWhole }] of gathered(pending)) {
      const isClosed = id !== this.#last || this.#nowMs() >= this.closesMs;
      const names = isClosed ? [id] : news.map((one) => one.id);
      if ((isClosed && !isWhole) || names.every((name) => offered.has(name))) continue;
      for (const name of names) offered.add(name);
      return { id, news, isClosed };
    }
    return null;
  }
}

/** The news of a batch that can be told now. `isWhole`: no other news of the batch must wait. */
interface Gathered {
  readonly news: DeviceNews[];
  isWhole: boolean;
}

function gathered(
  pending: Iterable<readonly [device: string, readonly PendingNews[]]>,
): ReadonlyMap<string, Gathered> {
  const batches = new Map<string, Gathered>();
  for (const [device, queue] of pending) {
    let mustWait = false;
    for (const { news, batch, isKept } of queue) {
      const gathering = batches.get(batch) ?? { news: [], isWhole: true };
      batches.set(batch, gathering);
      // After a crash news that is not on the disk would be told again under another id.
      mustWait ||= !isKept || batch !== queue[0]?.batch;
      if (mustWait) gathering.isWhole = false;
      else gathering.news.push({ ...news, device });
    }
  }
  return batches;
}

type Clocks = Pick<Clock, 'wallMs' | 'bootMs' | 'boot' | 'trust'>;

/** A moment, as `presence.json` has it. */
interface Moment {
  readonly boot: string;
  readonly bootMs: number;
  /** The wall time; null if the wall clock was known to be wrong. */
  readonly wallMs: number | null;
  /** True if the wall clock was confirmed at that moment. */
  readonly confirmed: boolean;
}

/** The present moment. */
function momentOf(clocks: Clocks): Moment {
  const trust = clocks.trust();
  return {
    boot: clocks.boot,
    bootMs: clocks.bootMs(),
    wallMs: trust === 'wrong' ? null : clocks.wallMs(),
    confirmed: trust === 'confirmed',
  };
}

/** The moment in wall time; null if it is not known. */
function wallMsOf(moment: Moment, clocks: Clocks): number | null {
  // Within a boot the present wall clock is used: it may have been set since the moment.
  if (moment.boot === clocks.boot && clocks.trust() !== 'wrong') return startMsOf(clocks) + moment.bootMs;
  return moment.wallMs;
}

/** The time since the moment in ms; null if the machine has booted since and its wall clock was not confirmed twice. */
function sinceMs(moment: Moment, clocks: Clocks): number | null {
  const nowMs = clocks.bootMs();
  if (moment.boot === clocks.boot) return nowMs - moment.bootMs;
  if (moment.wallMs === null || !moment.confirmed || clocks.trust() !== 'confirmed') return null;
  const passedMs = clocks.wallMs() - moment.wallMs;
  // The moment lies before this boot.
  return passedMs >= nowMs ? passedMs : null;
}
