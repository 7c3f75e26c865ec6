/**
 * Parses a caught mail to show it: headers, text, attachments. It reads mails of our own renderer exactly, others as well
 * as it can, and never throws. What a browser gets of it does no harm.
 */
import { KIB, MIB } from '../base/limits.js';
import { cut, harmlessName } from '../base/text.js';

/** A file in a mail. */
export interface MailFile {
  /** Empty if it has none. */
  readonly name: string;
  readonly type: string;
  /** The name by which HTML refers to it (`cid:`); empty if it has none. */
  readonly contentId: string;
  /** The decoded content. */
  readonly octets: Buffer;
}

interface Parts {
  /** Null without such a text. */
  plain: string | null;
  html: string | null;
  readonly attachments: MailFile[];
  /** Parts that were read so far. */
  count: number;
}

/** The headers of a mail that a list shows; empty if they are missing. */
export interface ShownHead {
  readonly subject: string;
  readonly from: string;
  readonly to: string;
  readonly date: string;
}

/** The deepest nesting of parts that is read, and the most parts. */
const DEPTH_MAX = 20;
const PARTS_MAX = 1000;
/** Of longer headers only the beginning is read, and of a longer value only the parameters at its beginning. */
export const MAIL_HEAD_BYTES_MAX = 64 * KIB;
const VALUE_CHARS_MAX = 16 * KIB;

/** Parses a mail as it was received, without stuffed dots. */
export function readMail(raw: Buffer): Readonly<Omit<Parts, 'count'>> & { readonly subject: string } {
  const { count: _, ...found } = collect(raw, 0, { plain: null, html: null, attachments: [], count: 0 });
  return { subject: readMailHead(raw).subject, ...found };
}

/** The headers that a list shows. The beginning of the mail is enough. */
export function readMailHead(raw: Buffer): ShownHead {
  const headers = readHeaders(raw);
  const decoded = (name: string) => decodeWords(headers.get(name) ?? '');
  return { subject: decoded('subject'), from: decoded('from'), to: decoded('to'), date: decoded('date') };
}

/** All headers in their order, decoded. */
export function readMailHeaders(raw: Buffer): (readonly [name: string, value: string])[] {
  return headerLines(raw).map(([name, value]) => [name, decodeWords(value)]);
}

/** Sorts an entity, or the entities in it, into text and attachments. The first part of a kind becomes the text. */
function collect(entity: Buffer, depth: number, found: Parts): Parts {
  const headers = readHeaders(entity);
  const contentType = headers.get('content-type') ?? 'text/plain';
  const type = essence(contentType);
  const disposition = headers.get('content-disposition') ?? '';
  const body = entity.subarray(headersEnd(entity).body);
  const boundary = type.startsWith('multipart/') ? parameter(contentType, 'boundary') : '';
  if (boundary !== '' && depth < DEPTH_MAX) {
    for (const part of partsOf(body, boundary)) {
      if (++found.count > PARTS_MAX) break;
      collect(part, depth + 1, found);
    }
    return found;
  }
  const octets = decodeTransfer(body, headers.get('content-transfer-encoding') ?? '');
  const kind = type === 'text/plain' ? 'plain' : type === 'text/html' ? 'html' : null;
  if (kind !== null && found[kind] === null && essence(disposition) !== 'attachment') {
    found[kind] = decodeCharset(octets, parameter(contentType, 'charset'));
  } else {
    const name = parameter(disposition, 'filename') || parameter(contentType, 'name');
    const contentId = (headers.get('content-id') ?? '').replace(/^<|>$/g, '');
    found.attachments.push({ name, type, contentId, octets });
  }
  return found;
}

function headersEnd(entity: Buffer): { headers: number; body: number } {
  if (entity[0] === 0x0a) return { headers: 0, body: 1 };
  if (entity[0] === 0x0d && entity[1] === 0x0a) return { headers: 0, body: 2 };
  const crlf = entity.indexOf('\r\n\r\n');
  const lf = entity.indexOf('\n\n');
  if (crlf >= 0 && (lf < 0 || crlf < lf)) return { headers: crlf, body: crlf + 4 };
  return lf >= 0 ? { headers: lf, body: lf + 2 } : { headers: entity.length, body: entity.length };
}

/** Each header's unfolded value by its lower-case name; of two with one name the first counts. */
function readHeaders(entity: Buffer): Map<string, string> {
  const headers = new Map<string, string>();
  for (const [name, value] of headerLines(entity)) {
    const key = name.toLowerCase();
    if (!headers.has(key)) headers.set(key, value);
  }
  return headers;
}

/** Each header's name and unfolded value. */
function headerLines(entity: Buffer): [name: string, value: string][] {
  const end = Math.min(headersEnd(entity).headers, MAIL_HEAD_BYTES_MAX);
  const text = entity.toString('utf8', 0, end).replace(/\r?\n(?=[ \t])/g, '');
  return text.split(/\r?\n/).flatMap((line): [string, string][] => {
    const colon = line.indexOf(':');
    return colon > 0 ? [[line.slice(0, colon).trim(), line.slice(colon + 1).trim()]] : [];
  });
}

/** The entities between the boundary lines, as many as are read; the closing line may be missing. */
function partsOf(body: Buffer, boundary: string): Buffer[] {
  const parts: Buffer[] = [];
  let start = -1;
  for (let at = body.indexOf(`--${boundary}`); at >= 0; at = body.indexOf(`--${boundary}`, at + 1)) {
    if (at > 0 && body[at - 1] !== 0x0a) continue;
    const lineEnd = body.indexOf(0x0a, at);
    const restStart = at + 2 + Buffer.byteLength(boundary);
    const rest = body.toString('latin1', restStart, lineEnd < 0 ? body.length : lineEnd);
    if (!/^(?:--)?[ \t]*\r?$/.test(rest)) continue;
    // The line break before a boundary belongs to it.
    const end = at - (body[at - 2] === 0x0d ? 2 : 1);
    if (start >= 0) parts.push(body.subarray(start, Math.max(start, end)));
    start = rest.startsWith('--') || lineEnd < 0 ? -1 : lineEnd + 1;
    if (start < 0 || parts.length > PARTS_MAX) return parts;
  }
  if (start >= 0) parts.push(body.subarray(start));
  return parts;
}

function decodeTransfer(body: Buffer, encoding: string): Buffer {
  switch (encoding.toLowerCase()) {
    case 'base64':
      return Buffer.from(body.toString('latin1'), 'base64');
    case 'quoted-printable':
      return decodeOctets(body.toString('latin1').replace(/=[ \t]*\r?\n/g, ''), '=');
    default:
      return body;
  }
}

/** The octets of a text in which `mark` and two hex digits encode an octet. */
function decodeOctets(latin1: string, mark: '=' | '%'): Buffer {
  const pattern = mark === '=' ? /=([0-9a-f]{2})/gi : /%([0-9a-f]{2})/gi;
  const octets = latin1.replace(pattern, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(octets, 'latin1');
}

/** Decodes a text; in an unknown charset each octet is a character. */
function decodeCharset(octets: Buffer, charset: string): string {
  try {
    return new TextDecoder(charset || 'utf-8', { ignoreBOM: true }).decode(octets);
  } catch {
    return octets.toString('latin1');
  }
}

const WORD = /=\?([^?*\s]+)(?:\*[^?\s]*)?\?([BbQq])\?([^?\s]*)\?=/;
const WORDS = new RegExp(`${WORD.source}(?:[ \\t]+${WORD.source})*`, 'g');

/** A header's text with its encoded words decoded (RFC 2047), without the blanks between two of them. */
function decodeWords(text: string): string {
  return text.replace(WORDS, (run) => {
    let decoded = '';
    let octets: Buffer[] = [];
    let charset = '';
    // Some mailers cut a character in two, so words of one charset are decoded together.
    const flush = () => {
      if (octets.length > 0) decoded += decodeCharset(Buffer.concat(octets), charset);
      octets = [];
    };
    for (const [, label = '', encoding = '', data = ''] of run.matchAll(new RegExp(WORD, 'g'))) {
      if (label !== charset) flush();
      charset = label;
      const isBase64 = /b/i.test(encoding);
      octets.push(isBase64 ? Buffer.from(data, 'base64') : decodeOctets(data.replaceAll('_', ' '), '='));
    }
    flush();
    return decoded;
  });
}

/** The value without its parameters, in lower case. */
function essence(value: string): string {
  return (value.split(';', 1)[0] as string).trim().toLowerCase();
}

const PARAMETER = /;\s*([^\s=;]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*))/g;

/** A parameter of a structured header, joined from its sections (RFC 2231); empty if it is missing. */
function parameter(value: string, name: string): string {
  const parameters = new Map<string, string>();
  for (const [, key = '', quoted, token = ''] of value.slice(0, VALUE_CHARS_MAX).matchAll(PARAMETER)) {
    const lower = key.toLowerCase();
    if (!parameters.has(lower)) parameters.set(lower, quoted?.replace(/\\(.)/g, '$1') ?? token.trim());
  }
  const octets: Buffer[] = [];
  let charset = '';
  const add = (section: string, encoded: boolean) => {
    const [, label, rest] = (encoded && octets.length === 0 && /^([^']*)'[^']*'(.*)$/.exec(section)) || [];
    charset ||= label ?? '';
    octets.push(encoded ? decodeOctets(rest ?? section, '%') : Buffer.from(section));
  };
  const single = parameters.get(`${name}*`);
  if (single !== undefined) add(single, true);
  for (let number = 0; single === undefined; number++) {
    const encoded = parameters.get(`${name}*${number}*`);
    const section = encoded ?? parameters.get(`${name}*${number}`);
    if (section === undefined) break;
    add(section, encoded !== undefined);
  }
  if (octets.length > 0) return decodeCharset(Buffer.concat(octets), charset);
  return decodeWords(parameters.get(name) ?? '');
}

/** Each answer with content of a mail has these: nothing in it runs, or loads anything from anywhere. */
export const SAFE_HEADERS = {
  'Content-Security-Policy':
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
  'Referrer-Policy': 'no-referrer',
  // Browsers look up the names in links of a page before anybody follows them.
  'X-DNS-Prefetch-Control': 'off',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
} as const;

const NAME_CHARS_MAX = 150;
/** Images within one document take at most this much; others are left out. */
const IMAGES_CHARS_MAX = 32 * MIB;

/** The name under which a file is saved: no directory, no hidden file, nothing that a file system reads otherwise. */
export function safeFileName(name: string, instead: string): string {
  const plain = harmlessName(name, '')
    .replace(/^.*[/\\](?=.)/s, '')
    .replace(/[/\\:*?"<>|]+/g, '_')
    .replace(/^[.\s]+|(?<![.\s])[.\s]+$/g, '');
  return cut(plain, NAME_CHARS_MAX) || instead;
}

/** The header that saves the answer as a file of this safe name (RFC 6266). */
export function attachmentNamed(name: string): string {
  const ascii = name.replace(/[^ -~]|["\\%]/g, '_');
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}

/** The HTML with the images of the mail in it, in place of their `cid:` addresses. */
export function withImages(html: string, files: readonly MailFile[]): string {
  const images = new Map(
    files.flatMap(({ contentId, type, octets }) =>
      contentId !== '' && /^image\/[a-z0-9.+-]{1,40}$/.test(type) ? [[contentId, { type, octets }]] : [],
    ) as [string, Pick<MailFile, 'type' | 'octets'>][],
  );
  if (images.size === 0) return html;
  let left = IMAGES_CHARS_MAX;
  return html.replace(/\bcid:([^\s"'<>()]{1,250})/gi, (address, id: string) => {
    const image = images.get(idOf(id));
    if (image === undefined) return address;
    const url = `data:${image.type};base64,${image.octets.toString('base64')}`;
    left -= url.length;
    return left < 0 ? address : url;
  });
}

/** RFC 2392: the address has the id percent-encoded. */
function idOf(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}
