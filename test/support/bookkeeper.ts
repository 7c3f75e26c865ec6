/**
 * Keeps the books on what a store has promised, and holds a recovered store against them. It knows each
 * message by its destination, which is unique in a test. Used by the power-cut, disk-error and kill sweeps.
 */
import { isDeepStrictEqual } from 'node:util';
import { parseAddress } from '../../src/message/address.js';
import {
  type Attachment,
  type Content,
  type Draft,
  isFinal,
  type Message,
  NO_ATTACHMENTS,
  type Status,
  type Verdict,
} from '../../src/message/message.js';
import type { Store } from '../../src/store/store.js';
import type { Disk } from '../../src/system/disk.js';
import { DestinationBooks } from './destination-books.js';

/** `asked`: no answer yet, may be or not. `promised`: answered. `refused`: never. */
type Standing = 'asked' | 'promised' | 'refused';

interface Entry {
  readonly draft: Draft;
  /** The octets of its attachments. */
  readonly files: readonly Buffer[];
  readonly batch: number;
  standing: Standing;
  id: string | null;
  /** What it may be found as; the last is what the next sync makes sure. */
  may: Set<Status>;
}

interface KeyEntry {
  readonly hash: string;
  readonly batch: number;
}

export class Bookkeeper {
  /** True where the budget is so small that content of failed messages gives way to new ones. */
  mayDrop = false;
  /** Those of the address book. */
  destinations = new DestinationBooks();
  readonly #entries = new Map<string, Entry>();
  readonly #keys = new Map<string, KeyEntry>();
  #batches = 0;
  #held = new Set([false]);

  /** A copy of the books as they are now, to hold a later recovery against. */
  copy(): Bookkeeper {
    const copy = new Bookkeeper();
    copy.mayDrop = this.mayDrop;
    for (const [name, entry] of this.#entries) copy.#entries.set(name, { ...entry, may: new Set(entry.may) });
    for (const [key, entry] of this.#keys) copy.#keys.set(key, entry);
    copy.#batches = this.#batches;
    copy.destinations = this.destinations.copy();
    copy.#held = new Set(this.#held);
    return copy;
  }

  /** Messages promised so far. */
  get promised(): number {
    return [...this.#entries.values()].filter(({ standing }) => standing === 'promised').length;
  }

  isPromised(name: string): boolean {
    return this.#entries.get(name)?.standing === 'promised';
  }

  idOf(name: string): string {
    const id = this.#entries.get(name)?.id;
    if (id === undefined || id === null) throw new Error(`${name} was never promised`);
    return id;
  }

  /** Hands over one batch. Rejections are booked, not thrown. */
  async accept(
    store: Store,
    drafts: readonly Draft[],
    keyed: { key: string; hash: string } | null = null,
    files: readonly Buffer[] = [],
  ): Promise<void> {
    const batch = ++this.#batches;
    const entries = drafts.map((draft): Entry => {
      const entry: Entry = { draft, files, batch, standing: 'asked', id: null, may: new Set(['queued']) };
      this.#entries.set(nameOf(draft.destination), entry);
      return entry;
    });
    const outcomes = this.#unsynced();
    try {
      const { ids } = await store.accept(drafts, keyed);
      entries.forEach((entry, i) => {
        entry.standing = 'promised';
        entry.id = ids[i] ?? null;
      });
      if (keyed) this.#keys.set(keyed.key, { hash: keyed.hash, batch });
      settleAll(outcomes);
    } catch (error) {
      const code = (error as { code?: string }).code;
      // Only after storage-failed is the outcome unknown.
      if (code === 'queue-full' || code === 'storage-full' || code === 'stopping') {
        for (const entry of entries) entry.standing = 'refused';
      } else if (code !== 'storage-failed' && code !== 'POWERCUT') {
        throw error;
      }
    }
  }

  /** Uploads the files, hands over one message that has them, and ends the upload. Rejections are booked, not thrown. */
  async acceptFiles(
    store: Store,
    draft: Draft,
    files: readonly Buffer[],
    keyed: { key: string; hash: string } | null = null,
  ): Promise<void> {
    const upload = await store.upload(0).catch(onlyRefusal);
    if (!upload) return;
    const attachments: Attachment[] = [];
    for (const [i, bytes] of files.entries()) {
      const added = await upload.add({ name: `${i}.bin`, type: 'image/png' }, once(bytes)).catch(onlyRefusal);
      if (added) attachments.push(added);
    }
    // One that does not come through refuses the request.
    if (attachments.length === files.length)
      await this.accept(store, [{ ...draft, attachments }], keyed, files);
    await upload.discard();
  }

  /** Takes a message and settles it. The outcome is written at once and may be lost until the next sync. */
  async settle(store: Store, name: string, verdict: Verdict): Promise<void> {
    const entry = this.#entry(name);
    const before = [...entry.may];
    // On hold as well: what is settled then was claimed before.
    store.claim(this.idOf(name), 'expire');
    entry.may = new Set([...before.filter((it) => it !== verdict.kind), verdict.kind]);
    await store.settle(this.idOf(name), verdict).catch((error) => {
      onlyStorage(error);
      entry.may = inVain(verdict.kind, before);
    });
  }

  /** Does something that is synced before it is answered: `status` is what it makes of the message. */
  async change(store: Store, name: string, how: 'cancel' | 'retry', status: Status): Promise<void> {
    const entry = this.#entry(name);
    const outcomes = this.#unsynced();
    const before = [...entry.may];
    entry.may = new Set([...before.filter((it) => it !== status), status]);
    try {
      await store[how](this.idOf(name));
      settleAll(outcomes);
      entry.may = new Set([status]);
    } catch (error) {
      onlyStorage(error);
      entry.may = inVain(status, before);
    }
  }

  async setHeld(store: Store, held: boolean): Promise<void> {
    this.#held.add(held);
    try {
      await (held ? store.hold() : store.release());
      this.#held = new Set([held]);
    } catch (error) {
      onlyStorage(error);
    }
  }

  /** All that was written is synced by now: a second has passed, or the store was closed. */
  synced(): void {
    settleAll(this.#unsynced());
  }

  /** Takes what a recovered store holds for the truth from now on: what was in doubt is decided. */
  reconcile(store: Store): void {
    const statuses = new Map(
      store
        .list({ status: null, limit: 100_000, after: null })
        .messages.map((m) => [nameOf(m.destination), m]),
    );
    for (const [name, entry] of this.#entries) {
      const message = statuses.get(name);
      entry.standing = message ? 'promised' : 'refused';
      entry.id = message?.id ?? null;
      if (message) entry.may = new Set([message.status]);
    }
    this.#held = new Set([store.held]);
    this.destinations.reconcile(store);
  }

  /** What `store` breaks of the promises, in words; nothing if it keeps them. */
  async violations(store: Store): Promise<string[]> {
    const found = this.destinations.violations(store);
    const byName = new Map(
      store
        .list({ status: null, limit: 100_000, after: null })
        .messages.map((m) => [nameOf(m.destination), m]),
    );
    const batches = new Map<number, Set<boolean>>();
    for (const [name, { draft, files, standing, batch, id, may }] of this.#entries) {
      const message = byName.get(name);
      byName.delete(name);
      batches.set(batch, (batches.get(batch) ?? new Set()).add(message !== undefined));
      if (standing === 'refused' && message) found.push(`${name} was refused and is there`);
      if (standing === 'promised' && !message) found.push(`${name} was promised and is lost`);
      if (!message) continue;
      if (id !== null && message.id !== id) found.push(`${name} has another id`);
      if (!may.has(message.status)) found.push(`${name} is ${message.status}, not ${[...may].join(' or ')}`);
      if (isFinal(message.status) && message.status !== 'failed') continue;
      if (this.mayDrop && message.status === 'failed' && !message.place) continue;
      const content = await store.content(message).catch((error: Error) => error.message);
      if (!sameContent(content, draft.content))
        found.push(`${name} has lost its content: ${contentWords(content)}`);
      found.push(...(await lostFiles(store, message, files)));
    }
    for (const [batch, present] of batches)
      if (present.size > 1) found.push(`batch ${batch} is there in part`);
    for (const name of byName.keys()) found.push(`${name} came from nowhere`);
    if (!this.#held.has(store.held)) found.push(`held is ${store.held}`);
    if (store.storage().damaged > 0) found.push('damage is reported where there is none');
    await this.#checkKeys(store, found);
    return found;
  }

  async #checkKeys(store: Store, found: string[]): Promise<void> {
    for (const [key, { hash, batch }] of this.#keys) {
      const ids = [...this.#entries.values()].filter((entry) => entry.batch === batch).map(({ id }) => id);
      const answer = await store.accept([], { key, hash }).catch((error: Error) => error);
      if (answer instanceof Error || !answer.replayed || answer.ids.join() !== ids.join()) {
        found.push(`key ${key} is forgotten`);
      }
    }
  }

  /** Outcomes that may still be lost. */
  #unsynced(): Entry[] {
    return [...this.#entries.values()].filter(({ may }) => may.size > 1);
  }

  #entry(name: string): Entry {
    const entry = this.#entries.get(name);
    if (!entry) throw new Error(`there is no ${name}`);
    return entry;
  }
}

/** Of what each may be, only the last change is left. */
function settleAll(entries: Entry[]): void {
  for (const entry of entries) entry.may = new Set([...entry.may].slice(-1));
}

/** A change that failed may yet be found after a crash, but what was before is made sure by the next sync. */
function inVain(status: Status, before: readonly Status[]): Set<Status> {
  return new Set(before.at(-1) === status ? before : [status, ...before]);
}

function onlyStorage(error: unknown): void {
  const code = (error as { code?: string }).code;
  if (code !== 'storage-failed' && code !== 'storage-full' && code !== 'POWERCUT') throw error;
}

function sameContent(a: Content | string, b: Content): boolean {
  return isDeepStrictEqual(a, b);
}

/** What is not right with the attachments of a message, in words. */
async function lostFiles(store: Store, message: Message, files: readonly Buffer[]): Promise<string[]> {
  const { attachments } = message;
  const found = attachments.length === files.length ? [] : [`${attachments.length} attachments`];
  for (const [i, attachment] of attachments.entries()) {
    const read = await whole(store.openAttachment(attachment)).catch((error: Error) => error.message);
    if (typeof read === 'string') found.push(read);
    else if (!read.equals(files[i] ?? ZERO)) found.push('another file');
  }
  return found.map((words) => `${nameOf(message.destination)} has lost an attachment: ${words}`);
}

const ZERO = Buffer.alloc(0);

/** All that a source gives. */
export async function whole(source: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of source) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

/** What refuses a file leaves nothing to be booked. */
function onlyRefusal(error: unknown): null {
  if ((error as { code?: string }).code !== 'queue-full') onlyStorage(error);
  return null;
}

/** The octets of a file: as many, and told apart by where they stand. */
export function octets(bytes: number): Buffer {
  return Buffer.from(Uint8Array.from({ length: bytes }, (_, i) => i * 31 + (i >> 8)));
}

/** Files in the spool that no kept message needs. */
export async function strayFiles(disk: Disk, directory: string, store: Store): Promise<string[]> {
  const { messages } = store.list({ status: null, limit: 100_000, after: null });
  const needed = messages.filter(({ place }) => place).flatMap(({ attachments }) => attachments);
  const ids = new Set(needed.map(({ id }) => id));
  const strays = (await disk.list(`${directory}/spool`)).filter((name) => !ids.has(name));
  return strays.map((name) => `${name} is left in the spool`);
}

function contentWords(content: Content | string): string {
  return typeof content === 'string' ? content : 'it is another';
}

/** An email to `name`@example.com whose text is `bytes` long and tells whose it is. */
export function draftTo(name: string, bytes = 200): Draft {
  const destination = parseAddress(`${name}@example.com`);
  if (!destination) throw new Error(`${name} makes no address`);
  const plain = `to ${name} `.padEnd(bytes, 'żółw ');
  return {
    type: 1,
    destination,
    content: { subject: name, plain, html: '' },
    attachments: NO_ATTACHMENTS,
    ignored: [],
  };
}

function nameOf(destination: string): string {
  return destination.slice(0, destination.indexOf('@'));
}
