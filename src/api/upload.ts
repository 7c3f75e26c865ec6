/**
 * A form on its way in: its texts into memory, its files through busboy into the store as they come. The only file
 * that knows busboy, which sees nothing but what form-guard.ts hands on. post.ts uses it.
 */
import { isUtf8 } from 'node:buffer';
import { createHash, randomBytes } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import busboy from 'busboy';
import type { Exchange } from '../http/exchange.js';
import { receiveBody } from '../http/receive.js';
import { KIB } from '../limits.js';
import type { Attachment } from '../message/message.js';
import type { Upload } from '../store/store.js';
import { FormGuard, type FormLimits, type Part } from './form-guard.js';
import { malformed, TEXT_FIELDS, UNNAMED } from './form-part.js';

/** A file of a form, as it lies in the store. */
export interface FormFile {
  readonly attachment: Attachment;
  /** SHA-256 of its octets, in hex; empty unless it was asked for. */
  readonly sum: string;
}

/** A form that came whole. */
export interface Form {
  /** By name, in the order of the form: all texts of the fields we know; of the others only whether they have one. */
  readonly texts: ReadonlyMap<string, readonly string[]>;
  readonly files: readonly FormFile[];
}

/** How a form is to be taken in. */
export interface FormTerms extends FormLimits {
  readonly boundary: string;
  readonly upload: Pick<Upload, 'begin'>;
  /** True if the sums of the files are wanted. */
  readonly isSummed: boolean;
  /** Throws if so many octets of files are more than can be delivered. */
  readonly checkFiles: (bytes: number) => void;
  /** Told of each chunk that was read. */
  readonly streamed: (bytes: number) => void;
}

/** What may wait in front of busboy, and behind it: what a socket gives at once, and the next while that is written. */
const FORM_WAITING_BYTES = 128 * KIB;
const FILE_WAITING_BYTES = 64 * KIB;
/** In place of the text of a field that we do not know. */
const UNREAD = '…';
/** Of the boundary that busboy looks for: the longer, the faster it is, and nobody guesses it. */
const BOUNDARY_BYTES = 64;

/**
 * Takes the body in. Throws malformed-multipart, too-large, unsupported-media-type, invalid what the store and
 * `checkFiles` throw, and as receiveBody does. The files are then the upload's to discard; none is being written any more.
 */
export async function receiveForm(exchange: Exchange, terms: FormTerms): Promise<Form> {
  const intake = new Intake(exchange, terms);
  try {
    return await intake.receive();
  } catch (error) {
    await intake.giveUp(error);
    throw error;
  }
}

class Intake {
  readonly #exchange: Exchange;
  readonly #terms: FormTerms;
  readonly #guard: FormGuard;
  readonly #parser: Writable;
  readonly #texts = new Map<string, string[]>();
  readonly #files: FormFile[] = [];
  /** One for each part that busboy has found. */
  readonly #works: Promise<void>[] = [];
  /** Files are stored one after the other: each that is being written takes memory of its own. */
  #lastFile: Promise<void> = Promise.resolve();
  #break: (error: unknown) => void = () => undefined;
  readonly #broken = new Promise<never>((_, reject) => {
    this.#break = reject;
  });

  constructor(exchange: Exchange, terms: FormTerms) {
    this.#exchange = exchange;
    this.#terms = terms;
    const boundary = randomBytes(BOUNDARY_BYTES).toString('hex');
    this.#guard = new FormGuard(terms.boundary, boundary, terms);
    // The guard keeps all limits; busboy's own cut off in silence, and some do nothing.
    this.#parser = busboy({
      headers: { 'content-type': `multipart/form-data; boundary="${boundary}"` },
      highWaterMark: FORM_WAITING_BYTES,
      fileHwm: FILE_WAITING_BYTES,
    })
      .on('file', (name, content) => this.#onPart(Number(name), content))
      .on('error', this.#break);
    this.#broken.catch(() => undefined);
  }

  async receive(): Promise<Form> {
    await receiveBody(this.#exchange, (chunk) => this.#take(chunk), this.#broken);
    this.#guard.end();
    this.#parser.end();
    await Promise.race([finished(this.#parser), this.#broken]);
    await Promise.all(this.#works);
    // Whatever it makes of what the guard hands on, no part is lost without a word.
    if (this.#works.length !== this.#guard.parts.length) throw unread();
    return { texts: this.#texts, files: this.#files };
  }

  /** Ends everything; resolves when nothing is under way any more. */
  async giveUp(error: unknown): Promise<void> {
    this.#break(error);
    this.#parser.destroy(error as Error);
    await Promise.allSettled(this.#works);
  }

  /** Hands a chunk on. Gives a promise where the disk must catch up before the next. */
  #take(chunk: Buffer): Promise<void> | void {
    const parser = this.#parser;
    this.#terms.streamed(chunk.length);
    for (const bytes of this.#guard.push(chunk)) parser.write(bytes);
    this.#terms.checkFiles(this.#guard.fileBytes);
    if (parser.writableNeedDrain) return new Promise((resolve) => parser.once('drain', resolve));
  }

  #onPart(index: number, content: Readable): void {
    const part = this.#guard.parts[index];
    // An error of it is told to whoever reads it, but there may be nobody yet.
    content.on('error', () => undefined);
    if (part === undefined || index !== this.#works.length) {
      this.#break(unread());
      return;
    }
    const work =
      part.file === null ? this.#readText(part, content) : this.#queueFile(part, part.file, content);
    work.catch(this.#break);
    this.#works.push(work);
  }

  async #readText(part: Part, content: Readable): Promise<void> {
    const { field } = part;
    const isKnown = TEXT_FIELDS.includes(field);
    const texts = this.#texts.get(field) ?? [];
    this.#texts.set(field, texts);
    const chunks: Buffer[] = [];
    for await (const chunk of allOf(content, part)) {
      if (!isKnown) continue;
      this.#exchange.keep(chunk.length);
      chunks.push(chunk);
    }
    const bytes = Buffer.concat(chunks);
    if (!isUtf8(bytes)) throw malformed(`The field ${JSON.stringify(field)} is not UTF-8`);
    if (isKnown) texts.push(bytes.toString());
    else if (part.bytes > 0) texts.push(UNREAD);
  }

  #queueFile(part: Part, file: NonNullable<Part['file']>, content: Readable): Promise<void> {
    const work = this.#lastFile.then(() => this.#storeFile(part, file, content));
    this.#lastFile = work;
    return work;
  }

  async #storeFile(part: Part, { name, type }: NonNullable<Part['file']>, content: Readable): Promise<void> {
    const chunks = allOf(content, part);
    const first = await chunks.next();
    // What browsers send of a file input in which nothing was chosen.
    if (name === '' && first.done) return;
    const hash = this.#terms.isSummed ? createHash('sha256') : null;
    const coming = await this.#terms.upload.begin({ name: name || UNNAMED, type });
    for (let piece = first; !piece.done; piece = await chunks.next()) {
      hash?.update(piece.value);
      await coming.write(piece.value);
    }
    const attachment = await coming.finish();
    this.#files.push({ attachment, sum: hash?.digest('hex') ?? '' });
  }
}

/**
 * The content of a part, piece by piece as busboy gives it: Node's own iterator would copy the pieces together.
 * Throws before its end if that is not as many octets as the guard has seen go by.
 */
async function* allOf(content: Readable, part: Part): AsyncGenerator<Buffer, void, void> {
  let waiting: Buffer | null = null;
  let wake: () => void = () => undefined;
  content.pause().on('data', (chunk: Buffer) => {
    waiting = chunk;
    content.pause();
    wake();
  });
  content.once('close', () => wake());
  let bytes = 0;
  while (!content.closed) {
    await new Promise<void>((resolve) => {
      wake = resolve;
      content.resume();
    });
    const chunk: Buffer | null = waiting;
    waiting = null;
    if (chunk === null) continue;
    bytes += (chunk as Buffer).length;
    yield chunk;
  }
  if (content.errored) throw content.errored;
  if (bytes !== part.bytes) throw unread();
}

function unread() {
  return malformed('The form was not understood as it was meant');
}
