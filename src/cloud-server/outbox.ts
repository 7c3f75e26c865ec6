/**
 * Accepts the messages of devices into the cloud's store, from which delivery sends them: a 2xx of the cloud promises as
 * much as a 202 of a device. Used by cloud.ts.
 */
import { FieldpostError } from '../errors.js';
import type { JsonObject } from '../json.js';
import { IDEMPOTENCY_KEY_CHARS_MAX } from '../limits.js';
import type { StorageState, Store } from '../store/store.js';
import { parseMessage } from './drafts.js';
import { hashOf } from './hash.js';

interface OutboxOptions {
  readonly store: Pick<Store, 'accept' | 'storage'>;
  readonly nudge: () => void;
  /** False: no webhook is configured for SMS, phone and push messages. */
  readonly takesShort: boolean;
}

/** Puts messages of devices into the store. */
export class Outbox {
  readonly #options: OutboxOptions;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /** The state of the store. */
  storage(): StorageState {
    return this.#options.store.storage();
  }

  /**
   * Accepts a message of a device. Resolves with its id when it is on the disk. Throws malformed-request, invalid,
   * unavailable without a webhook, and the errors of Store.accept.
   */
  async take(device: string, key: string | string[] | undefined, body: unknown): Promise<string> {
    const { store, nudge, takesShort } = this.#options;
    const { id } = (body ?? {}) as { id?: unknown };
    if (typeof id !== 'string' || id !== key || id.length > IDEMPOTENCY_KEY_CHARS_MAX) {
      const words = `The Idempotency-Key must be the message's id, of at most ${IDEMPOTENCY_KEY_CHARS_MAX} characters`;
      throw new FieldpostError('malformed-request', words);
    }
    const draft = parseMessage(body as JsonObject, device);
    if (!takesShort) {
      throw new FieldpostError('unavailable', 'This cloud has no way to send SMS, phone and push messages', {
        hint: 'see FIELDPOST_CLOUD_SERVER_WEBHOOK',
      });
    }
    const { type, destination, content } = draft;
    const hash = hashOf(type, destination, content);
    await store.accept([draft], { key: `message ${device} ${id}`, hash });
    nudge();
    return id;
  }
}
