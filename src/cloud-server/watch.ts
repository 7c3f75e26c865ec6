/**
 * Watches all devices: takes their heartbeats, notices their silence, and sees to it that people are told of both,
 * once, whatever happens to this process meanwhile. Built by cloud.ts.
 *
 * `presence.json` (sealed.ts) holds by device what presence.ts must know after a restart, and the news that people
 * have not been told yet. A change is written before it is told, and the outbox knows it again: told twice it counts
 * once. Heartbeats write nothing; when a device was last heard is written now and then.
 */
import { join } from 'node:path';
import { FieldpostError, wordsOf } from '../errors.js';
import { CLOUD_DEVICES_MAX, CLOUD_GRACE_MS, PRESENCE_WRITE_MS, SECOND_MS } from '../limits.js';
import { readSealed, writeSealed } from '../store/sealed.js';
import type { Clock, Timer } from '../system/clock.js';
import type { Disk } from '../system/disk.js';
import type { Log, LogFields } from '../system/log.js';
import * as presence from './presence.js';
import type { Happening } from './texts.js';

/** What a device looks like from outside. */
export interface Sighting {
  readonly id: string;
  readonly state: 'online' | 'offline';
  /** Its last heartbeat, on the wall clock. */
  readonly heardMs: number;
}

/** What the watch is given. */
export interface WatchOptions {
  readonly disk: Disk;
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly delays: presence.Delays;
  /** False for a device that is to be forgotten. */
  readonly isKnown: (id: string) => boolean;
  /** Has people told; resolves once that is certain. Called again with the same news if it rejects. */
  readonly tell: (id: string, news: Happening) => Promise<void>;
}

interface Watched {
  presence: presence.Presence;
  heardWallMs: number;
  /** The same moment on this boot's clock; null if it was before this start. */
  heardBootMs: number | null;
  /** Not told yet, in order. */
  news: Happening[];
}

interface Written {
  readonly state: 'online' | 'offline';
  readonly stopping: boolean;
  readonly heardMs: number;
  readonly news: readonly Happening[];
}

/** So often within a delay silence is looked for. */
const TICKS = 10;
/** A tick so late means that the process, or the machine, was not running. */
const AWAY_TICKS = 3;
/** While news cannot be handed over, as many are kept of a device: the first and the last. */
const NEWS_MAX = 4;
/** Changes are written together, not more often than this. */
const WRITE_PAUSE_MS = SECOND_MS;

/** The watch over all devices. */
export class Watch {
  readonly #options: WatchOptions;
  readonly #path: string;
  readonly #tickMs: number;
  readonly #devices = new Map<string, Watched>();
  /** Those with news. */
  readonly #newsworthy = new Set<string>();
  #tickedMs: number;
  #writtenMs: number;
  /** What is in memory is not what is on the disk. `vital`: it must not wait for PRESENCE_WRITE_MS. */
  #unwritten: 'nothing' | 'times' | 'vital' = 'nothing';
  #ticking: Timer | null = null;
  #pausing: Timer | null = null;
  #settling: Promise<void> | null = null;
  /** Why the last try came to nothing; null if it did not. It is logged once, not at every tick. */
  #trouble: string | null = null;

  /** Reads what was known. For the time since then no device is blamed. */
  static async open(options: WatchOptions): Promise<Watch> {
    const watch = new Watch(options);
    const tell = (paths: LogFields) => options.log.error('cloud file damaged', paths);
    const found = (await readSealed(options.disk, watch.#path, tell)) as Record<string, Written> | null;
    for (const [id, written] of Object.entries(found ?? {})) {
      if (!options.isKnown(id)) continue;
      watch.#devices.set(id, watch.#restore(written));
      if (written.news.length > 0) watch.#newsworthy.add(id);
    }
    return watch;
  }

  private constructor(options: WatchOptions) {
    this.#options = options;
    this.#path = join(options.directory, 'presence.json');
    this.#tickMs = options.delays.delayMs / TICKS;
    this.#tickedMs = options.clock.bootMs();
    this.#writtenMs = Number.NEGATIVE_INFINITY;
  }

  /** Begins to look for silence, and tells what was left to be told. */
  start(): void {
    this.#tickedMs = this.#options.clock.bootMs();
    this.#tickLater();
    this.#settle();
  }

  /** Writes what is known. Nothing may be heard any more. */
  async stop(): Promise<void> {
    this.#ticking?.stop();
    this.#pausing?.stop();
    this.#pausing = null;
    await this.#settling;
    if (this.#unwritten !== 'nothing') await this.#write();
  }

  /** Takes a heartbeat. Throws unavailable for a new device beyond CLOUD_DEVICES_MAX. */
  heard(id: string, stopping: boolean): void {
    const { clock, delays } = this.#options;
    const nowMs = clock.bootMs();
    const wallMs = clock.wallMs();
    const device = this.#devices.get(id) ?? this.#newDevice(id, nowMs, wallMs);
    const before = device.presence;
    const { heardBootMs, heardWallMs } = device;
    device.presence = presence.afterHeartbeat(before, nowMs, stopping, delays);
    device.heardWallMs = wallMs;
    device.heardBootMs = nowMs;
    if (before.state === 'offline') {
      const lastedMs = heardBootMs === null ? Math.max(0, wallMs - heardWallMs) : nowMs - heardBootMs;
      this.#options.log.info('device online', { device: id, offlineMs: lastedMs });
      this.#add(id, device, { kind: 'back', sinceMs: wallMs, lastedMs });
    }
    if (before.stopping !== stopping) this.#changed();
    else if (this.#unwritten === 'nothing') this.#unwritten = 'times';
  }

  /** All devices there are. */
  *sightings(): Iterable<Sighting> {
    for (const [id, { presence, heardWallMs }] of this.#devices) {
      yield { id, state: presence.state, heardMs: heardWallMs };
    }
  }

  #newDevice(id: string, nowMs: number, wallMs: number): Watched {
    if (this.#devices.size >= CLOUD_DEVICES_MAX) {
      throw new FieldpostError('unavailable', `There are ${CLOUD_DEVICES_MAX} devices already`);
    }
    const device: Watched = {
      presence: presence.firstHeard(nowMs, this.#options.delays),
      heardWallMs: wallMs,
      heardBootMs: nowMs,
      news: [],
    };
    this.#devices.set(id, device);
    this.#changed();
    return device;
  }

  #tickLater(): void {
    this.#ticking = this.#options.clock.after(this.#tickMs, () => {
      this.#tick();
      this.#tickLater();
    });
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
      log.info('device offline', { device: id, stopped: before.stopping });
      const kind = before.stopping ? 'stopped' : 'silent';
      this.#add(id, device, { kind, sinceMs: device.heardWallMs });
    }
    if (this.#unwritten === 'times' && nowMs - this.#writtenMs >= PRESENCE_WRITE_MS) this.#changed();
    // What could not be written or told is tried again.
    else if (this.#unwritten === 'vital' || this.#newsworthy.size > 0) this.#settle();
  }

  #changed(): void {
    this.#unwritten = 'vital';
    this.#settle();
  }

  /** Writes and tells until nothing is left; at once, or when the pause since the last time is over. */
  #settle(): void {
    if (this.#settling !== null || this.#pausing !== null) return;
    const waitMs = this.#writtenMs + WRITE_PAUSE_MS - this.#options.clock.bootMs();
    if (waitMs > 0) {
      this.#pausing = this.#options.clock.after(waitMs, () => {
        this.#pausing = null;
        this.#settle();
      });
      return;
    }
    this.#settling = this.#writeAndTell().finally(() => {
      this.#settling = null;
    });
  }

  async #writeAndTell(): Promise<void> {
    try {
      for (;;) {
        // Nothing is told that is not written: after a crash it could not be known again.
        if (this.#unwritten === 'vital') await this.#write();
        const [id] = this.#newsworthy;
        if (id === undefined) break;
        const { news } = this.#devices.get(id) as Watched;
        // If they cannot be told, those of the others come first the next time.
        this.#newsworthy.delete(id);
        this.#newsworthy.add(id);
        await this.#options.tell(id, news[0] as Happening);
        news.shift();
        if (news.length === 0) this.#newsworthy.delete(id);
        if (this.#unwritten === 'nothing') this.#unwritten = 'times';
      }
      this.#trouble = null;
    } catch (error) {
      const reason = wordsOf(error);
      if (reason !== this.#trouble) this.#options.log.error('notification delayed', { reason });
      this.#trouble = reason;
    }
  }

  async #write(): Promise<void> {
    const written: Record<string, Written> = {};
    for (const [id, { presence, heardWallMs, news }] of this.#devices) {
      const { state, stopping } = presence;
      written[id] = { state, stopping, heardMs: heardWallMs, news: [...news] };
    }
    this.#writtenMs = this.#options.clock.bootMs();
    this.#unwritten = 'nothing';
    try {
      await writeSealed(this.#options.disk, this.#path, written);
    } catch (error) {
      this.#unwritten = 'vital';
      throw error;
    }
  }

  #add(id: string, { news }: Watched, happening: Happening): void {
    // The first may be on its way to being told. Of a pair in the middle nobody need hear.
    if (news.length >= NEWS_MAX) news.splice(1, 2);
    news.push(happening);
    this.#newsworthy.add(id);
    this.#changed();
  }

  #restore({ state, stopping, heardMs, news }: Written): Watched {
    const { clock, delays } = this.#options;
    const nowMs = clock.bootMs();
    const fresh = presence.afterAbsence(presence.firstHeard(nowMs, delays), nowMs, CLOUD_GRACE_MS);
    const restored = { ...fresh, state, stopping };
    return { presence: restored, heardWallMs: heardMs, heardBootMs: null, news: [...news] };
  }
}
