/**
 * Tells people news: accepts the messages into the cloud's store, from which delivery sends them. A message is accepted once,
 * because its key says what it tells to whom.
 */

import { grouped, Recent } from '../base/collections.js';
import type { Log } from '../base/system/log.js';
import { inLanes } from '../base/turns.js';
import { type Entry, targetOf } from '../mail/book/destination.js';
import type { Address } from '../mail/message/address.js';
import { type Draft, NO_ATTACHMENTS } from '../mail/message/message.js';
import type { KeyedContent, Store } from '../mail/store/store.js';
import { aboutOf, entriesOf, type People, personOf } from './document.js';
import type { DeviceNews, FleetDocuments, NewsBatch, Telling } from './fleet-store.js';
import type { OutageLog, ToldNews, ToldPerson } from './outages.js';
import { type DeviceContent, hashOf, type Ways } from './outbox.js';
import { type About, DIGEST_DEVICES, digestOf, type Text, type TextOptions, textOf } from './texts/texts.js';
import type { Direction } from './texts/words.js';

interface TellerOptions extends Ways {
  /** The cloud's store, one message at a time. */
  readonly store: Pick<Store, 'recall'> & {
    accept(draft: Draft, keyed: KeyedContent): Promise<{ readonly ids: readonly string[] }>;
    /** False: it refuses every notification. */
    mayTakeMore(): boolean;
  };
  readonly documents: Pick<FleetDocuments, 'read'>;
  readonly people: Pick<People, 'devicesOf'>;
  readonly texts: TextOptions;
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

/** One news for one person. */
interface Addressed {
  readonly news: DeviceNews;
  readonly about: About;
  readonly entry: Entry;
  /** The same for all entries of a person. A placeholder such as OWNER may be another one for each device. */
  readonly person: string;
}

/** How far the telling of a batch is. */
interface Progress {
  /** The news that need no look any more while the batch is open. */
  readonly early: Set<string>;
  readonly told: Set<string>;
  /** By device: why its news are not told. */
  readonly refused: Map<string, Error>;
  /** The outbox refuses every notification, for this reason. */
  full: Error | null;
  /** For the log of outages. */
  readonly record: ToldNews[];
}

/** A message to accept. */
interface Job {
  readonly key: string;
  readonly entry: Entry;
  /** The news that it tells: several in a digest. */
  readonly news: readonly DeviceNews[];
  readonly draft: () => Draft;
}

/** What a person was told by an accepted message. */
interface Told {
  readonly news: DeviceNews;
  readonly person: ToldPerson;
  readonly isDigest: boolean;
}

/** Messages accepted, and documents read, at the same time. */
const LANES = 64;
/** Batches whose progress is remembered. Without it messages would be accepted again, which changes nothing. */
const BATCHES_MAX = 16;

/** Tells people the news of batches. */
export class Teller {
  readonly #options: TellerOptions;
  /** By batch: see Progress. */
  readonly #early = new Recent<string, Set<string>>(BATCHES_MAX);

  constructor(options: TellerOptions) {
    this.#options = options;
  }

  /**
   * Tells the people in the documents of the batch's devices, each in their language. Resolves when the messages are on the
   * disk. Never rejects. A repeated call accepts only what is missing.
   *
   * While the batch is open, it tells people of at most DIGEST_DEVICES devices. When it is closed, it tells the others:
   * for more than DIGEST_DEVICES news of one direction a person gets one digest.
   *
   * Skips destinations whose type has no relay or webhook; the log counts them as `unreachable`.
   */
  async tell(batch: NewsBatch, isClosed: boolean): Promise<Telling> {
    const early = this.#early.get(batch.id) ?? new Set();
    this.#early.set(batch.id, early);
    const told = new Set<string>();
    const progress: Progress = { early, told, refused: new Map(), full: null, record: [] };
    try {
      if (isClosed) await this.#tellNews(batch.news, batch.id, progress);
      else await this.#tellEarly(batch, progress);
    } catch (error) {
      // The store can say nothing of its keys.
      return { told, refusal: error as Error };
    } finally {
      await this.#options.outages.record(progress.record);
    }
    const [refusal = null] = progress.refused.values();
    if (isClosed && refusal === null) this.#early.delete(batch.id);
    return { told, refusal };
  }

  /** The news of one device are told in order. */
  async #tellEarly({ news }: NewsBatch, progress: Progress): Promise<void> {
    const fresh = news.filter(({ id }) => !progress.early.has(id));
    await inLanes(LANES, grouped(fresh, ({ device }) => device).values(), async (ofDevice) => {
      for (const one of ofDevice)
        if (progress.full === null && !progress.refused.has(one.device))
          await this.#tellNews([one], null, progress);
    });
  }

  /** Tells all news of this closed batch; null: tells those people who do not wait for its end. */
  async #tellNews(
    news: readonly DeviceNews[],
    closedBatch: string | null,
    progress: Progress,
  ): Promise<void> {
    const { people, log } = this.#options;
    const { early, refused, told, record } = progress;
    const audiences = await this.#audiencesOf(news, refused);
    // A digest without the devices that could not be read would count as told of them, too.
    if (refused.size > 0 && news.length > DIGEST_DEVICES) return;
    const addressed = news.flatMap((one) => addressedIn(audiences.get(one.device), one));
    const jobs =
      closedBatch !== null
        ? this.#jobsOf(closedBatch, addressed)
        : addressed
            .filter(({ person }) => people.devicesOf(person) <= DIGEST_DEVICES)
            .map((one) => this.#jobOf(one));
    const accepted = grouped(await this.#acceptAll(jobs, progress), (one) => one.news.id);
    for (const one of news) {
      const audience = audiences.get(one.device);
      if (audience === undefined) continue;
      const isRefused = refused.has(one.device);
      // The next call tells them again all that it tells now.
      if (isRefused && closedBatch === null) continue;
      const ofNews = accepted.get(one.id) ?? [];
      const isEverybody = !isRefused && (closedBatch !== null || ofNews.length === audience.entries.length);
      // Whoever cannot be reached is logged once.
      const unreachable = early.has(one.id) ? 0 : audience.unreachable;
      early.add(one.id);
      if (isEverybody) told.add(one.id);
      if (isEverybody || ofNews.length > 0)
        record.push({ news: one, told: ofNews.map(({ person }) => person) });
      // A digest was logged by itself.
      const ids = ofNews.flatMap(({ person, isDigest }) => (isDigest ? [] : person.id));
      if (ids.length + unreachable > 0 || (isEverybody && closedBatch === null)) {
        const known = ids.length > 0 && { ids: ids.join(',') };
        log.info('notified', { device: one.device, kind: one.kind, unreachable, ...known });
      }
    }
  }

  /** By device. */
  async #audiencesOf(
    news: readonly DeviceNews[],
    refused: Map<string, Error>,
  ): Promise<ReadonlyMap<string, Audience>> {
    const { documents, takesMail, takesShort } = this.#options;
    const audiences = new Map<string, Audience>();
    await inLanes(LANES, new Set(news.map(({ device }) => device)), async (device) => {
      try {
        const { document } = (await documents.read(device)) ?? { document: { destinations: [] } };
        const all = entriesOf(document);
        const entries = all.filter(({ type }) => (type === 1 ? takesMail : takesShort));
        const about = aboutOf(document, device);
        audiences.set(device, { about, entries, unreachable: all.length - entries.length });
      } catch (error) {
        refused.set(device, error as Error);
      }
    });
    return audiences;
  }

  /** The messages of a closed batch. */
  #jobsOf(batch: string, addressed: readonly Addressed[]): Job[] {
    const { store, texts } = this.#options;
    const isKnown = (key: string) => store.recall(key) !== null;
    return [...grouped(addressed, ({ person }) => person).values()].flatMap((ofPerson) => {
      const { entry } = ofPerson.at(-1) as Addressed;
      const digestKey = (direction: Direction) => `digest ${hashOf(batch, direction, targetOf(entry))}`;
      const all = ofPerson.map((one) => ({ ...one, isTold: isKnown(keyOf(one.news, one.entry)) }));
      const plan = planFor(all, (direction) => isKnown(digestKey(direction)));
      const digests = plan.digests.map(({ direction, news: told }): Job => {
        const news = told.map((one) => one.news);
        const [sinceMs = null] = news
          .flatMap((one) => ('sinceMs' in one ? (one.sinceMs ?? []) : []))
          .sort((a, b) => a - b);
        const devices = told.map(({ about }) => about);
        const text = () => digestOf(entry.lang, { direction, devices, sinceMs }, texts);
        return { key: digestKey(direction), entry, news, draft: () => notificationFor(entry, null, text()) };
      });
      return [...plan.single.map((one) => this.#jobOf(one)), ...digests];
    });
  }

  #jobOf({ news, about, entry }: Addressed): Job {
    const text = () => textOf(entry.lang, about, news, this.#options.texts);
    const draft = () => notificationFor(entry, news.device, text());
    return { key: keyOf(news, entry), entry, news: [news], draft };
  }

  /** Accepts the messages. Logs digests. */
  async #acceptAll(jobs: readonly Job[], progress: Progress): Promise<Told[]> {
    const { store, log } = this.#options;
    const accepted: Told[] = [];
    await inLanes(LANES, jobs, async ({ key, entry, news, draft }) => {
      try {
        // Try the others later.
        if (progress.full !== null) throw progress.full;
        const { ids } = await store.accept(draft(), { key, hash: key });
        const { type, name, destination } = entry;
        const person = { type, name, destination, id: ids[0] as string };
        const isDigest = news.length > 1;
        if (isDigest) log.info('notified', { devices: news.length, kind: news[0]?.kind, ids: person.id });
        for (const one of news) accepted.push({ news: one, person, isDigest });
      } catch (error) {
        // While the outbox is full of SMS, it still takes mails.
        if (!store.mayTakeMore()) progress.full = error as Error;
        for (const { device } of news) progress.refused.set(device, error as Error);
      }
    });
    return accepted;
  }
}

/** None if the document could not be read. */
function addressedIn(audience: Audience | undefined, news: DeviceNews): Addressed[] {
  if (audience === undefined) return [];
  const { about, entries } = audience;
  const personIn = (entry: Entry) => personOf(entry) ?? `${news.device} ${targetOf(entry)}`;
  return entries.map((entry) => ({ news, about, entry, person: personIn(entry) }));
}

/** The key leaves out the text, which changes with the document. */
function keyOf({ device, id }: DeviceNews, entry: Entry): string {
  return `presence ${hashOf(device, id, targetOf(entry))}`;
}

/** A notification about `device`; null: a digest. */
function notificationFor(entry: Entry, device: string | null, text: Text): Draft {
  const { type, destination, lang } = entry;
  const { subject, plain, short, sms } = text;
  const rest = { attachments: NO_ATTACHMENTS, ignored: [] };
  if (type === 1) {
    const content = { subject, plain: plain.replaceAll('\n', '\r\n'), html: '' };
    return { type, destination: destination as Address, content, ...rest };
  }
  const content: DeviceContent = {
    ...(device !== null && { device }),
    lang,
    message: type === 2 ? sms() : short,
    ...(type === 4 && { title: subject }),
  };
  return { type, destination, content, ...rest };
}

/** One news for one person. */
export interface PlannedNews {
  readonly news: DeviceNews;
  /** True if this person has had a message of its own about it. */
  readonly isTold: boolean;
}

/**
 * The plan for the news of a batch, those of each device in order. A person is told at most the last news of a device, and
 * only if it differs from what this person knows: who was not told of a silence need not be told that it is over. `single`:
 * each in a message of its own.
 */
export function planFor<T extends PlannedNews>(
  all: readonly T[],
  hasDigest: (direction: Direction) => boolean,
) {
  const byDevice = grouped(all, ({ news }) => news.device);
  const needed = [...byDevice.values()].flatMap((queue) => lastNeeded(queue) ?? []);
  const plan = { single: [] as T[], digests: [] as { direction: Direction; news: T[] }[] };
  for (const direction of ['offline', 'back'] as const) {
    const news = needed.filter((one) => directionOf(one.news) === direction);
    if (news.length === 0 || hasDigest(direction)) continue;
    if (news.length > DIGEST_DEVICES) plan.digests.push({ direction, news });
    else plan.single.push(...news);
  }
  return plan;
}

function lastNeeded<T extends PlannedNews>(queue: readonly T[]): T | null {
  const [first] = queue as [T];
  const last = queue.at(-1) as T;
  const told = queue.findLast(({ isTold }) => isTold);
  // Before the first news the device was in the other state.
  const isOffline =
    told === undefined ? directionOf(first.news) === 'back' : directionOf(told.news) === 'offline';
  return isOffline === (directionOf(last.news) === 'offline') ? null : last;
}

function directionOf({ kind }: DeviceNews): Direction {
  return kind === 'back' ? 'back' : 'offline';
}
