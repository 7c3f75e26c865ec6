/**
 * Refuses at the door what no relay would take, once the relays have told how large a mail may be (RFC 1870): it
 * would only fail later. post.ts asks, as early as there is something to know.
 */
import { Buffer } from 'node:buffer';
import { FieldpostError } from '../errors.js';
import { FORM_FIELD_BYTES_MAX, FORM_FRAME_BYTES_MAX, KIB } from '../limits.js';
import type { Draft, EmailDraft } from '../message/message.js';
import { base64Octets } from '../mime/base64.js';
import { TEXT_FIELDS } from './form-part.js';
import type { ApiParts } from './parts.js';

/** What is asked of the other parts. */
type Parts = Pick<ApiParts, 'mailLimitBytes' | 'mailBytes'>;

/** An octet of text takes at most as many on the wire: quoted-printable, with its soft breaks. */
const TEXT_GROWTH = 4;
/** The header of a mail and that of an attachment take at most this. */
const HEADERS_BYTES = 8 * KIB;
/** Of a form, what need not be files. */
const FORM_REST_BYTES = FORM_FRAME_BYTES_MAX + TEXT_FIELDS.length * FORM_FIELD_BYTES_MAX;

/** Throws too-large where the declared length of a form tells that its files are too large. */
export function checkDeclared(bytes: number, parts: Parts): void {
  checkFiles(bytes - FORM_REST_BYTES, parts);
}

/** Throws too-large where so many octets of files alone are too large. */
export function checkFiles(bytes: number, { mailLimitBytes }: Parts): void {
  if (bytes > 0) check(base64Octets(bytes), mailLimitBytes());
}

/** Throws too-large unless each draft makes a mail that is small enough. */
export function checkMails(drafts: readonly Draft[], { mailLimitBytes, mailBytes }: Parts): void {
  const limitBytes = mailLimitBytes();
  if (limitBytes === null) return;
  for (const draft of drafts) {
    // To know it exactly costs a rendering; nearly always it need not be known.
    if (draft.type === 1 && atMost(draft) > limitBytes) check(mailBytes(draft), limitBytes);
  }
}

function atMost({ content: { subject, plain, html }, attachments }: EmailDraft): number {
  const texts = Buffer.byteLength(subject) + Buffer.byteLength(plain) + Buffer.byteLength(html);
  return attachments.reduce(
    (sum, { size }) => sum + base64Octets(size) + HEADERS_BYTES,
    TEXT_GROWTH * texts + HEADERS_BYTES,
  );
}

function check(bytes: number, limitBytes: number | null): void {
  if (limitBytes === null || bytes <= limitBytes) return;
  throw new FieldpostError(
    'too-large',
    `The mail would have ${bytes} bytes or more on its way, and the relay takes at most ${limitBytes} (its SIZE)`,
    { hint: 'nothing was queued' },
  );
}
