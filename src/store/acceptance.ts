/**
 * The door of the store: takes messages and their files in, each once, all or nothing, and within the budget. Used by
 * journaled-store.ts.
 */
import {
  BLOCK_BYTES,
  SEGMENT_BYTES,
  SPOOL_WRITE_BYTES,
  SPOOL_WRITE_BYTES_MIN,
  SPOOL_WRITE_SHARE,
} from '../limits.js';
import type { Address } from '../message/address.js';
import type { Attachment, Draft, Message } from '../message/message.js';
import type { Clock } from '../system/clock.js';
import type { Log } from '../system/log.js';
import { Alone } from './alone.js';
import type { Budget, Reservation } from './budget.js';
import type { Chronicle } from './chronicle.js';
import { encodeContent } from './document.js';
import type { AcceptedMessage, StoreEvent } from './event.js';
import { IdempotencyKeys, type KeyMemory } from './idempotency.js';
import { idMaker, type RandomBytes } from './ids.js';
import type { Ledger } from './ledger.js';
import { bytesOfContent } from './places.js';
import { sumOf } from './record.js';
import { NOTHING, PLAIN_WEIGHT, type Room } from './room.js';
import type { Accepted, KeyedContent, Upload } from './store.js';
import { createTidy } from './tidy.js';
import { SpoolUpload } from './upload.js';
import { keyWeight, messageWeight, ownText } from './weight.js';

/** What the door is given. */
export interface AcceptanceOptions {
  readonly ledger: Ledger;
  readonly chronicle: Chronicle;
  readonly budget: Budget;
  readonly log: Log;
  readonly randomBytes: RandomBytes;
  readonly keys: KeyMemory;
  readonly clock: Pick<Clock, 'bootMs'>;
  /** The sender of the emails accepted now. */
  readonly sender?: () => Address | undefined;
}

/** One for the store. */
export class Acceptance {
  readonly #ledger: Ledger;
  readonly #chronicle: Chronicle;
  readonly #budget: Budget;
  readonly #log: Log;
  readonly #makeId: (counter: number) => string;
  #counter: number;
  readonly #keys: IdempotencyKeys;
  readonly #sender: () => Address | undefined;
  readonly #uploads = new Set<SpoolUpload>();
  readonly #makingRoom = new Alone(() => undefined);
  readonly #tidy: () => Promise<void>;

  constructor({
    ledger,
    chronicle,
    budget,
    log,
    randomBytes,
    keys,
    clock,
    sender = () => undefined,
  }: AcceptanceOptions) {
    this.#ledger = ledger;
    this.#chronicle = chronicle;
    this.#budget = budget;
    this.#log = log;
    this.#sender = sender;
    this.#tidy = createTidy({
      bytes: () => ledger.usedBytes,
      checkpoint: () => ledger.checkpoint(true),
      bootMs: () => clock.bootMs(),
    });
    this.#makeId = idMaker(randomBytes);
    this.#counter = ledger.state.counter;
    this.#keys = new IdempotencyKeys(ledger.state, (stamp) => chronicle.ageMs(stamp), keys);
  }

  /** Forgets the keys that have served their time. */
  sweep(): void {
    this.#keys.sweep();
  }

  /** Makes room where the disk is short and more than half of the journal is done with: see tidy.ts. */
  async tidy(): Promise<void> {
    if (this.#ledger.isMostlyDone) await this.#tidy();
  }

  async upload(expectedBytes: number): Promise<Upload> {
    await this.#budget.look();
    const upload: SpoolUpload = new SpoolUpload({
      spool: this.#ledger.spool,
      // Nothing gives way to a mere Content-Length: that happens as the bytes come.
      room: this.#reserve({ count: 1, bytes: expectedBytes, memoryBytes: PLAIN_WEIGHT }),
      writeBytes: this.#writeBytesOf(expectedBytes),
      makeFile: (room) => this.#makeFile(room),
      makeRoom: (room, bytes) => this.#makeRoom(room, bytes),
      onOver: () => this.#uploads.delete(upload),
    });
    this.#uploads.add(upload);
    return upload;
  }

  /** Small files take small pieces, and so do large ones where many come at the same time. */
  #writeBytesOf(expectedBytes: number): number {
    const wholeBytes = Math.min(expectedBytes || SPOOL_WRITE_BYTES, SPOOL_WRITE_BYTES);
    let memoryBytes = 2 * wholeBytes;
    for (const upload of this.#uploads) memoryBytes += upload.memoryBytes;
    const fits = memoryBytes <= this.#ledger.state.bounds.memoryBytesMax * SPOOL_WRITE_SHARE;
    const bytes = fits ? wholeBytes : Math.min(wholeBytes, SPOOL_WRITE_BYTES_MIN);
    return Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
  }

  async #makeFile(room: Reservation): Promise<void> {
    // For inode and name.
    await this.#makeRoom(room, BLOCK_BYTES);
    this.#budget.space.takeFile();
  }

  /** Sees to it that so many bytes are reserved. One caller at a time: nobody counts on what gives way to another. */
  async #makeRoom(room: Reservation, bytes: number): Promise<void> {
    if (room.bytes >= bytes) return;
    await this.#makingRoom.run(async () => {
      if (this.#budget.stale) await this.#budget.look();
      await this.#makeWay(bytes - room.bytes);
      this.#orTidy(() => room.add(bytes - room.bytes));
    });
  }

  /**
   * Content kept only for a possible retry gives way to new messages, the oldest first, if that is of any use. Files
   * go at once; texts when their segments do, which is why the first who asks may still be refused.
   */
  async #makeWay(bytes: number): Promise<void> {
    const { kept, messages } = this.#ledger.state;
    const missing = this.#budget.missing(bytes);
    const ids: string[] = [];
    let [fileBytes, textBytes] = [0, 0];
    for (const id of kept) {
      if (fileBytes + textBytes - (textBytes % SEGMENT_BYTES) >= missing) break;
      const content = bytesOfContent(messages.get(id) as Message);
      fileBytes += content.fileBytes;
      textBytes += content.textBytes;
      ids.push(id);
    }
    if (ids.length === 0 || fileBytes + textBytes < missing) return;
    await this.#ledger.record([{ e: 'dropped', ids }], [], 'synced');
    this.#log.info('content dropped', { messages: ids.length });
    await this.#ledger.spool.idle;
    if (this.#budget.missing(bytes) > 0) await this.#ledger.checkpoint();
    await this.#budget.look();
  }

  async accept(drafts: readonly Draft[], keyed: KeyedContent | null): Promise<Accepted> {
    if (!keyed) return { ids: await this.#acceptNew(drafts, null), replayed: false };
    const known = this.#keys.idsOf(keyed);
    if (known) return { ids: known, replayed: true };
    const ids = await this.#keys.arriving(keyed, () => this.#acceptNew(drafts, keyed));
    return { ids, replayed: false };
  }

  recall(key: string): { ids: readonly string[]; hash: string } | null {
    // What a start has found may not be on the device yet.
    if (this.#ledger.trouble) throw this.#ledger.trouble;
    return this.#keys.recall(key);
  }

  async #acceptNew(drafts: readonly Draft[], keyed: KeyedContent | null): Promise<string[]> {
    const files = this.#takeFiles(drafts);
    const contents = drafts.map(({ content }) => encodeContent(content));
    let room: Reservation | null = null;
    try {
      if (this.#budget.stale) await this.#budget.look();
      const asked = roomOf(drafts, contents, keyed);
      room = this.#reserve(asked);
      await this.#makeRoom(room, asked.bytes);
      const dropped = this.#inTheWay();
      const events: StoreEvent[] = dropped.length > 0 ? [{ e: 'dropped', ids: dropped }] : [];
      if (files.length > 0) await this.#ledger.spool.keepNames(files);
      // Ids are drawn in the order in which the records are written: nothing may be awaited in between.
      const messages = drafts.map((draft, i) => this.#messageOf(draft, contents[i] as Buffer));
      events.push({ e: 'accepted', ...this.#chronicle.birth(), messages, ...keyed });
      // Q2: this sync is the promise behind the 202.
      await this.#chronicle.record(events, contents, 'synced');
      if (dropped.length > 0) this.#log.info('content dropped', { messages: dropped.length });
      return messages.map(({ id }) => id);
    } catch (error) {
      if (files.length > 0) this.#ledger.release(files);
      throw error;
    } finally {
      room?.end();
    }
  }

  /** The drafts' files are ours from here on, whatever comes of it. */
  #takeFiles(drafts: readonly Draft[]): string[] {
    const files = drafts.flatMap(({ attachments }) => attachments.map(({ id }) => id));
    for (const upload of files.length > 0 ? this.#uploads : []) {
      const own = files.filter((id) => upload.has(id));
      if (own.length > 0) upload.take(own);
    }
    return files;
  }

  #messageOf({ type, destination, attachments }: Draft, content: Buffer): AcceptedMessage {
    const id = this.#makeId(++this.#counter);
    return {
      id,
      type,
      destination: ownText(destination),
      ...(type === 1 && { from: this.#sender() }),
      ...(attachments.length > 0 && { attachments: attachments.map(ownTexts) }),
      ...sumOf(content),
    };
  }

  /** Reserves room, but no bytes where content must first give way to them. */
  #reserve(asked: Room): Reservation {
    return this.#orTidy(() => this.#budget.reserve(asked));
  }

  /** Asks the budget. Where it refuses, the journal may hold what is done with. */
  #orTidy<T>(ask: () => T): T {
    try {
      return ask();
    } catch (error) {
      // Segments may hold more that is done with than is needed.
      if (this.#ledger.isMostlyDone) void this.#ledger.checkpoint();
      if (this.#budget.space.shortage) void this.tidy();
      throw error;
    }
  }

  /** Content kept only for a possible retry gives way to what is reserved, the oldest first. */
  #inTheWay(): string[] {
    const { kept, messages, weights } = this.#ledger.state;
    const excess = this.#budget.excess(NOTHING);
    let count = excess.count + kept.size;
    let memoryBytes = excess.memoryBytes + weights.kept;
    const dropped: string[] = [];
    for (const id of kept) {
      if (count <= 0 && memoryBytes <= 0) break;
      dropped.push(id);
      count--;
      memoryBytes -= messageWeight(messages.get(id) as Message);
    }
    return dropped;
  }
}

/** What the drafts take, their key included. */
function roomOf(drafts: readonly Draft[], contents: readonly Buffer[], keyed: KeyedContent | null): Room {
  const bytes = contents.reduce((sum, { length }) => sum + length, 0);
  const messages = drafts.reduce((sum, draft) => sum + messageWeight(draft), 0);
  const key = keyed ? keyWeight(keyed.key, { hash: keyed.hash, ids: drafts.map(() => '') }) : 0;
  return { count: drafts.length, bytes, memoryBytes: messages + key };
}

function ownTexts({ name, type, ...rest }: Attachment): Attachment {
  return { ...rest, name: ownText(name), type: ownText(type) };
}
