/**
 * Keeps the books on what the address book of a store has promised, as the Bookkeeper does for messages, and with
 * it. It knows each entry by its name, and tells its versions by their languages.
 */
import type { Lang } from '../../src/destinations/destination.js';
import type { Store } from '../../src/store/store.js';

interface Entry {
  id: number | null;
  /** What it may be found as: a language, or null where it may be gone. The last is what was asked for last. */
  may: Set<Lang | null>;
}

export class DestinationBooks {
  readonly #entries = new Map<string, Entry>();
  #etags = new Set<string | null>([null]);
  #highestId = 0;
  readonly #found: string[] = [];

  copy(): DestinationBooks {
    const copy = new DestinationBooks();
    for (const [name, { id, may }] of this.#entries) copy.#entries.set(name, { id, may: new Set(may) });
    copy.#etags = new Set(this.#etags);
    copy.#highestId = this.#highestId;
    copy.#found.push(...this.#found);
    return copy;
  }

  /** Those that are there for certain. */
  get names(): string[] {
    return [...this.#entries]
      .filter(([, { id, may }]) => id !== null && !may.has(null))
      .map(([name]) => name);
  }

  async add({ book }: Store, name: string): Promise<void> {
    const entry: Entry = { id: null, may: new Set([null]) };
    this.#entries.set(name, entry);
    await this.#edit(entry, 'en', async () => {
      const { id } = await book.add(fieldsOf(name, 'en'));
      if (id <= this.#highestId) this.#found.push(`id ${id} is given again`);
      this.#highestId = id;
      entry.id = id;
    });
  }

  async change({ book }: Store, name: string, lang: Lang): Promise<void> {
    const entry = this.#entry(name);
    await this.#edit(entry, lang, () => book.replace(entry.id ?? 0, fieldsOf(name, lang)));
  }

  async remove({ book }: Store, name: string): Promise<void> {
    const entry = this.#entry(name);
    await this.#edit(entry, null, () => book.remove(entry.id ?? 0));
  }

  /** A sync with a cloud whose document is one entry more, under `etag`; then what is put gets `nextEtag`. */
  async sync({ book }: Store, name: string, etag: string, nextEtag: string): Promise<void> {
    const uid = `00000000-0000-4000-9000-${Buffer.from(name).toString('hex').padStart(12, '0').slice(-12)}`;
    const entry: Entry = { id: null, may: new Set([null]) };
    this.#entries.set(name, entry);
    this.#etags.add(etag);
    await this.#edit(entry, 'en', () => book.pull({ etag, document: [{ uid, ...fieldsOf(name, 'en') }] }));
    this.#etags = new Set([...this.#etags].slice(-1));
    this.#etags.add(nextEtag);
    await book.stored(nextEtag);
    this.#etags = new Set([nextEtag]);
    entry.id = book.list().find((shown) => shown.name === name)?.id ?? null;
    this.#highestId = Math.max(this.#highestId, entry.id ?? 0);
  }

  /** Takes what a recovered store holds for the truth from now on. */
  reconcile({ book }: Store): void {
    const shown = new Map(book.list().map((destination) => [destination.name, destination]));
    for (const [name, entry] of this.#entries) {
      const found = shown.get(name);
      entry.may = new Set([found?.lang ?? null]);
      entry.id = found?.id ?? entry.id;
      this.#highestId = Math.max(this.#highestId, entry.id ?? 0);
    }
    this.#etags = new Set([book.etag]);
  }

  /** What `store` breaks of the promises, in words. */
  violations({ book }: Store): string[] {
    const found = [...this.#found];
    const list = book.list();
    const shown = new Map(list.map((destination) => [destination.name, destination]));
    if (new Set(list.map(({ id }) => id)).size !== list.length)
      found.push('an id stands for two destinations');
    for (const [name, { id, may }] of this.#entries) {
      const destination = shown.get(name);
      shown.delete(name);
      const lang = destination?.lang ?? null;
      if (!may.has(lang))
        found.push(`destination ${name} is ${lang}, not ${[...may].map(String).join(' or ')}`);
      if (destination && id !== null && destination.id !== id) found.push(`${name} has another id`);
    }
    for (const name of shown.keys()) found.push(`destination ${name} came from nowhere`);
    if (!this.#etags.has(book.etag)) {
      found.push(`what was agreed has the ETag ${book.etag}, not ${[...this.#etags].join(' or ')}`);
    }
    return found;
  }

  /** Until it is answered it may be found as before or as after; a refusal leaves that open. */
  async #edit(entry: Entry, becomes: Lang | null, work: () => Promise<unknown>): Promise<void> {
    entry.may = new Set([...entry.may, becomes]);
    try {
      await work();
      entry.may = new Set([becomes]);
    } catch (error) {
      const { code = '' } = error as { code?: string };
      if (!['storage-failed', 'storage-full', 'POWERCUT'].includes(code)) throw error;
    }
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
