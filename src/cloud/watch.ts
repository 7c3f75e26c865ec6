/**
 * Watches all devices: receives their heartbeats in memory, notices their silence, and decides each change once. A decision
 * holds when the ledger has kept it together with its news; the news desk tells people (news.ts).
 *
 * With several instances each device has a home: the instance that heard it last. The home watches it. The leader watches
 * the devices whose home is gone. The others only show what the ledger has.
 */
import { FieldpostError } from '../base/errors.js';
import { DAY_MS, MINUTE_MS, QUIET_MS_MAX, SECOND_MS } from '../base/limits.js';
import { Alarm } from '../base/retry/alarm.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import { isoOf } from '../base/text.js';
import { assertServing, type DeviceNews, type FleetWatch, type Office } from './fleet-store.js';
import {
  afterOutage,
  afterReport,
  flapsOf,
  isSameQuiet,
  type Marks,
  NO_MARKS,
  type QuietTime,
  quietAt,
  REMINDERS_MS,
  STUCK_MS,
  whyAway,
  wordAt,
} from './marks.js';
import { type Moment, momentOf, sinceMs, wallMsOf } from './moment.js';
import type { NewsDesk } from './news.js';
import {
  afterAbsence,
  afterHeartbeat,
  afterSilence,
  areMailsStuck,
  CLOUD_GRACE_MS,
  type Delays,
  type DeviceStatus,
  firstHeard,
  isOvertaken,
  NO_STATUS,
  needsHelp,
  type Presence,
  type Report,
  STEADY_DELAYS,
} from './presence.js';
import { axisOf, isState, needlessPair } from './rules.js';
import { type Sighting, sightingOf } from './sighting.js';
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
  marks: Marks;
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
  /** The marks that change. */
  readonly marks?: Partial<Marks>;
  /** True: the device keeps its home, because people have said something, and not the device. */
  readonly keepsHome?: boolean;
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
  /** The device's own delay; null: it has none. */
  readonly delayMsOf: (id: string) => number | null;
  /** The devices, which the ledger reads and fills too. */
  readonly devices: Map<string, Watched>;
  readonly office: Office;
  readonly ledger: WatchLedger;
  readonly desk: Pick<NewsDesk, 'newsOf' | 'keptOf' | 'untold' | 'changed'>;
  /** Draws the id of news. */
  readonly newId: () => string;
}

/** Checks for silence within each delay. */
const TICKS = 10;
/** Tries to decide about a device of which something else is being decided. */
const DECIDE_TRIES = 5;
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
  /** A tenth of the shortest delay. */
  #tickMs: number;
  readonly #ticking: Alarm;
  #tickedMs = 0;
  /** Silence did not count up to now: devices get this long when decisions are possible again; null: silence counts. */
  #owedMs: number | null = null;
  /** Devices with a decision on its way. */
  readonly #deciding = new Map<string, Promise<boolean>>();

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#tickMs = this.#shortestMs() / TICKS;
    this.#ticking = new Alarm(options.clock, () => {
      this.#tick();
      this.#tickMs = this.#shortestMs() / TICKS;
      this.#ticking.in(this.#tickMs);
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
    const { clock, log, office, ledger, devices } = this.#options;
    assertServing(office);
    const nowMs = clock.bootMs();
    const now = momentOf(clock);
    const known = devices.get(id);
    const device = known ?? newDevice(nowMs, now);
    const { presence, status } = device;
    if (isOvertaken(presence, nowMs, report.sent)) return;
    // What it said to another home meanwhile is not known here.
    const before = device.home === office.id ? presence : afterAbsence(presence, nowMs, 0);
    const delays = this.#delaysOf(id);
    device.presence = afterHeartbeat(before, nowMs, report, delays);
    // The shortest one is new, or was changed.
    if (delays.delayMs < TICKS * this.#tickMs) {
      this.#tickMs = delays.delayMs / TICKS;
      this.#ticking.in(this.#tickMs);
    }
    device.heard = now;
    device.status = report.status ?? NO_STATUS;
    if (now.wallMs !== null) device.marks = afterReport(device.marks, device.status, now.wallMs);
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
    const noted = report.said === 'running' ? undefined : ledger.noted(id);
    return report.quiet || report.last ? this.#heardWords(id, report, noted) : noted;
  }

  /** What people at the device have said with a heartbeat. Rejects if it cannot be kept: the device says it again. */
  async #heardWords(id: string, { quiet, last }: Report, noted: void | Promise<void>): Promise<void> {
    await noted;
    const nowMs = this.#options.clock.wallMs();
    if (quiet) {
      const { forMs, why } = quiet;
      const untilMs = nowMs + Math.min(forMs, QUIET_MS_MAX);
      await this.#setQuiet(id, forMs === 0 ? null : { untilMs, why }, false);
    }
    if (last) await this.#sayLast(id, last, nowMs);
  }

  async #sayLast(id: string, text: string, atMs: number): Promise<void> {
    const before = this.#options.devices.get(id)?.marks.word ?? null;
    // The answer to it may have been lost.
    if (before?.text === text && atMs - before.atMs < MINUTE_MS) return;
    this.#options.log.info('device last word', { device: id, text });
    const happening = { kind: 'word', sinceMs: atMs, word: text } as const;
    await this.#decideSoon(id, { happening, marks: { word: { text, atMs } } }, false);
  }

  async quiet(id: string, quiet: QuietTime | null): Promise<void> {
    await this.#setQuiet(id, quiet, true);
  }

  async #setQuiet(id: string, quiet: QuietTime | null, keepsHome: boolean): Promise<void> {
    const { clock, log, devices } = this.#options;
    const device = devices.get(id);
    if (device === undefined) throw neverHeard(id);
    const nowMs = clock.wallMs();
    if (isSameQuiet(quietAt(device.marks, nowMs), quiet)) return;
    const happening = quiet && ({ kind: 'quiet', sinceMs: nowMs, ...quiet } as const);
    await this.#decideSoon(id, { happening, marks: { quiet } }, keepsHome);
    // Whoever waits to hear of an outage waits until another moment.
    this.#options.desk.changed(id);
    if (quiet === null) log.info('device quiet ended', { device: id });
    else log.info('device quiet', { device: id, until: isoOf(quiet.untilMs), why: quiet.why ?? undefined });
  }

  async drill(id: string, uid: string | null): Promise<void> {
    const { clock, log, devices, newId } = this.#options;
    const device = devices.get(id);
    if (device === undefined) throw neverHeard(id);
    const nowMs = clock.wallMs();
    const { drill: before } = device.marks;
    // The links of the same day go on working.
    const drill =
      before !== null && nowMs - before.atMs < DAY_MS ? before : { key: `${newId()}${newId()}`, atMs: nowMs };
    const happening = { kind: 'drill', key: drill.key, uid } as const;
    await this.#decideSoon(id, { happening, marks: { drill } }, true);
    log.info('device drill', { device: id, uid: uid ?? undefined });
  }

  async forget(id: string): Promise<void> {
    const { devices, ledger } = this.#options;
    if (devices.has(id)) await ledger.forget(id);
  }

  sighting(id: string): Sighting | null {
    const { devices, clock } = this.#options;
    const device = devices.get(id);
    if (device === undefined) return null;
    const { presence, heard, since, status, marks } = device;
    const wallMs = (moment: Moment | null) => moment && wallMsOf(moment, clock);
    return sightingOf(id, presence, { heardMs: wallMs(heard), sinceMs: wallMs(since), status, marks });
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

  /** The shortest delay of any device. */
  #shortestMs(): number {
    const { delays, delayMsOf, devices } = this.#options;
    let { delayMs } = delays;
    for (const id of devices.keys()) delayMs = Math.min(delayMs, delayMsOf(id) ?? delayMs);
    return delayMs;
  }

  /** The delays of this device. */
  #delaysOf(id: string): Delays {
    const { delays, delayMsOf } = this.#options;
    const delayMs = delayMsOf(id);
    return delayMs === null ? delays : { ...delays, delayMs };
  }

  /**
   * A time without the watch does not count as silence, and ends what was counted before. Of a delay of days it is the last
   * day alone that must be counted: otherwise a cloud that is restarted each week would never tell of such a device.
   */
  #isSilent(id: string, { presence, heard }: Watched, nowMs: number): boolean {
    const { clock } = this.#options;
    const delays = this.#delaysOf(id);
    if (delays.delayMs <= DAY_MS) return afterSilence(presence, nowMs, delays).state === 'offline';
    const silentMs = sinceMs(heard, clock, momentOf(clock)) ?? nowMs - presence.heardMs;
    const lastDay = { ...delays, delayMs: DAY_MS };
    return silentMs >= delays.delayMs && afterSilence(presence, nowMs, lastDay).state === 'offline';
  }

  /** Decides about the device if it differs from what people know. */
  #consider(id: string, device: Watched, nowMs: number, isHeard = false): void {
    const { office, desk, clock } = this.#options;
    const { presence, told, home } = device;
    if (!isHeard && !office.answersFor(home)) return;
    if (presence.said === 'moved') {
      const dropped = desk.newsOf(id);
      if (told === 'online' && dropped.length === 0) return;
      this.#decide(id, device, { told: 'online', news: null, dropped });
    } else if (presence.state === 'online' && told === 'offline') {
      this.#decide(id, device, this.#backOf(id, device));
    } else if (quietAt(device.marks, clock.wallMs()) !== null) return;
    else if (told === 'online' && this.#isSilent(id, device, nowMs)) {
      const kind = presence.said === 'stopping' ? 'stopped' : 'silent';
      const heardMs = wallMsOf(device.heard, clock);
      const word = wordAt(device.marks, heardMs);
      // It has said itself that it stops. In the same boot that is no network that was away.
      const left = kind === 'stopped' ? null : (presence.sent ?? null);
      const marks = { left, reminded: 0 };
      const happening = { kind, sinceMs: heardMs, ...(word !== null && { word }) } as const;
      this.#decide(id, device, this.#decisionOf(id, 'offline', happening, marks));
    } else if (told === 'offline') this.#remind(id, device);
    else this.#considerMails(id, device);
  }

  /** The device is back: why it was away, and how often it came and went. */
  #backOf(id: string, device: Watched): Decision {
    const { clock } = this.#options;
    const { away, heard, marks, presence } = device;
    const lastedMs = away && sinceMs(away, clock, heard);
    const backMs = wallMsOf(heard, clock);
    const after = afterOutage(marks, away && wallMsOf(away, clock), backMs);
    const why = whyAway(marks.left, presence.sent, lastedMs);
    const flaps = flapsOf(after, STEADY_DELAYS * this.#delaysOf(id).delayMs);
    const reasons = { ...(why !== null && { why }), ...(flaps !== null && { flaps }) };
    const happening: Happening = { kind: 'back', sinceMs: backMs, lastedMs, ...reasons };
    return this.#decisionOf(id, 'online', happening, after);
  }

  /** Reminds people of a device that is offline for long. After a longer absence of the watch, once. */
  #remind(id: string, device: Watched): void {
    const { clock } = this.#options;
    const { away, marks } = device;
    if (away === null) return;
    const awayMs = wallMsOf(away, clock);
    // Over a boot the clock may not be confirmed; for a reminder it is good enough.
    const lastedMs = sinceMs(away, clock, momentOf(clock)) ?? (awayMs === null ? 0 : clock.wallMs() - awayMs);
    const offlineMs = lastedMs - this.#delaysOf(id).delayMs;
    const due = REMINDERS_MS.filter((afterMs) => offlineMs >= afterMs).length;
    if (due <= marks.reminded) return;
    const happening: Happening = { kind: 'still', sinceMs: awayMs, lastedMs };
    this.#decide(id, device, this.#decisionOf(id, 'offline', happening, { reminded: due }));
  }

  /** Tells of mails that do not leave a device which is online, and that they leave again. */
  #considerMails(id: string, device: Watched): void {
    const { stuck } = device.marks;
    if (stuck === null) return;
    const nowMs = this.#options.clock.wallMs();
    const { relay, queue } = device.status;
    if (!areMailsStuck(device.status))
      this.#decide(
        id,
        device,
        this.#decisionOf(id, 'online', { kind: 'flows', sinceMs: nowMs }, { stuck: null }),
      );
    else if (!stuck.isTold && nowMs - stuck.sinceMs >= STUCK_MS) {
      const words = { relay: stuck.isRelay ? relay : null, failed: queue?.failed ?? 0 };
      const happening: Happening = { kind: 'stuck', sinceMs: stuck.sinceMs, ...words };
      const marks = { stuck: { ...stuck, isTold: true } };
      this.#decide(id, device, this.#decisionOf(id, 'online', happening, marks));
    }
  }

  #decisionOf(
    id: string,
    told: Presence['state'],
    happening: Happening,
    marks: Partial<Marks>,
    newsId = this.#options.newId(),
  ): Decision {
    const { clock, desk } = this.#options;
    const axis = axisOf(happening);
    const before = desk.keptOf(id).flatMap(({ news }) => (axisOf(news) === axis ? news : []));
    // A later one says all that these say.
    const overMany = () => (isState(axis) ? needlessPair(before) : before.slice(0, 1).map((one) => one.id));
    const dropped = before.length >= NEWS_MAX ? overMany() : [];
    const news = { ...happening, id: newsId, device: id, atMs: clock.wallMs() };
    return { told, news, dropped, marks };
  }

  /**
   * Keeps what people have said of the device, when nothing else is being decided of it. Rejects with unavailable if it cannot
   * be kept now.
   */
  async #decideSoon(
    id: string,
    { happening, marks }: { readonly happening: Happening | null; readonly marks: Partial<Marks> },
    keepsHome: boolean,
  ): Promise<void> {
    const { office, devices, newId } = this.#options;
    // It may be kept without an answer: the same news again are told once.
    const newsId = newId();
    for (let tries = 0; tries < DECIDE_TRIES; tries++) {
      await this.#deciding.get(id);
      const device = devices.get(id);
      if (device === undefined) throw neverHeard(id);
      if (!office.mayDecide || this.#deciding.has(id)) continue;
      const { told } = device;
      const silent: Decision = { told, news: null, dropped: [], marks };
      const decision = happening === null ? silent : this.#decisionOf(id, told, happening, marks, newsId);
      if (await this.#keep(id, device, { ...decision, keepsHome })) return;
    }
    throw new FieldpostError('unavailable', 'This cannot be kept now');
  }

  /** Until the decision holds, memory has nothing of it. If it cannot be kept, the next tick decides again. */
  #decide(id: string, device: Watched, decision: Decision): void {
    const { office, devices, clock } = this.#options;
    if (this.#deciding.has(id) || !office.mayDecide) return;
    // It may be heard before the decision is kept.
    if (decision.told === 'offline' && device.told === 'online') device.away = device.heard;
    void this.#keep(id, device, decision).then((isKept) => {
      // Another object: it was forgotten, or has a later record of another home.
      if (!isKept || devices.get(id) !== device) return;
      this.#log(id, decision.news);
      this.#consider(id, device, clock.bootMs());
    });
  }

  #keep(id: string, device: Watched, decision: Decision): Promise<boolean> {
    const { ledger, devices } = this.#options;
    const kept = ledger.decide(id, decision).then((isKept) => {
      this.#deciding.delete(id);
      if (isKept && devices.get(id) === device) nowDecided(device, decision);
      return isKept;
    });
    this.#deciding.set(id, kept);
    return kept;
  }

  #log(id: string, news: DeviceNews | null): void {
    const { log } = this.#options;
    if (news === null) return;
    if (news.kind === 'back')
      log.info('device online', { device: id, offlineMs: news.lastedMs ?? undefined });
    else if (news.kind === 'silent' || news.kind === 'stopped')
      log.info('device offline', { device: id, stopped: news.kind === 'stopped' });
    else log.info('device news', { device: id, kind: news.kind });
  }
}

/** True if the device was heard since the decision that it is offline: it should not be kept. */
export function isUntrue({ told, heard, away }: Watched, decision: Decision | null): boolean {
  return decision?.told === 'offline' && told === 'online' && heard !== away;
}

/** The decision is kept. */
export function nowDecided(device: Watched, { told, marks }: Decision): void {
  nowTold(device, told);
  if (marks !== undefined) device.marks = { ...device.marks, ...marks };
}

/** It is decided that the device is in this state. Its presence follows, unless it was heard meanwhile. */
export function nowTold(device: Watched, told: Watched['told']): void {
  device.told = told;
  if (told === 'offline' && device.heard === device.away)
    device.presence = { ...device.presence, state: told };
}

function neverHeard(id: string): FieldpostError {
  return new FieldpostError('conflict', `${id} has never called this cloud`);
}

function newDevice(nowMs: number, heard: Moment): Watched {
  const fresh = { presence: firstHeard(nowMs), told: 'online', away: null, status: NO_STATUS } as const;
  return {
    ...fresh,
    marks: NO_MARKS,
    heard,
    since: heard,
    home: '',
    revision: 0,
    notedMs: Number.NEGATIVE_INFINITY,
  };
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
