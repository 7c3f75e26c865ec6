/**
 * Tells people news: asks the rules what each person is to hear now, makes messages of it, and accepts them into the cloud's
 * store, from which delivery sends them. A message is accepted once, because its key says what it tells to whom.
 */
import { grouped } from '../base/collections.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import { inLanes } from '../base/turns.js';
import { type Entry, targetOf } from '../mail/book/destination.js';
import { rulesOf } from '../mail/book/rules.js';
import type { Draft } from '../mail/message/message.js';
import type { KeyedContent, Store } from '../mail/store/store.js';
import { aboutOf, entriesOf, type People, personAt } from './document.js';
import type { DeviceNews, FleetDocuments, KeptNews, NewsOfDevice, Telling } from './fleet-store.js';
import { draftOfMany, draftOfOne, HOOK, isHook, type ToldOfMany, textsFor, wayOf } from './notification.js';
import type { OutageLog, ToldNews } from './outages.js';
import { hashOf, isReachable, type Ways } from './outbox.js';
import {
  axisOf,
  type Item,
  isEnd,
  type Listener,
  ruleOnce,
  ruleReminder,
  ruleState,
  type Standing,
} from './rules.js';
import { type Hearing, type Reached, Settling, type Telltale } from './settling.js';
import { type About, DIGEST_DEVICES, type TextOptions } from './texts/texts.js';

interface TellerOptions extends Ways {
  /** The cloud's store, one message at a time. */
  readonly store: Pick<Store, 'recall'> & {
    accept(draft: Draft, keyed: KeyedContent): Promise<{ readonly ids: readonly string[] }>;
    /** False: it refuses every notification. */
    mayTakeMore(): boolean;
  };
  readonly documents: Pick<FleetDocuments, 'read'>;
  readonly people: Pick<People, 'devicesOf'>;
  /** Until when the device is quiet, by the wall clock; null: it is not. */
  readonly quietUntilMs: (device: string) => number | null;
  readonly texts: TextOptions;
  readonly clock: Pick<Clock, 'wallMs'>;
  readonly log: Log;
  /** Keeps who was told. */
  readonly outages: Pick<OutageLog, 'record'>;
}

/** Whom a device's document names. */
interface Audience {
  readonly about: About;
  /** Those with a relay or webhook for their type. */
  readonly entries: readonly Entry[];
  /** The number of the others. */
  readonly unreachable: number;
}

/** A message to accept. */
interface Job {
  readonly keyed: KeyedContent;
  readonly tells: readonly Telltale[];
  readonly draft: () => Draft;
}

/** Messages accepted, and documents read, at the same time. */
const LANES = 64;
/** So many devices of a site, and more than half of it, are told as the site. */
const SITE_DEVICES = 3;

/** Tells people the news of devices. */
export class Teller {
  readonly #options: TellerOptions;

  constructor(options: TellerOptions) {
    this.#options = options;
  }

  /**
   * Tells the people in the documents of these devices what they are to hear now, each in their language. Resolves when the
   * messages are on the disk. Never rejects. A repeated call accepts only what is missing. `isLast`: nothing more comes that
   * could be told together with these news.
   *
   * For more than DIGEST_DEVICES devices that go the same way a person gets one digest, and for most of a site one message.
   * Skips destinations whose type has no relay or webhook; the log counts them as `unreachable`.
   */
  async tell(all: readonly NewsOfDevice[], isLast: boolean): Promise<Telling> {
    const nowMs = this.#options.clock.wallMs();
    const settling = new Settling();
    const record: ToldNews[] = [];
    try {
      const audiences = await this.#audiencesOf(all, settling);
      // One message about many without these would count as told of them, too.
      if (settling.hasRefused && all.length > DIGEST_DEVICES) return settling.end();
      const hearings = all.flatMap((one) => this.#hearingsOf(one, audiences.get(one.device), nowMs, isLast));
      const tells = hearings.filter((one): one is Telltale => one.ruling.act === 'tell');
      const accepted = await this.#acceptAll(this.#jobsOf(tells), settling);
      const byDevice = grouped(hearings, ({ ofDevice }) => ofDevice.device);
      for (const one of all) {
        const audience = audiences.get(one.device);
        if (audience === undefined) continue;
        const toldNow = accepted.get(one.device) ?? [];
        settling.settle(one, byDevice.get(one.device) ?? [], toldNow);
        record.push(...this.#logged(one, toldNow, audience));
      }
    } catch (error) {
      // The store can say nothing of its keys.
      settling.failure ??= error as Error;
    } finally {
      await this.#options.outages.record(record);
    }
    return settling.end();
  }

  /** By device. */
  async #audiencesOf(
    all: readonly NewsOfDevice[],
    settling: Settling,
  ): Promise<ReadonlyMap<string, Audience>> {
    const { documents, takesHook } = this.#options;
    const audiences = new Map<string, Audience>();
    await inLanes(LANES, all, async ({ device }) => {
      try {
        const { document } = (await documents.read(device)) ?? { document: { destinations: [] } };
        const named = entriesOf(document);
        const entries = named.filter((entry) => isReachable(entry, this.#options));
        const unreachable = named.length - entries.length;
        if (takesHook) entries.push(HOOK);
        audiences.set(device, { about: aboutOf(document, device), entries, unreachable });
      } catch (error) {
        settling.refuse(device, error as Error);
      }
    });
    return audiences;
  }

  /** None if the document could not be read. */
  #hearingsOf(
    ofDevice: NewsOfDevice,
    audience: Audience | undefined,
    nowMs: number,
    isLast: boolean,
  ): Hearing[] {
    if (audience === undefined) return [];
    const { about, entries } = audience;
    const byAxis = [...grouped(ofDevice.news, ({ news }) => axisOf(news))];
    return entries.flatMap((entry) => {
      const person = personAt(ofDevice.device, entry);
      const listener = this.#listenerOf(ofDevice.device, entry, person, about);
      const mark = markOf(entry);
      const texts = textsFor(this.#options.texts, listener.rules);
      const who = { ofDevice, about, entry, person, mark, texts };
      const isSure = ofDevice.news.length === 1 && !listener.gathers;
      const itemOf = (kept: KeptNews) => ({
        ...kept,
        windowEndsMs: isLast ? nowMs : kept.windowEndsMs,
        // The mark may be lost. One piece of news is accepted again then, which changes nothing.
        mark: markIn(kept.news, mark, () => !isSure && this.#isTold(kept.news, entry)),
      });
      const hearings: Hearing[] = [];
      for (const axis of ['link', 'mails'] as const) {
        const items = byAxis.find(([one]) => one === axis)?.[1].map(itemOf) ?? [];
        if (items.length > 0)
          hearings.push({ ...who, axis, items, ruling: ruleState(items, listener, nowMs) });
      }
      const link = hearings.find(({ axis }) => axis === 'link');
      const knowsBad = link?.ruling.act === 'none' && link.ruling.knows && !isEnd(lastOf(link).news);
      for (const [axis, all] of byAxis)
        for (const item of axis === 'once' || axis === 'still' ? all.map(itemOf) : []) {
          const ruling =
            axis === 'still'
              ? ruleReminder(item, knowsBad, listener, nowMs)
              : ruleOnce(item, listener, nowMs);
          hearings.push({ ...who, axis, items: [item], ruling });
        }
      return hearings;
    });
  }

  #listenerOf(device: string, entry: Entry, person: string, { site }: About): Listener {
    const { people, texts, quietUntilMs } = this.#options;
    const gathers =
      people.devicesOf(person) > DIGEST_DEVICES ||
      (site !== null && people.devicesOf(person, site) >= SITE_DEVICES);
    const common = { uid: entry.uid, rules: rulesOf(entry), cloudZone: texts.timeZone };
    return {
      ...common,
      quietUntilMs: quietUntilMs(device),
      gathers: gathers && !isHook(entry),
      isHook: isHook(entry),
    };
  }

  #isTold(news: DeviceNews, entry: Entry): boolean {
    return this.#options.store.recall(keyOf(news, entry)) !== null;
  }

  /** The messages: one for each, or one for many. */
  #jobsOf(tells: readonly Telltale[]): Job[] {
    return [...grouped(tells, ({ person }) => person).values()].flatMap((ofPerson) => {
      const [alone, together] = split(ofPerson, ({ axis, entry }) => axis === 'once' || isHook(entry));
      const jobs = alone.map((one) => this.#jobOf(one));
      for (const sameWay of grouped(together, ({ ruling }) => wayOf(ruling)).values())
        jobs.push(...this.#jobsOfWay(sameWay));
      return jobs;
    });
  }

  /** The messages to one person about devices that go the same way. */
  #jobsOfWay(all: readonly Telltale[]): Job[] {
    const { people } = this.#options;
    const tells = all.toSorted((one, other) => lastOf(one).order - lastOf(other).order);
    const jobs: Job[] = [];
    const rest: Telltale[] = [];
    for (const [site, ofSite] of grouped(tells, ({ about }) => about.site)) {
      const [{ person, ruling, axis }] = ofSite as [Telltale];
      const total = site === null ? 0 : people.devicesOf(person, site);
      const isSite =
        site !== null &&
        axis === 'link' &&
        ruling.was === null &&
        ofSite.length >= SITE_DEVICES &&
        2 * ofSite.length > total;
      if (isSite) jobs.push(...this.#jobOfMany(ofSite, { site, total }));
      else rest.push(...ofSite);
    }
    if (rest.length > DIGEST_DEVICES) jobs.push(...this.#jobOfMany(rest, null));
    else jobs.push(...rest.map((one) => this.#jobOf(one)));
    return jobs;
  }

  #jobOf(tell: Telltale): Job {
    const { entry, about, ruling, texts } = tell;
    const key = keyOf(ruling.news, entry);
    return {
      keyed: { key, hash: key },
      tells: [tell],
      draft: () => draftOfOne(entry, { about, ruling }, texts),
    };
  }

  /**
   * One message about all of them. It is known by the first of its news, and its hash has the order of the last: if it was
   * accepted before a crash, those up to there are told, and only the others remain.
   */
  #jobOfMany(tells: readonly Telltale[], site: ToldOfMany['site']): Job[] {
    const [first] = tells as [Telltale];
    const { entry, ruling, texts } = first;
    const way = `${wayOf(ruling)} ${site?.site ?? ''}`;
    const key = `digest ${hashOf(way, ruling.news.id, targetOf(entry))}`;
    const known = this.#options.store.recall(key);
    const upTo = known === null ? Number.POSITIVE_INFINITY : Number(known.hash);
    const [told, others] = split(tells, (one) => lastOf(one).order <= upTo);
    const hash = known?.hash ?? String(lastOf(tells.at(-1) as Telltale).order);
    const draft = () => draftOfMany(entry, { site, many: told }, texts);
    const job = { keyed: { key, hash }, tells: told, draft };
    return others.length === 0 ? [job] : [job, ...this.#jobsOfWay(others)];
  }

  /** Accepts the messages. Logs those about many devices. By device: who was told. */
  async #acceptAll(jobs: readonly Job[], settling: Settling): Promise<Map<string, Reached[]>> {
    const { store, log } = this.#options;
    const accepted: Reached[] = [];
    let full: unknown = null;
    await inLanes(LANES, jobs, async ({ keyed, tells, draft }) => {
      try {
        // Try the others later.
        if (full !== null) throw full;
        const { ids } = await store.accept(draft(), keyed);
        const [{ entry, ruling }] = tells as [Telltale];
        const { type, name, destination } = entry;
        const person = { type, name, destination, id: ids[0] as string };
        if (tells.length > 1)
          log.info('notified', { devices: tells.length, kind: ruling.news.kind, ids: person.id });
        for (const hearing of tells) accepted.push({ hearing, person, isMany: tells.length > 1 });
      } catch (error) {
        // While the outbox is full of SMS, it still takes mails.
        if (!store.mayTakeMore()) full = error;
        for (const { ofDevice } of tells) settling.refuse(ofDevice.device, error as Error);
      }
    });
    return grouped(accepted, ({ hearing }) => hearing.ofDevice.device);
  }

  /** Logs who was told of the news of a device, and gives the lines for the log of outages. */
  #logged(
    { device, news: all }: NewsOfDevice,
    told: readonly Reached[],
    { entries, unreachable }: Audience,
  ): ToldNews[] {
    const { log } = this.#options;
    return all.flatMap(({ news }) => {
      const ofNews = told.filter(({ hearing }) => hearing.ruling.news.id === news.id);
      const isFirst = news.waits === undefined;
      // Whoever cannot be reached is logged once. A message about many was logged by itself.
      const skipped = isFirst ? unreachable : 0;
      const ids = ofNews.flatMap(({ person, isMany }) => (isMany ? [] : person.id));
      const known = ids.length > 0 && { ids: ids.join(',') };
      if (ids.length + skipped > 0 || (isFirst && entries.length === 0))
        log.info('notified', { device, kind: news.kind, unreachable: skipped, ...known });
      if (!isFirst && ofNews.length === 0) return [];
      const { told: _, waits: __, ...happening } = news;
      return [{ news: happening, told: ofNews.map(({ person }) => person) }];
    });
  }
}

const lastOf = ({ items }: Pick<Hearing, 'items'>) => items.at(-1) as Item & KeptNews;

/** Those of whom it is true, and the others. */
function split<T>(all: readonly T[], isIt: (one: T) => boolean): [T[], T[]] {
  return [all.filter(isIt), all.filter((one) => !isIt(one))];
}

const MARK_DIGITS = 12;

/** How news are marked with a person. */
function markOf(entry: Entry): string {
  return hashOf(targetOf(entry)).slice(0, MARK_DIGITS);
}

function markIn({ told = [], waits }: DeviceNews, mark: string, isTold: () => boolean): Standing {
  if (told.includes(mark)) return 'told';
  if (waits !== undefined && !waits.includes(mark)) return 'none';
  if (isTold()) return 'told';
  return waits === undefined ? 'fresh' : 'waits';
}

/** The key leaves out the text, which changes with the document. */
function keyOf({ device, id }: DeviceNews, entry: Entry): string {
  return `presence ${hashOf(device, id, targetOf(entry))}`;
}
