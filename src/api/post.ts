/**
 * `POST /api/internal/messages` (local-api §1): an array of messages as JSON, or one email with files as a form.
 * Used by destinations.ts and routes.ts.
 */
import { createHash } from 'node:crypto';
import { type Fault, FieldpostError } from '../errors.js';
import { checkNotEncoded, readJson } from '../http/body.js';
import type { Exchange } from '../http/exchange.js';
import { FORM_FRAME_BYTES_MAX, IDEMPOTENCY_KEY_CHARS_MAX } from '../limits.js';
import { invalidMessage, parseDrafts, parseEmail } from '../message/draft.js';
import type { Draft } from '../message/message.js';
import type { Accepted } from '../store/store.js';
import { cut } from '../text.js';
import { type Form, type FormFile, type FormTerms, receiveForm } from './form.js';
import { boundaryOf, TEXT_FIELDS } from './form-part.js';
import { tooLargeMessage } from './form-reader.js';
import { checkDeclared, checkFiles, checkMails } from './mail-size.js';
import type { ApiContext } from './parts.js';

export const POST_HEADERS = {
  'Idempotency-Key': { type: 'string', pattern: `^[!-~]{1,${IDEMPOTENCY_KEY_CHARS_MAX}}$` },
};
const IDEMPOTENCY_KEY = new RegExp(POST_HEADERS['Idempotency-Key'].pattern);
const REPLAYED = { 'Idempotency-Replayed': 'true' };
/** A log line has at most this many characters of the ignored fields' names. */
export const LOGGED_CHARS_MAX = 200;

interface Posted extends Accepted {
  readonly drafts: readonly Draft[];
}

/** Accepts the drafts with these files, under the request's key if it has one. */
type Accept = (drafts: readonly Draft[], files: readonly FormFile[]) => Promise<Accepted>;
/** Reads the body and accepts the drafts in it. */
type Take = (exchange: Exchange, context: ApiContext, key: string | null, accept: Accept) => Promise<Posted>;

/** Answers once the messages are on stable storage. */
export async function post(exchange: Exchange, context: ApiContext): Promise<void> {
  const { store } = context;
  const key = idempotencyKey(exchange);
  const isForm = /^\s*multipart\/form-data\s*(?:;|$)/i.test(exchange.req.headers['content-type'] ?? '');
  const take = isForm ? takeForm : takeJson;
  const { drafts, ids, replayed } =
    key === null
      ? await take(exchange, context, null, (drafts) => store.accept(drafts, null))
      : await store.withKey(key, (accept) =>
          take(exchange, context, key, (drafts, files) => accept(drafts, hashOf(drafts, files))),
        );
  if (!replayed) {
    context.acceptedTotal += ids.length;
    context.nudge();
  }
  const entries = drafts.map(({ type, destination, ignored }, index) => {
    const entry = { id: ids[index], type, destination, status: 'queued' };
    if (ignored.length === 0) return entry;
    const fields = cut(ignored.join(','), LOGGED_CHARS_MAX);
    context.log.info('fields ignored', { id: ids[index], fields });
    return { ...entry, ignored };
  });
  exchange.json(202, entries, replayed ? REPLAYED : undefined);
}

const takeJson: Take = async (exchange, context, key, accept) => {
  const { store, settings } = context;
  const drafts = parseDrafts(await readJson(exchange, settings.maxBodyBytes), settings);
  // A replay gets the first answer, even if the relay's size limit is smaller now.
  if (key === null || store.recall(key) === null) checkMails(drafts, context);
  return { drafts, ...(await accept(drafts, [])) };
};

const takeForm: Take = async (exchange, context, key, accept) => {
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
  if (before !== null) return await replayForm(exchange, before, { ...terms, ...NOWHERE });
  checkDeclared(exchange.declaredBytes, context);
  const upload = await store.upload(exchange.declaredBytes);
  try {
    const form = await receiveForm(exchange, {
      ...terms,
      upload,
      checkFiles: (bytes) => checkFiles(bytes, context),
    });
    const drafts = [draftOf(form)];
    checkMails(drafts, context);
    // The upload holds a place in the queue, which this message needs.
    if (form.files.length === 0) await upload.discard();
    return { drafts, ...(await accept(drafts, form.files)) };
  } finally {
    await upload.discard();
  }
};

/**
 * Gives a repeated form the ids of the first form with its key. Throws invalid if their contents differ. Stores
 * nothing.
 */
async function replayForm(
  exchange: Exchange,
  before: { readonly ids: readonly string[]; readonly hash: string },
  terms: FormTerms,
): Promise<Posted> {
  const form = await receiveForm(exchange, terms);
  const drafts = [draftOf(form)];
  if (before.hash === hashOf(drafts, form.files)) return { drafts, ids: before.ids, replayed: true };
  throw new FieldpostError('invalid', 'This Idempotency-Key was used with other content', {
    hint: 'use a new key for a new message',
  });
}

/** Discards the files of a replay. */
const NOWHERE: Pick<FormTerms, 'upload' | 'checkFiles'> = {
  upload: {
    begin: async (file) => ({
      write: () => undefined,
      finish: async () => ({ ...file, id: '', size: 0, crc: 0 }),
    }),
  },
  checkFiles: () => undefined,
};

/** The email in a form. Throws invalid with all faults, each at the name of its field. */
function draftOf({ texts, files }: Form): Draft {
  const faults: Fault[] = [];
  const report = (pointer: string, detail: string) => void faults.push({ pointer, detail });
  const type = texts.get('type')?.[0] ?? '1';
  if (type !== '1') report('type', 'must be 1 or left out: a form is an email');
  // An assignment would lose a field named __proto__; fromEntries keeps it.
  const fields = Object.fromEntries([...texts].map(([name, [text = '']]) => [name, text]));
  for (const name of TEXT_FIELDS) {
    if ((texts.get(name)?.length ?? 0) > 1) report(name, 'must not appear more than once');
  }
  const draft = parseEmail(fields, report);
  if (faults.length > 0) throw invalidMessage(faults);
  return { ...draft, attachments: files.map(({ attachment }) => attachment) };
}

function idempotencyKey({ req }: Exchange): string | null {
  const key = req.headers['idempotency-key'];
  if (key === undefined) return null;
  // Node joins repeated headers with comma and blank; a key cannot contain a blank.
  if (typeof key === 'string' && IDEMPOTENCY_KEY.test(key)) return key;
  throw new FieldpostError(
    'malformed-request',
    `An Idempotency-Key is 1 to ${IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters`,
  );
}

/** SHA-256 of the parsed values: white space between JSON tokens, the order of fields and unknown fields make no difference. */
function hashOf(drafts: readonly Draft[], files: readonly FormFile[]): string {
  const canonical = drafts.map(({ type, destination, content }) => [
    type,
    destination,
    ...('message' in content
      ? [content.message, content.title, content.auto_open, content.app_data]
      : [content.subject, content.plain, content.html]),
    ...files.map(({ attachment: { name, type }, sum }) => [name, type, sum]),
  ]);
  return createHash('sha256').update(JSON.stringify(canonical)).digest('hex');
}
