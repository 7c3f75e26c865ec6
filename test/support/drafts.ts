/** Messages for the tests of the store, and how to tell them apart. */
import { createHash } from 'node:crypto';
import type { Disk } from '../../src/base/system/disk.js';
import { type Address, parseAddress } from '../../src/mail/message/address.js';
import {
  type Content,
  type Draft,
  type EmailDraft,
  type Message,
  NO_ATTACHMENTS,
} from '../../src/mail/message/message.js';
import type { Store } from '../../src/mail/store/store.js';

/** An email to `name`@example.com whose text is `bytes` long and tells whose it is. */
export function draftTo(name: string, bytes = 200): Draft {
  const destination = parseAddress(`${name}@example.com`);
  if (!destination) throw new Error(`${name} makes no address`);
  const plain = `to ${name} `.padEnd(bytes, 'żółw ');
  return {
    type: 1,
    destination,
    content: { subject: name, plain, html: '' },
    attachments: NO_ATTACHMENTS,
    ignored: [],
  };
}

/** The same to several, who share its content. */
export function draftToAll([first = '', ...others]: readonly string[], bytes?: number): Draft {
  return {
    ...(draftTo(first, bytes) as EmailDraft),
    others: others.map((name) => draftTo(name).destination as Address),
  };
}

/** The name in `draftTo`. */
export function nameOf({ destination }: { readonly destination: string }): string {
  return destination.slice(0, destination.indexOf('@'));
}

/** A file of so many octets, each computed from its position. */
export function octets(bytes: number): Buffer {
  const file = Buffer.allocUnsafe(bytes);
  for (let i = 0; i < bytes; i++) file[i] = i * 31 + (i >> 8);
  return file;
}

/** All that a source gives. */
export async function whole(source: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of source) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** All messages of a store, by the names in `draftTo`. */
export function messagesOf(store: Store): Map<string, Message> {
  const { messages } = store.list({ status: null, limit: 100_000, after: null });
  return new Map(messages.map((message) => [nameOf(message), message]));
}

/** What tells a content, and its files, from any other. */
export function digestOf({ ...content }: Content, files: readonly Buffer[]): string {
  const hash = createHash('sha256').update(JSON.stringify(Object.entries(content).sort()));
  for (const file of files) hash.update(`\n${file.length}\n`).update(file);
  return hash.digest('hex');
}

/** Files in the spool that no kept message needs. */
export async function strayFiles(disk: Disk, directory: string, store: Store): Promise<string[]> {
  const needed = [...messagesOf(store).values()].filter(({ place }) => place);
  const ids = new Set(needed.flatMap(({ attachments }) => attachments).map(({ id }) => id));
  const strays = (await disk.list(`${directory}/spool`)).filter((name) => !ids.has(name));
  return strays.map((name) => `${name} is left in the spool`);
}
