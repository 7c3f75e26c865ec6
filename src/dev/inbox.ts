/**
 * What `fieldpost dev` has caught: mails, also those of earlier runs, which stay in a directory, and the SMS, phone and push
 * messages of this run. The oldest mails are removed for new ones.
 */
import { join } from 'node:path';
import { Recent } from '../base/collections.js';
import { replace } from '../base/durable-file.js';
import { MIB } from '../base/limits.js';
import type { Disk } from '../base/system/disk.js';
import { oneLine } from '../base/text.js';
import type { ShortMessage } from '../mail/message/message.js';
import type { CaughtMail } from './catcher.js';
import { MAIL_HEAD_BYTES_MAX, readMail, readMailHead } from './reader.js';

/** An SMS, a phone call or a push message. */
export type CaughtShort = Omit<ShortMessage, 'id'>;

/** One line of the list. */
export interface CaughtLine {
  /** The number of a mail; `s` and a number for others. */
  readonly id: string;
  /** As the API numbers them: 1 mail, 2 SMS, 3 phone, 4 push. */
  readonly type: 1 | 2 | 3 | 4;
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  /** When it came; of a mail from an earlier run its Date. Null: not known. */
  readonly at: string | null;
  readonly bytes: number;
  /** True if the beginning of the mail has a file in it. */
  readonly hasFiles: boolean;
}

/** Everything of one message. */
export type Caught =
  | { readonly kind: 'short'; readonly line: CaughtLine; readonly short: CaughtShort }
  | {
      readonly kind: 'mail';
      readonly line: CaughtLine;
      readonly raw: Buffer;
      /** Null for a mail of an earlier run: only its content is kept. */
      readonly envelope: Envelope | null;
    };

type Envelope = Pick<CaughtMail, 'from' | 'to'>;

type KeptMails = Awaited<ReturnType<typeof openMailbox>>;

const KEPT_MAX = { count: 1000, bytes: 256 * MIB };

const SHORTS_MAX = 1000;
const LINE_CHARS_MAX = 200;
/** Files are looked for in this much of a mail. */
const FILES_BYTES_MAX = MIB;

/** Everything that was caught. */
export class Inbox {
  readonly #mailbox: KeptMails;
  readonly #wallMs: () => number;
  /** In the order of arrival. Lines of mails that are gone are left out of the list. */
  readonly #lines = new Map<string, CaughtLine>();
  readonly #envelopes = new Map<string, Envelope>();
  readonly #shorts = new Recent<string, CaughtShort>(SHORTS_MAX);
  #count = 0;

  /** Reads the heads of the mails of earlier runs. Rejects with the system's error. */
  static async open(mailbox: KeptMails, wallMs: () => number): Promise<Inbox> {
    const inbox = new Inbox(mailbox, wallMs);
    for (const [number, bytes] of [...mailbox.sizes]) {
      const raw = await mailbox.read(number, MAIL_HEAD_BYTES_MAX);
      if (raw !== null) inbox.#add(lineOf(String(number), raw, bytes, null, null));
    }
    return inbox;
  }

  private constructor(mailbox: KeptMails, wallMs: () => number) {
    this.#mailbox = mailbox;
    this.#wallMs = wallMs;
  }

  /** Keeps a mail. Gives its path. Rejects with the system's error. */
  async keep({ from, to, raw }: CaughtMail): Promise<string> {
    const { number, path } = await this.#mailbox.keep(raw);
    const id = String(number);
    this.#envelopes.set(id, { from, to });
    this.#add(lineOf(id, raw, raw.length, this.#now(), { from, to }));
    return path;
  }

  /** Keeps an SMS, a phone call or a push message until the end of this run. */
  keepShort(short: CaughtShort): void {
    const { type, destination, message, title = '' } = short;
    const id = `s${++this.#count}`;
    this.#shorts.set(id, short);
    const subject = oneLine(title || message, LINE_CHARS_MAX);
    const bytes = Buffer.byteLength(message);
    this.#add({
      id,
      type,
      from: '',
      to: oneLine(destination),
      subject,
      at: this.#now(),
      bytes,
      hasFiles: false,
    });
  }

  /** Newest first. */
  list(): CaughtLine[] {
    this.#prune();
    return [...this.#lines.values()].reverse();
  }

  /** The message; null if it is gone. Rejects with the system's error. */
  async get(id: string): Promise<Caught | null> {
    const line = this.#lines.get(id);
    if (line === undefined) return null;
    const short = this.#shorts.get(id);
    if (short !== undefined) return { kind: 'short', line, short };
    const raw = await this.#mailbox.read(Number(id));
    return raw === null ? null : { kind: 'mail', line, raw, envelope: this.#envelopes.get(id) ?? null };
  }

  /** Removes a message for good. False if it is gone. Rejects with the system's error. */
  async remove(id: string): Promise<boolean> {
    if (!this.#lines.has(id)) return false;
    if (!this.#shorts.delete(id)) await this.#mailbox.remove(Number(id));
    this.#drop(id);
    return true;
  }

  /** Removes all messages for good. */
  async clear(): Promise<void> {
    for (const id of [...this.#lines.keys()]) await this.remove(id);
  }

  #add(line: CaughtLine): void {
    this.#lines.set(line.id, line);
    this.#prune();
  }

  /** Forgets messages that are gone: the mailbox removes old mails for new ones. */
  #prune(): void {
    for (const id of this.#lines.keys()) {
      if (!this.#shorts.has(id) && !this.#mailbox.sizes.has(Number(id))) this.#drop(id);
    }
  }

  #drop(id: string): void {
    this.#lines.delete(id);
    this.#envelopes.delete(id);
  }

  #now(): string {
    return new Date(this.#wallMs()).toISOString();
  }
}

/** `at` is null for a mail of an earlier run: then its Date counts. */
function lineOf(
  id: string,
  raw: Buffer,
  bytes: number,
  at: string | null,
  envelope: Envelope | null,
): CaughtLine {
  const { subject, from, to, date } = readMailHead(raw);
  const dateMs = Date.parse(date);
  const inLine = (text: string) => oneLine(text, LINE_CHARS_MAX);
  return {
    id,
    type: 1,
    from: inLine(from || (envelope?.from ?? '')),
    to: inLine(envelope?.to.join(', ') || to),
    subject: inLine(subject),
    at: at ?? (Number.isNaN(dateMs) ? null : new Date(dateMs).toISOString()),
    bytes,
    hasFiles: readMail(raw.subarray(0, FILES_BYTES_MAX)).attachments.length > 0,
  };
}

/**
 * Opens the directory of mails: `000001.eml`, `000002.eml`, …, each exactly as it was received, whole or not at all. Makes
 * it if it is missing; numbers continue after the highest. It keeps as many of the newest mails as `max`
 * allows, and always the last one.
 */
export async function openMailbox(disk: Disk, directory: string, max = KEPT_MAX) {
  const pathOf = (number: number) => join(directory, `${String(number).padStart(6, '0')}.eml`);
  /** Sizes by number, the oldest first. */
  const kept = new Map<number, number>();
  let keptBytes = 0;
  const add = (number: number, bytes: number) => {
    kept.set(number, bytes);
    keptBytes += bytes;
  };
  const drop = (number: number) => {
    keptBytes -= kept.get(number) ?? 0;
    kept.delete(number);
  };
  const makeRoom = async () => {
    for (const number of kept.keys()) {
      if (kept.size <= 1 || (kept.size <= max.count && keptBytes <= max.bytes)) break;
      drop(number);
      // A failure must not refuse the new mail, which is kept already.
      await disk.remove(pathOf(number)).catch(() => undefined);
    }
  };

  await disk.makeDirectory(directory);
  const found = await numbersIn(disk, directory);
  let { last } = found;
  for (const number of found.whole) {
    const file = await disk.look(pathOf(number));
    if (file?.kind === 'file') add(number, file.bytes);
  }
  await makeRoom();

  return {
    /** Writes the mail under the next number. Rejects with the system's error. */
    async keep(raw: Buffer): Promise<{ readonly number: number; readonly path: string }> {
      const number = ++last;
      const path = pathOf(number);
      await replace(disk, path, raw);
      add(number, raw.length);
      await makeRoom();
      return { number, path };
    },
    sizes: kept as ReadonlyMap<number, number>,
    /** The mail, or its first `bytesMax` octets; null if it is gone. Rejects with the system's error. */
    async read(number: number, bytesMax?: number): Promise<Buffer | null> {
      if (!kept.has(number)) return null;
      const raw = await readFrom(disk, pathOf(number), bytesMax);
      // Somebody has removed the file.
      if (raw === null) drop(number);
      return raw;
    },
    /** Removes the mail, if it is there. Rejects with the system's error. */
    async remove(number: number): Promise<void> {
      if (!kept.has(number)) return;
      await disk.remove(pathOf(number));
      drop(number);
    },
  };
}

/** The numbers of whole mails, ascending, and the highest of all. Removes half-written mails. */
async function numbersIn(disk: Disk, directory: string) {
  const whole: number[] = [];
  let last = 0;
  for (const name of await disk.list(directory)) {
    const [, digits, half] = /^(\d{6,})\.eml(\.new)?$/.exec(name) ?? [];
    if (digits === undefined) continue;
    last = Math.max(last, Number(digits));
    if (half === undefined) whole.push(Number(digits));
    else await disk.remove(join(directory, name));
  }
  return { whole: whole.sort((a, b) => a - b), last };
}

/** The file, or its first `bytesMax` octets; null if there is none. */
async function readFrom(disk: Disk, path: string, bytesMax: number | undefined): Promise<Buffer | null> {
  if (bytesMax === undefined) return await disk.readWhole(path);
  if ((await disk.look(path)) === null) return null;
  const file = await disk.open(path, 'read');
  try {
    return await file.read(0, bytesMax);
  } finally {
    await file.close();
  }
}
