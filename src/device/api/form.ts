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
import { invalidMessage, parseEmail } from '../../mail/message/draft.js';
import { type FaultReport, fieldsOfForm, TEXT_FIELDS } from '../../mail/message/fields.js';
import type { Draft } from '../../mail/message/message.js';
import type { IncomingFile, Upload } from '../../mail/store/spool.js';
import type { ApiContext } from './context.js';
import { FORM_FIELD_BYTES_MAX, FORM_FRAME_BYTES_MAX, FormGuard } from './form-guard.js';
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
  const { maxMessageBytes } = context.settings;
  checkNotEncoded(exchange);
  const boundary = boundaryOf(exchange.req.headers['content-type'] ?? '');
  // Before the first read: a refused body gets no 100 Continue.
  if (exchange.declaredBytes > maxMessageBytes + FORM_FRAME_BYTES_MAX) throw tooLargeMessage(maxMessageBytes);
  const before = key === null ? null : context.store.recall(key);
  if (before === null) checkFiles(exchange.declaredBytes - FORM_REST_BYTES, context);
  const place = before === null ? await openUpload(exchange, context) : COMPARED;
  const form = new FormIntake(exchange, context, { ...place, boundary, isKeyed: key !== null });
  try {
    await receiveBody(exchange, (chunk) => form.take(chunk));
    await form.end();
    const draft = draftOf(form, context);
    if (before !== null) return replayOf(before, [draft], form.files);
    checkMails([draft], context);
    // The upload holds a place in the queue, which this message needs.
    if (form.files.length === 0) await place.upload.discard();
    return { drafts: [draft], ...(await accept([draft], form.files)) };
  } finally {
    await form.idle();
    await place.upload.discard();
  }
};

/** Where the files of a form go. */
interface Place {
  readonly upload: Upload;
  /** Not null: only an urgent form can be taken, and its priority must come before its first file. Else this is thrown. */
  readonly refusal: FieldpostError | null;
  /** False: the form is only compared with an earlier one, and may be larger than a relay takes now. */
  readonly isNew: boolean;
}

const COMPARED: Place = { upload: NOWHERE, refusal: null, isNew: false };

async function openUpload(exchange: Exchange, { store }: ApiContext): Promise<Place> {
  const { declaredBytes, onlySends, caller } = exchange;
  const open = (isUrgent: boolean) => store.upload(declaredBytes, { isUrgent, onlySends, caller });
  try {
    return { upload: await open(false), refusal: null, isNew: true };
  } catch (error) {
    if (!(error instanceof FieldpostError && error.code === 'queue-full')) throw error;
    return { upload: await open(true), refusal: error, isNew: true };
  }
}

/** The email in a form. Throws invalid with all faults, each at the name of its field. */
function draftOf({ texts, files }: FormIntake, context: ApiContext): Draft {
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

interface FormTerms extends Place {
  readonly boundary: string;
  /** True: the files are hashed. */
  readonly isKeyed: boolean;
}

/** Takes the content of one part. A promise means that the disk must catch up first. */
interface PartIntake {
  take(bytes: Buffer): Promise<void> | void;
  end(): Promise<void> | void;
}

/**
 * One form on its way. Throws malformed-multipart, too-large, unsupported-media-type, invalid, and the errors of the store.
 * busboy holds nothing but memory: nobody need destroy it.
 */
class FormIntake {
  /** By name, in the order of the form. An unknown field has UNREAD in place of its text. */
  readonly texts = new Map<string, string[]>();
  readonly files: PostedFile[] = [];
  readonly #exchange: Exchange;
  readonly #context: ApiContext;
  readonly #terms: FormTerms;
  readonly #guard: FormGuard;
  readonly #busboy: ReturnType<typeof busboy>;
  /** Resolves when busboy has split the whole form. */
  readonly #split: Promise<void>;
  /** The parts that busboy told of and that are not over. */
  readonly #parts: { readonly content: Readable; readonly intake: PartIntake }[] = [];
  #partsTold = 0;
  #bytesTold = 0;
  #work: Promise<void> | void = undefined;

  constructor(exchange: Exchange, context: ApiContext, terms: FormTerms) {
    this.#exchange = exchange;
    this.#context = context;
    this.#terms = terms;
    this.#guard = new FormGuard(terms.boundary, context.settings);
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
    if (this.#terms.isNew) checkFiles(this.#guard.fileBytes, this.#context);
    this.#busboy.write(octets);
    this.#work = this.#follow();
    return this.#work;
  }

  /** The body is over. */
  async end(): Promise<void> {
    this.#busboy.end(this.#guard.end());
    const { headers, contentBytes } = this.#guard;
    assert(this.#partsTold === headers.length && this.#bytesTold === contentBytes, 'busboy loses nothing');
    await this.#split;
  }

  /** Resolves when no write is under way. */
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
    const texts = this.texts.get(field) ?? [];
    this.texts.set(field, texts);
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

  #beginFile({ name, ...named }: NonNullable<PartHeader['file']>): PartIntake {
    const hash = this.#terms.isKeyed ? createHash('sha256') : null;
    let coming: IncomingFile | null = null;
    const begin = async () => {
      const { upload, refusal } = this.#terms;
      if (refusal && this.texts.get('priority')?.[0] !== 'high') throw refusal;
      coming = await upload.begin({ ...named, name: name || UNNAMED });
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
        this.files.push({ attachment, sum: hash?.digest('hex') ?? '' });
      },
    };
  }
}
