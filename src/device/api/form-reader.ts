/**
 * Parses a form strictly: it refuses a form that two readers would read differently, and loses no part without an
 * error. It also keeps the limits. Pure.
 *
 *   preamble → delimiter → header → opening → content → delimiter → … → closing → epilogue   (RFC 2046 §5.1.1)
 */
import { Buffer } from 'node:buffer';
import { FieldpostError } from '../../base/errors.js';
import { FORM_FIELD_BYTES_MAX, FORM_FRAME_BYTES_MAX, HEADER_SECTION_BYTES_MAX } from '../../base/limits.js';
import { counted } from '../../base/sizes.js';
import { malformed, type PartHeader, parsePartHeader } from './form-part.js';

/** What a form brings, in its order. */
export type FormEvent =
  | { readonly kind: 'part'; readonly header: PartHeader }
  /** A view of the chunk, not a copy. */
  | { readonly kind: 'content'; readonly bytes: Buffer }
  | { readonly kind: 'end' };

/** The settings that limit one form. */
export interface FormLimits {
  readonly maxAttachments: number;
  readonly maxMessageBytes: number;
}

type State = 'preamble' | 'delimiter' | 'header' | 'opening' | 'content' | 'closing' | 'epilogue';

const NOTHING = Buffer.alloc(0);
const LINE_END = Buffer.from('\r\n');
const HEADER_END = Buffer.from('\r\n\r\n');
/** Limit of the blanks behind a boundary. */
const PADDING_BYTES_MAX = 64;
const CR = 0x0d;
const LF = 0x0a;
const DASH = 0x2d;

/** The parser of one form. */
export class FormReader {
  /** Size of all files so far. */
  fileBytes = 0;
  readonly #delimiter: Buffer;
  /** Without its line break. */
  readonly #dashes: Buffer;
  readonly #limits: FormLimits;
  #state: State = 'preamble';
  /** Octets that wait for more. At first the line break of a boundary that begins the form. */
  #rest: Buffer = LINE_END;
  /** Octets of the body so far, and the offset of the present chunk and rest. */
  #pushedBytes = 0;
  #startBytes = 0;
  /** The present part, and the size of its content. */
  #part: PartHeader = { field: '', file: null, charset: 'utf8' };
  #partBytes = 0;
  #parts = 0;
  #files = 0;
  #contentBytes = 0;
  #frameBytes = -LINE_END.length;
  #events: FormEvent[] = [];

  constructor(boundary: string, limits: FormLimits) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
    this.#dashes = this.#delimiter.subarray(LINE_END.length);
    this.#limits = limits;
  }

  /** Parses the next octets of the body. Throws malformed-multipart, too-large, invalid, unsupported-media-type. */
  push(chunk: Buffer): readonly FormEvent[] {
    this.#events = [];
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    this.#startBytes = this.#pushedBytes - this.#rest.length;
    this.#pushedBytes += chunk.length;
    this.#rest = NOTHING;
    for (let at = 0; at < bytes.length; ) {
      const next = this.#step(bytes, at);
      if (next === null) {
        this.#rest = bytes.subarray(at);
        break;
      }
      at = next;
    }
    return this.#events;
  }

  /** The body is over. Throws malformed-multipart if the form is incomplete. */
  end(): void {
    if (this.#state === 'epilogue' || this.#state === 'closing') return;
    if (this.#pushedBytes === 0) throw malformed('The body is empty');
    if (this.#state === 'preamble') throw noBoundary();
    throw malformed('The form ends before its last boundary', {
      hint: 'nothing was queued; the Content-Length may be too small',
    });
  }

  /** One step from `at`: the offset of the next, or null if more must come first. */
  #step(bytes: Buffer, at: number): number | null {
    switch (this.#state) {
      case 'preamble':
      case 'content':
      case 'epilogue':
        return this.#search(bytes, at);
      case 'delimiter':
        return this.#afterDelimiter(bytes, at);
      case 'header':
        return this.#readHeader(bytes, at);
      case 'opening':
        return this.#openContent(bytes, at);
      case 'closing':
        return this.#afterClosing(bytes, at);
    }
  }

  /** Goes on to the next delimiter, or to the first octet that may begin one. */
  #search(bytes: Buffer, at: number): number | null {
    const found = this.#findDelimiter(bytes, at);
    const end = found >= 0 ? found : bytes.length - this.#heldBack(bytes, at);
    if (this.#state === 'content') this.#countContent(bytes.subarray(at, end));
    else this.#countFrame(end - at);
    if (found < 0) return end > at ? end : null;
    // RFC 2046 ignores an epilogue. One with further parts would be lost without an error.
    if (this.#state === 'epilogue') throw malformed('The form goes on behind its end');
    if (this.#state === 'content') this.#events.push({ kind: 'end' });
    this.#countFrame(this.#delimiter.length);
    this.#state = 'delimiter';
    return found + this.#delimiter.length;
  }

  /** The offset of the next delimiter, or -1. Throws where some readers would see one, and others would not. */
  #findDelimiter(bytes: Buffer, at: number): number {
    for (let from = at; ; ) {
      const dashes = bytes.indexOf(this.#dashes, from);
      if (dashes < 0) return -1;
      const found = dashes - LINE_END.length;
      if (found >= at && this.#begins(bytes.subarray(found))) return found;
      // Within a line of content all readers agree that it is content. Outside the parts they do not.
      const before = dashes > at ? bytes[dashes - 1] : 0;
      if (this.#state !== 'content' || before === CR || before === LF) throw this.#doubtful(dashes);
      from = dashes + 1;
    }
  }

  /** How many of the last octets may begin a delimiter, or a doubtful one. */
  #heldBack(bytes: Buffer, at: number): number {
    for (let from = Math.max(at, bytes.length - this.#delimiter.length + 1); from < bytes.length; from++) {
      const tail = bytes.subarray(from);
      const isBreak = tail[0] === CR || tail[0] === LF;
      if (this.#begins(tail) || this.#beginsDashes(isBreak ? tail.subarray(1) : tail)) return tail.length;
    }
    return 0;
  }

  #beginsDashes(bytes: Buffer): boolean {
    return bytes.length <= this.#dashes.length && bytes.equals(this.#dashes.subarray(0, bytes.length));
  }

  /** True if the octets are a delimiter, begin with one, or may begin one. */
  #begins(bytes: Buffer): boolean {
    const length = Math.min(bytes.length, this.#delimiter.length);
    return bytes.compare(this.#delimiter, 0, length, 0, length) === 0;
  }

  #afterDelimiter(bytes: Buffer, at: number): number | null {
    if (bytes[at] === DASH) {
      if (at + 1 === bytes.length) return null;
      if (bytes[at + 1] !== DASH) throw this.#pretender();
      this.#state = 'closing';
      this.#countFrame(2);
      return at + 2;
    }
    const end = this.#lineEnd(bytes, at);
    if (end === null) return null;
    this.#state = 'header';
    // The line break stays: it also ends a header without lines.
    return end;
  }

  #readHeader(bytes: Buffer, at: number): number | null {
    const end = bytes.indexOf(HEADER_END, at);
    const delimiter = bytes.indexOf(this.#delimiter, at);
    if (delimiter >= 0 && (end < 0 || delimiter < end)) throw malformed('A part ends within its header');
    if ((end < 0 ? bytes.length : end) - at > HEADER_SECTION_BYTES_MAX) {
      throw tooLarge(`The header of a part is larger than ${HEADER_SECTION_BYTES_MAX} bytes`);
    }
    if (end < 0) return null;
    this.#countFrame(end + HEADER_END.length - at);
    const header = parsePartHeader(bytes.subarray(at + LINE_END.length, end + LINE_END.length));
    if (header.file !== null && header.file.name !== '') this.#countFile();
    this.#part = header;
    this.#partBytes = 0;
    this.#parts++;
    this.#events.push({ kind: 'part', header });
    this.#state = 'opening';
    return end + LINE_END.length;
  }

  /** Starts at the empty line. Readers disagree about a boundary right behind it, without a line break of its own. */
  #openContent(bytes: Buffer, at: number): number | null {
    if (this.#begins(bytes.subarray(at))) {
      if (bytes.length - at < this.#delimiter.length) return null;
      throw malformed('A part without content lacks the line break in front of the next boundary');
    }
    this.#state = 'content';
    return at + LINE_END.length;
  }

  /** Some clients end the last line with a bare LF or CR. Nothing follows that could be read in two ways. */
  #afterClosing(bytes: Buffer, at: number): number | null {
    const end = this.#padding(bytes, at);
    if (end === bytes.length) return null;
    if (bytes[end] !== CR && bytes[end] !== LF) throw this.#pretender();
    this.#state = 'epilogue';
    return end;
  }

  /** The line's end; null if it has not come yet. */
  #lineEnd(bytes: Buffer, at: number): number | null {
    const end = this.#padding(bytes, at);
    const next = bytes.subarray(end, end + LINE_END.length);
    if (!LINE_END.subarray(0, next.length).equals(next)) throw this.#pretender();
    return next.length < LINE_END.length ? null : end;
  }

  /** The end of blanks and tabs (RFC 2046: transport padding). */
  #padding(bytes: Buffer, at: number): number {
    let end = at;
    while (bytes[end] === 0x20 || bytes[end] === 0x09) end++;
    if (end - at > PADDING_BYTES_MAX) throw this.#pretender();
    return end;
  }

  #countContent(content: Buffer): void {
    if (content.length === 0) return;
    const { field, file } = this.#part;
    // Browsers send a file without name or content for an empty file input; it counts only with content.
    if (this.#partBytes === 0 && file?.name === '') this.#countFile();
    this.#partBytes += content.length;
    this.#contentBytes += content.length;
    if (file !== null) this.fileBytes += content.length;
    else if (this.#partBytes > FORM_FIELD_BYTES_MAX) {
      throw tooLarge(`The field ${JSON.stringify(field)} is larger than ${FORM_FIELD_BYTES_MAX} bytes`);
    }
    const { maxMessageBytes } = this.#limits;
    if (this.#contentBytes > maxMessageBytes) throw tooLargeMessage(maxMessageBytes);
    this.#events.push({ kind: 'content', bytes: content });
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
    if (this.#frameBytes > FORM_FRAME_BYTES_MAX) {
      if (this.#state === 'preamble') throw noBoundary();
      throw tooLarge(
        `The boundaries, part headers and text around the parts are larger than ${FORM_FRAME_BYTES_MAX} bytes`,
      );
    }
  }

  #doubtful(at: number): FieldpostError {
    const where = this.#state === 'content' ? `in part ${this.#parts}` : 'outside the parts';
    return malformed(
      `The boundary at offset ${this.#startBytes + at} of the body, ${where}, does not follow a CR LF: readers disagree about it`,
      { hint: 'put CR LF in front of each boundary, and nothing else in front of the first' },
    );
  }

  #pretender(): FieldpostError {
    return malformed('A line begins like a boundary but is none', {
      hint: 'use a boundary that occurs in no content, and end its line with CR LF',
    });
  }
}

function noBoundary(): FieldpostError {
  return malformed('The boundary named in the Content-Type does not occur in the body', {
    hint: 'each boundary is a line of its own, ended by CR LF',
  });
}

/** The message exceeds FIELDPOST_MAX_MESSAGE. */
export function tooLargeMessage(limitBytes: number): FieldpostError {
  return tooLarge(
    `The message with its attachments is larger than ${limitBytes} bytes (FIELDPOST_MAX_MESSAGE)`,
  );
}

function tooLarge(message: string): FieldpostError {
  return new FieldpostError('too-large', message, { hint: 'nothing was queued' });
}
