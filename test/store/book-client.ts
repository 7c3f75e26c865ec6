/**
 * Uses the address book of a store, and compares a recovered book with the answers. It knows each entry by its name, and
 * each version of it by the language.
 */
import type { Lang } from '../../src/base/langs.js';
import type { Store } from '../../src/mail/store/store.js';
import { bookOf } from '../support/store.js';
import { Doubt } from './doubt.js';

interface Entry {
  id: number | null;
  /** The entry's language; null if the entry is gone. */
  readonly lang: Doubt<Lang | null>;
}

export class BookClient {
  readonly #entries = new Map<string, Entry>();
  #etag = new Doubt<string | null>([null]);
  #highestId = 0;
  readonly #found: string[] = [];

  copy(): BookClient {
    const copy = new BookClient();
    for (const [name, { id, lang }] of this.#entries) copy.#entries.set(name, { id, lang: lang.copy() });
    copy.#etag = this.#etag.copy();
    copy.#highestId = this.#highestId;
    copy.#found.push(...this.#found);
    return copy;
  }

  /** The entries that exist for certain. */
  get names(): string[] {
    return [...this.#entries]
      .filter(([, { id, lang }]) => id !== null && !lang.allows(null))
      .map(([name]) => name);
  }

  async add(store: Store, name: string): Promise<void> {
    const entry = this.#newEntry(name);
    const work = async () => {
      const { id } = await bookOf(store).add(fieldsOf(name, 'en'));
      if (id <= this.#highestId) this.#found.push(`id ${id} is given again`);
      this.#highestId = id;
      entry.id = id;
    };
    await entry.lang.become('en', work, 'synced');
  }

  async change(store: Store, name: string, lang: Lang): Promise<void> {
    const entry = this.#entry(name);
    await entry.lang.become(lang, () => bookOf(store).replace(entry.id ?? 0, fieldsOf(name, lang)), 'synced');
  }

  async remove(store: Store, name: string): Promise<void> {
    const entry = this.#entry(name);
    await entry.lang.become(null, () => bookOf(store).remove(entry.id ?? 0), 'synced');
  }

  /** Pulls a document with one more entry under `etag`; the cloud answers the upload with `nextEtag`. */
  async sync(store: Store, name: string, etag: string, nextEtag: string): Promise<void> {
    const uid = `00000000-0000-4000-9000-${Buffer.from(name).toString('hex').padStart(12, '0').slice(-12)}`;
    const book = bookOf(store);
    const entry = this.#newEntry(name);
    const pull = () => book.pull({ etag, document: [{ uid, ...fieldsOf(name, 'en') }] });
    await this.#etag.become(etag, () => entry.lang.become('en', pull, 'synced'), 'synced');
    await this.#etag.become(nextEtag, () => book.stored(nextEtag), 'synced');
    entry.id = book.list().find((shown) => shown.name === name)?.id ?? null;
    this.#highestId = Math.max(this.#highestId, entry.id ?? 0);
  }

  /** From now on a recovered store is right. */
  reconcile(store: Store): void {
    const book = bookOf(store);
    const shown = new Map(book.list().map((destination) => [destination.name, destination]));
    for (const [name, entry] of this.#entries) {
      const found = shown.get(name);
      entry.lang.set(found?.lang ?? null);
      entry.id = found?.id ?? entry.id;
      this.#highestId = Math.max(this.#highestId, entry.id ?? 0);
    }
    this.#etag.set(book.etag);
  }

  /** What `store` breaks of the promises, in words. */
  violations(store: Store): string[] {
    const found = [...this.#found];
    const book = bookOf(store);
    const list = book.list();
    const shown = new Map(list.map((destination) => [destination.name, destination]));
    if (new Set(list.map(({ id }) => id)).size !== list.length)
      found.push('an id stands for two destinations');
    for (const [name, entry] of this.#entries) {
      const { id, lang } = shown.get(name) ?? { id: null, lang: null };
      shown.delete(name);
      if (!entry.lang.allows(lang)) found.push(`destination ${name} is ${lang}, not ${entry.lang}`);
      if (id !== null && entry.id !== null && entry.id !== id) found.push(`${name} has another id`);
    }
    for (const name of shown.keys()) found.push(`destination ${name} came from nowhere`);
    if (!this.#etag.allows(book.etag))
      found.push(`what was agreed has the ETag ${book.etag}, not ${this.#etag}`);
    return found;
  }

  #newEntry(name: string): Entry {
    const entry: Entry = { id: null, lang: new Doubt<Lang | null>([null]) };
    this.#entries.set(name, entry);
    return entry;
  }

  #entry(name: string): Entry {
    const entry = this.#entries.get(name);
    if (!entry) throw new Error(`there is no destination ${name}`);
    return entry;
  }
}

function fieldsOf(name: string, lang: Lang) {
  return { type: 1, destination: `${name}@example.com`, lang, name } as const;
}
