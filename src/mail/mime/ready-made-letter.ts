/**
 * A ready-made mail for the wire: the headers that it lacks, and its octets as they came.
 */
import { Buffer } from 'node:buffer';
import type { Address } from '../message/address.js';
import type { ReadyMadeContent } from '../message/message.js';
import { mailboxesHeader } from './head.js';
import { formatDate, header } from './headers.js';
import { exactly, type Letter, type LetterFile, type Rendered } from './letter.js';

/** What the headers say. */
interface Stamps extends Pick<Letter, 'messageId' | 'dateMs'> {
  readonly from: Address;
}

/** Renders the mail. Its stream throws storage-damaged if the file does not have its declared size. */
export function renderReadyMade(content: ReadyMadeContent, stamps: Stamps, file: LetterFile): Rendered {
  const first = Buffer.from(missingHeaders(content, stamps));
  return {
    size: first.length + file.size,
    bytes: (async function* () {
      if (first.length > 0) yield first;
      yield* exactly(file);
    })(),
  };
}

function missingHeaders(
  { missing, fromName = '' }: ReadyMadeContent,
  { from, messageId, dateMs }: Stamps,
): string {
  return (
    (missing.includes('from') ? mailboxesHeader('From', [{ name: fromName, address: from }]) : '') +
    (missing.includes('date') && dateMs !== null ? header('Date', formatDate(dateMs)) : '') +
    (missing.includes('message-id') ? header('Message-ID', `<${messageId}>`) : '')
  );
}
