/**
 * Watches all devices: receives their heartbeats in memory, notices their silence, and decides each change once. A decision
 * holds when the ledger has kept it together with its news; the news desk tells people (news.ts).
 *
 * With several instances each device has a home: the instance that heard it last. The home watches it. The leader watches
 * the devices whose home is gone. The others only show what the ledger has.
 */
import { MINUTE_MS, SECOND_MS } from '../base/limits.js';
import { Alarm } from '../base/retry/alarm.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import { assertServing, type DeviceNews, type FleetWatch, type Office } from './fleet-store.js';
import { type Moment, momentOf, sinceMs, wallMsOf } from './moment.js';
import type { NewsDesk } from './news.js';
import {
  afterAbsence,
  afterHeartbeat,
  afterSilence,
  CLOUD_GRACE_MS,
  type Delays,
  type DeviceStatus,
  firstHeard,
  isOvertaken,
  NO_STATUS,
  needsHelp,
  type Presence,
  type Report,
  type Sighting,
  sightingOf,
} from './presence.js';
import type { Happening } from './texts/texts.js';

/** A device in memory. */
export interface Watched {
  /** By what was heard. `offline` only if that is decided. */
  presence: Presence;
  /** What is decided: what people were told, or are to be told. */
  told: Presence['state'];
  heard: Moment;
  /** When it was last heard before the last decision that it is offline, kept or not. It counts while `told` is so. */
  away: Moment | null;
  /** The heartbeat that began this presence, or this absence after a move; null: not known. */
  since: Moment | null;
  status: DeviceStatus;
  /** The instance that heard it last, as the ledger has it; '': there is one instance only. */
  home: string;
  /** The revision of its record in the ledger; 0: it has none. */
  revision: number;
  /** When the ledger last began to keep it, on the clock of the boot. */
  notedMs: number;
}

/** What is decided of a device: kept in one step, or not at all. */
export interface Decision {
  readonly told: Presence['state'];
  readonly news: DeviceNews | null;
  /** The ids of news that nobody needs to be told any more. */
  readonly dropped: readonly string[];
}

/** Where the watch keeps what must outlast the process. There is one for files, and one for etcd. */
export interface WatchLedger {
  /** A record is kept again after this time, also if nothing has changed but the last heartbeat. */
  readonly noteMs: number;
  /** Keeps the record of the device. If it is not vital, the next heartbeat brings it again. */
  note(id: string, isVital: boolean): void;
  /** Resolves when the record of the device is kept, or cannot be kept now: then memory has it. */
  noted(id: string): void | Promise<void>;
  /** Resolves with true when it is kept; false: memory was old, or the store fails. */
  decide(id: string, decision: Decision): Promise<boolean>;
  /** Removes the record and the news. Resolves when that is kept. Rejects with storage-failed and unavailable. */
  forget(id: string): Promise<void>;
}

interface WatchOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly delays: Delays;
  /** The devices, which the ledger reads and fills too. */
  readonly devices: Map<string, Watched>;
  readonly office: Office;
  readonly ledger: WatchLedger;
  readonly desk: Pick<NewsDesk, 'newsOf' | 'untold'>;
  /** Draws the id of news. */
  readonly newId: () => string;
}

/** Checks for silence within each delay. */
const TICKS = 10;
/** After a tick that is late by so many, and by AWAY_MS, the process or the machine was not running. */
const AWAY_TICKS = 3;
/** A busy machine is late by less. */
const AWAY_MS = 5 * SECOND_MS;
/** The times at which devices were last heard are kept at most this often. */
export const PRESENCE_WRITE_MS = 5 * MINUTE_MS;
/** The most news kept of one device while the outbox refuses them. */
export const NEWS_MAX = 4;

/** The watch over all devices. */
export class Watch implements FleetWatch {
  readonly #options: WatchOptions;
  readonly #tickMs: number;
  readonly #ticking: Alarm;
  #tickedMs = 0;
  /** Silence did not count up to now: devices get this long when decisions are possible again; null: silence counts. */
  #owedMs: number | null = null;
  /** Devices with a decision on its way. */
  readonly #deciding = new Set<string>();

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#tickMs = options.delays.delayMs / TICKS;
    this.#ticking = new Alarm(options.clock, () => {
      this.#ticking.in(this.#tickMs);
      this.#tick();
    });
  }

  /** Starts the checks for silence. */
  start(): void {
    this.#tickedMs = this.#options.clock.bootMs();
    this.#ticking.in(this.#tickMs);
  }

  /** Ends the checks. heard() must not be called afterwards. */
  stop(): void {
    this.#ticking.end();
  }

  get ids(): Iterable<string> {
    return this.#options.devices.keys();
  }

  get untold(): number {
    return this.#options.desk.untold;
  }

  has(id: string): boolean {
    return this.#options.devices.has(id);
  }

  heard(id: string, report: Report): void | Promise<void> {
    const { clock, log, delays, office, ledger, devices } = this.#options;
    assertServing(office);
    const nowMs = clock.bootMs();
    const now = momentOf(clock);
    const known = devices.get(id);
    const device = known ?? newDevice(nowMs, now);
    const { presence, status } = device;
    if (isOvertaken(presence, nowMs, report.sent)) return;
    // What it said to another home meanwhile is not known here.
    const before = device.home === office.id ? presence : afterAbsence(presence, nowMs, 0);
    device.presence = afterHeartbeat(before, nowMs, report, delays);
    device.heard = now;
    device.status = report.status ?? NO_STATUS;
    const isMoved = report.said === 'moved';
    if ((before.state === 'offline' && !isMoved) || (before.said === 'moved') !== isMoved) device.since = now;
    if (known === undefined) devices.set(id, device);
    if (isMoved && before.said !== 'moved') log.info('device moved', { device: id });
    const isNew = known === undefined || device.home !== office.id;
    const isVital = isNew || differs(before, device.presence);
    const isDue = nowMs - device.notedMs >= ledger.noteMs;
    if (isVital || isDue || reportsOther(status, device.status)) ledger.note(id, isVital);
    this.#consider(id, device, nowMs, true);
    // Nothing follows a last word. If it were lost, people would be told of a silence.
    if (report.said !== 'running') return ledger.noted(id);
  }

  async forget(id: string): Promise<void> {
    const { devices, ledger } = this.#options;
    if (devices.has(id)) await ledger.forget(id);
  }

  sighting(id: string): Sighting | null {
    const { devices, clock } = this.#options;
    const device = devices.get(id);
    if (device === undefined) return null;
    const { presence, heard, since, status } = device;
    const wallMs = (moment: Moment | null) => moment && wallMsOf(moment, clock);
    return sightingOf(id, presence, { heardMs: wallMs(heard), sinceMs: wallMs(since), status });
  }

  #tick(): void {
    const { clock, office, devices } = this.#options;
    const nowMs = clock.bootMs();
    const wasAway = nowMs - this.#tickedMs > Math.max(AWAY_TICKS * this.#tickMs, AWAY_MS);
    this.#tickedMs = nowMs;
    if (wasAway || !office.isServing) this.#owedMs = CLOUD_GRACE_MS;
    if (!office.mayDecide) {
      this.#owedMs ??= 0;
      return;
    }
    const owedMs = this.#owedMs;
    this.#owedMs = null;
    for (const [id, device] of devices) {
      // Also those of other homes: what this instance has heard of them may be on its way to the ledger.
      if (owedMs !== null) {
        const isHeard = nowMs - device.presence.heardMs < this.#tickMs;
        device.presence = afterAbsence(device.presence, nowMs, isHeard ? 0 : owedMs);
      }
      this.#consider(id, device, nowMs);
    }
  }

  /** Decides about the device if it differs from what people know. */
  #consider(id: string, device: Watched, nowMs: number, isHeard = false): void {
    const { office, delays, desk } = this.#options;
    const { presence, told, home } = device;
    if (!isHeard && !office.answersFor(home)) return;
    if (presence.said === 'moved') {
      const dropped = desk.newsOf(id);
      if (told === 'online' && dropped.length === 0) return;
      this.#decide(id, device, { told: 'online', news: null, dropped });
    } else if (presence.state === 'online' && told === 'offline') {
      const lastedMs = device.away && sinceMs(device.away, this.#options.clock, device.heard);
      const backMs = wallMsOf(device.heard, this.#options.clock);
      this.#decide(id, device, this.#news(id, { kind: 'back', sinceMs: backMs, lastedMs }));
    } else if (told === 'online' && afterSilence(presence, nowMs, delays).state === 'offline') {
      const kind = presence.said === 'stopping' ? 'stopped' : 'silent';
      const heardMs = wallMsOf(device.heard, this.#options.clock);
      this.#decide(id, device, this.#news(id, { kind, sinceMs: heardMs }));
    }
  }

  #news(id: string, happening: Happening): Decision {
    const news = this.#options.desk.newsOf(id);
    // Drop a pair in the middle: the first may be told already, and the last is the present state.
    const dropped = news.length >= NEWS_MAX ? news.slice(1, 3) : [];
    const told = happening.kind === 'back' ? 'online' : 'offline';
    return { told, news: { ...happening, id: this.#options.newId(), device: id }, dropped };
  }

  /** Until the decision holds, memory has nothing of it. If it cannot be kept, the next tick decides again. */
  #decide(id: string, device: Watched, decision: Decision): void {
    const { office, ledger, devices } = this.#options;
    if (this.#deciding.has(id) || !office.mayDecide) return;
    this.#deciding.add(id);
    // It may be heard before the decision is kept.
    if (decision.told === 'offline') device.away = device.heard;
    void ledger.decide(id, decision).then((isKept) => {
      this.#deciding.delete(id);
      // Another object: it was forgotten, or has a later record of another home.
      if (!isKept || devices.get(id) !== device) return;
      nowTold(device, decision.told);
      this.#log(id, decision.news);
      this.#consider(id, device, this.#options.clock.bootMs());
    });
  }

  #log(id: string, news: DeviceNews | null): void {
    const { log } = this.#options;
    if (news === null) return;
    if (news.kind === 'back')
      log.info('device online', { device: id, offlineMs: news.lastedMs ?? undefined });
    else log.info('device offline', { device: id, stopped: news.kind === 'stopped' });
  }
}

/** True if the device was heard since the decision that it is offline: it should not be kept. */
export function isUntrue({ heard, away }: Watched, decision: Decision | null): boolean {
  return decision?.told === 'offline' && heard !== away;
}

/** It is decided that the device is in this state. Its presence follows, unless it was heard meanwhile. */
export function nowTold(device: Watched, told: Watched['told']): void {
  device.told = told;
  if (told === 'offline' && device.heard === device.away)
    device.presence = { ...device.presence, state: told };
}

function newDevice(nowMs: number, heard: Moment): Watched {
  const fresh = { presence: firstHeard(nowMs), told: 'online', away: null, status: NO_STATUS } as const;
  return { ...fresh, heard, since: heard, home: '', revision: 0, notedMs: Number.NEGATIVE_INFINITY };
}

/** True if another home of the device must know that soon. */
function differs(before: Presence, after: Presence): boolean {
  return before.said !== after.said || before.everyMs !== after.everyMs || before.damping !== after.damping;
}

/** True if the other instances should show that soon. How many messages wait changes all the time. */
function reportsOther(before: DeviceStatus, after: DeviceStatus): boolean {
  if (before === after) return false;
  return (
    before.version !== after.version || before.relay !== after.relay || needsHelp(before) !== needsHelp(after)
  );
}
