/**
 * The Store without a disk: what it promises while the process lives, at once and in memory. Tests reach in to
 * make it stall, refuse or fail.
 */
import { AddressBook } from '../../src/destinations/address-book.js';
import { applyBook, type Book, emptyBook } from '../../src/destinations/book.js';
import { FieldpostError } from '../../src/errors.js';
import type { Address } from '../../src/message/address.js';
import {
  type Attachment,
  type Boot,
  type Content,
  type Draft,
  isFinal,
  type Message,
  type Status,
  type Verdict,
} from '../../src/message/message.js';
import { stampOf } from '../../src/message/stamp.js';
import { crc32 } from '../../src/store/crc.js';
import { Reachability } from '../../src/store/reachability.js';
import type {
  Accepted,
  KeyedContent,
  Page,
  QueueCounts,
  QueueRoom,
  StorageState,
  Store,
  Upload,
} from '../../src/store/store.js';
import type { Clock } from '../../src/system/clock.js';

export class MemoryStore implements Store {
  readonly storeId = '0123456789abcdef';
  /** Tests enter other boots here. */
  readonly boots = new Map<string, Boot>();
  readonly reachability = new Reachability(0);
  /** Thrown by every change while set. */
  failure: FieldpostError | null = null;
  storageState: StorageState = {
    ...{ state: 'ok', reason: null, freeBytes: 123_456_789, damaged: 0 },
    ...{ newer: [], unusable: [] },
  };
  queueRoom: QueueRoom = {
    used: { messages: 2, bytes: 4096, memoryBytes: 512 },
    limits: { messages: 10_000, bytes: 2 ** 28, memoryBytes: 2 ** 23 },
    reason: null,
  };
  held = false;
  hasRoom = true;
  /** What was asked of purge, in order. */
  readonly purges: { withDamaged: boolean }[] = [];
  /** What emails are stamped with. */
  sender: Address | undefined = undefined;
  /** Called while a message is being cancelled: a test makes the disk slow, or refuse. */
  onCancel: (id: string) => Promise<void> = async () => undefined;
  readonly #leaving = new Set<string>();
  readonly book = memoryBook(() => this.#mayFail());
  readonly #clock: Clock;
  readonly #messages = new Map<string, Message>();
  readonly #contents = new Map<string, Content>();
  /** The spool: the octets of each attachment, by its id. Tests damage and remove them. */
  readonly files = new Map<string, Buffer>();
  /** Attachments that some message needs. */
  readonly #needed = new Set<string>();
  /** Uploads that were begun and not discarded. */
  uploads = 0;
  #fileIds = 0;
  readonly #deferrals = new Set<string>();
  /** What a message was before it was claimed. */
  readonly #claimed = new Map<string, Status>();
  readonly #keys = new Map<string, { hash: string; ids: readonly string[] | null }>();
  #stalled: Promise<void> | null = null;
  #filesWait: (() => Promise<void>) | null = null;
  #fileRoom = {
    bytes: Number.POSITIVE_INFINITY,
    failure: new FieldpostError('storage-full', 'The disk is full'),
  };
  #arrival: (() => void) | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Makes accept() wait, as a slow disk does, until the function given back is called. */
  stall(): { release: () => void; arrived: Promise<void> } {
    let release: () => void = () => undefined;
    this.#stalled = new Promise((resolve) => {
      release = () => {
        this.#stalled = null;
        resolve();
      };
    });
    const arrived = new Promise<void>((resolve) => {
      this.#arrival = resolve;
    });
    return { release, arrived };
  }

  /** Makes files wait, as a slow disk does; `waiting` resolves once one does. */
  stallFiles(): { release: () => void; waiting: Promise<void> } {
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const waiting = new Promise<void>((resolve) => {
      this.#filesWait = () => {
        resolve();
        return released;
      };
    });
    return { release, waiting };
  }

  /** Files fail with this once so many more octets of them have come. */
  failFileAfter(bytes: number, failure: FieldpostError): void {
    this.#fileRoom = { bytes, failure };
  }

  /** All messages there are. */
  get size(): number {
    return this.#messages.size;
  }

  async accept(drafts: readonly Draft[], keyed: KeyedContent | null): Promise<Accepted> {
    const before = keyed === null ? undefined : this.#keys.get(keyed.key);
    if (before !== undefined) {
      if (before.hash !== keyed?.hash) {
        throw new FieldpostError('invalid', 'The Idempotency-Key was used with other content');
      }
      if (before.ids === null) throw new FieldpostError('conflict', 'The first request is still under way');
      return { ids: before.ids, replayed: true };
    }
    this.#mayFail();
    if (keyed !== null) this.#keys.set(keyed.key, { hash: keyed.hash, ids: null });
    this.#arrival?.();
    if (this.#stalled !== null) await this.#stalled;
    const ids = drafts.map((draft) => this.#add(draft));
    if (keyed !== null) this.#keys.set(keyed.key, { hash: keyed.hash, ids });
    return { ids, replayed: false };
  }

  async upload(_expectedBytes: number): Promise<Upload> {
    this.#mayFail();
    this.uploads++;
    const ids: string[] = [];
    let isOver = false;
    return {
      add: async ({ name, type }, source) => {
        const chunks: Buffer[] = [];
        for await (const chunk of source) {
          await this.#filesWait?.();
          // A copy: whoever gives a chunk may use its memory again.
          chunks.push(Buffer.from(chunk));
          this.#fileRoom.bytes -= chunk.length;
          if (this.#fileRoom.bytes < 0) throw this.#fileRoom.failure;
        }
        this.#mayFail();
        const bytes = Buffer.concat(chunks);
        const id = `file${++this.#fileIds}`;
        ids.push(id);
        this.files.set(id, bytes);
        return { id, name, type, size: bytes.length, crc: crc32(bytes) };
      },
      discard: async () => {
        if (!isOver) this.uploads--;
        isOver = true;
        for (const id of ids) if (!this.#needed.has(id)) this.files.delete(id);
      },
    };
  }

  recall(key: string): { ids: readonly string[]; hash: string } | null {
    const before = this.#keys.get(key);
    return before === undefined || before.ids === null ? null : { ids: before.ids, hash: before.hash };
  }

  get(id: string): Message | undefined {
    return this.#messages.get(id);
  }

  list({ status, limit, after }: { status: Status | null; limit: number; after: string | null }): Page {
    const found = [...this.#messages.values()]
      .reverse()
      .filter(
        (message) => (after === null || message.id < after) && (status === null || message.status === status),
      );
    const messages = found.slice(0, limit);
    return { messages, next: found.length > limit ? (messages.at(-1)?.id ?? null) : null };
  }

  async cancel(id: string): Promise<void> {
    this.#mayFail();
    const message = this.#known(id);
    if (message.status === 'failed' && this.#contents.delete(id)) return;
    if (message.status === 'sending' || isFinal(message.status) || this.#leaving.has(id)) {
      throw new FieldpostError('conflict', `The message is ${message.status}`);
    }
    this.#leaving.add(id);
    try {
      await this.onCancel(id);
      this.#end(message, 'cancelled');
    } finally {
      this.#leaving.delete(id);
    }
  }

  async retry(id: string): Promise<void> {
    this.#mayFail();
    const message = this.#known(id);
    if (message.status === 'failed' && this.#contents.has(id)) {
      message.status = 'queued';
      message.retried = stampOf(this.#clock);
    } else if (isFinal(message.status))
      throw new FieldpostError('conflict', `The message is ${message.status}`);
    message.due = null;
  }

  async flush(): Promise<void> {
    this.#mayFail();
    for (const message of this.#messages.values()) message.due = null;
  }

  async purge(withDamaged: boolean): Promise<void> {
    this.#mayFail();
    this.purges.push({ withDamaged });
  }

  async hold(): Promise<void> {
    this.#mayFail();
    this.held = true;
  }

  async release(): Promise<void> {
    this.#mayFail();
    this.held = false;
  }

  counts(): QueueCounts {
    const count = (status: Status) => [...this.#messages.values()].filter((m) => m.status === status).length;
    const oldest = [...this.#messages.values()].find(({ status }) => !isFinal(status));
    return {
      queued: count('queued'),
      sending: count('sending'),
      deferred: count('deferred'),
      failed: count('failed'),
      oldestAgeMs: oldest === undefined ? 0 : this.#clock.bootMs() - oldest.accepted.bootMs,
      bytes: 0,
      held: this.held,
    };
  }

  storage(): StorageState {
    return this.storageState;
  }

  room(): QueueRoom {
    return this.queueRoom;
  }

  async look(): Promise<string | null> {
    return this.queueRoom.reason ?? this.storageState.reason;
  }

  async makeRoom(): Promise<void> {
    this.#mayFail();
    this.hasRoom = true;
  }

  *queued(): Iterable<Message> {
    for (const message of this.#messages.values()) {
      const isOpen = message.status === 'queued' || message.status === 'sending';
      if (isOpen && !this.#leaving.has(message.id) && !this.#deferrals.has(message.id)) yield message;
    }
  }

  *deferred(): Iterable<Message> {
    for (const id of this.#deferrals) if (!this.#leaving.has(id)) yield this.#known(id);
  }

  claim(id: string, purpose: 'send' | 'expire' = 'send'): Message | null {
    const message = this.#messages.get(id);
    if (message?.status !== 'queued' && message?.status !== 'deferred') return null;
    if (this.#leaving.has(id) || (this.held && purpose === 'send')) return null;
    this.#claimed.set(id, message.status);
    message.status = 'sending';
    return message;
  }

  giveBack(id: string): void {
    this.#known(id).status = this.#claimed.get(id) as Status;
    this.#claimed.delete(id);
  }

  async settle(id: string, verdict: Verdict): Promise<void> {
    this.#mayFail();
    const message = this.#known(id);
    this.#claimed.delete(id);
    message.lastReply = verdict.reply;
    message.attempts++;
    if (verdict.kind !== 'deferred') return this.#end(message, verdict.kind);
    message.status = 'deferred';
    message.due = stampOf(this.#clock, verdict.delayMs);
    this.#deferrals.delete(id);
    this.#deferrals.add(id);
  }

  async content(message: Message): Promise<Content> {
    const content = this.#contents.get(message.id);
    if (content === undefined) throw new FieldpostError('storage-damaged', 'The content is gone');
    return content;
  }

  async *openAttachment({ id, size, crc }: Attachment): AsyncIterable<Buffer> {
    const bytes = this.files.get(id);
    if (bytes === undefined || bytes.length !== size || crc32(bytes) !== crc) {
      throw new FieldpostError('storage-damaged', 'The attachment is not what was accepted');
    }
    if (size > 0) yield bytes;
  }

  async close(): Promise<void> {}

  #add({ type, destination, content, attachments }: Draft): string {
    const id = String(this.#messages.size + 1).padStart(8, '0');
    const accepted = stampOf(this.#clock);
    const reachMs = this.reachability.startMs(accepted.bootMs);
    const rest = { attempts: 0, lastReply: null, due: null, place: null };
    for (const file of attachments) this.#needed.add(file.id);
    this.#messages.set(id, {
      id,
      type,
      destination,
      from: type === 1 ? this.sender : undefined,
      attachments,
      accepted,
      reachMs,
      status: 'queued',
      ...rest,
    });
    this.#contents.set(id, content);
    return id;
  }

  #end(message: Message, status: Status): void {
    message.status = status;
    message.due = null;
    this.#deferrals.delete(message.id);
    if (status === 'failed') return;
    this.#contents.delete(message.id);
    for (const { id } of message.attachments) this.files.delete(id);
  }

  #known(id: string): Message {
    const message = this.#messages.get(id);
    if (message === undefined) throw new FieldpostError('not-found', `There is no message ${id}`);
    return message;
  }

  #mayFail(): void {
    if (this.failure !== null) throw this.failure;
  }
}

/** Counted for all books of a test: two that go on from one state must not draw the same. */
let nonces = 0;

/** The real address book over a state that no disk keeps; `mayFail` is asked before every change. */
export function memoryBook(mayFail: () => void = () => undefined, book: Book = emptyBook()): AddressBook {
  let uids = 0;
  return new AddressBook({
    book,
    record: async (event) => {
      mayFail();
      applyBook(book, event);
    },
    checkRoom: async () => undefined,
    newUid: () => `00000000-0000-4000-8000-${String(++uids).padStart(12, '0')}`,
    newNonce: () => `nonce ${++nonces}`,
  });
}
