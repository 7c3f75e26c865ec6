/**
 * Watches all devices: receives their heartbeats, notices their silence, and tells people each change once, even if this
 * process is killed.
 *
 * `presence.json` holds the presence of each device, and the news that people have not been told yet. A change is written
 * before it is told. The outbox ignores news whose id it knows already. A heartbeat alone writes nothing; the moments of
 * the last heartbeats are written every PRESENCE_WRITE_MS. Used by cloud.ts.
 */
import { join } from 'node:path';
import { FieldpostError, wordsOf } from '../errors.js';
import { CLOUD_GRACE_MS, PRESENCE_WRITE_MS, SECOND_MS } from '../limits.js';
import { Alarm } from '../retry/alarm.js';
import { readSealed, writeSealed } from '../store/sealed.js';
import type { Clock } from '../system/clock.js';
import type { Disk } from '../system/disk.js';
import type { Log, LogFields } from '../system/log.js';
import type { FleetWatch, Report, Sighting } from './fleet-store.js';
import { type Moment, momentOf, sinceMs, wallMsOf } from './moment.js';
import * as presence from './presence.js';
import type { Happening } from './texts.js';

/** News that people must be told, with an id. */
export type News = Happening & { readonly id: string };

interface WatchOptions {
  readonly disk: Disk;
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly delays: presence.Delays;
  readonly randomBytes: (count: number) => Uint8Array;
  /** Tells people. Resolves when the messages are on the disk. If it rejects, it is called again with the same news. */
  readonly tell: (id: string, news: News) => Promise<void>;
}

/** One device in `presence.json`. */
interface Written extends Pick<presence.Presence, 'state' | 'said' | 'everyMs'> {
  readonly heard: Moment;
  /** Files of earlier versions do not have it. */
  readonly since?: Moment | null;
  readonly news: readonly News[];
}

interface Watched {
  presence: presence.Presence;
  heard: Moment;
  /** The heartbeat that began this presence, or this absence after a move; null: not known. */
  since: Moment | null;
  /** Not told yet, in order. */
  news: News[];
}

/** A caller that waits until a change is on the disk. */
interface Waiting {
  resolve(): void;
  reject(reason: FieldpostError): void;
}

/** Checks for silence within each delay. */
const TICKS = 10;
/** After a tick this many ticks late, the process or the machine was not running. */
const AWAY_TICKS = 3;
/** The most news kept of one device while the outbox refuses them. */
const NEWS_MAX = 4;
/** The shortest pause between two writes; changes in between are written together. */
const WRITE_PAUSE_MS = SECOND_MS;

/** The watch over all devices. */
export class Watch implements FleetWatch {
  readonly #options: WatchOptions;
  readonly #path: string;
  readonly #tickMs: number;
  readonly #devices = new Map<string, Watched>();
  /** Devices with news. */
  readonly #newsworthy = new Set<string>();
  #tickedMs = 0;
  #writtenMs = Number.NEGATIVE_INFINITY;
  /** Changes that are not on the disk yet. Only `times` can wait for PRESENCE_WRITE_MS. */
  #unwritten: 'nothing' | 'times' | 'vital' = 'nothing';
  /** Set from start() to stop(). */
  readonly #ticking: Alarm;
  readonly #pausing: Alarm;
  #writing: Promise<void> | null = null;
  #waiting: Waiting[] = [];
  /** Why the last try to write or tell failed; null: it succeeded. A new reason is logged. */
  #reason: string | null = null;

  /** Reads presence.json. The time since it was written does not count as silence. */
  static async open(options: WatchOptions): Promise<Watch> {
    const watch = new Watch(options);
    const tell = (paths: LogFields) => options.log.error('cloud file damaged', paths);
    const found = await readSealed(options.disk, watch.#path, tell);
    for (const [id, written] of Object.entries((found ?? {}) as Record<string, Written>)) {
      watch.#devices.set(id, watch.#restore(written));
      if (written.news.length > 0) watch.#newsworthy.add(id);
    }
    return watch;
  }

  private constructor(options: WatchOptions) {
    this.#options = options;
    this.#path = join(options.directory, 'presence.json');
    this.#tickMs = options.delays.delayMs / TICKS;
    this.#ticking = new Alarm(options.clock, () => {
      this.#ticking.in(this.#tickMs);
      this.#tick();
    });
    this.#pausing = new Alarm(options.clock, () => this.#writeSoon());
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
    this.#pausing.end();
    await this.#writing;
    if (this.#unwritten !== 'nothing') await this.#write();
  }

  get ids(): Iterable<string> {
    return this.#devices.keys();
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
    if (presence.isOvertaken(before, nowMs, report.sent)) return;
    device.presence = presence.afterHeartbeat(before, nowMs, report, delays);
    device.heard = now;
    const isBack = before.state === 'offline' && report.said !== 'moved';
    if (isBack || (before.said === 'moved') !== (report.said === 'moved')) device.since = now;
    if (report.said === 'moved') this.#moved(id, device, before);
    else if (before.state === 'offline') {
      const lastedMs = sinceMs(heard, clock);
      log.info('device online', { device: id, offlineMs: lastedMs ?? undefined });
      this.#add(id, device, { kind: 'back', sinceMs: now.wallMs, lastedMs });
    }
    if (before.said !== report.said || before.everyMs !== report.everyMs) this.#changed();
    else if (this.#unwritten === 'nothing') this.#unwritten = 'times';
  }

  forget(id: string): Promise<void> {
    if (!this.#devices.delete(id)) return Promise.resolve();
    this.#newsworthy.delete(id);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#changed();
    });
  }

  *sightings(): Iterable<Sighting> {
    const { clock } = this.#options;
    for (const [id, { presence, heard, since }] of this.#devices) {
      const state = presence.said === 'moved' ? 'moved' : presence.state;
      const heardMs = wallMsOf(heard, clock);
      const sinceMs = state === 'offline' ? heardMs : since && wallMsOf(since, clock);
      yield { id, state, heardMs, sinceMs };
    }
  }

  #newDevice(id: string, nowMs: number, heard: Moment): Watched {
    const device: Watched = { presence: presence.firstHeard(nowMs), heard, since: heard, news: [] };
    this.#devices.set(id, device);
    this.#changed();
    return device;
  }

  #moved(id: string, device: Watched, before: presence.Presence): void {
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
      if (wasAway) device.presence = presence.afterAbsence(device.presence, nowMs, CLOUD_GRACE_MS);
      const before = device.presence;
      device.presence = presence.afterSilence(before, nowMs, delays);
      if (device.presence.state === before.state) continue;
      const stopped = before.said === 'stopping';
      log.info('device offline', { device: id, stopped });
      this.#add(id, device, { kind: stopped ? 'stopped' : 'silent', sinceMs: wallMsOf(device.heard, clock) });
    }
    if (this.#unwritten === 'times' && nowMs - this.#writtenMs >= PRESENCE_WRITE_MS) this.#changed();
    // Retry a failed write or notification.
    else if (this.#unwritten === 'vital' || this.#newsworthy.size > 0) this.#writeSoon();
  }

  #changed(): void {
    this.#unwritten = 'vital';
    this.#writeSoon();
  }

  /** Writes and tells everything now, or when the pause since the last write is over. */
  #writeSoon(): void {
    if (this.#writing !== null) return;
    const mayMs = this.#writtenMs + WRITE_PAUSE_MS;
    if (mayMs > this.#options.clock.bootMs()) {
      this.#pausing.at(mayMs);
      return;
    }
    this.#writing = this.#writeAndTell().finally(() => {
      this.#writing = null;
      // Changes during the last write. After a failure the next tick tries again.
      if (this.#unwritten === 'vital' && this.#reason === null && this.#ticking.isSet) this.#writeSoon();
    });
  }

  async #writeAndTell(): Promise<void> {
    try {
      for (;;) {
        // News is written before it is told: otherwise a crash would lose its id, and people would be told twice.
        if (this.#unwritten === 'vital') await this.#write();
        const [id] = this.#newsworthy;
        if (id === undefined) break;
        const { news } = this.#devices.get(id) as Watched;
        const [first] = news as [News];
        // If this cannot be told, the other devices come first the next time.
        this.#newsworthy.delete(id);
        this.#newsworthy.add(id);
        await this.#options.tell(id, first);
        if (news[0] === first) news.shift();
        if (news.length === 0) this.#newsworthy.delete(id);
        if (this.#unwritten === 'nothing') this.#unwritten = 'times';
      }
      this.#reason = null;
    } catch (error) {
      const reason = wordsOf(error);
      if (reason !== this.#reason) this.#options.log.error('notification delayed', { reason });
      this.#reason = reason;
    }
  }

  async #write(): Promise<void> {
    const written: Record<string, Written> = {};
    for (const [id, { presence, heard, since, news }] of this.#devices) {
      const { state, said, everyMs } = presence;
      written[id] = { state, said, everyMs, heard, since, news: [...news] };
    }
    const waiting = this.#waiting.splice(0);
    this.#writtenMs = this.#options.clock.bootMs();
    this.#unwritten = 'nothing';
    try {
      await writeSealed(this.#options.disk, this.#path, written);
      for (const { resolve } of waiting) resolve();
    } catch (error) {
      this.#unwritten = 'vital';
      const words = `The devices cannot be kept: ${wordsOf(error)}`;
      const reason = new FieldpostError('storage-failed', words, { cause: error });
      for (const { reject } of waiting) reject(reason);
      throw error;
    }
  }

  #add(id: string, { news }: Watched, happening: Happening): void {
    const name = Buffer.from(this.#options.randomBytes(8)).toString('hex');
    // Drop a pair in the middle: the first may be told already, and the last is the present state.
    if (news.length >= NEWS_MAX) news.splice(1, 2);
    news.push({ ...happening, id: name });
    this.#newsworthy.add(id);
    this.#changed();
  }

  #restore({ state, said, everyMs, heard, since = null, news }: Written): Watched {
    const nowMs = this.#options.clock.bootMs();
    const fresh = presence.afterAbsence(presence.firstHeard(nowMs), nowMs, CLOUD_GRACE_MS);
    return { presence: { ...fresh, state, said, everyMs }, heard, since, news: [...news] };
  }
}
