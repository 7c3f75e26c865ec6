/**
 * Watches the devices of a fleet together with the other instances. Every instance follows all heartbeats, so any of them
 * can take over. The owner of a device's bucket alone decides that the device is offline or back, in one transaction with
 * the news: it holds only while the instance owns the bucket, and while etcd has no later heartbeat of the device.
 */

import { inLanes } from '../../base/lanes.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import type { FleetWatch, Report, Sighting } from '../fleet-store.js';
import * as presence from '../presence.js';
import { sightingOf } from '../sighting.js';
import { NO_STATUS } from '../status.js';
import { decisionOf } from './decision.js';
import { type Compare, type Etcd, EtcdError } from './etcd.js';
import type { EtcdNews } from './etcd-news.js';
import { Heartbeats } from './heartbeats.js';
import type { Instance } from './instance.js';
import { bucketOf } from './layout.js';
import type { Shelf } from './mirror.js';
import { keyOf } from './roles.js';
import { isSame, type LastTold, parseSeen, parseTold, type Seen, seenText, toldText } from './seen.js';
import { orUnavailable, unavailable } from './unavailable.js';

interface EtcdWatchOptions {
  readonly etcd: Pick<Etcd, 'txn'>;
  readonly instance: () => Pick<Instance, 'mine' | 'freshMs' | 'isGrace' | 'isSteady' | 'alive'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly delays: presence.Delays;
  readonly randomBytes: (count: number) => Uint8Array;
  /** See Mirror.isBehind. */
  readonly isBehind: (revision: number) => boolean;
  /** The news that people are not told yet. */
  readonly news: () => Pick<EtcdNews, 'newsOf' | 'devices'>;
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
const LANES = 16;

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
  readonly shelves: Readonly<Record<'seen' | 'told', Shelf>>;

  constructor(options: EtcdWatchOptions) {
    this.#options = options;
    const { etcd, clock, instance } = options;
    this.#heartbeats = new Heartbeats({ etcd, clock, conditions: () => instance().alive });
    this.#ticking = new Alarm(options.clock, () => {
      this.#ticking.in(options.delays.delayMs / TICKS);
      this.#tick();
    });
    const [devices, told] = [this.#devices, this.#told];
    const seen: Shelf = {
      get names() {
        return Array.from(devices.keys(), seenName);
      },
      put: (name, { value, modRevision }) => this.#seen(deviceOf(name), value, modRevision),
      deleted: (name) => {
        devices.delete(deviceOf(name));
        // The device is removed. This instance has heard it before.
        void this.#heartbeats.drop(`seen/${name}`);
      },
    };
    const toldShelf: Shelf = {
      get names() {
        return told.keys();
      },
      put: (id, { value, modRevision }) => this.#wasTold(id, { ...parseTold(value), revision: modRevision }),
      deleted: (id) => void told.delete(id),
    };
    this.shelves = { seen, told: toldShelf };
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
    return this.#options.news().devices;
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
    if (said === 'moved') return isTold || this.#options.news().newsOf(id).length > 0;
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
    this.#deciding ??= inLanes(LANES, this.#undecided, decide).finally(() => {
      this.#deciding = null;
      this.#decideSoon();
    });
  }

  /** Decides about the device. If a condition fails, memory was old: the next tick decides again. */
  async #decide(id: string): Promise<void> {
    const { etcd, instance, isBehind, log, news, randomBytes } = this.#options;
    const device = this.#devices.get(id);
    if (device === undefined) return;
    const now = { ...device, presence: this.#presenceNow(device) };
    if (!this.#isUndecided(id, now.presence)) return;
    const createRevision = instance().mine(device.bucket);
    if (createRevision === null) return;
    const told = this.#told.get(id);
    const newId = () => Buffer.from(randomBytes(8)).toString('hex');
    const { told: next, ops, logTo } = decisionOf({ id, ...now, told, news: news().newsOf(id), newId });
    const conditions: Compare[] = [
      { key: keyOf(device.bucket), createRevision },
      { key: `seen/${seenName(id)}`, modRevision: device.revision },
      { key: `told/${id}`, modRevision: told?.revision ?? 0 },
    ];
    try {
      const put = { put: `told/${id}`, value: toldText(next) };
      const { succeeded, revision } = await etcd.txn(conditions, [put, ...ops]);
      if (succeeded) {
        logTo(log);
        if (isBehind(revision)) this.#wasTold(id, { ...next, revision });
      }
    } catch (error) {
      // If it has happened after all, the watch tells.
      if (!(error instanceof EtcdError)) throw error;
    }
  }
}

const seenName = (id: string) => `${bucketOf(id)}/${id}`;
const deviceOf = (name: string) => name.slice(name.indexOf('/') + 1);

const shown = (id: string, { presence, seen }: Watched): Sighting =>
  sightingOf(id, { presence, heardMs: seen.atMs, sinceMs: seen.sinceMs, status: seen.status ?? NO_STATUS });
