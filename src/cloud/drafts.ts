/**
 * Makes the drafts of the messages that the cloud sends to people.
 */

import type { Fault } from '../base/errors.js';
import { type JsonObject, shapeOf } from '../base/json.js';
import type { Lang } from '../base/langs.js';
import type { Entry } from '../mail/book/destination.js';
import type { Address } from '../mail/message/address.js';
import { invalidMessage, parseShortMessage } from '../mail/message/draft.js';
import { type Draft, NO_ATTACHMENTS, type ShortContent, type ShortDraft } from '../mail/message/message.js';
import type { Text } from './texts/texts.js';

/**
 * `device`: the device that sent the message, or that the notification is about; a digest has none. The webhook can use it
 * to resolve the destination OWNER of a push message. `lang`: the language of a notification, for a service that reads it
 * aloud.
 */
type DeviceContent = ShortContent & { readonly device?: string; readonly lang?: Lang };

/** A notification about `device`; null: a digest. */
export function notificationFor(entry: Entry, device: string | null, text: Text): Draft {
  const { type, destination, lang } = entry;
  const { subject, plain, short, sms } = text;
  const rest = { attachments: NO_ATTACHMENTS, ignored: [] };
  if (type === 1) {
    const content = { subject, plain: plain.replaceAll('\n', '\r\n'), html: '' };
    return { type, destination: destination as Address, content, ...rest };
  }
  const content: DeviceContent = {
    ...(device !== null && { device }),
    lang,
    message: type === 2 ? sms() : short,
    ...(type === 4 && { title: subject }),
  };
  return { type, destination, content, ...rest };
}

/** The message in a device's request. Throws invalid with all faults. */
export function parseMessage(body: JsonObject, device: string): ShortDraft {
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

const isWritten = shapeOf({
  type: (value) => value === 2 || value === 3 || value === 4,
  destination: '',
  content: { message: '' },
  attachments: (value) => Array.isArray(value) && value.length === 0,
  ignored: [''],
});

/** True for a draft of parseMessage, as a store has written it. */
export const isShortDraft = (value: unknown): value is ShortDraft => isWritten(value);
