/**
 * What the watch and the news desk keep in etcd. Records of up to a second are written together; a decision is written at once,
 * in one transaction with its news. Each write holds only while this instance lives and nobody else has written the record:
 * then the device has another home, which the watch of etcd tells.
 */
import { objectIn } from '../../base/json.js';
import { SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import { inLanes } from '../../base/turns.js';
import { type DeviceNews, isNews, type KeptNews, newsAt } from '../fleet-store.js';
import { NO_MARKS } from '../marks.js';
import { momentAt, wallMsOf } from '../moment.js';
import type { Changes, DeskLedger, NewsDesk } from '../news.js';
import { firstHeard, isOvertaken, NO_STATUS } from '../presence.js';
import type { Happening } from '../texts/texts.js';
import {
  type Decision,
  isUntrue,
  nowTold,
  PRESENCE_WRITE_MS,
  type Watched,
  type WatchLedger,
} from '../watch.js';
import { type Compare, EtcdError, type Op, TXN_OPS_MAX } from './etcd.js';
import type { Instance } from './instance.js';
import { type At, atText, chunksOf, FLEET_STALE_MS, parseAt } from './layout.js';
import { type FleetParts, orUnavailable, type Shelf } from './mirror.js';

/** Records of this time are written together. */
const FLUSH_MS = SECOND_MS;
/** Transactions at a time: one after another would wait for the network each time. */
const LANES = 4;
/** The records of one transaction, each with a condition. Most are one put, a decision a few operations more. */
const RECORDS = 25;
/** Tries to write a last word at once. */
const NOTED_TRIES = 3;

interface EtcdLedgerOptions extends FleetParts {
  readonly devices: Map<string, Watched>;
  readonly desk: NewsDesk;
  readonly instance: Instance;
}

/** A record to write. */
interface Waiting {
  readonly id: string;
  /** As it was heard: a record of another home replaces it, and then there is nothing to write. */
  readonly device: Watched;
  readonly decision: Decision | null;
  /** True: this instance is or becomes its home. False: it writes what people have said of a device that another one hears. */
  readonly isHome: boolean;
  /** Told whether it is written. */
  readonly done: readonly ((isKept: boolean) => void)[];
}

/** The ledger of one instance of the fleet. */
export class EtcdLedger implements WatchLedger, DeskLedger {
  readonly noteMs = PRESENCE_WRITE_MS;
  readonly #options: EtcdLedgerOptions;
  readonly #alarm: Alarm;
  #waiting = new Map<string, Waiting>();
  #flushing: Promise<void> | null = null;
  /** True: the last transaction had no answer. */
  #isAway = false;
  readonly shelves: Readonly<Record<'at' | 'news', Shelf>>;

  constructor(options: EtcdLedgerOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock, () => void this.#flush());
    const { devices, desk } = options;
    this.shelves = {
      at: {
        names: () => Array.from(devices).flatMap(([id, { revision }]) => (revision > 0 ? id : [])),
        put: (id, { value, modRevision }) => this.#found(id, this.#read(id, value), modRevision),
        deleted: (id, revision) => {
          const device = devices.get(id);
          if (device !== undefined && device.revision > 0 && device.revision <= revision) devices.delete(id);
        },
      },
      news: {
        names: () => desk.ids,
        put: (id, { value, createRevision }) => desk.add(newsIn(id, value), createRevision),
        deleted: (id) => desk.remove(id),
      },
    };
  }

  /** Homes are gone: silence of their devices counts only from `graceMs` after now on. */
  orphaned(isGone: (home: string) => boolean, graceMs: number): void {
    const heardMs = this.#options.clock.bootMs() + graceMs;
    for (const device of this.#options.devices.values())
      if (isGone(device.home)) device.presence = { ...device.presence, heardMs };
  }

  note(id: string): void {
    const { devices, clock, instance, randomBytes } = this.#options;
    const device = devices.get(id);
    if (device !== undefined) {
      // A whole fleet may come at once: its later records are spread.
      const [phase = 0] = device.home === instance.id ? [] : randomBytes(1);
      device.notedMs = clock.bootMs() - (phase / 256) * this.noteMs;
    }
    this.#wait(id);
    if (!this.#alarm.isSet) this.#alarm.in(FLUSH_MS);
  }

  async noted(id: string): Promise<void> {
    // If etcd answers, another home has written meanwhile.
    for (let tries = 0; tries < NOTED_TRIES && this.#options.instance.mayDecide; tries++) {
      const kept = new Promise<boolean>((resolve) => this.#wait(id, null, resolve));
      this.#alarm.in(tries === 0 ? 1 : FLUSH_MS);
      if ((await kept) || this.#isAway) return;
    }
  }

  decide(id: string, decision: Decision): Promise<boolean> {
    return new Promise((resolve) => {
      this.#wait(id, decision, resolve);
      this.#alarm.in(1);
    });
  }

  async forget(id: string): Promise<void> {
    const { etcd, devices, desk, mirror } = this.#options;
    while (this.#flushing !== null) await this.#flushing;
    // etcd has nothing yet of a device without a revision.
    if (devices.get(id)?.revision === 0) devices.delete(id);
    for (const done of this.#waiting.get(id)?.done ?? []) done(false);
    this.#waiting.delete(id);
    const ops = [{ delete: `at/${id}` }, ...desk.newsOf(id).map((name) => ({ delete: `news/${name}` }))];
    await orUnavailable(etcd.txn([], ops).then(({ revision }) => mirror.reached(revision)));
  }

  async settle({ dropped, marked }: Changes): Promise<void> {
    const { etcd } = this.#options;
    for (const chunk of chunksOf(dropped, TXN_OPS_MAX))
      await etcd.txn(
        [],
        chunk.map((id): Op => ({ delete: `news/${id}` })),
      );
    await inLanes(LANES, chunksOf(marked, TXN_OPS_MAX), (chunk) => this.#mark(chunk));
  }

  /** News that somebody has removed meanwhile must not come again. */
  async #mark(marked: readonly KeptNews[]): Promise<void> {
    const compares = marked.map(
      ({ news, order }): Compare => ({ key: `news/${news.id}`, createRevision: order }),
    );
    const ops = marked.map(({ news }): Op => ({ put: `news/${news.id}`, value: newsText(news) }));
    const { succeeded } = await this.#options.etcd.txn(compares, ops);
    if (succeeded || marked.length === 1) return;
    const middle = marked.length >> 1;
    await this.#mark(marked.slice(0, middle));
    await this.#mark(marked.slice(middle));
  }

  /** Writes what waits for the last time. */
  async stop(): Promise<void> {
    await this.#flush();
    this.#alarm.end();
  }

  /** A later record of the device replaces an earlier one. */
  #wait(id: string, decision: Decision | null = null, done?: (isKept: boolean) => void): void {
    const device = this.#options.devices.get(id);
    if (device === undefined) {
      done?.(false);
      return;
    }
    let before = this.#waiting.get(id);
    if (before !== undefined && before.device !== device) {
      // Decided from what was before the record of another home.
      for (const done of before.done) done(false);
      before = undefined;
    }
    this.#waiting.set(id, {
      ...{ id, device, decision: decision ?? before?.decision ?? null },
      isHome: decision?.keepsHome !== true || before?.isHome === true,
      done: [...(before?.done ?? []), ...(done === undefined ? [] : [done])],
    });
  }

  async #flush(): Promise<void> {
    await this.#flushing;
    this.#alarm.off();
    this.#flushing ??= this.#write().finally(() => {
      this.#flushing = null;
      if (this.#waiting.size > 0 && !this.#alarm.isSet) this.#alarm.in(FLUSH_MS);
    });
    await this.#flushing;
  }

  async #write(): Promise<void> {
    const waiting = [...this.#waiting.values()];
    this.#waiting = new Map();
    await inLanes(LANES, transactionsOf(waiting), (chunk) => this.#put(chunk));
  }

  /** Never rejects. What cannot be written now waits, but for decisions: the next tick decides again. */
  async #put(chunk: readonly Waiting[]): Promise<void> {
    const { etcd, devices, instance } = this.#options;
    const known = chunk.flatMap((one): Waiting[] => {
      const { id, device, decision, isHome, done } = one;
      const isKnown = devices.get(id) === device;
      if (isKnown && !isUntrue(device, decision)) return [one];
      for (const tell of done) tell(false);
      return isKnown && isHome ? [{ ...one, decision: null, done: [] }] : [];
    });
    if (known.length === 0) return;
    try {
      const alive = instance.alive();
      const compares = known.map(
        ({ id, device }): Compare => ({ key: `at/${id}`, modRevision: device.revision }),
      );
      const ops = known.flatMap((one) => this.#opsFor(one));
      const { succeeded, revision, current } = await etcd.txn([alive, ...compares], ops);
      this.#isAway = false;
      if (succeeded) {
        for (const one of known) {
          if (one.device.revision < revision)
            Object.assign(one.device, { revision, home: this.#homeAfter(one) });
          for (const tell of one.done) tell(true);
        }
      } else if (current === null || known.length === 1) this.#keep(known);
      else {
        // One of them has another home: the others must not wait for it.
        const middle = known.length >> 1;
        await this.#put(known.slice(0, middle));
        await this.#put(known.slice(middle));
      }
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      this.#isAway = true;
      this.#keep(known);
    }
  }

  #opsFor(one: Waiting): Op[] {
    const { id, device, decision } = one;
    const at = this.#recordOf(device, this.#homeAfter(one), decision);
    const put = { put: `at/${id}`, value: atText(at) };
    if (decision === null) return [put];
    const { news, dropped } = decision;
    const added = news === null ? [] : [{ put: `news/${news.id}`, value: newsText(news) }];
    return [put, ...added, ...dropped.map((name) => ({ delete: `news/${name}` }))];
  }

  /** The home of a device after this write. */
  #homeAfter({ device, isHome }: Waiting): string {
    return isHome || device.home === '' ? this.#options.instance.id : device.home;
  }

  #recordOf(
    { presence, told, heard, away, since, status, marks }: Watched,
    home: string,
    decision: Decision | null,
  ): At {
    const wallMs = (moment: Watched['since']) => moment && wallMsOf(moment, this.#options.clock);
    const { said, everyMs, sent, damping } = presence;
    const heardMs = wallMs(heard);
    const times = { heardMs, awayMs: wallMs(away) ?? heardMs, sinceMs: wallMs(since) };
    const decided = { told: decision?.told ?? told, marks: { ...marks, ...decision?.marks } };
    return { ...times, ...decided, home, said, everyMs, sent, damping, status };
  }

  #keep(failed: readonly Waiting[]): void {
    for (const one of failed) {
      for (const done of one.done) done(false);
      const later = this.#waiting.get(one.id);
      if (!one.isHome || (later !== undefined && later.device !== one.device)) continue;
      this.#waiting.set(one.id, { ...(later ?? { ...one, decision: null, done: [] }), isHome: true });
    }
  }

  /** A record that cannot be read is told of, and written anew: until then the leader watches the device. */
  #read(id: string, value: string): At {
    try {
      return parseAt(value);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.#options.log.error('etcd value damaged', { key: `at/${id}` });
      return DAMAGED;
    }
  }

  /** etcd has this record of the device: its own, or that of another home. */
  #found(id: string, at: At, revision: number): void {
    const { devices, desk, clock, instance } = this.#options;
    const before = devices.get(id);
    if (before !== undefined && before.revision >= revision) return;
    if (before !== undefined && at.home === instance.id) {
      // An own write, of which the answer may be lost, or what people have said at another instance.
      Object.assign(before, { revision, home: at.home });
      if (before.told !== at.told) nowTold(before, at.told);
      if (at.marks.quiet?.untilMs !== before.marks.quiet?.untilMs) desk.changed(id);
      // Decisions make all marks but this one: heartbeats change it, too, and memory has the last of them.
      const { stuck } = before.marks;
      before.marks = { ...at.marks, stuck };
      return;
    }
    const found = watchedFrom(at, revision, clock.bootMs());
    if (before !== undefined && at.marks.quiet?.untilMs !== before.marks.quiet?.untilMs) desk.changed(id);
    if (before === undefined || !this.#hasLater(before, at)) {
      devices.set(id, found);
      return;
    }
    // The other home did not know the later heartbeat, which this instance has taken.
    const { home, told, away, marks } = found;
    devices.set(id, { ...before, revision, home, told, away, marks });
    this.note(id);
  }

  /**
   * True if this instance has taken a later heartbeat. One that it took long ago says nothing against a decision that the
   * device is silent: the leader may have made it since.
   */
  #hasLater({ presence, heard }: Watched, { told, sent }: At): boolean {
    const { clock } = this.#options;
    const nowMs = clock.bootMs();
    const isRecent = heard.boot === clock.boot && nowMs - heard.bootMs < FLEET_STALE_MS;
    return (told === 'online' || isRecent) && isOvertaken(presence, nowMs, sent);
  }
}

/** In transactions that etcd takes: a device that moves takes back all its news. */
function* transactionsOf(waiting: Iterable<Waiting>): Generator<readonly Waiting[]> {
  let chunk: Waiting[] = [];
  let ops = 0;
  for (const one of waiting) {
    // Its record, its news, and those that are dropped.
    const more = 2 + (one.decision?.dropped.length ?? 0);
    if (chunk.length === RECORDS || ops + more > TXN_OPS_MAX) {
      yield chunk;
      chunk = [];
      ops = 0;
    }
    chunk.push(one);
    ops += more;
  }
  if (chunk.length > 0) yield chunk;
}

const DAMAGED: At = {
  ...{ home: '', told: 'online', said: 'running', status: NO_STATUS, marks: NO_MARKS },
  ...{ heardMs: null, awayMs: null, sinceMs: null, everyMs: 0, damping: 1, sent: null },
};

/** A device as etcd has it. */
function watchedFrom({ home, told, status, marks, ...at }: At, revision: number, nowMs: number): Watched {
  const { said, everyMs, sent, damping } = at;
  return {
    presence: {
      ...firstHeard(nowMs),
      state: told,
      said,
      everyMs,
      sent: sent ?? null,
      damping,
      unsteadyMs: damping > 1 ? nowMs : null,
    },
    ...{ told, status, marks, home, revision, notedMs: nowMs },
    heard: momentAt(at.heardMs),
    away: told === 'offline' ? momentAt(at.awayMs) : null,
    since: at.sinceMs === null ? null : momentAt(at.sinceMs),
  };
}

/** The value of news. */
export function newsText({ id: _, ...news }: DeviceNews): string {
  return JSON.stringify(news);
}

/** Throws SyntaxError. */
export function newsIn(id: string, text: string): DeviceNews {
  const { device, ...news } = objectIn(text) ?? {};
  if (typeof device !== 'string' || !isNews(news)) throw new SyntaxError('no news');
  return { ...newsAt(news as Happening), id, device };
}
