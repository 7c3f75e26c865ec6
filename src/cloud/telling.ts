/**
 * Tells people news: accepts the messages into the cloud's store, from which delivery sends them. A message is accepted once,
 * because its key says what it tells to whom.
 */

import { Recent } from '../base/collections.js';
import type { Log } from '../base/system/log.js';
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

/** One news for one person, and the key of its message. */
interface Addressed {
  readonly news: DeviceNews;
  readonly about: About;
  readonly entry: Entry;
  readonly key: string;
  readonly isTold: boolean;
}

/** How far the telling of a batch is: ids of news, and why the news of devices are not told. */
interface Progress {
  readonly early: Set<string>;
  readonly refused: Map<string, Error>;
  readonly told: Set<string>;
  /** For the log of outages. */
  readonly record: ToldNews[];
}

/** A message to accept. */
interface Job {
  readonly key: string;
  readonly entry: Entry;
  /** The news that it tells. */
  readonly news: readonly DeviceNews[];
  readonly makeText: () => Text;
}

/** A message that was accepted. */
interface AcceptedJob extends Pick<Job, 'entry'> {
  readonly id: string;
  readonly isDigest: boolean;
}

/** Messages accepted, and documents read, at the same time. */
const CHUNK = 64;
/** Batches whose progress is remembered. Without it messages would be accepted again, which changes nothing. */
const BATCHES_MAX = 16;

/** Tells people the news of batches. */
export class Teller {
  readonly #options: TellerOptions;
  /** By batch: the news of which everybody was told who does not wait for its end. */
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
    const refused = new Map<string, Error>();
    const told = new Set<string>();
    const record: ToldNews[] = [];
    try {
      if (isClosed) await this.#tellRest(batch, { early, refused, told, record });
      else await this.#tellEarly(batch, { early, refused, told, record });
    } catch (error) {
      // The store can say nothing of its keys.
      return { told, refusal: error as Error };
    } finally {
      await this.#options.outages.record(record);
    }
    const [refusal = null] = refused.values();
    if (isClosed && refusal === null) this.#early.delete(batch.id);
    return { told, refusal };
  }

  async #tellEarly(batch: NewsBatch, { early, refused, told, record }: Progress): Promise<void> {
    const fresh = batch.news.filter(({ id }) => !early.has(id));
    for (const chunk of chunksOf(fresh, ({ device }) => device)) {
      const results = chunk.map(async (news) => {
        // The news of one device are told in order.
        if (refused.has(news.device)) return;
        try {
          const isEverybody = await this.#tellEarlyOf(news, record);
          early.add(news.id);
          if (isEverybody) told.add(news.id);
        } catch (error) {
          refused.set(news.device, error as Error);
        }
      });
      await Promise.all(results);
      // The outbox is full: try the others later. While it is full of SMS, it still takes mails.
      if (chunk.every(({ device }) => refused.has(device)) && !this.#options.store.mayTakeMore()) return;
    }
  }

  /** True if nobody waits for the end of the batch. */
  async #tellEarlyOf(news: DeviceNews, record: ToldNews[]): Promise<boolean> {
    const { people } = this.#options;
    const audience = await this.#audienceOf(news.device);
    const mayWait = (entry: Entry) => {
      const person = personOf(entry);
      return person !== null && people.devicesOf(person) > DIGEST_DEVICES;
    };
    const entries = audience.entries.filter((entry) => !mayWait(entry));
    const jobs = entries.map((entry) => this.#jobOf({ news, about: audience.about, entry }));
    const outcomes = await Promise.allSettled(jobs.map((job) => this.#accept(job)));
    const ids = outcomes.map((outcome) => {
      if (outcome.status === 'rejected') throw outcome.reason;
      return outcome.value;
    });
    const isEverybody = entries.length === audience.entries.length;
    if (isEverybody || ids.length > 0)
      record.push({ news, told: entries.map((entry, index) => toldPerson(entry, ids[index] as string)) });
    if (isEverybody || ids.length > 0 || audience.unreachable > 0) this.#log(news, ids, audience.unreachable);
    return isEverybody;
  }

  async #tellRest(batch: NewsBatch, { early, refused, told, record }: Progress): Promise<void> {
    const people = new Map<string, Addressed[]>();
    const unreachable = new Map<string, number>();
    for (const chunk of chunksOf(batch.news, ({ device }) => device)) {
      const audiences = await Promise.allSettled(chunk.map(({ device }) => this.#audienceOf(device)));
      for (const [index, news] of chunk.entries()) {
        const audience = audiences[index] as (typeof audiences)[number];
        if (audience.status === 'rejected') refused.set(news.device, audience.reason);
        else {
          unreachable.set(news.id, audience.value.unreachable);
          this.#address(news, audience.value, people);
        }
      }
    }
    // A digest without the devices that could not be read would count as told of them, too.
    if (refused.size > 0 && batch.news.length > DIGEST_DEVICES) return;
    const jobs = [...people.values()].flatMap((addressed) => this.#jobsFor(batch, addressed));
    const messages = await this.#acceptAll(jobs, refused);
    for (const news of batch.news) {
      if (refused.has(news.device)) continue;
      told.add(news.id);
      const ofNews = messages.get(news.id) ?? [];
      record.push({ news, told: ofNews.map(({ entry, id }) => toldPerson(entry, id)) });
      // A digest was logged by itself.
      const idsOf = ofNews.flatMap(({ id, isDigest }) => (isDigest ? [] : id));
      // The others were logged while the batch was open.
      const others = early.has(news.id) ? 0 : (unreachable.get(news.id) ?? 0);
      if (idsOf.length + others > 0) this.#log(news, idsOf, others);
    }
  }

  #address(news: DeviceNews, { about, entries }: Audience, people: Map<string, Addressed[]>): void {
    for (const entry of entries) {
      const key = keyOf(news, entry);
      const addressed = { news, about, entry, key, isTold: this.#isKnown(key) };
      const person = personOf(entry) ?? `${news.device} ${targetOf(entry)}`;
      const others = people.get(person);
      if (others === undefined) people.set(person, [addressed]);
      else others.push(addressed);
    }
  }

  /** The messages that this person gets. */
  #jobsFor(batch: NewsBatch, addressed: readonly Addressed[]): Job[] {
    const { entry } = addressed.at(-1) as Addressed;
    const digestKey = (direction: string) => `digest ${hashOf(batch.id, direction, targetOf(entry))}`;
    const plan = planFor(addressed, (direction) => this.#isKnown(digestKey(direction)));
    const digests = plan.digests.map(({ direction, news: all }): Job => {
      const moments = all.flatMap(({ news }) => news.sinceMs ?? []);
      const sinceMs = moments.length === 0 ? null : moments.reduce((a, b) => Math.min(a, b));
      const devices = all.map(({ about }) => about);
      const makeText = () => digestOf(entry.lang, { direction, devices, sinceMs }, this.#options.texts);
      return { key: digestKey(direction), entry, news: all.map(({ news }) => news), makeText };
    });
    return [...plan.single.map((one) => this.#jobOf(one)), ...digests];
  }

  /** Accepts the messages, and gives them by news. Logs digests. */
  async #acceptAll(
    jobs: readonly Job[],
    refused: Map<string, Error>,
  ): Promise<ReadonlyMap<string, readonly AcceptedJob[]>> {
    const messages = new Map<string, AcceptedJob[]>();
    for (const chunk of chunksOf(jobs, ({ key }) => key)) {
      const outcomes = await Promise.allSettled(chunk.map((job) => this.#accept(job)));
      for (const [index, { news, entry }] of chunk.entries()) {
        const outcome = outcomes[index] as (typeof outcomes)[number];
        const [first] = news as [DeviceNews];
        if (outcome.status === 'rejected') {
          for (const { device } of news) refused.set(device, outcome.reason);
          continue;
        }
        const accepted = { entry, id: outcome.value, isDigest: news.length > 1 };
        if (accepted.isDigest)
          this.#options.log.info('notified', { devices: news.length, kind: first.kind, ids: accepted.id });
        for (const { id } of news) {
          const others = messages.get(id);
          if (others === undefined) messages.set(id, [accepted]);
          else others.push(accepted);
        }
      }
      // The outbox is full: try the others later.
      const isFull = outcomes.every(({ status }) => status === 'rejected');
      if (!isFull || this.#options.store.mayTakeMore()) continue;
      const { reason } = outcomes[0] as PromiseRejectedResult;
      for (const { news } of jobs.slice(jobs.indexOf(chunk[0] as Job)))
        for (const { device } of news) refused.set(device, reason);
      break;
    }
    return messages;
  }

  #jobOf({ news, about, entry }: Pick<Addressed, 'news' | 'about' | 'entry'>): Job {
    const makeText = () => textOf(entry.lang, about, news, this.#options.texts);
    return { key: keyOf(news, entry), entry, news: [news], makeText };
  }

  async #accept({ key, entry, news, makeText }: Job): Promise<string> {
    const device = news.length === 1 ? (news[0] as DeviceNews).device : null;
    const draft = notificationFor(entry, device, makeText());
    const { ids } = await this.#options.store.accept(draft, { key, hash: key });
    return ids[0] as string;
  }

  #isKnown(key: string): boolean {
    return this.#options.store.recall(key) !== null;
  }

  async #audienceOf(device: string): Promise<Audience> {
    const { documents, takesMail, takesShort } = this.#options;
    const { document } = (await documents.read(device)) ?? { document: { destinations: [] } };
    const all = entriesOf(document);
    const entries = all.filter(({ type }) => (type === 1 ? takesMail : takesShort));
    return { about: aboutOf(document, device), entries, unreachable: all.length - entries.length };
  }

  #log({ device, kind }: DeviceNews, ids: readonly string[], unreachable: number): void {
    const known = ids.length > 0 && { ids: ids.join(',') };
    this.#options.log.info('notified', { device, kind, unreachable, ...known });
  }
}

function toldPerson({ type, name, destination }: Entry, id: string): ToldPerson {
  return { type, name, destination, id };
}

/** The key leaves out the text, which changes with the document. */
function keyOf({ device, id }: DeviceNews, entry: Entry): string {
  return `presence ${hashOf(device, id, targetOf(entry))}`;
}

/** The items in chunks of at most CHUNK with different names. */
function* chunksOf<T>(items: readonly T[], nameOf: (item: T) => string): Generator<readonly T[]> {
  let chunk = new Map<string, T>();
  for (const item of items) {
    if (chunk.size === CHUNK || chunk.has(nameOf(item))) {
      yield [...chunk.values()];
      chunk = new Map();
    }
    chunk.set(nameOf(item), item);
  }
  if (chunk.size > 0) yield [...chunk.values()];
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
  const byDevice = new Map<string, T[]>();
  for (const one of all) {
    const { device } = one.news;
    const queue = byDevice.get(device);
    if (queue === undefined) byDevice.set(device, [one]);
    else queue.push(one);
  }
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
