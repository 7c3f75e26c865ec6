/**
 * The way of a request's body into the store, which JSON, forms and ready-made mails have in common.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { FieldpostError } from '../../base/errors.js';
import type { Exchange } from '../../base/http/exchange.js';
import { KIB } from '../../base/limits.js';
import type { DraftLimits } from '../../mail/message/draft.js';
import type { Attachment, Draft, EmailDraft, Payer } from '../../mail/message/message.js';
import { base64Octets } from '../../mail/mime/encodings.js';
import type { Upload } from '../../mail/store/spool.js';
import type { Accepted, Store } from '../../mail/store/store.js';
import type { ApiContext } from './context.js';

/** A byte of text takes at most this many bytes on the wire: quoted-printable, with its soft breaks. */
const TEXT_GROWTH = 4;
/** Upper bound for the headers of a mail, or of an attachment. */
const HEADERS_BYTES = 8 * KIB;

/** A file of a body, in the store. */
export interface PostedFile {
  readonly attachment: Attachment;
  /** SHA-256 in hex; empty without an idempotency key. */
  readonly sum: string;
}

/** The drafts of a body, accepted. */
export interface Posted extends Accepted {
  readonly drafts: readonly Draft[];
}

/** Accepts the drafts, which have these files, under the request's key if it has one. */
export type Accept = (drafts: readonly Draft[], files: readonly PostedFile[]) => Promise<Accepted>;
/** Reads the body and accepts the drafts in it. */
export type Take = (
  exchange: Exchange,
  context: ApiContext,
  key: string | null,
  accept: Accept,
) => Promise<Posted>;

/** The limits of what a client may post. */
export function draftLimits({ settings, mayBeFrom, homesOf }: ApiContext): DraftLimits {
  const { maxBatch, cloud } = settings;
  return { maxBatch, cloud, mayBeFrom, homesOf };
}

/** The drafts, which say whose share of the queue they take if that is bounded. */
export function marked<D extends Draft>(drafts: readonly D[], { onlySends, caller }: Payer): readonly D[] {
  if (!onlySends && caller === undefined) return drafts;
  const marks = { ...(onlySends && { onlySends }), ...(caller !== undefined && { caller }) };
  return drafts.map((draft) => ({ ...draft, ...marks }));
}

/**
 * The hash by which two requests with one idempotency key are compared: SHA-256 of the parsed values. White space between
 * JSON tokens, the order of fields and unknown fields make no difference.
 */
export function hashOf(drafts: readonly Draft[], files: readonly PostedFile[]): string {
  const canonical = drafts.map(({ type, destination, content, attachments, ...rest }) => [
    type,
    destination,
    ...('message' in content
      ? [content.message, content.title, content.auto_open, content.app_data]
      : 'missing' in content
        ? [content.subject, content.missing]
        : [content.subject, content.plain, content.html]),
    ...files
      .filter(({ attachment }) => attachments.includes(attachment))
      .map(({ attachment: { name, type, cid }, sum }) => [
        name,
        type,
        sum,
        ...(cid === undefined ? [] : [cid]),
      ]),
    // Left out where nothing is given: the journal of an older version has such hashes.
    ...given({
      others: 'others' in rest ? rest.others : undefined,
      from: 'from' in rest ? rest.from : undefined,
      head: 'head' in content ? content.head : undefined,
      urgent: rest.urgent,
      lifeMs: rest.lifeMs,
      collapse: rest.collapse,
      counts: rest.counts,
    }),
  ]);
  return createHash('sha256').update(JSON.stringify(canonical)).digest('hex');
}

/** The parts as one element; none if all are undefined. */
function given(parts: Readonly<Record<string, unknown>>): readonly object[] {
  return Object.values(parts).every((part) => part === undefined) ? [] : [parts];
}

/** What an Idempotency-Key led to before. */
type Before = NonNullable<ReturnType<Store['recall']>>;

/** Gives a repeated body the ids of the first one with its key. Throws invalid if their contents differ. */
export function replayOf(before: Before, drafts: readonly Draft[], files: readonly PostedFile[]): Posted {
  if (before.hash === hashOf(drafts, files)) return { drafts, ids: before.ids, replayed: true };
  throw new FieldpostError('invalid', 'This Idempotency-Key was used with other content', {
    hint: 'use a new key for a new message',
  });
}

/** The upload of a replay: it discards the files. */
export const NOWHERE: Upload = {
  begin: async (file) => ({
    write: () => undefined,
    finish: async () => ({ ...file, id: '', size: 0, crc: 0 }),
  }),
  drop: async () => undefined,
  discard: async () => undefined,
};

/** Throws too-large if files of this size alone make the mail too large. */
export function checkFiles(bytes: number, { mailLimitBytes }: ApiContext): void {
  if (bytes > 0) checkOctets(base64Octets(bytes), mailLimitBytes());
}

/** Throws too-large if the mail of any draft is too large. */
export function checkMails(drafts: readonly Draft[], { mailLimitBytes, mailBytes }: ApiContext): void {
  const limitBytes = mailLimitBytes();
  if (limitBytes === null) return;
  for (const draft of drafts) {
    // The estimate nearly always saves the rendering that the exact size needs.
    if ('html' in draft.content && atMost(draft as EmailDraft) > limitBytes)
      checkOctets(mailBytes(draft as EmailDraft), limitBytes);
  }
}

function atMost({ content: { subject, plain, html, head }, attachments }: EmailDraft): number {
  const headBytes = head === undefined ? 0 : Buffer.byteLength(JSON.stringify(head));
  const texts = headBytes + Buffer.byteLength(subject) + Buffer.byteLength(plain) + Buffer.byteLength(html);
  return attachments.reduce(
    (sum, { size }) => sum + base64Octets(size) + HEADERS_BYTES,
    TEXT_GROWTH * texts + HEADERS_BYTES,
  );
}

/** Throws too-large if so many octets are too large. */
export function checkOctets(bytes: number, limitBytes: number | null): void {
  if (limitBytes === null || bytes <= limitBytes) return;
  throw new FieldpostError(
    'too-large',
    `The mail would have ${bytes} bytes or more on its way, and the relay takes at most ${limitBytes} (its SIZE)`,
    { hint: 'nothing was queued' },
  );
}
