/**
 * Reads a ready-made mail (RFC 5322) as it comes, and gives the octets for the spool: lines end in CRLF, an empty line
 * ends the header section, Bcc and Return-Path are gone. All else stays as it is. Only the header section is held in
 * memory.
 */
import { Buffer } from 'node:buffer';
import { TextDecoder } from 'node:util';
import { FieldpostError } from '../errors.js';
import { MAIL_HEADER_BYTES_MAX, READY_MADE_LINE_OCTETS_MAX } from '../mail-limits.js';
import type { Qualify } from '../message/mailbox.js';
import { Octets } from '../octets.js';
import { HeaderSection, headOf, type ReadyMadeHead, SECTION_END } from './ready-made-head.js';
import { hasType, isEncodable, MailEncoder, type Repair, type Repaired, repairHeaders } from './repair.js';

const NUL = 0;
const LF = 10;
const CR = 13;
const CRLF = Buffer.from('\r\n');
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
  // The last octet seen; the beginning of the mail is the beginning of a line.
  #previous = LF;
  /** The number of the line that is being read. */
  #number = 1;
  /** Its octets so far. */
  #octets = 0;

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
    if (this.#isInSection && this.#octets > 0) pieces.push(this.#endLine() ?? NOTHING);
    else if (this.#previous === CR && !this.#isInSection) pieces.push(CRLF.subarray(1));
    else if (this.#previous !== LF && !this.#isInSection) pieces.push(CRLF);
    // A header section without a body gets its empty line, too.
    if (this.#isInSection) pieces.push(this.#endSection(SECTION_END));
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

  /** Gives the number of octets read, and the whole section if they end it. */
  #pushHeader(chunk: Buffer): [read: number, section: Buffer | null] {
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number;
      if (byte === NUL) throw this.#nul();
      if (byte !== CR && byte !== LF) {
        const octetsMax = this.#repair === null ? READY_MADE_LINE_OCTETS_MAX : MAIL_HEADER_BYTES_MAX;
        if (this.#octets === octetsMax) {
          this.#line.push(chunk.subarray(start, at));
          return [at, this.#beginBody()];
        }
        this.#octets++;
        this.#previous = byte;
        continue;
      }
      if (byte === CR || this.#previous !== CR) {
        this.#line.push(chunk.subarray(start, at));
        this.#previous = byte;
        const section = this.#endLine();
        this.#number++;
        this.#octets = 0;
        // The LF after a CR, here or in the next chunk, is part of the body.
        if (section !== null) return [at + 1, byte === CR ? section.subarray(0, -1) : section];
      }
      this.#previous = byte;
      start = at + 1;
    }
    if (start < chunk.length) this.#line.push(chunk.subarray(start));
    return [chunk.length, null];
  }

  /** Gives the section if this line ends it. */
  #endLine(): Buffer | null {
    const line = this.#line.take().toString('latin1');
    if (this.#section.take(line)) {
      if (this.#section.octets <= MAIL_HEADER_BYTES_MAX) return null;
      throw this.#refusal(
        `the header section is larger than ${MAIL_HEADER_BYTES_MAX} bytes at line ${this.#number}`,
      );
    }
    return line === '' ? this.#endSection(SECTION_END) : this.#firstLine(line, '\r\n');
  }

  /** Ends the section at a line that has not ended, and is too long for a header. */
  #beginBody(): Buffer {
    const line = this.#line.take().toString('latin1');
    if (this.#section.take(line)) throw this.#tooLong();
    return this.#firstLine(line, '');
  }

  /** As sendmail does: a line that is no header is the first line of the body. */
  #firstLine(line: string, end: string): Buffer {
    const bytes = this.#endSection(`${SECTION_END}${line}${end}`);
    if (line.length > READY_MADE_LINE_OCTETS_MAX) this.#takeLongLine();
    this.#look(Buffer.from(line, 'latin1'));
    return bytes;
  }

  #endSection(end: string): Buffer {
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
    return Buffer.from(section.text + end, 'latin1');
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
    if (this.#previous === CR) {
      if (chunk[0] !== LF) return false;
      start = 1;
    }
    if (chunk.includes(NUL)) return false;
    while (true) {
      const cr = chunk.indexOf(CR, start);
      const lf = chunk.indexOf(LF, start);
      if (cr === -1) {
        if (lf !== -1 || chunk.length - start > room) return false;
        this.#octets = READY_MADE_LINE_OCTETS_MAX - room + (chunk.length - start);
        break;
      }
      if (cr - start > room) return false;
      if (lf !== cr + 1 && (lf !== -1 || cr !== chunk.length - 1)) return false;
      number++;
      room = READY_MADE_LINE_OCTETS_MAX;
      start = cr + 2;
      if (start >= chunk.length) {
        this.#octets = 0;
        break;
      }
    }
    this.#number = number;
    this.#previous = chunk[chunk.length - 1] as number;
    return true;
  }

  #rewrite(chunk: Buffer): Buffer {
    // The most that one octet becomes is two; a CR left open by the chunk before adds one.
    const out = Buffer.allocUnsafe(chunk.length * 2 + 1);
    let length = 0;
    // Locals, because they are faster than fields.
    let previous = this.#previous;
    let octets = this.#octets;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number;
      if (byte !== LF && previous === CR) out[length++] = LF;
      if (byte > CR || (byte !== NUL && byte !== CR && byte !== LF)) {
        if (++octets > READY_MADE_LINE_OCTETS_MAX) this.#takeLongLine();
      } else if (byte === NUL) throw this.#nul();
      else if (byte === CR || previous !== CR) {
        if (byte === LF) out[length++] = CR;
        this.#number++;
        octets = 0;
      }
      out[length++] = byte;
      previous = byte;
    }
    this.#previous = previous;
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
