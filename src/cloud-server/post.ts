/**
 * What the cloud sends to people: its own notifications, and the messages that devices hand over. Both go into a
 * store of the cloud's own, which delivery empties, so that a 2xx is kept here as a 202 is on a device. Built by
 * cloud.ts.
 */
import { createHash } from 'node:crypto';
import { FieldpostError } from '../errors.js';
import type { Address } from '../message/address.js';
import { parseDrafts } from '../message/draft.js';
import { type Draft, NO_ATTACHMENTS } from '../message/message.js';
import type { StorageState, Store } from '../store/store.js';
import type { Log } from '../system/log.js';
import { deviceNameOf, entriesOf } from './document.js';
import type { Documents } from './documents.js';
import { type Happening, textOf } from './texts.js';

/** What it is given. */
export interface PostOptions {
  readonly store: Pick<Store, 'accept' | 'storage'>;
  readonly documents: Documents;
  /** Tells delivery that there is something to do. */
  readonly nudge: () => void;
  readonly timeZone: string;
  readonly log: Log;
}

/** The way out. */
export class Post {
  readonly #options: PostOptions;

  constructor(options: PostOptions) {
    this.#options = options;
  }

  /** How well messages can be kept just now. */
  storage(): StorageState {
    return this.#options.store.storage();
  }

  /**
   * Tells everybody in the device's document, each in his language. Resolves once that is on stable storage; the same
   * happening told again is told once. Rejects as Store.accept does.
   */
  async tell(id: string, happening: Happening): Promise<void> {
    const { store, documents, nudge, timeZone, log } = this.#options;
    const document = documents.get(id)?.document ?? { destinations: [] };
    const name = deviceNameOf(document, id);
    const drafts = entriesOf(document).map(({ type, destination, lang }) => {
      const { subject, plain, short } = textOf(lang, name, happening, timeZone);
      return type === 1 ? emailOf(destination, subject, plain) : emailOf(destination, subject, short);
    });
    if (drafts.length === 0) return;
    // What it says may differ from the first time, if the document was changed between.
    const key = `presence ${id} ${happening.kind} ${happening.sinceMs}`;
    const { ids } = await store.accept(drafts, { key, hash: key });
    log.info('notified', { device: id, kind: happening.kind, ids: ids.join(',') });
    nudge();
  }

  /**
   * Takes a message of a device; gives its id, or the one that came with this key before. Resolves once it is on
   * stable storage. Throws malformed-request, invalid, and what Store.accept throws.
   */
  async take(device: string, key: string | string[] | undefined, body: unknown): Promise<string> {
    const { store, nudge } = this.#options;
    const { id } = (body ?? {}) as { id?: unknown };
    if (typeof id !== 'string' || id !== key) {
      throw new FieldpostError('malformed-request', "The Idempotency-Key must be the message's id");
    }
    const drafts = parseDrafts([body], { maxBatch: 1, cloud: null });
    const hash = createHash('sha256').update(JSON.stringify(drafts)).digest('hex');
    await store.accept(drafts, { key: `message ${device} ${id}`, hash });
    nudge();
    return id;
  }
}

function emailOf(to: string, subject: string, plain: string): Draft {
  return {
    type: 1,
    destination: to as Address,
    content: { subject, plain: plain.replaceAll('\n', '\r\n'), html: '' },
    attachments: NO_ATTACHMENTS,
    ignored: [],
  };
}
