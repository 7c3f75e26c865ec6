/**
 * Takes the messages of devices: a 2xx of the cloud promises as much as a 202 of a device.
 */
import { FieldpostError, wordsOf } from '../base/errors.js';
import type { JsonObject } from '../base/json.js';
import { FLEET_DEVICES_MAX, HOUR_MS, IDEMPOTENCY_KEY_CHARS_MAX } from '../base/limits.js';
import { Recent } from '../base/recent.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import type { ShortDraft } from '../mail/message/message.js';
import { messageKey } from './accepted.js';
import { parseMessage } from './drafts.js';
import type { FleetStore } from './fleet-store.js';
import { hashOf } from './hash.js';

interface OutboxOptions {
  readonly takeMessage: FleetStore['takeMessage'];
  /** False: no webhook is configured for SMS, phone and push messages. */
  readonly takesShort: boolean;
  /** SMS and calls of one device. */
  readonly hourlyLimit: number;
  readonly clock: Pick<Clock, 'bootMs'>;
  readonly log: Log;
}

/** An hour of a device, which begins with its first message. */
interface Hour {
  /** On the boot's clock. */
  readonly endMs: number;
  /** SMS and calls that were taken, or are being taken. */
  taken: number;
  /** A refusal was logged. */
  isLogged: boolean;
}

/** The door for messages of devices. */
export class Outbox {
  readonly #options: OutboxOptions;
  readonly #hours = new Recent<string, Hour>(FLEET_DEVICES_MAX);

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /**
   * Accepts a message of a device. Resolves with its id when it is stored for good. Throws malformed-request,
   * invalid, rate-limited, unavailable without a webhook, and the errors of FleetStore.takeMessage.
   */
  async take(device: string, key: string | string[] | undefined, body: unknown): Promise<string> {
    const { id } = (body ?? {}) as { id?: unknown };
    if (typeof id !== 'string' || id !== key || id.length > IDEMPOTENCY_KEY_CHARS_MAX) {
      const words = `The Idempotency-Key must be the message's id, of at most ${IDEMPOTENCY_KEY_CHARS_MAX} characters`;
      throw new FieldpostError('malformed-request', words);
    }
    const draft = parseMessage(body as JsonObject, device);
    if (!this.#options.takesShort) {
      throw new FieldpostError('unavailable', 'This cloud has no way to send SMS, phone and push messages', {
        hint: 'see FIELDPOST_CLOUD_SERVER_WEBHOOK',
      });
    }
    const hour = this.#hourOf(device);
    try {
      await this.#takeWithin(hour, device, messageKey(device, id), draft);
    } catch (error) {
      const isOver = error instanceof FieldpostError && ['rate-limited', 'queue-full'].includes(error.code);
      // The device retries for as long as it takes.
      if (isOver && !hour.isLogged)
        this.#options.log.warn('device limited', { device, reason: wordsOf(error) });
      if (isOver) hour.isLogged = true;
      throw error;
    }
    return id;
  }

  async #takeWithin(hour: Hour, device: string, key: string, draft: ShortDraft): Promise<void> {
    const { takeMessage, hourlyLimit } = this.#options;
    const { type, destination, content } = draft;
    // A push message costs nobody money.
    const counts = type === 4 ? 0 : 1;
    let counted = 0;
    const admit = () => {
      if (hour.taken + counts > hourlyLimit) {
        const words = `the cloud takes ${hourlyLimit} SMS and calls of a device in an hour`;
        throw new FieldpostError('rate-limited', words);
      }
      hour.taken += counts;
      counted = counts;
    };
    let isNew = false;
    try {
      isNew = await takeMessage(device, draft, { key, hash: hashOf(type, destination, content) }, admit);
    } finally {
      if (!isNew) hour.taken -= counted;
    }
  }

  #hourOf(device: string): Hour {
    const nowMs = this.#options.clock.bootMs();
    const known = this.#hours.get(device);
    if (known !== undefined && known.endMs > nowMs) return known;
    const hour = { endMs: nowMs + HOUR_MS, taken: 0, isLogged: false };
    this.#hours.set(device, hour);
    return hour;
  }
}
