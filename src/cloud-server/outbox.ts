/**
 * Accepts everything that the cloud sends to people: its own notifications, and the messages of devices. Delivery sends
 * both from the cloud's own store: a 2xx of the cloud promises as much as a 202 of a device. Used by cloud.ts.
 */
import { createHash } from 'node:crypto';
import { type Entry, targetOf } from '../destinations/destination.js';
import type { Lang } from '../destinations/langs.js';
import { type Fault, FieldpostError } from '../errors.js';
import type { JsonObject } from '../json.js';
import { IDEMPOTENCY_KEY_CHARS_MAX } from '../limits.js';
import type { Address } from '../message/address.js';
import { invalidMessage, parseShortMessage } from '../message/draft.js';
import { type Draft, NO_ATTACHMENTS, type ShortContent, type ShortDraft } from '../message/message.js';
import type { StorageState, Store } from '../store/store.js';
import type { Log } from '../system/log.js';
import { aboutOf, entriesOf } from './document.js';
import type { FleetDocuments } from './fleet-store.js';
import { type Text, textOf } from './texts.js';
import type { News } from './watch.js';

interface OutboxOptions {
  readonly store: Pick<Store, 'accept' | 'storage'>;
  readonly documents: Pick<FleetDocuments, 'read'>;
  readonly nudge: () => void;
  readonly timeZone: string;
  /** False: no relay is configured. */
  readonly takesMail: boolean;
  /** False: no webhook is configured for SMS, phone and push messages. */
  readonly takesShort: boolean;
  readonly log: Log;
}

/**
 * `device`: the device that sent the message, or that the notification is about. The webhook can use it to resolve the
 * destination OWNER of a push message. `lang`: the language of a notification, for a service that reads it aloud.
 */
type DeviceContent = ShortContent & { readonly device: string; readonly lang?: Lang };

/** Puts messages into the store. */
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
   * Tells everybody in the device's document, each in their language. Resolves when all messages are on the disk. Each
   * message is accepted separately. If the store has space only for some, a repeated call adds the others. Skips
   * destinations whose type has no relay or webhook; the log counts them as `unreachable`. Rejects as Store.accept
   * does.
   */
  async tell(id: string, happening: News): Promise<void> {
    const { store, documents, nudge, timeZone, takesMail, takesShort, log } = this.#options;
    const { document } = (await documents.read(id)) ?? { document: { destinations: [] } };
    const about = aboutOf(document, id);
    const entries = entriesOf(document);
    const reached = entries.filter(({ type }) => (type === 1 ? takesMail : takesShort));
    const outcomes = await Promise.allSettled(
      reached.map(async (entry) => {
        // The key leaves out the text, which changes with the document.
        const key = `presence ${digest(id, happening.id, targetOf(entry))}`;
        const draft = draftFor(entry, id, textOf(entry.lang, about, happening, timeZone));
        const { ids } = await store.accept([draft], { key, hash: key });
        return ids[0] as string;
      }),
    );
    nudge();
    const ids = outcomes.map((outcome) => {
      if (outcome.status === 'rejected') throw outcome.reason;
      return outcome.value;
    });
    log.info('notified', {
      device: id,
      kind: happening.kind,
      unreachable: entries.length - ids.length,
      ...(ids.length > 0 && { ids: ids.join(',') }),
    });
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
    const hash = digest(type, destination, content);
    await store.accept([draft], { key: `message ${device} ${id}`, hash });
    nudge();
    return id;
  }
}

/** SHA-256 in hex: equal if and only if the parts are. */
function digest(...parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

function draftFor(entry: Entry, device: string, { subject, plain, short }: Text): Draft {
  const { type, destination, lang } = entry;
  const rest = { attachments: NO_ATTACHMENTS, ignored: [] };
  if (type === 1) {
    const content = { subject, plain: plain.replaceAll('\n', '\r\n'), html: '' };
    return { type, destination: destination as Address, content, ...rest };
  }
  const content: DeviceContent = { device, lang, message: short, ...(type === 4 && { title: subject }) };
  return { type, destination, content, ...rest };
}

function parseMessage(body: JsonObject, device: string): ShortDraft {
  const faults: Fault[] = [];
  const report = (field: string, detail: string) => faults.push({ pointer: `/${field}`, detail });
  const { type } = body;
  const isShort = type === 2 || type === 3 || type === 4;
  if (!isShort)
    report('type', 'must be the integer 2 (SMS), 3 (phone) or 4 (push); email goes through a relay');
  const draft = parseShortMessage(isShort ? type : 4, body, report);
  if (faults.length > 0) throw invalidMessage(faults);
  const content: DeviceContent = { ...draft.content, device };
  return { ...draft, content };
}
