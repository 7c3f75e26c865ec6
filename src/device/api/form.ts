/**
 * Accepts a form: one email with files. busboy splits it; its texts go into memory, and its files into the store as they
 * come.
 */
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import busboy from 'busboy';
import { type Charset, decode } from '../../base/charset.js';
import { Octets } from '../../base/collections.js';
import { assert, type Fault, FieldpostError } from '../../base/errors.js';
import { checkNotEncoded, receiveBody } from '../../base/http/body.js';
import type { Exchange } from '../../base/http/exchange.js';
import { FORM_FIELD_BYTES_MAX } from '../../base/limits.js';
import { invalidMessage, parseEmail } from '../../mail/message/draft.js';
import { type FaultReport, fieldsOfForm, TEXT_FIELDS } from '../../mail/message/fields.js';
import type { Draft } from '../../mail/message/message.js';
import type { IncomingFile, Upload } from '../../mail/store/spool.js';
import type { ApiContext } from './context.js';
import { FORM_FRAME_BYTES_MAX, FormGuard, type FormLimits } from './form-guard.js';
import { boundaryOf, malformed, type PartHeader, tooLargeMessage, UNNAMED } from './form-part.js';
import {
  checkFiles,
  checkMails,
  draftLimits,
  NOWHERE,
  type PostedFile,
  replayOf,
  type Take,
} from './intake.js';

/** Upper bound for what a valid form has besides files: plain and html may be long, all else is shorter than one of them. */
const FORM_REST_BYTES = FORM_FRAME_BYTES_MAX + 3 * FORM_FIELD_BYTES_MAX;
const UNREAD = '…';

/** Stores the files of a form as they come, and its email with them. */
export const takeForm: Take = async (exchange, context, key, accept) => {
  const { store, settings } = context;
  checkNotEncoded(exchange);
  const boundary = boundaryOf(exchange.req.headers['content-type'] ?? '');
  // Before the first read: a refused body gets no 100 Continue.
  if (exchange.declaredBytes > settings.maxMessageBytes + FORM_FRAME_BYTES_MAX) {
    throw tooLargeMessage(settings.maxMessageBytes);
  }
  const { maxAttachments, maxMessageBytes } = settings;
  const terms = { boundary, isSummed: key !== null, maxAttachments, maxMessageBytes };
  const before = key === null ? null : store.recall(key);
  if (before !== null) {
    const unchecked = { checkFiles: () => undefined, checkTexts: () => undefined };
    const form = await receiveForm(exchange, { ...terms, ...unchecked, upload: NOWHERE });
    return replayOf(before, [draftOf(form, context)], form.files);
  }
  checkFiles(exchange.declaredBytes - FORM_REST_BYTES, context);
  const { upload, refusal } = await openUpload(exchange, context);
  try {
    const form = await receiveForm(exchange, {
      ...terms,
      upload,
      checkFiles: (bytes) => checkFiles(bytes, context),
      checkTexts(texts) {
        if (refusal && texts.get('priority')?.[0] !== 'high') throw refusal;
      },
    });
    const drafts = [draftOf(form, context)];
    checkMails(drafts, context);
    // The upload holds a place in the queue, which this message needs.
    if (form.files.length === 0) await upload.discard();
    return { drafts, ...(await accept(drafts, form.files)) };
  } finally {
    await upload.discard();
  }
};

/**
 * Begins the upload. If only an urgent form can still be taken, that is to be seen before its first file: else it gets
 * `refusal`.
 */
async function openUpload(
  { declaredBytes, onlySends }: Exchange,
  { store }: ApiContext,
): Promise<{ upload: Upload; refusal: FieldpostError | null }> {
  try {
    return { upload: await store.upload(declaredBytes, { isUrgent: false, onlySends }), refusal: null };
  } catch (error) {
    if (!(error instanceof FieldpostError && error.code === 'queue-full')) throw error;
    return { upload: await store.upload(declaredBytes, { isUrgent: true, onlySends }), refusal: error };
  }
}

/** The email in a form. Throws invalid with all faults, each at the name of its field. */
function draftOf({ texts, files }: Form, context: ApiContext): Draft {
  const faults: Fault[] = [];
  const report: FaultReport = (pointer, detail, member) =>
    void faults.push({ pointer, detail: typeof member === 'string' ? `${member}: ${detail}` : detail });
  const type = texts.get('type')?.[0] ?? '1';
  if (type !== '1') report('type', 'must be 1 or left out: a form is an email');
  const fields = fieldsOfForm(texts, report);
  const draft = parseEmail(fields, { ...draftLimits(context), takesCommas: true }, report);
  if (faults.length > 0) throw invalidMessage(faults);
  return { ...draft, attachments: files.map(({ attachment }) => attachment) };
}

interface Form {
  /** By name, in the order of the form. An unknown field has UNREAD in place of its text. */
  readonly texts: ReadonlyMap<string, readonly string[]>;
  readonly files: readonly PostedFile[];
}

/** The limits of a form, and the place of its files. */
interface FormTerms extends FormLimits {
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

/**
 * Receives a form. Throws malformed-multipart, too-large, unsupported-media-type, invalid, and the errors of the store,
 * `checkFiles` and receiveBody. It throws only after the last write has ended. The caller discards the upload.
 */
async function receiveForm(exchange: Exchange, terms: FormTerms): Promise<Form> {
  const intake = new FormIntake(exchange, terms);
  try {
    await receiveBody(exchange, (chunk) => intake.take(chunk));
    return await intake.end();
  } catch (error) {
    await intake.idle();
    throw error;
  }
}

class FormIntake {
  readonly #exchange: Exchange;
  readonly #terms: FormTerms;
  readonly #guard: FormGuard;
  readonly #busboy: ReturnType<typeof busboy>;
  /** Resolves when busboy has split the whole form. */
  readonly #split: Promise<void>;
  /** The parts that busboy told of and that are not over. The guard refused a fault before busboy could see it, so a content has no error. */
  readonly #parts: { readonly content: Readable; readonly intake: PartIntake }[] = [];
  #partsTold = 0;
  #bytesTold = 0;
  readonly #texts = new Map<string, string[]>();
  readonly #files: PostedFile[] = [];
  #work: Promise<void> | void = undefined;

  constructor(exchange: Exchange, terms: FormTerms) {
    this.#exchange = exchange;
    this.#terms = terms;
    this.#guard = new FormGuard(terms.boundary, terms);
    this.#busboy = busboy({
      headers: { 'content-type': `multipart/form-data; boundary="${terms.boundary}"` },
      // busboy never waits for us: what it splits of a chunk is taken before it gets the next.
      fileHwm: Number.MAX_SAFE_INTEGER,
    });
    this.#busboy.on('file', (number, content) => {
      this.#partsTold++;
      this.#parts.push({ content, intake: this.#begin(this.#guard.headers[Number(number)] as PartHeader) });
    });
    this.#split = new Promise((resolve, reject) => this.#busboy.on('finish', resolve).on('error', reject));
    this.#split.catch(() => undefined);
  }

  take(chunk: Buffer): Promise<void> | void {
    this.#exchange.connections.memory.streamed(chunk.length);
    const octets = this.#guard.push(chunk);
    this.#terms.checkFiles(this.#guard.fileBytes);
    this.#busboy.write(octets);
    this.#work = this.#follow();
    return this.#work;
  }

  async end(): Promise<Form> {
    this.#busboy.end(this.#guard.end());
    await this.#split;
    const { headers, contentBytes } = this.#guard;
    assert(this.#partsTold === headers.length && this.#bytesTold === contentBytes, 'busboy loses nothing');
    return { texts: this.#texts, files: this.#files };
  }

  /** Resolves when no write is under way. busboy holds nothing but memory. */
  async idle(): Promise<void> {
    await this.#work?.catch(() => undefined);
  }

  /**
   * Takes what busboy has split. Returns no promise while the disk keeps up: a promise for each chunk would pause the
   * request each time.
   */
  #follow(): Promise<void> | void {
    for (let part = this.#parts[0]; part !== undefined; part = this.#parts[0]) {
      const bytes: Buffer | null = part.content.read();
      this.#bytesTold += bytes?.length ?? 0;
      if (bytes === null && this.#parts.length === 1 && this.#guard.isInPart) return;
      if (bytes === null) this.#parts.shift();
      const waiting = bytes === null ? part.intake.end() : part.intake.take(bytes);
      if (waiting) return waiting.then(() => this.#follow());
    }
  }

  #begin({ field, file, charset }: PartHeader): PartIntake {
    if (file !== null) return this.#beginFile(file);
    const texts = this.#texts.get(field) ?? [];
    this.#texts.set(field, texts);
    if (TEXT_FIELDS.includes(field)) return this.#beginText(field, charset, texts);
    const take = () => {
      texts[0] = UNREAD;
    };
    return { take, end: () => undefined };
  }

  #beginText(field: string, charset: Charset, texts: string[]): PartIntake {
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
