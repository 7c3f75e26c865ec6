/**
 * The encodings of content (RFC 2045): base64 of a file while it is read, and text as quoted-printable. One pass each: they
 * must be faster than the relay.
 */
import { Buffer } from 'node:buffer';

/** The longest line, without its CRLF. */
const LINE_OCTETS_MAX = 76;
/** The octets of a file in a full line of base64. */
const LINE_BYTES = (LINE_OCTETS_MAX / 4) * 3;
/** A line with a soft break is at least this long: the character that did not fit has at most 12 octets. */
const BROKEN_LINE_OCTETS_MIN = LINE_OCTETS_MAX - 12;

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const BLANK = 0x20;
const DOT = 0x2e;
const EQUALS = 0x3d;
const UPPER_F = 0x46;

const HEX = Buffer.from('0123456789ABCDEF');

/** By byte: how many octets the line must have left for it. A byte of width 1 is written as it is. */
const WIDTH = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte === TAB || (byte >= BLANK && byte <= 0x7e && byte !== EQUALS)) return 1;
  // The first byte of a UTF-8 character needs room for all of it: no character is split.
  if (byte >= 0xf0) return 12;
  if (byte >= 0xe0) return 9;
  return byte >= 0xc0 ? 6 : 3;
});

/** The octets of `bytes` octets as base64, with the CRLF of every line. */
export function base64Octets(bytes: number): number {
  return withBreaks(Math.ceil(bytes / 3) * 4);
}

/** The source in lines of 76 characters. CRLF ends each of them, also the last, shorter one. */
export async function* base64Lines(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of source) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    const whole = bytes.length - (bytes.length % LINE_BYTES);
    if (whole > 0) yield inLines(bytes.toString('base64', 0, whole));
    // A copy, because the source may reuse the memory of its chunk.
    rest = Buffer.from(bytes.subarray(whole));
  }
  if (rest.length > 0) yield inLines(rest.toString('base64'));
}

function inLines(base64: string): Buffer {
  const lines = Buffer.allocUnsafe(withBreaks(base64.length));
  // Write at the end of the buffer, then move each line to its place: cutting the string takes 50 % longer.
  let from = lines.length - base64.length;
  lines.write(base64, from, 'latin1');
  for (let at = 0; from < lines.length; from += LINE_OCTETS_MAX) {
    lines.copyWithin(at, from, from + LINE_OCTETS_MAX);
    at += Math.min(LINE_OCTETS_MAX, lines.length - from);
    lines[at++] = CR;
    lines[at++] = LF;
  }
  return lines;
}

function withBreaks(chars: number): number {
  return chars + Math.ceil(chars / LINE_OCTETS_MAX) * 2;
}

/**
 * The text in UTF-8, or the octets, as lines of printable ASCII, at most 76 octets each. Every line break (CRLF, or a bare CR
 * or LF) becomes CRLF. A last line without one stays open, with room for one more octet. No line begins with a dot (SMTP)
 * nor with `From ` (mbox).
 */
export function encodeQuotedPrintable(text: string | Buffer): Buffer {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  const octetsMax = bytes.length * 3;
  const out = Buffer.allocUnsafe(octetsMax + Math.ceil(octetsMax / BROKEN_LINE_OCTETS_MIN) * 3);
  let at = 0;
  let lineStart = 0;
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index] as number;
    if (byte === CR || byte === LF) {
      if (byte === CR && bytes[index + 1] === LF) index++;
      out[at++] = CR;
      out[at++] = LF;
      lineStart = at;
      continue;
    }
    // A relay may drop a blank or tab at the end of a line (rule 3).
    const trailing = (byte === BLANK || byte === TAB) && endsLine(bytes[index + 1]);
    const width = trailing ? 3 : (WIDTH[byte] as number);
    if (at - lineStart + width >= LINE_OCTETS_MAX) {
      out[at++] = EQUALS;
      out[at++] = CR;
      out[at++] = LF;
      lineStart = at;
    }
    if (width === 1 && (at > lineStart || mayStartLine(bytes, index))) {
      out[at++] = byte;
    } else {
      out[at++] = EQUALS;
      out[at++] = HEX[byte >> 4] as number;
      out[at++] = HEX[byte & 15] as number;
    }
  }
  return out.subarray(0, at);
}

function endsLine(next: number | undefined): boolean {
  return next === undefined || next === CR || next === LF;
}

function mayStartLine(bytes: Buffer, index: number): boolean {
  if (bytes[index] === DOT) return false;
  return bytes[index] !== UPPER_F || bytes.toString('latin1', index, index + 5) !== 'From ';
}
