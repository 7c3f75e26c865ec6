/**
 * The door for mails of devices. A mail is accepted into the outbox on this machine, with the operator's sender: its
 * `From` gets the operator's address and keeps its name, and answers go to the old one (RFC 5322 §3.6.2).
 */
import { type Fault, FieldpostError } from '../base/errors.js';
import { checkNotEncoded, receiveBody } from '../base/http/body.js';
import type { Exchange } from '../base/http/exchange.js';
import { checkPercent, invalidQuery } from '../base/http/query.js';
import { DAY_MS, IDEMPOTENCY_KEY_CHARS_MAX, MAIL_RECIPIENTS_MAX, MIB } from '../base/limits.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import { type Address, parseAddress, recipientKey } from '../mail/message/address.js';
import type { Attachment, ReadyMadeDraft } from '../mail/message/message.js';
import { type ReadyMade, ReadyMadeReader } from '../mail/mime/ready-made.js';
import type { Repair } from '../mail/mime/repair.js';
import type { Store } from '../mail/store/store.js';
import { DeviceLimit } from './device-limit.js';
import type { TakenKeys } from './fleet-store.js';
import { type AcceptedMessages, hashOf, messageKey } from './outbox.js';

/** The largest mail. */
export const CLOUD_MAIL_BYTES_MAX = 50 * MIB;

interface MailsOptions {
  readonly store: Pick<Store, 'upload' | 'recall'>;
  readonly accepted: Pick<AcceptedMessages, 'accept'>;
  /** What the other instances have taken. */
  readonly taken: TakenKeys | null;
  /** Recipients of the mails of one device in a day; null: no mail is taken. */
  readonly dailyLimit: number | null;
  /** The operator's. */
  readonly sender: () => Address;
  /** The largest mail that the relays take; null: not known. */
  readonly limitBytes: () => number | null;
  /** What people call a device. */
  readonly nameOf: (device: string) => string;
  readonly clock: Pick<Clock, 'bootMs'>;
  readonly log: Pick<Log, 'warn'>;
}

/** Takes mails. */
export class Mails {
  readonly #options: MailsOptions;
  readonly #daily: DeviceLimit | null;

  constructor(options: MailsOptions) {
    const { dailyLimit: most, clock, log } = options;
    this.#options = options;
    const reason = `the cloud takes mails of a device to ${most} recipients in a day`;
    this.#daily = most === null ? null : new DeviceLimit({ spanMs: DAY_MS, most, reason, clock, log });
  }

  /**
   * Takes the mail of this call once for its key. Resolves with the key when the mail is stored for good. Throws
   * not-offered, unsupported-media-type, malformed-request, invalid, too-large, rate-limited, queue-full, and as
   * Store.upload and Store.accept do.
   */
  async take(exchange: Exchange): Promise<string> {
    const { id: device, declaredBytes } = exchange;
    const { store, taken } = this.#options;
    if (this.#daily === null)
      throw new FieldpostError('not-offered', 'This cloud takes no mails of devices', {
        hint: 'see FIELDPOST_CLOUD_SERVER_MAILS',
      });
    const key = keyOf(exchange);
    checkType(exchange);
    const recipients = recipientsIn(exchange.query);
    const keyed = {
      key: messageKey(device, `mail ${key}`),
      hash: hashOf(recipients.map(recipientKey)),
    };
    // Its body may differ: a mail that has waited says for how long. It is not read again.
    const known = store.recall(keyed.key)?.hash ?? (await taken?.hashOf(device, keyed.key)) ?? null;
    if (known !== null) {
      if (known === keyed.hash) return key;
      throw new FieldpostError('invalid', 'this Idempotency-Key was used for other recipients');
    }
    this.#checkOctets(declaredBytes);
    await this.#daily.within(device, recipients.length, (admit) => {
      // Before its body is read.
      admit();
      return this.#store(exchange, recipients, keyed);
    });
    // If that fails, the device sends it again, and this instance knows it.
    await taken?.remember(device, keyed);
    return key;
  }

  /** False if the same mail came twice at once, and the other one was accepted. */
  async #store(
    exchange: Exchange,
    recipients: readonly [Address, ...Address[]],
    keyed: { readonly key: string; readonly hash: string },
  ): Promise<boolean> {
    const { store, accepted } = this.#options;
    const reader = new ReadyMadeReader({ repair: this.#repairFor(exchange.id) });
    const upload = await store.upload(exchange.declaredBytes);
    try {
      const file = await upload.begin({ name: '', type: 'message/rfc822' });
      let octets = 0;
      await receiveBody(exchange, (chunk) => {
        exchange.connections.memory.streamed(chunk.length);
        octets += chunk.length;
        this.#checkOctets(octets);
        const read = reader.push(chunk);
        return read.length > 0 ? file.write(read) : undefined;
      });
      if (octets === 0) throw badMail('it is empty');
      const { bytes, ...mail } = reader.end();
      checkMail(mail);
      if (bytes.length > 0) await file.write(bytes);
      const draft = draftOf(recipients, mail, await file.finish());
      return !(await accepted.accept(draft, keyed)).replayed;
    } finally {
      await upload.discard();
    }
  }

  /** Only the sender is put right: the device has done the rest. */
  #repairFor(device: string): Repair {
    const { sender, nameOf } = this.#options;
    const own = recipientKey(sender());
    return {
      fixesFrom: true,
      mayBeFrom: (address) => recipientKey(address) === own,
      homesOf: () => [],
      isOfThisDevice: () => false,
      nameFor: (old) => old?.name || nameOf(device),
      hostname: device,
    };
  }

  #checkOctets(octets: number): void {
    const limit = Math.min(CLOUD_MAIL_BYTES_MAX, this.#options.limitBytes() ?? CLOUD_MAIL_BYTES_MAX);
    if (octets > limit) throw new FieldpostError('too-large', `The mail is larger than ${limit} bytes`);
  }
}

function keyOf({ req }: Exchange): string {
  const { 'idempotency-key': key } = req.headers;
  if (typeof key === 'string' && key !== '' && key.length <= IDEMPOTENCY_KEY_CHARS_MAX) return key;
  const words = `A mail needs an Idempotency-Key of at most ${IDEMPOTENCY_KEY_CHARS_MAX} characters`;
  throw new FieldpostError('malformed-request', words);
}

function checkType(exchange: Exchange): void {
  checkNotEncoded(exchange);
  const { 'content-type': type = '' } = exchange.req.headers;
  if (type.split(';', 1)[0]?.trim().toLowerCase() === 'message/rfc822') return;
  throw new FieldpostError('unsupported-media-type', 'A mail is sent as Content-Type: message/rfc822');
}

/** Each once. Throws invalid. */
function recipientsIn(query: string): readonly [Address, ...Address[]] {
  checkPercent(query);
  const faults: Fault[] = [];
  const report = (detail: string) => void faults.push({ pointer: 'to', detail });
  const found = new Map<string, Address>();
  // A `+` belongs to an address.
  for (const text of new URLSearchParams(query.replaceAll('+', '%2B')).getAll('to')) {
    const address = parseAddress(text);
    if (address === null) report('must be one email address');
    else found.set(recipientKey(address), address);
  }
  if (found.size > MAIL_RECIPIENTS_MAX) report(`more than ${MAIL_RECIPIENTS_MAX} recipients`);
  const [first, ...others] = found.values();
  if (first === undefined) report('is required, once for each recipient');
  if (first === undefined || faults.length > 0) throw invalidQuery(faults.slice(0, MAIL_RECIPIENTS_MAX));
  return [first, ...others];
}

function checkMail({ repaired, encoder }: Omit<ReadyMade, 'head'>): void {
  // RFC 5321 §4.5.3.1.6. The device has encoded what could be.
  if (encoder !== null) throw badMail('it has lines of more than 998 octets');
  if (repaired?.isSigned) throw badMail('it is signed, and not by the sender of this cloud');
}

function badMail(detail: string): FieldpostError {
  return new FieldpostError('invalid', `The mail cannot be taken: ${detail}`, {
    faults: [{ pointer: 'body', detail }],
  });
}

function draftOf(
  [destination, ...others]: readonly [Address, ...Address[]],
  { head: { subject, missing, messageId }, repaired }: Pick<ReadyMade, 'head' | 'repaired'>,
  attachment: Attachment,
): ReadyMadeDraft {
  return {
    type: 1,
    destination,
    ...(others.length > 0 && { others }),
    content: { subject, missing, ...(repaired?.fromName != null && { fromName: repaired.fromName }) },
    ...(messageId !== null && { messageId }),
    attachments: [attachment],
    ignored: [],
  };
}
