/**
 * The address book: whom to tell when this device goes offline. The api edits it, the cloud link merges it with the
 * cloud's document. One change at a time, and each is done once the store has it. Built by the store.
 */
import { FieldpostError } from '../errors.js';
import { DESTINATIONS_MAX } from '../limits.js';
import type { Base, Book, BookEvent } from './book.js';
import { type Destination, type Entry, type Fields, targetOf } from './destination.js';
import { type Merged, merge, sameDocument } from './merge.js';

/** What keeps the book. */
export interface BookKeeping {
  readonly book: Book;
  /** Resolves once the event is on stable storage and applied. Rejects with storage-full, storage-failed. */
  record(event: BookEvent): Promise<void>;
  /** Throws storage-full where the disk is below its reserve. */
  checkRoom(): Promise<void>;
  /** A new random UUID. */
  newUid(): string;
}

/** What is to be put to the cloud, and what it shall replace there: an ETag, or null for nothing. */
export interface Push {
  readonly document: readonly unknown[];
  /** Members of the cloud's document besides. */
  readonly more?: Readonly<Record<string, unknown>>;
  readonly ifMatch: string | null;
}

/** The book; every change of it goes through here. */
export class AddressBook {
  readonly #keeping: BookKeeping;
  #turn: Promise<unknown> = Promise.resolve();
  #generation = 0;

  constructor(keeping: BookKeeping) {
    this.#keeping = keeping;
  }

  /** Counts the edits made on this device since its start. */
  get generation(): number {
    return this.#generation;
  }

  /** How many there are, and how many stand in the cloud's document that cannot be shown. */
  get counts(): { readonly count: number; readonly hidden: number } {
    return { count: this.#book.entries.size, hidden: this.#book.hidden.length };
  }

  /** Oldest id first. */
  list(): Destination[] {
    return this.#sorted().map(([id, entry]) => shown(id, entry));
  }

  get(id: number): Destination | undefined {
    const entry = this.#book.entries.get(id);
    return entry && shown(id, entry);
  }

  /** Throws conflict, naming the id that has this destination already; too-large where there are too many. */
  add(fields: Fields): Promise<Destination> {
    return this.#inTurn(async () => {
      this.#checkUnique(fields, null);
      if (this.#book.entries.size >= DESTINATIONS_MAX) throw full();
      await this.#keeping.checkRoom();
      return await this.#put(this.#book.nextId, { ...fields, uid: this.#keeping.newUid() });
    });
  }

  /** Throws not-found; conflict as add does. */
  replace(id: number, fields: Fields): Promise<Destination> {
    return this.#inTurn(async () => {
      const entry = this.#find(id);
      this.#checkUnique(fields, id);
      const replaced = { ...entry, ...fields };
      if (sameDocument([replaced], [entry])) return shown(id, entry);
      await this.#keeping.checkRoom();
      return await this.#put(id, replaced);
    });
  }

  /** Throws not-found. */
  remove(id: number): Promise<void> {
    return this.#inTurn(async () => {
      this.#find(id);
      await this.#keeping.record({ e: 'destination removed', id });
      this.#generation++;
    });
  }

  /** To be called before a sync with that cloud. What another one had says nothing of this one. */
  join(cloud: string): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#book.cloud !== cloud) await this.#keeping.record({ e: 'cloud', cloud });
    });
  }

  /** The ETag of the cloud's document as it was last merged; null if there is none. */
  get etag(): string | null {
    return this.#book.base?.etag ?? null;
  }

  /**
   * Merges with what the cloud has: a document; null if it has none; or what it had before, where that has not
   * changed. Gives what is to be put next, null if the cloud has all; and the generation that this includes.
   */
  pull(remote: Base | null | 'unchanged'): Promise<{ push: Push | null; generation: number }> {
    return this.#inTurn(async () => {
      const book = this.#book;
      const base = remote === 'unchanged' ? book.base : remote;
      // That the cloud has forgotten everything does not mean that anybody has deleted anything.
      const isLost = remote === null && book.base !== null;
      const merged = merge({
        base: isLost ? [] : (book.base?.document ?? []),
        attempted: isLost ? [] : book.attempted,
        local: this.#sorted().map(([, entry]) => entry),
        hidden: book.hidden,
        remote: base?.document ?? [],
      });
      // What was put before may still arrive as long as the document has the ETag it was put for. Even where nothing
      // is left to say, a new ETag turns it away.
      const isAwaited = book.attempted.length > 0 && base?.etag === book.base?.etag;
      // A cloud without a document needs none to say that there is nothing.
      const isDone = !isAwaited && sameDocument(merged.document, base?.document ?? []);
      await this.#keep(base, merged, isDone ? null : merged.document);
      const push = isDone
        ? null
        : {
            document: merged.document,
            ...(base?.more && { more: base.more }),
            ifMatch: base?.etag ?? null,
          };
      return { push, generation: this.#generation };
    });
  }

  /** What was given to be put has been taken, under this ETag. */
  stored(etag: string): Promise<void> {
    return this.#inTurn(() => this.#keeping.record({ e: 'stored', etag }));
  }

  /** Records what the merge has brought, if that is anything, before it is put. */
  async #keep(base: Base | null, merged: Merged, attempt: readonly unknown[] | null): Promise<void> {
    const { book } = this.#keeping;
    const isSame =
      base?.etag === book.base?.etag && sameDocument(base?.document ?? [], book.base?.document ?? []);
    if (!isSame) {
      const { shown, hidden } = merged;
      await this.#keeping.record({
        e: 'merged',
        base,
        entries: this.#numbered(merged, shown),
        hidden,
        attempt,
      });
    } else if (attempt !== null && !sameDocument(book.attempted.at(-1) ?? [], attempt)) {
      await this.#keeping.record({ e: 'attempted', document: attempt });
    }
  }

  /** Each entry with the id it has here, had here once, or is given now. */
  #numbered({ heirs }: Merged, entries: readonly Entry[]): [id: number, entry: Entry][] {
    const { book } = this.#keeping;
    const ids = new Map([...book.entries].map(([id, { uid }]) => [uid, id]));
    let { nextId } = book;
    const numbered = entries.map((entry): [number, Entry] => {
      const known = ids.get(heirs.get(entry.uid) ?? entry.uid) ?? book.removed.get(entry.uid);
      return [known ?? nextId++, entry];
    });
    return numbered.sort(([a], [b]) => a - b);
  }

  get #book(): Book {
    return this.#keeping.book;
  }

  #sorted(): [id: number, entry: Entry][] {
    return [...this.#book.entries].sort(([a], [b]) => a - b);
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
        hint: `change it with PUT, or choose another`,
      });
    }
  }

  async #put(id: number, entry: Entry): Promise<Destination> {
    await this.#keeping.record({ e: 'destination', id, entry });
    this.#generation++;
    return shown(id, entry);
  }

  /** One after the other: what is checked must still hold when it is recorded. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }
}

function shown(id: number, { type, destination, lang, name }: Entry): Destination {
  return { id, type, destination, lang, name };
}

function full(): FieldpostError {
  return new FieldpostError('too-large', `The address book takes at most ${DESTINATIONS_MAX} destinations`, {
    hint: 'remove one that is no longer needed',
  });
}
