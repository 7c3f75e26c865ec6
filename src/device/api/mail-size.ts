/**
 * Refuses a mail that is larger than every relay accepts (SIZE, RFC 1870): it would only fail later.
 */
import { Buffer } from 'node:buffer';
import { FieldpostError } from '../../base/errors.js';
import { KIB } from '../../base/limits.js';
import type { Draft, EmailDraft } from '../../mail/message/message.js';
import { base64Octets } from '../../mail/mime/base64.js';
import type { ApiContext } from './parts.js';

/** A byte of text takes at most this many bytes on the wire: quoted-printable, with its soft breaks. */
const TEXT_GROWTH = 4;
/** Upper bound for the headers of a mail, or of an attachment. */
const HEADERS_BYTES = 8 * KIB;

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
