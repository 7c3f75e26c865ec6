/**
 * Stands in front of busboy. It refuses a form that two readers would read differently, and keeps the limits. Pure.
 *
 *   preamble → (boundary → header → opening → content)… → boundary → epilogue   (RFC 2046 §5.1.1)
 *
 * Contents and boundaries pass as they are. A part's header does not: busboy skips a part without an error where a client is
 * careless, and it keeps a file without a file name in memory. So busboy gets a plain header, which has the number of the
 * part as its name, and `headers` has what the client wrote.
 */
import { Buffer } from 'node:buffer';
import type { FieldpostError } from '../../base/errors.js';
import { HEADER_SECTION_BYTES_MAX, KIB } from '../../base/limits.js';
import { counted } from '../../base/text.js';
import { malformed, type PartHeader, parsePartHeader, tooLarge, tooLargeMessage } from './form-part.js';

export const FORM_FIELD_BYTES_MAX = 256 * KIB;
/** A form without the contents of its parts: boundaries, headers, preamble and epilogue. */
export const FORM_FRAME_BYTES_MAX = 128 * KIB;

/** The settings that limit one form. */
interface FormLimits {
  readonly maxAttachments: number;
  readonly maxMessageBytes: number;
}

const LINE_END = '\r\n';
const HEADER_END = '\r\n\r\n';
/** What follows a boundary in its line. RFC 2046 allows blanks there. */
const LINE_REST = /^[ \t]{0,64}\r\n/;
/** Some clients end the last line with a bare LF or CR. Nothing follows that could be read in two ways. */
const LAST_LINE_REST = /^--[ \t]{0,64}[\r\n]/;
const LINE_REST_BEGUN = /^(?:-|(?:--)?[ \t]{0,64}\r?)$/;
const LINE_REST_BYTES_MAX = 68;

/** The guard of one form. */
export class FormGuard {
  /** Of the parts so far. */
  readonly headers: PartHeader[] = [];
  /** Octets of contents that have passed, */
  contentBytes = 0;
  /** and those of files among them. */
  fileBytes = 0;
  readonly #dashes: string;
  /** With the line end in front, which belongs to it. */
  readonly #boundary: string;
  readonly #limits: FormLimits;
  #state: 'preamble' | 'boundary' | 'header' | 'opening' | 'content' | 'epilogue' = 'preamble';
  /** Octets that wait for more. The line end at first is that of a boundary which begins the form. */
  #bytes: Buffer = Buffer.from(LINE_END);
  /** Those in front of it are done. */
  #at = 0;
  /** The place of the first octet in the body. */
  #offset = -LINE_END.length;
  #passed: Buffer[] = [];
  #partBytes = 0;
  #files = 0;
  /** Without that line end, and with the last two dashes. */
  #frameBytes = 0;

  constructor(boundary: string, limits: FormLimits) {
    this.#dashes = `--${boundary}`;
    this.#boundary = `${LINE_END}--${boundary}`;
    this.#limits = limits;
  }

  /**
   * Checks the next octets of the body, and gives those that busboy reads next. Throws malformed-multipart, too-large,
   * invalid, unsupported-media-type.
   */
  push(chunk: Buffer): Buffer {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
    this.#passed = [];
    while (this.#at < this.#bytes.length && this.#step());
    this.#bytes = this.#bytes.subarray(this.#at);
    this.#offset += this.#at;
    this.#at = 0;
    const [first = Buffer.alloc(0), ...others] = this.#passed;
    return others.length === 0 ? first : Buffer.concat(this.#passed);
  }

  /** True from the header of a part to the boundary behind it. */
  get isInPart(): boolean {
    return this.#state === 'opening' || this.#state === 'content';
  }

  /** The body is over: gives the last octets for busboy. Throws malformed-multipart if the form is incomplete. */
  end(): Buffer {
    const isLastLine = this.#state === 'boundary' && this.#bytes.toString('latin1').startsWith('--');
    if (this.#state === 'epilogue' || isLastLine) return Buffer.from('--');
    if (this.#offset + this.#bytes.length === 0) throw malformed('The body is empty');
    if (this.#state === 'preamble') throw noBoundary();
    throw malformed('The form ends before its last boundary', {
      hint: 'nothing was queued; the Content-Length may be too small',
    });
  }

  /** False: more octets must come first. */
  #step(): boolean {
    switch (this.#state) {
      case 'preamble':
      case 'content':
      case 'epilogue':
        return this.#search();
      case 'boundary':
        return this.#endLine();
      case 'header':
        return this.#readHeader();
      case 'opening':
        return this.#openContent();
    }
  }

  /** Goes on to behind the next boundary. */
  #search(): boolean {
    const found = this.#findBoundary();
    const end = found < 0 ? this.#lastBeginning() : found;
    if (this.#state === 'content') this.#pass(this.#bytes.subarray(this.#at, end));
    else this.#countFrame(end - this.#at);
    this.#at = end;
    if (found < 0) return false;
    // RFC 2046 ignores an epilogue. One with further parts would be lost without an error.
    if (this.#state === 'epilogue') throw malformed('The form goes on behind its end');
    this.#countFrame(this.#boundary.length);
    this.#passed.push(Buffer.from(this.#boundary));
    this.#at += this.#boundary.length;
    this.#state = 'boundary';
    return true;
  }

  /** The place of the next boundary, or -1. Throws where some readers would see one, and others would not. */
  #findBoundary(): number {
    for (let from = this.#at; ; from++) {
      from = this.#bytes.indexOf(this.#dashes, from);
      if (from < 0) return -1;
      const front = this.#bytes.toString('latin1', Math.max(this.#at, from - LINE_END.length), from);
      if (front === LINE_END) return from - LINE_END.length;
      // Within a line of content all readers agree that it is content. Outside the parts they do not.
      if (this.#state !== 'content' || /[\r\n]$/.test(front)) throw this.#doubtful(from);
    }
  }

  /** The place of the last octets that may begin a boundary, or a doubtful one; else the end. */
  #lastBeginning(): number {
    const { length } = this.#bytes;
    const begun = ['', '\r', '\n', LINE_END].map((front) => front + this.#dashes);
    for (let at = Math.max(this.#at, length - this.#boundary.length + 1); at < length; at++) {
      const tail = this.#bytes.toString('latin1', at);
      if (begun.some((text) => text.startsWith(tail))) return at;
    }
    return length;
  }

  /** Reads to the end of the boundary's line. The line end stays: it also ends a header without lines. */
  #endLine(): boolean {
    const text = this.#bytes.toString('latin1', this.#at, this.#at + LINE_REST_BYTES_MAX);
    const [rest] = LINE_REST.exec(text) ?? [];
    const [last] = LAST_LINE_REST.exec(text) ?? [];
    if (rest !== undefined) {
      this.#state = 'header';
      this.#at += rest.length - LINE_END.length;
    } else if (last !== undefined) {
      this.#state = 'epilogue';
      this.#at += last.length - 1;
    } else if (LINE_REST_BEGUN.test(text)) return false;
    else
      throw malformed('A line begins like a boundary but is none', {
        hint: 'use a boundary that occurs in no content, and end its line with CR LF',
      });
    return true;
  }

  #readHeader(): boolean {
    const end = this.#bytes.indexOf(HEADER_END, this.#at);
    const boundary = this.#bytes.indexOf(this.#boundary, this.#at);
    if (boundary >= 0 && (end < 0 || boundary < end)) throw malformed('A part ends within its header');
    if ((end < 0 ? this.#bytes.length : end) - this.#at > HEADER_SECTION_BYTES_MAX) {
      throw tooLarge(`The header of a part is larger than ${HEADER_SECTION_BYTES_MAX} bytes`);
    }
    if (end < 0) return false;
    this.#countFrame(end + HEADER_END.length - this.#at);
    const header = parsePartHeader(this.#bytes.subarray(this.#at + LINE_END.length, end + LINE_END.length));
    if (header.file !== null && header.file.name !== '') this.#countFile();
    const number = this.headers.push(header) - 1;
    const plain = `Content-Disposition: form-data; name="${number}"; filename="${number}"`;
    this.#passed.push(Buffer.from(`${LINE_END}${plain}${HEADER_END}`));
    this.#partBytes = 0;
    this.#at = end + LINE_END.length;
    this.#state = 'opening';
    return true;
  }

  /** Starts at the empty line. Readers disagree about a boundary right behind it, without a line end of its own. */
  #openContent(): boolean {
    const text = this.#bytes.toString('latin1', this.#at, this.#at + this.#boundary.length);
    if (text === this.#boundary)
      throw malformed('A part without content lacks the line break in front of the next boundary');
    if (this.#boundary.startsWith(text)) return false;
    this.#at += LINE_END.length;
    this.#state = 'content';
    return true;
  }

  #pass(content: Buffer): void {
    if (content.length === 0) return;
    const { field, file } = this.headers.at(-1) as PartHeader;
    // Browsers send a file without name or content for an empty file input; it counts only with content.
    if (this.#partBytes === 0 && file?.name === '') this.#countFile();
    this.#partBytes += content.length;
    this.contentBytes += content.length;
    if (file !== null) this.fileBytes += content.length;
    else if (this.#partBytes > FORM_FIELD_BYTES_MAX) {
      throw tooLarge(`The field ${JSON.stringify(field)} is larger than ${FORM_FIELD_BYTES_MAX} bytes`);
    }
    const { maxMessageBytes } = this.#limits;
    if (this.contentBytes > maxMessageBytes) throw tooLargeMessage(maxMessageBytes);
    this.#passed.push(content);
  }

  #countFile(): void {
    const { maxAttachments } = this.#limits;
    this.#files++;
    if (this.#files > maxAttachments) {
      throw tooLarge(`The form has more than ${counted(maxAttachments, 'file')} (FIELDPOST_MAX_ATTACHMENTS)`);
    }
  }

  #countFrame(bytes: number): void {
    this.#frameBytes += bytes;
    if (this.#frameBytes <= FORM_FRAME_BYTES_MAX) return;
    if (this.#state === 'preamble') throw noBoundary();
    throw tooLarge(
      `The boundaries, part headers and text around the parts are larger than ${FORM_FRAME_BYTES_MAX} bytes`,
    );
  }

  #doubtful(at: number): FieldpostError {
    const where = this.#state === 'content' ? `in part ${this.headers.length}` : 'outside the parts';
    return malformed(
      `The boundary at offset ${this.#offset + at} of the body, ${where}, does not follow a CR LF: readers disagree about it`,
      { hint: 'put CR LF in front of each boundary, and nothing else in front of the first' },
    );
  }
}

function noBoundary(): FieldpostError {
  return malformed('The boundary named in the Content-Type does not occur in the body', {
    hint: 'each boundary is a line of its own, ended by CR LF',
  });
}
