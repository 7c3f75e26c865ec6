/**
 * Takes the messages of devices: a 2xx of the cloud promises as much as a 202 of a device.
 */
import { FieldpostError } from '../errors.js';
import type { JsonObject } from '../json.js';
import { IDEMPOTENCY_KEY_CHARS_MAX } from '../limits.js';
import { parseMessage } from './drafts.js';
import type { FleetStore } from './fleet-store.js';
import { hashOf } from './hash.js';

interface OutboxOptions {
  readonly takeMessage: FleetStore['takeMessage'];
  /** False: no webhook is configured for SMS, phone and push messages. */
  readonly takesShort: boolean;
}

/** The door for messages of devices. */
export class Outbox {
  readonly #options: OutboxOptions;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /**
   * Accepts a message of a device. Resolves with its id when it is stored for good. Throws malformed-request,
   * invalid, unavailable without a webhook, and the errors of FleetStore.takeMessage.
   */
  async take(device: string, key: string | string[] | undefined, body: unknown): Promise<string> {
    const { takeMessage, takesShort } = this.#options;
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
    await takeMessage(device, draft, { key: `message ${device} ${id}`, hash });
    return id;
  }
}
