/**
 * Accepts a form: one email with files (local-api §1). Loaded with the first form.
 */
import { type Fault, FieldpostError } from '../../base/errors.js';
import { checkNotEncoded } from '../../base/http/body.js';
import type { Exchange } from '../../base/http/exchange.js';
import { FORM_FIELD_BYTES_MAX, FORM_FRAME_BYTES_MAX } from '../../base/limits.js';
import { invalidMessage, parseEmail } from '../../mail/message/draft.js';
import type { FaultReport } from '../../mail/message/field.js';
import { fieldsOfForm } from '../../mail/message/form-fields.js';
import type { Draft } from '../../mail/message/message.js';
import type { Upload } from '../../mail/store/store.js';
import { type Form, type FormTerms, receiveForm } from './form.js';
import { boundaryOf } from './form-part.js';
import { tooLargeMessage } from './form-reader.js';
import { checkFiles, checkMails } from './mail-size.js';
import type { ApiContext } from './parts.js';
import { type Before, draftLimits, NOWHERE, type Posted, replayOf, type Take } from './take.js';

/** Upper bound for what a valid form has besides files: plain and html may be long, all else is shorter than one of them. */
const FORM_REST_BYTES = FORM_FRAME_BYTES_MAX + 3 * FORM_FIELD_BYTES_MAX;

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
  if (before !== null)
    return await replayForm(exchange, before, { ...terms, ...UNCHECKED, upload: NOWHERE }, context);
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

/** Reads a repeated form. Stores nothing. */
async function replayForm(
  exchange: Exchange,
  before: Before,
  terms: FormTerms,
  context: ApiContext,
): Promise<Posted> {
  const form = await receiveForm(exchange, terms);
  return replayOf(before, [draftOf(form, context)], form.files);
}

const UNCHECKED = { checkFiles: () => undefined, checkTexts: () => undefined };

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
