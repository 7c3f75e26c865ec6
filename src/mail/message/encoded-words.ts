/**
 * Decodes the encoded words of a header (RFC 2047, and the language of RFC 2231 §5), for people. Pure.
 */
import { Buffer } from 'node:buffer';
import { type Charset, charsetOf, decode } from '../../base/charset.js';

// No part can hold a `?`, so two attempts never read the same text: the time is linear.
const ENCODED_WORD = /=\?([^?\s]{1,75})\?([BbQq])\?([^?\s]*)\?=/g;

/** The octets of one or more encoded words that follow each other in one charset. */
interface Run {
  readonly charset: Charset;
  readonly octets: Buffer[];
}

/** The text with all its encoded words decoded. A word in an unknown charset stays as it is. */
export function decodeWords(text: string): string {
  if (!text.includes('=?')) return text;
  let decoded = '';
  let at = 0;
  let run: Run | null = null;
  for (const { 0: word, 1: name = '', 2: encoding = '', 3: payload = '', index } of text.matchAll(
    ENCODED_WORD,
  )) {
    const charset = charsetOf(name.split('*', 1)[0] as string);
    if (charset === undefined) continue;
    const between = text.slice(at, index);
    // The blanks between two encoded words belong to neither (RFC 2047 §6.2).
    const isNext = run !== null && between.trim() === '';
    if (run === null || !isNext || run.charset !== charset) {
      decoded += textOf(run) + (isNext ? '' : between);
      run = { charset, octets: [] };
    }
    // Some mailers cut a character in two: its octets are put together first.
    run.octets.push(/^b$/i.test(encoding) ? Buffer.from(payload, 'base64') : fromQ(payload));
    at = index + word.length;
  }
  return decoded + textOf(run) + text.slice(at);
}

function textOf(run: Run | null): string {
  return run === null ? '' : decode(Buffer.concat(run.octets), run.charset);
}

/** The `Q` encoding (RFC 2047 §4.2). */
function fromQ(payload: string): Buffer {
  const octets = Buffer.from(payload.replaceAll('_', ' ')).toString('latin1');
  const raw = octets.replace(/=([0-9A-Fa-f]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(raw, 'latin1');
}
