/**
 * Messages of a simulated world: what programs post, and what recipients read. Each bears a token.
 */
import { createHash } from 'node:crypto';
import type { MessageType } from '../../src/mail/message/message.js';
import type { Chance } from './chance.js';
import { CROWDED, NOBODY } from './relay.js';

export interface File {
  readonly name: string;
  readonly bytes: Buffer;
}

/** One message, as a program has it. */
export interface Composed {
  readonly token: string;
  readonly type: MessageType;
  readonly destination: string;
  readonly digest: string;
  /** As JSON. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly files: readonly File[];
  readonly mail?: string;
  readonly isUrgent?: boolean;
  readonly isReadyMade?: boolean;
  readonly lifeMs?: number;
}

/** A first message, and the copies of further recipients. The wishes are those of all. */
export function copied(
  first: Composed,
  others: readonly Composed[],
  wishes: Pick<Composed, 'isUrgent' | 'isReadyMade' | 'lifeMs'>,
): readonly [Composed, ...Composed[]] {
  const { token, digest } = first;
  return [{ ...first, ...wishes }, ...others.map((other) => ({ ...other, digest, mail: token, ...wishes }))];
}

/** A ready-made mail with the text of the message. */
export function readyMade(
  { token, fields }: Composed,
  hasOwnId: boolean,
): { readonly body: string; readonly digest: string } {
  // A line has at most 998 octets.
  const text = `${String(fields.plain).replace(/x{900}/g, '$&\r\n')}\r\n`;
  const id = hasOwnId ? `Message-ID: <${token}@own.example>\r\n` : '';
  return {
    body: `Subject: ${token}\r\n${id}Bcc: nobody@example.com\r\n\r\n${text}`,
    digest: digestOf(text, []),
  };
}

const WORDS = [
  'pump',
  'vlotter',
  'Überlauf',
  'niveau',
  '水位',
  'alarm',
  '.',
  '-- ',
  'żółw',
  '=20',
  'a'.repeat(90),
];

/** Composes the `n`th message of a world. */
export function compose(n: number, type: MessageType, chance: Chance, filesMax: number): Composed {
  const token = `T${n.toString(36).padStart(6, '0')}`;
  const words = () => Array.from({ length: chance.below(8) }, () => chance.one(WORDS)).join(' ');
  if (type === 1) {
    const box = chance.is(0.04) ? NOBODY : chance.is(0.12) ? CROWDED : 'john';
    // Relays know by the address what they are offered, before they have read a line of it.
    const destination = `${box}${chance.below(5)}+${token}@example.com`;
    const plain = `${token}\r\n${words()}\r\n${chance.is(0.1) ? 'x'.repeat(chance.below(4000)) : ''}`;
    const files = Array.from({ length: filesMax === 0 ? 0 : chance.below(filesMax + 1) }, (_, i) => ({
      name: `${i}.bin`,
      bytes: chance.bytes(Math.floor(chance.span(1, 20_000))),
    }));
    const digest = digestOf(
      plain,
      files.map(({ bytes }) => bytes),
    );
    const fields = { type, destination, subject: token, plain };
    return { token, type, destination, digest, fields, files };
  }
  const destination = type === 4 ? 'OWNER' : `+3161234567${chance.below(10)}`;
  const message = `${token} ${words()}`;
  return {
    token,
    type,
    destination,
    digest: digestOf(message, []),
    fields: { type, destination, message },
    files: [],
  };
}

/** The token in an address. */
export function tokenOf(address: string): string {
  return /\+(.*)@/.exec(address)?.[1] ?? '';
}

/** What a recipient holds against what was posted. */
export function digestOf(text: string, files: readonly Buffer[]): string {
  const hash = createHash('sha256').update(text);
  for (const bytes of files) hash.update(`\0${bytes.length}\0`).update(bytes);
  return hash.digest('hex');
}

/** A form with the message's fields and files. */
export function formOf({ fields, files }: Composed): {
  readonly headers: Record<string, string>;
  readonly body: Buffer;
} {
  const boundary = 'simulated-boundary';
  const parts: Buffer[] = [];
  for (const [name, value] of Object.entries(fields)) {
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n`;
    for (const text of [value].flat()) parts.push(Buffer.from(`${head}${text}\r\n`));
  }
  for (const { name, bytes } of files) {
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${name}"\r\nContent-Type: application/octet-stream\r\n\r\n`;
    parts.push(Buffer.from(head), bytes, Buffer.from('\r\n'));
  }
  parts.push(Buffer.from(`--${boundary}--\r\n`));
  return {
    headers: { 'Content-Type': `multipart/form-data; boundary=${boundary}` },
    body: Buffer.concat(parts),
  };
}

/** A mail as its recipient reads it. It is simple enough to be read without a MIME library, which would cost most of the time. */
export function readMail(mail: string): {
  readonly token: string;
  readonly messageId: string;
  readonly digest: string;
} {
  const { headers, body } = split(mail);
  const boundary = /boundary="?([^"\r\n;]+)/i.exec(headers.get('content-type') ?? '')?.[1];
  const parts = boundary === undefined ? [mail] : partsOf(body, boundary);
  const [text = '', ...files] = parts.map((part, i) => {
    const inner = i === 0 && boundary === undefined ? { headers, body } : split(part);
    const encoding = inner.headers.get('content-transfer-encoding')?.toLowerCase();
    if (encoding === 'base64') return Buffer.from(inner.body, 'base64');
    if (encoding === 'quoted-printable') return unquoted(inner.body);
    return Buffer.from(inner.body, 'latin1');
  });
  // A mail ends with a line break that no sender wrote.
  const plain = text.toString();
  return {
    token: headers.get('subject') ?? '',
    messageId: headers.get('message-id') ?? '',
    digest: digestOf(plain, files as Buffer[]),
  };
}

function split(part: string): { headers: Map<string, string>; body: string } {
  const end = part.indexOf('\r\n\r\n');
  const headers = new Map<string, string>();
  for (const line of part
    .slice(0, end)
    .replace(/\r\n[ \t]+/g, ' ')
    .split('\r\n')) {
    const colon = line.indexOf(':');
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  return { headers, body: part.slice(end + 4) };
}

function partsOf(body: string, boundary: string): string[] {
  const marked = `\r\n${body}`.split(`\r\n--${boundary}`);
  return marked.slice(1, -1).map((part) => part.slice(2));
}

function unquoted(body: string): Buffer {
  const joined = body.replace(/=\r\n/g, '');
  return Buffer.from(
    joined.replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );
}
