/**
 * Receives a form: its texts into memory, its files into the store as they come.
 */
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { type Charset, decode } from '../../base/charset.js';
import type { Exchange } from '../../base/http/exchange.js';
import { receiveBody } from '../../base/http/receive.js';
import { Octets } from '../../base/octets.js';
import { TEXT_FIELDS } from '../../mail/message/form-fields.js';
import type { Attachment } from '../../mail/message/message.js';
import type { IncomingFile, Upload } from '../../mail/store/store.js';
import { malformed, type PartHeader, UNNAMED } from './form-part.js';
import { type FormEvent, type FormLimits, FormReader } from './form-reader.js';

/** A file of a form, in the store. */
export interface FormFile {
  readonly attachment: Attachment;
  /** SHA-256 in hex; empty unless FormTerms.isSummed. */
  readonly sum: string;
}

/** A complete form. */
export interface Form {
  /** By name, in the order of the form. An unknown field has UNREAD in place of its text. */
  readonly texts: ReadonlyMap<string, readonly string[]>;
  readonly files: readonly FormFile[];
}

/** The limits of a form, and the place of its files. */
export interface FormTerms extends FormLimits {
  readonly boundary: string;
  readonly upload: Pick<Upload, 'begin'>;
  /** True: hash the files. */
  readonly isSummed: boolean;
  /** Throws if files of this size cannot be delivered. */
  readonly checkFiles: (bytes: number) => void;
  /** Throws if these texts, which came before a file, do not allow it. */
  readonly checkTexts: (texts: Form['texts']) => void;
}

/** Takes the content of one part. A promise means that the disk must catch up first. */
interface PartIntake {
  take(bytes: Buffer): Promise<void> | void;
  end(): Promise<void> | void;
}

const UNREAD = '…';

/**
 * Receives a form. Throws malformed-multipart, too-large, unsupported-media-type, invalid, and the errors of the store,
 * `checkFiles` and receiveBody. It throws only after the last write has ended. The caller discards the upload.
 */
export async function receiveForm(exchange: Exchange, terms: FormTerms): Promise<Form> {
  const intake = new FormIntake(exchange, terms);
  try {
    await receiveBody(exchange, (chunk) => intake.take(chunk));
    return intake.end();
  } catch (error) {
    await intake.idle();
    throw error;
  }
}

class FormIntake {
  readonly #exchange: Exchange;
  readonly #terms: FormTerms;
  readonly #reader: FormReader;
  readonly #texts = new Map<string, string[]>();
  readonly #files: FormFile[] = [];
  #part: PartIntake | null = null;
  #work: Promise<void> | void = undefined;

  constructor(exchange: Exchange, terms: FormTerms) {
    this.#exchange = exchange;
    this.#terms = terms;
    this.#reader = new FormReader(terms.boundary, terms);
  }

  take(chunk: Buffer): Promise<void> | void {
    this.#exchange.connections.memory.streamed(chunk.length);
    const events = this.#reader.push(chunk);
    this.#terms.checkFiles(this.#reader.fileBytes);
    this.#work = this.#follow(events, 0);
    return this.#work;
  }

  end(): Form {
    this.#reader.end();
    return { texts: this.#texts, files: this.#files };
  }

  /** Resolves when no write is under way. */
  async idle(): Promise<void> {
    await this.#work?.catch(() => undefined);
  }

  /** Returns no promise while the disk keeps up: a promise for each chunk would pause the request each time. */
  #follow(events: readonly FormEvent[], from: number): Promise<void> | void {
    for (let at = from; at < events.length; at++) {
      const waiting = this.#take(events[at] as FormEvent);
      if (waiting) return waiting.then(() => this.#follow(events, at + 1));
    }
  }

  #take(event: FormEvent): Promise<void> | void {
    if (event.kind === 'content') return this.#part?.take(event.bytes);
    if (event.kind === 'end') return this.#part?.end();
    const { field, file, charset } = event.header;
    this.#part = file === null ? this.#beginText(field, charset) : this.#beginFile(file);
  }

  #beginText(field: string, charset: Charset): PartIntake {
    const texts = this.#texts.get(field) ?? [];
    this.#texts.set(field, texts);
    if (!TEXT_FIELDS.includes(field)) {
      const take = () => {
        texts[0] = UNREAD;
      };
      return { take, end: () => undefined };
    }
    const octets = new Octets();
    return {
      take: (bytes) => {
        this.#exchange.keep(bytes.length);
        octets.push(bytes);
      },
      end: () => {
        const bytes = octets.take();
        if (charset === 'utf8' && !isUtf8(bytes))
          throw malformed(`The field ${JSON.stringify(field)} is not UTF-8`, {
            hint: 'send UTF-8, or name the charset in the Content-Type of the part',
          });
        texts.push(decode(bytes, charset));
      },
    };
  }

  #beginFile({ name, type }: NonNullable<PartHeader['file']>): PartIntake {
    const hash = this.#terms.isSummed ? createHash('sha256') : null;
    let coming: IncomingFile | null = null;
    const begin = async () => {
      this.#terms.checkTexts(this.#texts);
      coming = await this.#terms.upload.begin({ name: name || UNNAMED, type });
      return coming;
    };
    return {
      take: (bytes) => {
        hash?.update(bytes);
        return coming ? coming.write(bytes) : begin().then((file) => file.write(bytes));
      },
      end: async () => {
        // Browsers send this for an empty file input.
        if (name === '' && coming === null) return;
        const attachment = await (coming ?? (await begin())).finish();
        this.#files.push({ attachment, sum: hash?.digest('hex') ?? '' });
      },
    };
  }
}
