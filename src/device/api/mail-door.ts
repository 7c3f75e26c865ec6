/**
 * The door for ready-made mails, from HTTP (`message/rfc822`) and from SMTP: reads each as it comes into a file of the spool,
 * and accepts one message for each recipient.
 */

import { createHash } from 'node:crypto';
import { type Fault, FieldpostError } from '../../base/errors.js';
import { checkNotEncoded, receiveBody } from '../../base/http/body.js';
import type { Exchange } from '../../base/http/exchange.js';
import { checkPercent, invalidQuery } from '../../base/http/query.js';
import { MAIL_RECIPIENTS_MAX } from '../../base/limits.js';
import { cut, visible } from '../../base/text.js';
import { WAIT_HEADER_OCTETS_MAX } from '../../mail/delivery/smtp/rendering.js';
import { type Address, localAddressOf, parseAddress, recipientKey } from '../../mail/message/address.js';
import { parseMailboxes } from '../../mail/message/mailbox.js';
import type {
  Attachment,
  BeginMail,
  MailIntake,
  MailTerms,
  ReadyMadeDraft,
  Sender,
} from '../../mail/message/message.js';
import { type ReadyMade, ReadyMadeReader } from '../../mail/mime/ready-made.js';
import type { ReadyMadeHead } from '../../mail/mime/ready-made-head.js';
import type { MailEncoder, Repair } from '../../mail/mime/repair.js';
import type { Asker } from '../../mail/store/quota.js';
import type { IncomingFile, Upload } from '../../mail/store/spool.js';
import type { Accepted } from '../../mail/store/store.js';
import type { ApiContext } from './context.js';
import { tooLargeMessage } from './form-part.js';
import { checkOctets, marked, NOWHERE, type Posted, replayOf, type Take } from './intake.js';

/** What the door needs. */
type MailDoorParts = Pick<
  ApiContext,
  | 'store'
  | 'settings'
  | 'mailLimitBytes'
  | 'mayBeFrom'
  | 'isOfThisDevice'
  | 'homesOf'
  | 'hostname'
  | 'nudge'
  | 'accepted'
  | 'log'
>;

/** Characters of a bad sender that its fault quotes. */
const QUOTED_CHARS_MAX = 80;

/** The value of `to` that stands for the recipients in the headers of the mail. */
const HEADERS = 'headers';

/** As what a ready-made mail is stored. */
const MAIL_FILE = { name: '', type: 'message/rfc822' };

/** Accepts the mail, which is whole and on the device. */
type AcceptMail = (draft: ReadyMadeDraft) => Promise<Accepted>;

/** Begins a mail of any door. Delivery is told of it. */
export function createMailDoor(parts: MailDoorParts): BeginMail {
  return async (terms) => {
    const { store, nudge } = parts;
    checkOctetsOf(terms.expectedBytes, parts);
    const upload = await store.upload(terms.expectedBytes, askerOf(terms, parts));
    return new StoredMail(terms, parts, upload, async (draft) => {
      const result = await store.accept(marked([draft], terms), null);
      parts.accepted.total += result.ids.length;
      nudge();
      return result;
    });
  };
}

/** Stores a mail of a POST as it comes. Its envelope stands in the query. */
export const takeMail: Take = async (exchange, context, key, accept) => {
  checkNotEncoded(exchange);
  const terms = termsOf(exchange, context);
  // Before the first read: a refused body gets no 100 Continue.
  checkOctetsOf(terms.expectedBytes, context);
  const sum = key === null ? null : createHash('sha256');
  const before = key === null ? null : context.store.recall(key);
  const upload = before ? NOWHERE : await context.store.upload(terms.expectedBytes, askerOf(terms, context));
  let posted: Posted | null = null;
  const mail = new StoredMail(terms, context, upload, async (draft) => {
    const file = {
      attachment: draft.attachments[0] as ReadyMadeDraft['attachments'][0],
      sum: sum?.digest('hex') ?? '',
    };
    posted = before
      ? replayOf(before, [draft], [file])
      : { drafts: [draft], ...(await accept([draft], [file])) };
    return posted;
  });
  try {
    await receiveBody(exchange, (chunk) => {
      exchange.connections.memory.streamed(chunk.length);
      sum?.update(chunk);
      return mail.write(chunk);
    });
    await mail.finish();
    return posted as unknown as Posted;
  } finally {
    await mail.discard();
  }
};

/** Throws too-large if a mail has too many octets, announced or come. */
function checkOctetsOf(octets: number, { settings, mailLimitBytes }: MailDoorParts): void {
  if (octets > settings.maxMessageBytes) throw tooLargeMessage(settings.maxMessageBytes);
  checkOctets(octets + WAIT_HEADER_OCTETS_MAX, mailLimitBytes());
}

/** The place that is kept for the mail. One whose header may say that it is urgent is judged when it has come. */
function askerOf(terms: MailTerms, { settings }: MailDoorParts): Asker {
  return { ...terms, isUrgent: terms.isUrgent || mayBecomeUrgent(terms, settings) };
}

function mayBecomeUrgent({ isRepaired }: MailTerms, { urgentHeaders }: MailDoorParts['settings']): boolean {
  return isRepaired === true && urgentHeaders === 'yes';
}

/** The address of a user of this device, such as root. It throws invalid if nobody reads its mail. */
function qualifier(parts: Pick<MailDoorParts, 'homesOf'>): (user: string) => Address {
  return (user) => {
    const address = localAddressOf(user);
    readersOf(address, parts);
    return address;
  };
}

/** Where mail to this address goes. Throws invalid if nobody reads it. */
function readersOf(address: Address, { homesOf }: Pick<MailDoorParts, 'homesOf'>): readonly Address[] {
  const homes = homesOf(address);
  if (homes.length > 0) return homes;
  const user = address.slice(0, address.lastIndexOf('@'));
  throw badMail(
    'to',
    `${user} is a user of this device, and FIELDPOST_LOCAL_MAIL names nobody who reads its mail`,
  );
}

/** What the device says of itself where it repairs a mail. */
function repairBy({ settings, mayBeFrom, isOfThisDevice, homesOf, hostname }: MailDoorParts): Repair {
  return {
    fixesFrom: settings.fromHeader === 'fix',
    mayBeFrom,
    homesOf,
    isOfThisDevice,
    hostname: hostname(),
  };
}

const LF = 10;
const CR = 13;

/** One mail, from its first octet until it is accepted or discarded. */
class StoredMail implements MailIntake {
  readonly #terms: MailTerms;
  readonly #parts: MailDoorParts;
  readonly #upload: Upload;
  readonly #accept: AcceptMail;
  readonly #reader: ReadyMadeReader;
  #file: IncomingFile | null = null;
  #octets = 0;
  /** Nothing but line ends has come. */
  #isEmpty = true;
  #work: Promise<void> | void = undefined;

  constructor(terms: MailTerms, parts: MailDoorParts, upload: Upload, accept: AcceptMail) {
    this.#terms = terms;
    this.#parts = parts;
    this.#upload = upload;
    this.#accept = accept;
    // Else nobody is named by the headers.
    this.#reader = new ReadyMadeReader({
      ...(terms.readsHeaders && { qualify: qualifier(parts) }),
      ...(terms.isRepaired && { repair: repairBy(parts) }),
    });
  }

  write(bytes: Buffer): Promise<void> | void {
    this.#octets += bytes.length;
    checkOctetsOf(this.#octets, this.#parts);
    if (this.#isEmpty) this.#isEmpty = bytes.every((byte) => byte === CR || byte === LF);
    const octets = this.#reader.push(bytes);
    if (octets.length > 0) this.#work = this.#store(octets);
    return this.#work;
  }

  #store(octets: Buffer): Promise<void> | void {
    if (this.#file) return this.#file.write(octets);
    return this.#begin().then((file) => file.write(octets));
  }

  async #begin(): Promise<IncomingFile> {
    this.#file = await this.#upload.begin(MAIL_FILE);
    return this.#file;
  }

  async finish(): Promise<readonly string[]> {
    // A program that wrote nothing into its pipe has failed, and its caller must learn that.
    if (this.#isEmpty) throw badMail('body', 'it is empty');
    const { bytes, ...mail } = this.#reader.end();
    const recipients = recipientsFor(this.#terms, mail.head, this.#parts);
    const file = this.#file ?? (await this.#begin());
    if (bytes.length > 0) await file.write(bytes);
    const written = await file.finish();
    const attachment = mail.encoder === null ? written : await this.#encode(written, mail.encoder);
    const { ids } = await this.#accept(draftOf(recipients, mail, attachment, this.#terms, this.#parts));
    if (mail.head.collapse === '') this.#parts.log.warn('collapse key ignored', { id: ids[0] });
    if (mail.repaired?.isSigned) this.#parts.log.info('signed mail left alone', { id: ids[0] });
    return ids;
  }

  /** Writes the mail once more, with lines that every relay takes. */
  async #encode(written: Attachment, encoder: MailEncoder): Promise<Attachment> {
    // A mail that is only compared with an earlier one is nowhere.
    if (written.id === '') return written;
    const file = await this.#upload.begin(MAIL_FILE);
    await file.write(encoder.begin());
    for await (const chunk of this.#parts.store.openAttachment(written))
      await file.write(encoder.push(chunk));
    await file.write(encoder.end());
    const encoded = await file.finish();
    await this.#upload.drop(written);
    return encoded;
  }

  async discard(): Promise<void> {
    await this.#work?.catch(() => undefined);
    await this.#upload.discard();
  }
}

/** Each once. Throws invalid. */
function recipientsFor(
  { to, readsHeaders }: MailTerms,
  head: ReadyMadeHead,
  parts: MailDoorParts,
): readonly [Address, ...Address[]] {
  if (readsHeaders && head.recipientFault !== null) throw badMail('to', head.recipientFault);
  const named = readsHeaders ? [...to, ...head.recipients.map(({ address }) => address)] : to;
  const meant = named.flatMap((address) => readersOf(address, parts));
  const [first, ...others] = new Map(meant.map((address) => [recipientKey(address), address])).values();
  if (first === undefined) throw badMail('to', 'there is no recipient');
  if (others.length >= MAIL_RECIPIENTS_MAX)
    throw badMail('to', `${others.length + 1} recipients are more than ${MAIL_RECIPIENTS_MAX}`);
  return [first, ...others];
}

/** The error for one fault of a mail: in its recipients (`to`), or in its `body`. */
function badMail(pointer: 'to' | 'body', detail: string): FieldpostError {
  return new FieldpostError('invalid', `The mail cannot be taken: ${detail}`, {
    faults: [{ pointer, detail }],
  });
}

function draftOf(
  [destination, ...others]: readonly [Address, ...Address[]],
  { head, repaired }: Pick<ReadyMade, 'head' | 'repaired'>,
  attachment: Attachment,
  terms: MailTerms,
  { mayBeFrom, settings }: MailDoorParts,
): ReadyMadeDraft {
  const { subject, missing, messageId, from: fromHeader, collapse } = head;
  const { from } = terms;
  const isUrgent = terms.isUrgent || (head.isUrgent && mayBecomeUrgent(terms, settings));
  // Relays and SPF refuse others, such as root@gateway-17: those get the sender of the device.
  const hasOwnFrom = from === '' || (from !== null && mayBeFrom(from));
  return {
    type: 1,
    destination,
    ...(others.length > 0 && { others }),
    ...(hasOwnFrom && { from }),
    content: {
      ...{ subject, missing, ...(hasOwnFrom && { hasOwnFrom }) },
      ...(repaired?.fromName != null && { fromName: repaired.fromName }),
      ...(fromHeader !== '' && { fromHeader }),
    },
    ...(messageId !== null && { messageId }),
    attachments: [attachment],
    ignored: [],
    ...(isUrgent && { urgent: true }),
    ...(collapse && { collapse }),
  };
}

/** Throws invalid with all faults of the query. */
function termsOf({ query, declaredBytes, onlySends, caller }: Exchange, context: ApiContext): MailTerms {
  checkPercent(query);
  // A `+` belongs to an address: john+alarms@example.com.
  const given = new URLSearchParams(query.replaceAll('+', '%2B'));
  const faults: Fault[] = [];
  const report = (pointer: string, detail: string) => void faults.push({ pointer, detail });
  const from = senderIn(given.get('from'), report);
  const named = given.getAll('to');
  if (named.length === 0)
    report('to', 'is required: ?to=john@example.com, once for each recipient; or ?to=headers');
  const to = recipientsIn(
    named.filter((text) => text !== HEADERS),
    context,
    report,
  );
  const readsHeaders = named.includes(HEADERS);
  const priority = given.get('priority') ?? 'normal';
  if (!['high', 'normal'].includes(priority)) report('priority', 'must be high or normal');
  const repair = given.get('repair') ?? 'no';
  if (!['yes', 'no'].includes(repair)) report('repair', 'must be yes or no');
  if (faults.length > 0) throw invalidQuery(faults);
  return {
    ...{ from, to, readsHeaders, expectedBytes: declaredBytes },
    ...{ isUrgent: priority === 'high', isRepaired: repair === 'yes', onlySends, caller },
  };
}

type Report = (pointer: string, detail: string) => void;

function senderIn(text: string | null, report: Report): Sender | null {
  if (text === null) return null;
  if (text === '' || text === '<>') return '';
  const address = parseAddress(text);
  if (address === null) {
    const quoted = JSON.stringify(visible(cut(text, QUOTED_CHARS_MAX)));
    report('from', `${quoted} is not one email address; <> is the null sender`);
  }
  return address;
}

function recipientsIn(texts: readonly string[], context: ApiContext, report: Report): MailTerms['to'] {
  return texts.flatMap((text) => {
    const { mailboxes, fault } = parseMailboxes(text, qualifier(context));
    if (fault !== null) report('to', fault);
    return mailboxes.map(({ address }) => address);
  });
}
