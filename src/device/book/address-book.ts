/**
 * The address book: whom to notify when this device goes offline. The api edits it, the sync merges it with the cloud's
 * document. Changes are made one at a time. Each is durable when its promise resolves.
 */
import { FieldpostError } from '../../base/errors.js';
import { canonical, type JsonObject } from '../../base/json.js';
import { isoOf } from '../../base/text.js';
import { Turns } from '../../base/turns.js';
import type { Base, Book, BookKeeping, Remote } from '../../mail/book/book.js';
import {
  type Destination,
  type Edit,
  type Entry,
  type Fields,
  targetOf,
} from '../../mail/book/destination.js';
import { givenRules, planOf } from '../../mail/book/rules.js';
import type { Address } from '../../mail/message/address.js';
import { type Agreement, agree } from './ancestry.js';
import { alterations } from './merge.js';

/** Destinations that clients may add. A document with this many is below CLOUD_DOCUMENT_BYTES_MAX. */
export const DESTINATIONS_MAX = 500;

/** How the cloud changes the document that it is given. */
export interface Alterations {
  /** It drops the document's mark, and perhaps every member that it does not know. */
  readonly dropsMark: boolean;
  /** Members of entries that it has changed, or `gone`. `id`: null for a hidden entry. */
  readonly changed: readonly { readonly id: number | null; readonly members: readonly string[] }[];
}

/** Every change of the book goes through here. */
export class AddressBook {
  readonly #keeping: BookKeeping;
  /** One edit at a time: what a check has found must still hold when the edit is recorded. */
  readonly #turns = new Turns();
  #generation = 0;
  /** The last ETag of the cloud's document, and the base with the same content. */
  #seen: { readonly base: Base | null; readonly etag: string } | null = null;

  constructor(keeping: BookKeeping) {
    this.#keeping = keeping;
  }

  /** Counts the edits made on this device since its start. */
  get generation(): number {
    return this.#generation;
  }

  /** The numbers of entries and of hidden ones. */
  get counts(): { readonly count: number; readonly hidden: number } {
    return { count: this.#book.entries.size, hidden: this.#book.hidden.length };
  }

  /** The email addresses in it. */
  get addresses(): readonly Address[] {
    const entries = [...this.#book.entries.values()].filter(({ type }) => type === 1);
    return entries.map(({ destination }) => destination as Address);
  }

  /** Oldest id first. */
  list(): Destination[] {
    const entries = [...this.#book.entries].sort(([a], [b]) => a - b);
    return entries.map(([id, entry]) => shown(id, entry));
  }

  get(id: number): Destination | undefined {
    const entry = this.#book.entries.get(id);
    return entry && shown(id, entry);
  }

  /** By which the cloud knows it. */
  uidOf(id: number): string | undefined {
    return this.#book.entries.get(id)?.uid;
  }

  /**
   * Throws conflict, naming the id that has this destination already; too-large for a full book. An edit
   * calls `check` when its turn has come; `check` may throw.
   */
  add(fields: Edit, check?: () => void): Promise<Destination> {
    return this.#turns.do(async () => {
      check?.();
      this.#checkUnique(fields, null);
      if (this.#book.entries.size >= DESTINATIONS_MAX) {
        const words = `The address book takes at most ${DESTINATIONS_MAX} destinations`;
        throw new FieldpostError('too-large', words, { hint: 'remove one that is no longer needed' });
      }
      await this.#keeping.checkRoom();
      return await this.#put(this.#book.nextId, edited({ uid: this.#keeping.newUid() }, fields));
    });
  }

  /** Throws not-found; conflict as add does. */
  replace(id: number, fields: Edit, check?: () => void): Promise<Destination> {
    return this.#turns.do(async () => {
      const entry = this.#find(id);
      check?.();
      this.#checkUnique(fields, id);
      const replaced = edited(entry, fields);
      if (canonical(replaced) === canonical(entry)) return shown(id, entry);
      await this.#keeping.checkRoom();
      return await this.#put(id, replaced);
    });
  }

  /** Throws not-found. */
  remove(id: number, check?: () => void): Promise<void> {
    return this.#turns.do(async () => {
      this.#find(id);
      check?.();
      await this.#keeping.record({ e: 'destination removed', id });
      this.#generation++;
    });
  }

  /** The values in the cloud's document that cannot be shown. */
  get hidden(): readonly unknown[] {
    return this.#book.hidden;
  }

  /** Removes a hidden value. Throws not-found. */
  removeHidden(value: unknown): Promise<void> {
    return this.#turns.do(async () => {
      if (!this.#book.hidden.some((one) => canonical(one) === canonical(value))) {
        throw new FieldpostError('not-found', 'There is no such hidden entry any more');
      }
      await this.#keeping.record({ e: 'hidden removed', value });
      this.#generation++;
    });
  }

  /** Must be called before a sync with that cloud: the ETag of another cloud does not apply to its document. */
  join(cloud: string): Promise<void> {
    return this.#turns.do(async () => {
      if (this.#book.cloud !== cloud) await this.#keeping.record({ e: 'cloud', cloud });
    });
  }

  /** The ETag of the cloud's document as it was last merged; null if none is known. */
  get etag(): string | null {
    const { base } = this.#book;
    return this.#seen?.base === base ? this.#seen.etag : (base?.etag ?? null);
  }

  /** How the cloud has changed the last document that it was given. */
  get alterations(): Alterations {
    const { base, attempted, entries } = this.#book;
    const ids = new Map([...entries].map(([id, { uid }]) => [uid, id]));
    const found = base?.given ? alterations(base.given, base.document) : [];
    return {
      dropsMark: base?.bare === true && attempted.length === 0,
      changed: [...found].map(([uid, members]) => ({ id: ids.get(uid) ?? null, members })),
    };
  }

  /**
   * Merges with the cloud's document; null: it has none. Resolves with the document to put next (null if the
   * cloud has everything), and with the generation of the book that it includes.
   */
  pull(
    remote: Remote | null | 'unchanged',
  ): Promise<Pick<Agreement, 'push' | 'estranged'> & { readonly generation: number }> {
    return this.#turns.do(async () => {
      const { base } = this.#book;
      const found = remote === 'unchanged' ? base && { ...base, etag: this.etag ?? '' } : remote;
      const draw = () => this.#keeping.newNonce();
      const { event, push, estranged } = agree(this.#book, found, draw);
      if (event !== null) await this.#keeping.record(event);
      if (found !== null) this.#seen = { base: this.#book.base, etag: found.etag };
      return { push, estranged, generation: this.#generation };
    });
  }

  /** The cloud has stored the push, under this ETag. */
  stored(etag: string): Promise<void> {
    return this.#turns.do(() => this.#keeping.record({ e: 'stored', etag }));
  }

  get #book(): Book {
    return this.#keeping.book;
  }

  #find(id: number): Entry {
    const entry = this.#book.entries.get(id);
    if (!entry) throw new FieldpostError('not-found', `There is no destination ${id}`);
    return entry;
  }

  #checkUnique(fields: Fields, except: number | null): void {
    const target = targetOf(fields);
    for (const [id, entry] of this.#book.entries) {
      if (id === except || targetOf(entry) !== target) continue;
      throw new FieldpostError('conflict', `Destination ${id} has this type and destination already`, {
        hint: 'change it with PUT, or choose another',
      });
    }
  }

  async #put(id: number, entry: Entry): Promise<Destination> {
    await this.#keeping.record({ e: 'destination', id, entry });
    this.#generation++;
    return shown(id, entry);
  }
}

/** The entry with these fields; null removes one. */
function edited(entry: Pick<Entry, 'uid'> & Partial<Entry>, fields: Edit): Entry {
  const given: JsonObject = { ...fields };
  const members = Object.entries({ ...entry, ...given }).filter(([name]) => given[name] !== null);
  const made = Object.fromEntries(members) as unknown as Entry;
  if (made.confirmedAt === undefined || targetOf(made) === targetOf(entry as Entry)) return made;
  // The drill has shown nothing of the new place.
  const { confirmedAt: _, ...rest } = made;
  return rest as Entry;
}

function shown(id: number, entry: Entry): Destination {
  const { type, destination, lang, name, confirmedAt } = entry;
  const confirmedMs = typeof confirmedAt === 'string' ? Date.parse(confirmedAt) : Number.NaN;
  return {
    id,
    ...{ type, destination, lang, name },
    ...givenRules(entry),
    ...(Number.isNaN(confirmedMs) ? {} : { confirmedAt: isoOf(confirmedMs) }),
    plan: planOf(entry),
  };
}
