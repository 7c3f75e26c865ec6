/**
 * Accepts messages and their files: each once, all or none, and within the budget.
 */
import { FieldpostError } from '../../base/errors.js';
import {
  BLOCK_BYTES,
  IDEMPOTENCY_AGE_MS,
  SPOOL_WRITE_BYTES,
  SPOOL_WRITE_BYTES_MIN,
  SPOOL_WRITE_SHARE,
  SUBJECT_KEPT_CHARS_MAX,
} from '../../base/limits.js';
import { cut } from '../../base/text.js';
import {
  type Attachment,
  type Content,
  type Draft,
  type Extras,
  newMessageId,
  recipientsOf,
} from '../message/message.js';
import type { Budget, Reservation } from './budget.js';
import { encodeContent } from './document.js';
import type { AcceptedMessage, StoreEvent } from './event.js';
import { idMaker } from './ids.js';
import type { StoreOptions } from './journaled-store.js';
import { findKey, forgetKey, isFullKey } from './keys.js';
import type { Ledger } from './ledger.js';
import { sumOf } from './record.js';
import { type Asker, PLAIN_WEIGHT, type Room } from './room.js';
import { RoomMaker } from './room-maker.js';
import type { KeyEntry } from './state.js';
import type { Accepted, AcceptKeyed, KeyedContent, Upload } from './store.js';
import { SpoolUpload } from './upload.js';
import { keyWeight, messageWeight, ownText } from './weight.js';

/** Takes in messages and uploads. */
export class Acceptance {
  readonly roomMaker: RoomMaker;
  readonly #options: StoreOptions;
  readonly #ledger: Ledger;
  readonly #budget: Budget;
  readonly #assertWorking: () => void;
  readonly #makeId: (counter: number) => string;
  #counter: number;
  /** The keys of the requests in progress. */
  readonly #inProgress = new Set<string>();
  readonly #uploads = new Set<SpoolUpload>();

  /** `assertWorking` throws if the store is stopping or its disk refuses writes. */
  constructor(options: StoreOptions, ledger: Ledger, budget: Budget, assertWorking: () => void) {
    this.roomMaker = new RoomMaker({ ...options, ledger, budget });
    this.#options = options;
    this.#ledger = ledger;
    this.#budget = budget;
    this.#assertWorking = assertWorking;
    this.#makeId = idMaker(options.randomBytes);
    this.#counter = ledger.state.counter;
  }

  /** Forgets the keys that are too old. */
  sweep(): void {
    const { state } = this.#ledger;
    for (const [key, entry] of [...state.keys, ...state.sendKeys])
      if (this.#isOver(entry)) forgetKey(state, key);
  }

  async upload(expectedBytes: number, asker: Asker): Promise<Upload> {
    this.#assertWorking();
    await this.#budget.look();
    const upload: SpoolUpload = new SpoolUpload({
      spool: this.#ledger.spool,
      // Content of failed messages is dropped only for bytes that have arrived, not for a Content-Length.
      room: this.roomMaker.reserve({ count: 1, bytes: expectedBytes, memoryBytes: PLAIN_WEIGHT }, asker),
      writeBytes: this.#writeBytesOf(expectedBytes),
      roomMaker: this.roomMaker,
      onOver: () => this.#uploads.delete(upload),
    });
    this.#uploads.add(upload);
    return upload;
  }

  /** Small files are written in small pieces. Large files are too while many uploads run. */
  #writeBytesOf(expectedBytes: number): number {
    const wholeBytes = Math.min(expectedBytes || SPOOL_WRITE_BYTES, SPOOL_WRITE_BYTES);
    let memoryBytes = 2 * wholeBytes;
    for (const upload of this.#uploads) memoryBytes += upload.memoryBytes;
    const fits = memoryBytes <= this.#ledger.state.bounds.memoryBytesMax * SPOOL_WRITE_SHARE;
    const bytes = fits ? wholeBytes : Math.min(wholeBytes, SPOOL_WRITE_BYTES_MIN);
    return Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
  }

  async accept(drafts: readonly Draft[], keyed: KeyedContent | null): Promise<Accepted> {
    if (keyed) return await this.withKey(keyed.key, (accept) => accept(drafts, keyed.hash));
    return { ids: await this.#acceptNew(drafts, null), replayed: false };
  }

  async withKey<T>(key: string, work: (accept: AcceptKeyed) => Promise<T>): Promise<T> {
    if (this.#inProgress.has(key)) {
      throw new FieldpostError('conflict', 'a request with this Idempotency-Key is still in progress', {
        hint: 'wait for its answer',
      });
    }
    this.#inProgress.add(key);
    try {
      return await work(async (drafts, hash) => {
        const known = this.#idsOf({ key, hash });
        if (known) return { ids: known, replayed: true };
        return { ids: await this.#acceptNew(drafts, { key, hash }), replayed: false };
      });
    } finally {
      this.#inProgress.delete(key);
    }
  }

  recall(key: string): KeyEntry | null {
    // The records that recovery found are perhaps not on the device yet.
    if (this.#ledger.trouble) throw this.#ledger.trouble;
    const entry = findKey(this.#ledger.state, key);
    return entry && !this.#isOver(entry) ? entry : null;
  }

  /** The ids that this key got; null if it is new. Throws invalid if it was used with other content. */
  #idsOf({ key, hash }: KeyedContent): readonly string[] | null {
    const entry = this.recall(key);
    if (entry === null) return null;
    if (entry.hash === hash) return entry.ids;
    throw new FieldpostError('invalid', 'this Idempotency-Key was used with other content', {
      hint: 'use a new key for a new message',
    });
  }

  #isOver({ at }: KeyEntry): boolean {
    return this.#ledger.ageMs(at) > (this.#options.keyAgeMs ?? IDEMPOTENCY_AGE_MS);
  }

  async #acceptNew(drafts: readonly Draft[], keyed: KeyedContent | null): Promise<string[]> {
    this.#assertWorking();
    const files = this.#takeFiles(drafts);
    const fromName = this.#options.senderName?.() ?? '';
    const contents = drafts.map((draft) => encodeContent(stampedContent(draft, fromName)));
    let room: Reservation | null = null;
    try {
      if (this.#budget.stale) await this.#budget.look();
      const asked = roomOf(drafts, contents, keyed);
      room = this.roomMaker.reserve(asked, {
        isUrgent: drafts.every(({ urgent }) => urgent),
        onlySends: drafts.some(({ onlySends }) => onlySends),
      });
      await this.roomMaker.makeRoom(room, asked.bytes);
      const dropped = this.roomMaker.inTheWay;
      const events: StoreEvent[] = dropped.length > 0 ? [{ e: 'dropped', ids: dropped }] : [];
      if (files.length > 0) await this.#ledger.spool.keepNames(files);
      // Ids must have the order of the records, so nothing awaits between making the ids and recording.
      const messages = drafts.flatMap((draft, i) => this.#messagesOf(draft, contents[i] as Buffer));
      const full = keyed !== null && isFullKey(keyed.key) && { full: true as const };
      events.push({ e: 'accepted', ...this.#ledger.birth(), messages, ...keyed, ...full });
      // Q2: this sync is the promise behind the 202.
      await this.#ledger.record(events, 'synced', contents);
      this.roomMaker.logDropped(dropped);
      return messages.map(({ id }) => id);
    } catch (error) {
      if (files.length > 0) this.#ledger.giveUpFiles(files);
      throw error;
    } finally {
      room?.end();
    }
  }

  /** Takes the drafts' files from their uploads. If the acceptance fails, it removes them. */
  #takeFiles(drafts: readonly Draft[]): string[] {
    const files = drafts.flatMap(({ attachments }) => attachments.map(({ id }) => id));
    for (const upload of this.#uploads) {
      const own = files.filter((id) => upload.has(id));
      if (own.length > 0) upload.take(own);
    }
    return files;
  }

  /** One for each recipient. They share content and files. */
  #messagesOf(draft: Draft, content: Buffer): AcceptedMessage[] {
    const { type, attachments } = draft;
    const sum = sumOf(content);
    const subject = keptSubject(draft);
    const from = type === 1 ? (draft.from ?? this.#options.sender()) : undefined;
    const common = {
      type,
      ...(from !== undefined && { from }),
      ...(subject !== '' && { subject }),
      ...(attachments.length > 0 && { attachments: attachments.map(ownTexts) }),
    };
    const recipients = recipientsOf(draft);
    const ids = recipients.map(() => this.#makeId(++this.#counter));
    const extras = this.#extrasOf(draft, ids);
    return recipients.map((destination, i) => ({
      id: ids[i] as string,
      destination: ownText(destination),
      ...common,
      ...(extras && { extras }),
      ...sum,
      ...(i > 0 && { shares: true }),
    }));
  }

  /** Undefined for most. */
  #extrasOf(draft: Draft, [mail = '', ...others]: readonly string[]): Extras | undefined {
    const { urgent, lifeMs, onlySends, content } = draft;
    const isReadyMade = 'missing' in content;
    const hasOthers = others.length > 0;
    if (!urgent && lifeMs === undefined && !onlySends && !hasOthers && !isReadyMade) return undefined;
    return {
      ...(hasOthers && { mail }),
      ...(isReadyMade && { isReadyMade, messageId: this.#ownMessageId(draft) ?? this.#newMessageId(mail) }),
      ...(urgent && { urgent }),
      ...(lifeMs !== undefined && { lifeMs }),
      ...(onlySends && { onlySends }),
    };
  }

  #ownMessageId(draft: Draft): string | undefined {
    return 'messageId' in draft && draft.messageId !== undefined ? ownText(draft.messageId) : undefined;
  }

  /** Of the device, whoever is the envelope's sender: perhaps nobody. */
  #newMessageId(mail: string): string {
    return newMessageId(mail, this.#ledger.state.storeId, this.#options.sender());
  }
}

/** The content with the name of the device's sender, where that is the sender. */
function stampedContent({ content, ...draft }: Draft, fromName: string): Content {
  if (fromName === '' || 'message' in content) return content;
  if ('missing' in content) return content.missing.includes('from') ? { fromName, ...content } : content;
  if ('from' in draft && draft.from !== undefined) return content;
  return { ...content, head: { ...content.head, fromName } };
}

function keptSubject({ content }: Draft): string {
  return 'subject' in content ? ownText(cut(content.subject, SUBJECT_KEPT_CHARS_MAX)) : '';
}

function roomOf(drafts: readonly Draft[], contents: readonly Buffer[], keyed: KeyedContent | null): Room {
  const bytes = contents.reduce((sum, { length }) => sum + length, 0);
  let [count, messages] = [0, 0];
  for (const draft of drafts) {
    const subject = keptSubject(draft);
    const extras = 'messageId' in draft ? { messageId: draft.messageId ?? '' } : {};
    for (const destination of recipientsOf(draft)) {
      count++;
      messages += messageWeight({ destination, subject, attachments: draft.attachments, extras });
    }
  }
  const key = keyed ? keyWeight(keyed.key, { hash: keyed.hash, ids: Array(count).fill('') }) : 0;
  return { count, bytes, memoryBytes: messages + key };
}

function ownTexts({ name, type, ...rest }: Attachment): Attachment {
  return { ...rest, name: ownText(name), type: ownText(type) };
}
