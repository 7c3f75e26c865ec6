/**
 * Watches the devices of a fleet together with the other instances. Every instance follows all heartbeats, so any of them
 * can take over. The owner of a device's bucket alone decides that the device is offline or back, in one transaction with
 * the news: it holds only while the instance owns the bucket, and while etcd has no later heartbeat of the device.
 */
import { SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import { inLanes } from '../../base/turns.js';
import type { FleetWatch } from '../fleet-store.js';
import * as presence from '../presence.js';
import { NO_STATUS, type Report, type Sighting, sightingOf } from '../presence.js';
import type { Happening } from '../texts/texts.js';
import { type Compare, type Etcd, EtcdError, type Op, TXN_OPS_MAX } from './etcd.js';
import type { Instance } from './instance.js';
import {
  bucketOf,
  chunksOf,
  FLEET_STALE_MS,
  type LastTold,
  ownerKey,
  parseSeen,
  parseTold,
  type Seen,
  seenText,
  toldText,
} from './layout.js';
import { type FleetParts, orUnavailable, type Shelf, unavailable } from './mirror.js';
import type { EtcdPending } from './news.js';

interface EtcdWatchOptions extends FleetParts {
  readonly instance: () => Pick<Instance, 'mine' | 'freshMs' | 'isGrace' | 'isSteady' | 'alive'>;
  readonly delays: presence.Delays;
  /** The news that people are not told yet. */
  readonly pending: Pick<EtcdPending, 'newsOf' | 'devices'>;
}

interface Watched {
  readonly bucket: string;
  /** `offline`: people were told so. */
  presence: presence.Presence;
  seen: Seen;
  /** The revision of `seen`. */
  revision: number;
}

type ToldAt = LastTold & { readonly revision: number };

/** Checks for silence within each delay. */
const TICKS = 10;
/** Decisions at a time. */
const DECISIONS = 16;
/** The most news kept of one device while nobody can be told. */
const NEWS_MAX = 4;

const ONLINE: LastTold = { isOffline: false, heardMs: null };

/** The watch of one instance. */
export class EtcdWatch implements FleetWatch {
  readonly #options: EtcdWatchOptions;
  readonly #heartbeats: Heartbeats;
  readonly #ticking: Alarm;
  readonly #devices = new Map<string, Watched>();
  /** Devices of which people were ever told. */
  readonly #told = new Map<string, ToldAt>();
  /** Devices to decide about. */
  readonly #undecided = new Set<string>();
  #deciding: Promise<void> | null = null;
  #wasGrace = true;
  readonly shelves: Readonly<Record<'seen' | 'told', Shelf>> = {
    seen: {
      names: () => Array.from(this.#devices.keys(), seenName),
      put: (name, { value, modRevision }) => this.#seen(deviceOf(name), value, modRevision),
      deleted: (name) => {
        this.#devices.delete(deviceOf(name));
        // The device is removed. This instance has heard it before.
        void this.#heartbeats.drop(`seen/${name}`);
      },
    },
    told: {
      names: () => this.#told.keys(),
      put: (id, { value, modRevision }) => this.#wasTold(id, { ...parseTold(value), revision: modRevision }),
      deleted: (id) => void this.#told.delete(id),
    },
  };

  constructor(options: EtcdWatchOptions) {
    this.#options = options;
    const { etcd, clock, instance } = options;
    this.#heartbeats = new Heartbeats({ etcd, clock, conditions: () => instance().alive });
    this.#ticking = new Alarm(options.clock, () => {
      this.#ticking.in(options.delays.delayMs / TICKS);
      this.#tick();
    });
  }

  start(): void {
    this.#ticking.in(this.#options.delays.delayMs / TICKS);
  }

  /** Writes the last heartbeats. heard() must not be called afterwards. */
  async stop(): Promise<void> {
    this.#ticking.end();
    await this.#heartbeats.stop();
    this.#undecided.clear();
    await this.#deciding;
  }

  get ids(): Iterable<string> {
    return this.#devices.keys();
  }

  get untold(): number {
    return this.#options.pending.devices;
  }

  has(id: string): boolean {
    return this.#devices.has(id);
  }

  /** True: heartbeats cannot be written now. */
  get isStuck(): boolean {
    return this.#heartbeats.isStuck;
  }

  heard(id: string, report: Report): void | Promise<void> {
    const { clock, instance } = this.#options;
    if (!instance().isSteady || this.isStuck) throw unavailable();
    const before = this.#devices.get(id);
    const nowMs = clock.bootMs();
    if (before !== undefined && presence.isOvertaken(before.presence, nowMs, report.sent)) return;
    const atMs = clock.trust() === 'wrong' ? null : clock.wallMs();
    const isSame =
      before?.presence.state === 'online' && (before.seen.said === 'moved') === (report.said === 'moved');
    const seen = { ...report, atMs, sinceMs: isSame ? before.seen.sinceMs : atMs };
    // Nothing follows a last word. If it were lost, people would be told of a silence.
    if (report.said === 'running') this.#write(id, seen);
    else return this.#heartbeats.addNow(`seen/${seenName(id)}`, seenText(seen), seen.sent);
  }

  #write(id: string, seen: Seen): void {
    this.#heartbeats.add(`seen/${seenName(id)}`, seenText(seen), seen.sent);
  }

  async forget(id: string): Promise<void> {
    const seen = `seen/${seenName(id)}`;
    await this.#heartbeats.drop(seen);
    const { revision } = await orUnavailable(
      this.#options.etcd.txn(
        [],
        [{ delete: seen }, { delete: `told/${id}` }, { deletePrefix: `outbox/${id}/` }],
      ),
    );
    if (!this.#options.isBehind(revision)) return;
    this.#devices.delete(id);
    this.#told.delete(id);
  }

  *sightings(): Iterable<Sighting> {
    for (const [id, watched] of this.#devices) yield shown(id, watched);
  }

  sighting(id: string): Sighting | null {
    const watched = this.#devices.get(id);
    return watched === undefined ? null : shown(id, watched);
  }

  /** This instance owns the bucket from now on: silence counts anew. */
  gained(bucket: string): void {
    const nowMs = this.#options.clock.bootMs();
    for (const [id, device] of this.#devices) {
      if (device.bucket !== bucket) continue;
      device.presence = presence.afterAbsence(device.presence, nowMs, 0);
      if (this.#isUndecided(id, device.presence)) this.#undecided.add(id);
    }
    this.#decideSoon();
  }

  #seen(id: string, text: string, revision: number): void {
    const seen = parseSeen(text);
    const before = this.#devices.get(id);
    if (seen === null || (before !== undefined && before.revision >= revision)) return;
    const { clock, delays } = this.#options;
    const nowMs = clock.bootMs();
    const known = before?.presence ?? presence.firstHeard(nowMs);
    if (before !== undefined && presence.isOvertaken(known, nowMs, seen.sent)) {
      before.revision = revision;
      // Another instance did not know the later one: an instance that starts must find that.
      if (this.#options.instance().mine(before.bucket) !== null) this.#write(id, before.seen);
      return;
    }
    if (before !== undefined && isSame(before.seen, seen)) {
      // A member that was away writes it late, or the owner has written it again: it is not heard again.
      before.revision = revision;
      return;
    }
    const told = this.#told.get(id);
    const after = presence.afterHeartbeat(known, nowMs, seen, delays);
    // A list brings the last heartbeat of a device that is offline: it was heard before people were told.
    const isOffline = told?.isOffline === true && told.revision > revision;
    const device: Watched = {
      bucket: before?.bucket ?? bucketOf(id),
      presence: isOffline ? { ...after, state: 'offline' } : after,
      seen,
      revision,
    };
    this.#devices.set(id, device);
    if (this.#isUndecided(id, device.presence)) {
      this.#undecided.add(id);
      this.#decideSoon();
    }
  }

  #wasTold(id: string, told: ToldAt): void {
    if ((this.#told.get(id)?.revision ?? 0) >= told.revision) return;
    this.#told.set(id, told);
    const device = this.#devices.get(id);
    if (device === undefined || device.revision > told.revision) return;
    device.presence = { ...device.presence, state: told.isOffline ? 'offline' : 'online' };
  }

  /** True if the device's state differs from what people were told. */
  #isUndecided(id: string, { state, said }: presence.Presence): boolean {
    const isTold = this.#told.get(id)?.isOffline === true;
    if (said === 'moved') return isTold || this.#options.pending.newsOf(id).length > 0;
    return isTold !== (state === 'offline');
  }

  #tick(): void {
    const { clock, instance } = this.#options;
    const { isGrace } = instance();
    if (this.#wasGrace && !isGrace) {
      for (const device of this.#devices.values())
        device.presence = presence.afterAbsence(device.presence, clock.bootMs(), 0);
    }
    this.#wasGrace = isGrace;
    for (const [id, device] of this.#devices) {
      if (instance().mine(device.bucket) === null) continue;
      if (this.#isUndecided(id, this.#presenceNow(device))) this.#undecided.add(id);
    }
    this.#decideSoon();
  }

  /** The presence with its silence up to now, for a decision: until that holds, memory has nothing of it. */
  #presenceNow({ presence: known }: Watched): presence.Presence {
    const { isGrace, isSteady, freshMs } = this.#options.instance();
    return isGrace || !isSteady ? known : presence.afterSilence(known, freshMs, this.#options.delays);
  }

  #decideSoon(): void {
    if (this.#undecided.size === 0) return;
    const decide = (id: string) => {
      this.#undecided.delete(id);
      return this.#decide(id);
    };
    this.#deciding ??= inLanes(DECISIONS, this.#undecided, decide).finally(() => {
      this.#deciding = null;
      this.#decideSoon();
    });
  }

  /** Decides about the device. If a condition fails, memory was old: the next tick decides again. */
  async #decide(id: string): Promise<void> {
    const { etcd, instance, isBehind } = this.#options;
    const device = this.#devices.get(id);
    if (device === undefined) return;
    const now = this.#presenceNow(device);
    if (!this.#isUndecided(id, now)) return;
    const createRevision = instance().mine(device.bucket);
    if (createRevision === null) return;
    const told = this.#told.get(id);
    const { next, ops, logIt } = this.#decision(id, now, device.seen, told);
    const conditions: Compare[] = [
      { key: ownerKey(device.bucket), createRevision },
      { key: `seen/${seenName(id)}`, modRevision: device.revision },
      { key: `told/${id}`, modRevision: told?.revision ?? 0 },
    ];
    try {
      const put = { put: `told/${id}`, value: toldText(next) };
      const { succeeded, revision } = await etcd.txn(conditions, [put, ...ops]);
      if (succeeded) {
        logIt();
        if (isBehind(revision)) this.#wasTold(id, { ...next, revision });
      }
    } catch (error) {
      // If it has happened after all, the watch tells.
      if (!(error instanceof EtcdError)) throw error;
    }
  }

  /** What people are told next, the operations for it, and its line of the log once it holds. */
  #decision(id: string, { said, state }: presence.Presence, { atMs }: Seen, told: LastTold | undefined) {
    const { log, pending } = this.#options;
    if (said === 'moved') {
      const ops = pending.newsOf(id).map((name) => ({ delete: `outbox/${name}` }));
      return { next: ONLINE, ops, logIt: () => log.info('device moved', { device: id }) };
    }
    if (state === 'offline') {
      const stopped = said === 'stopping';
      const ops = this.#newsOps(id, { kind: stopped ? 'stopped' : 'silent', sinceMs: atMs });
      const logIt = () => log.info('device offline', { device: id, stopped });
      return { next: { isOffline: true, heardMs: atMs }, ops, logIt };
    }
    const heardMs = told?.heardMs ?? null;
    const lastedMs = heardMs === null || atMs === null ? null : Math.max(0, atMs - heardMs);
    const ops = this.#newsOps(id, { kind: 'back', sinceMs: atMs, lastedMs });
    const logIt = () => log.info('device online', { device: id, offlineMs: lastedMs ?? undefined });
    return { next: ONLINE, ops, logIt };
  }

  #newsOps(id: string, happening: Happening): Op[] {
    const { pending, newId } = this.#options;
    const news = pending.newsOf(id);
    // Drop a pair in the middle: the first may be told already, and the last is the present state.
    const dropped = news.length >= NEWS_MAX ? news.slice(1, 3) : [];
    return [
      { put: `outbox/${id}/${newId()}`, value: JSON.stringify(happening) },
      ...dropped.map((name) => ({ delete: `outbox/${name}` })),
    ];
  }
}

/** True for one heartbeat that was written twice. One that came at a time that is not known is always new. */
function isSame(a: Seen, b: Seen): boolean {
  return a.atMs !== null && a.atMs === b.atMs && seenText(a) === seenText(b);
}

const seenName = (id: string) => `${bucketOf(id)}/${id}`;
const deviceOf = (name: string) => name.slice(name.indexOf('/') + 1);

const shown = (id: string, { presence, seen }: Watched): Sighting =>
  sightingOf(id, presence, { heardMs: seen.atMs, sinceMs: seen.sinceMs, status: seen.status ?? NO_STATUS });

/** Heartbeats of this time are written together. */
const FLUSH_MS = SECOND_MS;
/** Transactions at a time: one after another would wait for the network each time. */
const WRITES = 4;
const STOP_TRIES = 3;

interface Heartbeat {
  readonly value: string;
  readonly sent: presence.Sent | null;
  readonly heardMs: number;
}

interface HeartbeatsOptions {
  readonly etcd: Pick<Etcd, 'txn'>;
  readonly clock: Clock;
  /** Holds while this instance has its lease: a request that is late by minutes changes nothing. */
  readonly conditions: () => readonly Compare[];
}

/**
 * Writes heartbeats to etcd, the latest of each device: those of up to a second go together. One that cannot be written is
 * tried again for FLEET_STALE_MS, or until the device sends another. Later it would be false: its device may be silent since.
 */
export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  readonly #alarm: Alarm;
  #waiting = new Map<string, Heartbeat>();
  /** Those of the flush under way. */
  #flying: ReadonlyMap<string, Heartbeat> = new Map();
  /** Those of addNow that are under way, unless the device has said something since. */
  readonly #lastWords = new Map<string, Heartbeat>();
  /** Keys that must not be written again after the flush under way. */
  readonly #dropped = new Set<string>();
  #flush: Promise<void> | null = null;
  /** Since when no flush has written all; null: the last one has. */
  #stuckMs: number | null = null;

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock, () => void this.flush());
  }

  /** True: etcd takes none, so a heartbeat that is answered now may be lost. */
  get isStuck(): boolean {
    return this.#stuckMs !== null && this.#options.clock.bootMs() - this.#stuckMs > FLEET_STALE_MS / 2;
  }

  /** Unless the device sent it before one that is not in etcd yet. */
  add(key: string, value: string, sent: presence.Sent | null = null): void {
    const heardMs = this.#options.clock.bootMs();
    const before = this.#waiting.get(key) ?? this.#flying.get(key) ?? this.#lastWords.get(key);
    if (before !== undefined && presence.isOvertaken(before, heardMs, sent)) return;
    this.#lastWords.delete(key);
    this.#wait(key, { value, sent, heardMs });
  }

  /** Resolves when the heartbeat is in etcd. Rejects with unavailable; it is tried again all the same. */
  async addNow(key: string, value: string, sent: presence.Sent | null = null): Promise<void> {
    const heardMs = this.#options.clock.bootMs();
    // An earlier one that is under way must not be written after it.
    await this.drop(key);
    const heartbeat = { value, sent, heardMs };
    this.#lastWords.set(key, heartbeat);
    const isWritten = await this.#put([[key, heartbeat]]);
    const isLast = this.#lastWords.get(key) === heartbeat;
    if (isLast) this.#lastWords.delete(key);
    if (isWritten) return;
    if (isLast) this.#wait(key, heartbeat);
    throw unavailable();
  }

  /** Resolves when the heartbeat is not under way any more. */
  async drop(key: string): Promise<void> {
    this.#waiting.delete(key);
    if (!this.#flying.has(key)) return;
    this.#dropped.add(key);
    await this.#flush;
  }

  /** Writes what waits, after the flush under way. Never rejects: what fails is tried again after the pause. */
  async flush(): Promise<void> {
    await this.#flush;
    this.#alarm.off();
    this.#flush ??= this.#write().finally(() => {
      this.#flush = null;
      if (this.#waiting.size > 0) this.#alarm.in(FLUSH_MS);
    });
    await this.#flush;
  }

  /** Writes what waits for the last time, at the next member if one has just failed. */
  async stop(): Promise<void> {
    for (let tries = 0; tries < STOP_TRIES && (tries === 0 || this.#waiting.size > 0); tries++)
      await this.flush();
    this.#alarm.end();
  }

  #wait(key: string, heartbeat: Heartbeat): void {
    this.#waiting.set(key, heartbeat);
    if (!this.#alarm.isSet && this.#flush === null) this.#alarm.in(FLUSH_MS);
  }

  async #write(): Promise<void> {
    const nowMs = this.#options.clock.bootMs();
    const entries = [...this.#waiting].filter(([, { heardMs }]) => nowMs - heardMs < FLEET_STALE_MS);
    this.#flying = new Map(entries);
    this.#waiting = new Map();
    this.#stuckMs ??= nowMs;
    let hasFailed = false;
    await inLanes(WRITES, chunksOf(entries, TXN_OPS_MAX), async (chunk) => {
      if (await this.#put(chunk)) return;
      hasFailed = true;
      this.#keep(chunk);
    });
    if (!hasFailed) this.#stuckMs = null;
    this.#flying = new Map();
    this.#dropped.clear();
  }

  async #put(entries: readonly (readonly [string, Heartbeat])[]): Promise<boolean> {
    const { etcd, conditions } = this.#options;
    const puts = entries.map(([put, { value }]) => ({ put, value }));
    try {
      return (await etcd.txn(conditions(), puts)).succeeded;
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      return false;
    }
  }

  #keep(entries: readonly (readonly [string, Heartbeat])[]): void {
    for (const [key, heartbeat] of entries) {
      // A later heartbeat of the device is newer.
      if (!this.#waiting.has(key) && !this.#dropped.has(key)) this.#waiting.set(key, heartbeat);
    }
  }
}
