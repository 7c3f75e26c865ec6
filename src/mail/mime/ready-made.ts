/**
 * Reads a ready-made mail (RFC 5322) as it comes, and gives the octets for the spool: lines end in CRLF, an empty line
 * ends the header section, Bcc and Return-Path are gone. All else stays as it is. Only the header section is held in
 * memory.
 *
 * LF ends a line, with all CRs directly before it. Another CR ends a line of the body. In the header section it becomes a
 * blank: `Subject: hello`, CR, `Bcc: x` names no recipient.
 */
import { Buffer } from 'node:buffer';
import { TextDecoder } from 'node:util';
import { Octets } from '../../base/collections.js';
import { FieldpostError } from '../../base/errors.js';
import { KIB } from '../../base/limits.js';
import type { Qualify } from '../message/mailbox.js';
import { READY_MADE_LINE_OCTETS_MAX } from './headers.js';
import { HeaderSection, headOf, type ReadyMadeHead, SECTION_END } from './ready-made-head.js';
import { hasType, isEncodable, MailEncoder, type Repair, type Repaired, repairHeaders } from './repair.js';

/** The header section of a ready-made mail. */
export const MAIL_HEADER_BYTES_MAX = 64 * KIB;

const NUL = 0;
const LF = 10;
const CR = 13;
const CRLF = Buffer.from('\r\n');
const LINE_END = CRLF.subarray(1);
/** So many CRs may wait for the LF that makes them one line end. */
const CRS_MAX = READY_MADE_LINE_OCTETS_MAX;
const NOTHING = Buffer.alloc(0);

/** How a ready-made mail is read. */
interface ReadyMadeOptions {
  /** The address for a recipient without a domain, such as `root`. Without it such a recipient is a fault. */
  readonly qualify?: Qualify | undefined;
  /** How a mail is made sendable that no relay would take; left out: it is refused. */
  readonly repair?: Repair | undefined;
}

/** What a mail turned out to be. */
export interface ReadyMade {
  readonly head: ReadyMadeHead;
  /** What was changed; null: nothing could be. */
  readonly repaired: Repaired | null;
  /** Not null: the body has lines that no relay takes, and the mail is to be written once more by this. */
  readonly encoder: MailEncoder | null;
}

/** For one mail: push its chunks in order, then call end. */
export class ReadyMadeReader {
  readonly #qualify: Qualify | null;
  readonly #repair: Repair | null;
  readonly #section = new HeaderSection();
  #isInSection = true;
  #head: ReadyMadeHead | null = null;
  #repaired: Repaired | null = null;
  /** True: a body with longer lines can be encoded. */
  #takesLongLines = false;
  #hasLongLine = false;
  /** Reads the body of a mail that does not say what it is; null: it is labelled, or not UTF-8. */
  #utf8: TextDecoder | null = null;
  /** Octets of the section for the spool. */
  #sectionOctets = 0;
  /** Of the header section: the line that has not ended yet. */
  readonly #line = new Octets();
  /** The number of the line that is being read. */
  #number = 1;
  /** Its octets so far, without the CRs at its end. */
  #octets = 0;
  /** The CRs at its end. In the body one of them is in the spool already. */
  #crs = 0;

  constructor({ qualify, repair }: ReadyMadeOptions = {}) {
    this.#qualify = qualify ?? null;
    this.#repair = repair ?? null;
  }

  /** The octets for the spool; the chunk itself if nothing has to change. Throws invalid. */
  push(chunk: Buffer): Buffer {
    if (chunk.length === 0) return NOTHING;
    if (!this.#isInSection) return this.#pushBody(chunk);
    const [from, section] = this.#pushHeader(chunk);
    if (section === null) return NOTHING;
    return from === chunk.length ? section : Buffer.concat([section, this.#pushBody(chunk.subarray(from))]);
  }

  /** The last octets for the spool, and what the mail is. Throws invalid. */
  end(): ReadyMade & { readonly bytes: Buffer } {
    const pieces: Buffer[] = [];
    if (this.#isInSection && this.#octets + this.#crs > 0) pieces.push(this.#endLine(NOTHING) ?? NOTHING);
    // A header section without a body gets its empty line, too.
    if (this.#isInSection) pieces.push(this.#endSection());
    if (this.#crs > 0) pieces.push(LINE_END, ...Array<Buffer>(this.#crs - 1).fill(CRLF));
    else if (this.#octets > 0) pieces.push(CRLF);
    this.#look();
    const charset = this.#utf8 === null ? 'iso-8859-1' : 'utf-8';
    const encoder = this.#hasLongLine ? new MailEncoder(this.#section, this.#sectionOctets, charset) : null;
    return {
      bytes: Buffer.concat(pieces),
      head: this.#head as ReadyMadeHead,
      repaired: this.#repaired,
      encoder,
    };
  }

  /** Gives the number of octets read, and the octets for the spool if they end the section. */
  #pushHeader(chunk: Buffer): [read: number, bytes: Buffer | null] {
    const octetsMax = this.#repair === null ? READY_MADE_LINE_OCTETS_MAX : MAIL_HEADER_BYTES_MAX;
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number;
      if (byte === NUL) throw this.#nul();
      if (byte === LF) {
        this.#line.push(chunk.subarray(start, at));
        start = at + 1;
        const bytes = this.#endLine(LINE_END);
        if (bytes !== null) return [start, bytes];
        continue;
      }
      if (byte === CR) this.#crs++;
      else {
        this.#octets += this.#crs + 1;
        this.#crs = 0;
      }
      if (this.#octets <= octetsMax && this.#crs <= CRS_MAX) continue;
      this.#line.push(chunk.subarray(start, at));
      return [at, this.#beginBody()];
    }
    this.#line.push(chunk.subarray(start));
    return [chunk.length, null];
  }

  /** Gives the octets for the spool if this line, which `end` ends, ends the section. */
  #endLine(end: Buffer): Buffer | null {
    const octets = this.#line.take();
    const line = headerLine(octets);
    this.#octets = 0;
    this.#crs = 0;
    if (line !== '' && !this.#section.take(line)) return this.#firstLine(octets, end);
    if (this.#section.octets > MAIL_HEADER_BYTES_MAX) {
      throw this.#refusal(
        `the header section is larger than ${MAIL_HEADER_BYTES_MAX} bytes at line ${this.#number}`,
      );
    }
    this.#number++;
    return line === '' ? this.#endSection() : null;
  }

  /** Ends the section at a line that has not ended, and is too long for a header. */
  #beginBody(): Buffer {
    const octets = this.#line.take();
    if (this.#section.take(headerLine(octets))) throw this.#tooLong();
    return this.#firstLine(octets);
  }

  /** As sendmail does: a line that is no header is the first line of the body. */
  #firstLine(...octets: readonly Buffer[]): Buffer {
    this.#octets = 0;
    this.#crs = 0;
    return Buffer.concat([this.#endSection(), this.#pushBody(Buffer.concat(octets))]);
  }

  #endSection(): Buffer {
    const section = this.#section;
    this.#isInSection = false;
    if (this.#repair !== null) {
      this.#repaired = repairHeaders(section, this.#repair);
      this.#takesLongLines = isEncodable(section);
      if (this.#takesLongLines && !hasType(section)) this.#utf8 = new TextDecoder('utf-8', { fatal: true });
      if (section.longestLine > READY_MADE_LINE_OCTETS_MAX)
        throw this.#refusal(
          `a line of the header is longer than ${READY_MADE_LINE_OCTETS_MAX} octets, and cannot be folded`,
        );
    }
    this.#head = headOf(section, this.#qualify);
    this.#sectionOctets = section.text.length + SECTION_END.length;
    return Buffer.from(section.text + SECTION_END, 'latin1');
  }

  /** Without octets: at the end of the body. */
  #look(octets?: Buffer): void {
    try {
      this.#utf8?.decode(octets, { stream: octets !== undefined });
    } catch {
      this.#utf8 = null;
    }
  }

  #pushBody(chunk: Buffer): Buffer {
    this.#look(chunk);
    return this.#isClean(chunk) ? chunk : this.#rewrite(chunk);
  }

  /** True, and the chunk counts as read, if it needs no change. */
  #isClean(chunk: Buffer): boolean {
    let start = 0;
    let number = this.#number;
    let room = READY_MADE_LINE_OCTETS_MAX - this.#octets;
    if (this.#crs > 0) {
      if (chunk[0] !== LF) return false;
      start = 1;
      number++;
      room = READY_MADE_LINE_OCTETS_MAX;
    }
    if (chunk.includes(NUL)) return false;
    let cr = chunk.indexOf(CR, start);
    for (; cr !== -1 && cr < chunk.length - 1; cr = chunk.indexOf(CR, start)) {
      if (cr - start > room || chunk.indexOf(LF, start) !== cr + 1) return false;
      number++;
      room = READY_MADE_LINE_OCTETS_MAX;
      start = cr + 2;
    }
    const left = (cr === -1 ? chunk.length : cr) - start;
    if (left > room || chunk.indexOf(LF, start) !== -1) return false;
    this.#octets = READY_MADE_LINE_OCTETS_MAX - room + left;
    this.#crs = cr === -1 ? 0 : 1;
    this.#number = number;
    return true;
  }

  #rewrite(chunk: Buffer): Buffer {
    // The most that one octet becomes is two, those of the chunk before that are still open included.
    const out = Buffer.allocUnsafe((chunk.length + this.#crs) * 2);
    let length = 0;
    // Locals, because they are faster than fields.
    let crs = this.#crs;
    let octets = this.#octets;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number;
      if (crs > 0 && byte !== LF && (byte !== CR || crs === CRS_MAX)) {
        // Each of them was a line end.
        this.#number += crs;
        octets = 0;
        for (out[length++] = LF; crs > 1; crs--) length += CRLF.copy(out, length);
        crs = 0;
      }
      if (byte > CR || (byte !== NUL && byte !== CR && byte !== LF)) {
        if (++octets > READY_MADE_LINE_OCTETS_MAX) this.#takeLongLine();
        out[length++] = byte;
      } else if (byte === NUL) throw this.#nul();
      else if (byte === CR) {
        if (crs++ === 0) out[length++] = CR;
      } else {
        if (crs === 0) out[length++] = CR;
        out[length++] = LF;
        this.#number++;
        octets = 0;
        crs = 0;
      }
    }
    this.#crs = crs;
    this.#octets = octets;
    return out.subarray(0, length);
  }

  #takeLongLine(): void {
    if (!this.#takesLongLines) throw this.#tooLong();
    this.#hasLongLine = true;
  }

  #nul(): FieldpostError {
    return this.#refusal(`line ${this.#number} has a NUL`);
  }

  #tooLong(): FieldpostError {
    return this.#refusal(`line ${this.#number} is longer than ${READY_MADE_LINE_OCTETS_MAX} octets`);
  }

  #refusal(detail: string): FieldpostError {
    return new FieldpostError('invalid', `The mail cannot be taken: ${detail}`, {
      faults: [{ pointer: 'body', detail }],
    });
  }
}

/** A line of the header section, without the CRs at its end. */
function headerLine(octets: Buffer): string {
  return octets
    .toString('latin1')
    .replace(/(?<!\r)\r+$/, '')
    .replaceAll('\r', ' ');
}
