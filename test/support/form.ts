/**
 * Forms (multipart/form-data) for tests: made part by part, and read by a parser of the simplest kind, which has the
 * whole body before it, takes nothing that is not beyond doubt, and shares no line with what it is held against.
 */
import { type Answer, MESSAGES, type TestApi } from './api.js';

export const BOUNDARY = 'a-boundary';

/** The name of a header (RFC 9110 §5.6.2). */
const TOKEN = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;

/** One part of a form to be made. */
export interface PartToMake {
  readonly name: string;
  readonly content: string | Buffer;
  readonly filename?: string;
  readonly type?: string;
  readonly id?: string;
}

/** The least that an email needs. */
export const NEEDED: readonly PartToMake[] = [
  { name: 'destination', content: 'john@example.com' },
  { name: 'subject', content: 'Hi' },
];

/** A part whose header is these lines. */
export function rawPart(lines: readonly string[], content: string | Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), Buffer.from(content)]);
}

/** A part as browsers write it. */
export function partOf({ name, content, filename, type, id }: PartToMake): Buffer {
  const file = filename === undefined ? '' : `; filename="${filename}"`;
  const lines = [`Content-Disposition: form-data; name="${name}"${file}`];
  if (type !== undefined) lines.push(`Content-Type: ${type}`);
  if (id !== undefined) lines.push(`Content-ID: ${id}`);
  return rawPart(lines, content);
}

/** The body of a form with these parts. */
export function bodyOf(parts: readonly (PartToMake | Buffer)[], boundary = BOUNDARY): Buffer {
  const pieces = parts.flatMap((part) => [
    Buffer.from(`--${boundary}\r\n`),
    Buffer.isBuffer(part) ? part : partOf(part),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
}

/** Posts a body as a form. */
export async function postBody(
  api: TestApi,
  body: Buffer,
  { headers = {}, boundary = BOUNDARY }: { headers?: Record<string, string>; boundary?: string } = {},
): Promise<Answer> {
  return await api.call('POST', MESSAGES, {
    headers: { 'Content-Type': `multipart/form-data; boundary=${boundary}`, ...headers },
    body,
  });
}

/** A part as it was read. */
export interface ReadPart {
  readonly name: string;
  /** Null where the part has none. */
  readonly filename: string | null;
  /** The Content-Type as it stands; empty where there is none. */
  readonly type: string;
  /** The Content-ID without angle brackets; empty where there is none. */
  readonly cid: string;
  readonly content: Buffer;
}

/** The parts of a form, or null where a strict reader refuses it. */
export function readForm(body: Buffer, boundary = BOUNDARY): ReadPart[] | null {
  const text = `\r\n${body.toString('latin1')}`;
  const dashes = `\r\n--${boundary}`;
  const sections = text.split(dashes);
  // Some readers see a boundary in these, and others do not.
  const bare = `--${boundary}`;
  if (sections.shift()?.includes(bare)) return null;
  const parts: ReadPart[] = [];
  for (const [index, section] of sections.entries()) {
    const closing = /^--[ \t]*(?:[\r\n][\s\S]*|)$/.test(section);
    if (closing) return index === sections.length - 1 && !section.includes(bare) ? parts : null;
    const found = /^[ \t]*\r\n([\s\S]*?)\r\n\r\n([\s\S]*)$/.exec(section);
    // The lines of a header end before its empty line; one that begins with it has no lines.
    if (found === null || /^[ \t]*\r\n\r\n/.test(section)) return null;
    if (['\r', '\n'].some((end) => found[2]?.includes(`${end}${bare}`))) return null;
    const part = readPart(found[1] as string, Buffer.from(found[2] as string, 'latin1'));
    if (part === null) return null;
    parts.push(part);
  }
  return null;
}

function readPart(header: string, content: Buffer): ReadPart | null {
  const found: Record<string, string> = {};
  for (const line of header.replace(/\r\n(?=[ \t])/g, '').split('\r\n')) {
    const colon = line.indexOf(':');
    const name = line.slice(0, colon).toLowerCase();
    if (colon < 1 || !TOKEN.test(name) || name in found || /[^\t\P{Cc}]/u.test(utf8(line))) return null;
    found[name] = line.slice(colon + 1).trim();
  }
  const disposition = found['content-disposition'];
  if (!disposition || !/^(?:|7bit|8bit|binary)$/i.test(found['content-transfer-encoding'] ?? '')) return null;
  if (!/^form-data\s*;/i.test(disposition)) return null;
  const name = parameterOf(disposition, 'name');
  if (name === null) return null;
  return {
    name,
    filename: parameterOf(disposition, 'filename'),
    type: found['content-type'] ?? '',
    cid: /^<(.*)>$/.exec(found['content-id'] ?? '')?.[1] ?? found['content-id'] ?? '',
    content,
  };
}

/** A parameter, quoted or a token; null where there is none. */
function parameterOf(header: string, name: string): string | null {
  const at = header.search(new RegExp(`;\\s*${name}\\s*=`, 'i'));
  if (at < 0) return null;
  const rest = header.slice(header.indexOf('=', at) + 1).trimStart();
  if (!rest.startsWith('"')) return utf8(/^[^\s;"]*/.exec(rest)?.[0] ?? '');
  let value = '';
  for (let i = 1; i < rest.length && rest[i] !== '"'; i++) {
    if (rest[i] === '\\' && (rest[i + 1] === '"' || rest[i + 1] === '\\')) i++;
    value += rest[i];
  }
  return utf8(value);
}

function utf8(octets: string): string {
  return Buffer.from(octets, 'latin1').toString('utf8');
}
