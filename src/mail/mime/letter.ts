/**
 * Renders an email for the wire (RFC 5322, RFC 2045): the same letter is the same bytes at every attempt. All lines of a letter of ours end in
 * CRLF, none begins with a dot, and only addresses may hold more than ASCII (RFC 6532). A ready-made mail goes as it came,
 * behind the headers that it lacks.
 */
import { Buffer } from 'node:buffer';
import { FieldpostError } from '../../base/errors.js';
import { counted } from '../../base/text.js';
import type { Address } from '../message/address.js';
import type { Mailbox } from '../message/mailbox.js';
import type { EmailContent, MailHead, ReadyMadeContent } from '../message/message.js';
import { base64Lines, base64Octets, encodeQuotedPrintable } from './encodings.js';
import {
  attachmentHeaders,
  formatDate,
  header,
  mailboxesHeader,
  ownHeader,
  subjectHeader,
} from './headers.js';

/** All parts of a mail. */
export interface Letter {
  readonly from: Mailbox;
  /** Empty: all recipients are blind, unless there are some in `cc`. */
  readonly to: readonly Mailbox[];
  readonly cc?: readonly Mailbox[] | undefined;
  readonly replyTo?: readonly Mailbox[] | undefined;
  /** Further headers; each value is one line. Auto-Submitted takes the place of ours. */
  readonly headers?: MailHead['headers'] | undefined;
  readonly content: EmailContent;
  /** Without the angle brackets. */
  readonly messageId: string;
  /** The moment of acceptance; null: no Date header, the relay adds one. */
  readonly dateMs: number | null;
  readonly attachments: readonly LetterFile[];
}

/** An attached file. It is read only while the mail is sent. */
export interface LetterFile {
  readonly name: string;
  /** The media type, perhaps with a charset. */
  readonly type: string;
  /** The octets of `open`. */
  readonly size: number;
  /** Its Content-ID without angle brackets. */
  readonly cid?: string;
  open(): AsyncIterable<Buffer>;
}

/** A mail ready for the wire. */
export interface Rendered {
  /** Exact octets, before dots are stuffed and without the final dot. */
  readonly size: number;
  /** With attachments a stream, which can be read once: files are not held in memory. */
  readonly bytes: Buffer | AsyncIterable<Buffer>;
}

// No part can contain a boundary: quoted-printable has no `=_`, base64 no `-`. No boundary is a prefix of the other.
const MIXED = '=_mixed';
const ALTERNATIVE = '=_alternative';
const RELATED = '=_related';

type Piece = string | Buffer | LetterFile;

/** Renders the letter. Its stream throws storage-damaged if an attachment does not have its declared size. */
export function render(letter: Letter): Rendered {
  const headers = letterHeaders(letter);
  const { attachments, content } = letter;
  if (attachments.length === 0) {
    const text = renderText(content, []);
    const bytes = join([headers, ...text, ending(text)] as (string | Buffer)[]);
    return { size: bytes.length, bytes };
  }
  const shown = shownFiles(letter);
  const text = renderText(content, shown);
  const others = attachments.filter((file) => !shown.includes(file));
  const pieces = joined(
    others.length === 0
      ? [headers, ...text, '\r\n']
      : [headers, multipart('mixed', MIXED), ...text, ...filePieces(others, MIXED, false), '\r\n'],
  );
  return {
    size: pieces.reduce((sum, one) => sum + (Buffer.isBuffer(one) ? one.length : base64Octets(one.size)), 0),
    bytes: (async function* () {
      for (const piece of pieces)
        if (Buffer.isBuffer(piece)) yield piece;
        else yield* base64Lines(exactly(piece));
    })(),
  };
}

/** The files to which the HTML refers by their Content-ID. A text would become part of the mail's own in some readers. */
function shownFiles({ attachments, content: { html } }: Letter): readonly LetterFile[] {
  if (attachments.every(({ cid }) => cid === undefined)) return [];
  const ids = new Set<string>();
  for (const [, found = ''] of html.matchAll(/\bcid:([^\s"'<>)]+)/gi)) {
    const id = found.replaceAll('&amp;', '&');
    ids
      .add(id)
      .add(id.replace(/%[\da-f]{2}/gi, (octet) => String.fromCharCode(Number(`0x${octet.slice(1)}`))));
  }
  return attachments.filter(({ cid = '', type }) => ids.has(cid) && !/^text\//i.test(type));
}

/** Parts with these files, and the end of their multipart entity but for its line break. */
function filePieces(files: readonly LetterFile[], boundary: string, isInline: boolean): Piece[] {
  return [
    ...files.flatMap((file): Piece[] => [
      `\r\n--${boundary}\r\n${attachmentHeaders(file, isInline)}\r\n`,
      file,
    ]),
    `\r\n--${boundary}--`,
  ];
}

/** The pieces, with those between two files as one. */
function joined(pieces: readonly Piece[]): (Buffer | LetterFile)[] {
  const all: (Buffer | LetterFile)[] = [];
  let run: (string | Buffer)[] = [];
  for (const piece of pieces)
    if (typeof piece === 'string' || Buffer.isBuffer(piece)) run.push(piece);
    else {
      all.push(join(run), piece);
      run = [];
    }
  return [...all, join(run)];
}

function letterHeaders(letter: Letter): string {
  const { to, cc = [], replyTo = [], headers = [] } = letter;
  const isOurs = !headers.some(([name]) => name.toLowerCase() === 'auto-submitted');
  return (
    mailboxesHeader('From', [letter.from]) +
    (to.length > 0 ? mailboxesHeader('To', to) : '') +
    (cc.length > 0 ? mailboxesHeader('Cc', cc) : '') +
    (to.length + cc.length > 0 ? '' : header('To', 'undisclosed-recipients:;')) +
    (replyTo.length > 0 ? mailboxesHeader('Reply-To', replyTo) : '') +
    subjectHeader(letter.content.subject) +
    (letter.dateMs === null ? '' : header('Date', formatDate(letter.dateMs))) +
    header('Message-ID', `<${letter.messageId}>`) +
    header('MIME-Version', '1.0') +
    (isOurs ? header('Auto-Submitted', 'auto-generated') : '') +
    headers.map(([name, value]) => ownHeader(name, value)).join('')
  );
}

/** The part with the text, and the files that it shows: headers and body, without the line break before a boundary. */
function renderText({ plain, html }: EmailContent, shown: readonly LetterFile[]): Piece[] {
  if (html === '') return textPart('plain', plain);
  const rich =
    shown.length === 0
      ? textPart('html', html)
      : [
          multipart('related', RELATED, '; type="text/html"'),
          ...textPart('html', html),
          ...filePieces(shown, RELATED, true),
        ];
  if (plain === '') return rich;
  return [
    multipart('alternative', ALTERNATIVE),
    ...textPart('plain', plain),
    `\r\n--${ALTERNATIVE}\r\n`,
    ...rich,
    `\r\n--${ALTERNATIVE}--`,
  ];
}

function textPart(subtype: 'plain' | 'html', text: string): [string, Buffer] {
  return [
    header('Content-Type', `text/${subtype}; charset=utf-8`) +
      header('Content-Transfer-Encoding', 'quoted-printable') +
      '\r\n',
    encodeQuotedPrintable(text),
  ];
}

/** The header of a multipart entity, up to the headers of its first part. */
function multipart(subtype: string, boundary: string, more = ''): string {
  return `Content-Type: multipart/${subtype}; boundary="${boundary}"${more}\r\n\r\n--${boundary}\r\n`;
}

/** A mail ends with a line break. A text without one gets a soft break, which adds nothing to the text. */
function ending(text: readonly Piece[]): string {
  const body = text.at(-1);
  if (!Buffer.isBuffer(body)) return '\r\n';
  return body.length === 0 || body.at(-1) === 0x0a ? '' : '=\r\n';
}

/** The attachment's octets. Throws if they are not as many as were declared to the relay. */
async function* exactly(attachment: LetterFile): AsyncGenerator<Buffer, void, void> {
  let read = 0;
  for await (const chunk of attachment.open()) {
    read += chunk.length;
    if (read > attachment.size) break;
    yield chunk;
  }
  if (read !== attachment.size) {
    throw new FieldpostError(
      'storage-damaged',
      `an attachment does not have its ${counted(attachment.size, 'octet')}`,
    );
  }
}

function join(pieces: readonly (string | Buffer)[]): Buffer {
  return Buffer.concat(pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece)));
}

/** What the headers say. */
interface Stamps extends Pick<Letter, 'messageId' | 'dateMs' | 'headers'> {
  readonly from: Address;
}

/**
 * A ready-made mail for the wire: `headers`, those that it lacks, and its octets as they came. Its stream throws storage-damaged
 * if the file does not have its declared size.
 */
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
  { from, messageId, dateMs, headers = [] }: Stamps,
): string {
  return (
    headers.map(([name, value]) => ownHeader(name, value)).join('') +
    (missing.includes('from') ? mailboxesHeader('From', [{ name: fromName, address: from }]) : '') +
    (missing.includes('date') && dateMs !== null ? header('Date', formatDate(dateMs)) : '') +
    (missing.includes('message-id') ? header('Message-ID', `<${messageId}>`) : '')
  );
}
