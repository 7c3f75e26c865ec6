/**
 * Encodes a file as base64 (RFC 2045 §6.8) while it is read.
 */
import { Buffer } from 'node:buffer';

const LINE_CHARS = 76;
/** The octets of a full line. */
const LINE_BYTES = (LINE_CHARS / 4) * 3;

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
  for (let at = 0; from < lines.length; from += LINE_CHARS) {
    lines.copyWithin(at, from, from + LINE_CHARS);
    at += Math.min(LINE_CHARS, lines.length - from);
    lines[at++] = 0x0d;
    lines[at++] = 0x0a;
  }
  return lines;
}

function withBreaks(chars: number): number {
  return chars + Math.ceil(chars / LINE_CHARS) * 2;
}
