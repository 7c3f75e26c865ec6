/**
 * `POST /api/internal/messages` (local-api §1): an array of messages as JSON, or one email with files as a form.
 * Used by destinations.ts and routes.ts.
 */
import { FieldpostError } from '../errors.js';
import { readJson } from '../http/body.js';
import type { Exchange } from '../http/exchange.js';
import { IDEMPOTENCY_KEY_CHARS_MAX, MAIL_RECIPIENTS_MAX } from '../limits.js';
import { parseDrafts } from '../message/draft.js';
import { cut } from '../text.js';
import { hashOf } from './content-hash.js';
import { checkMails } from './mail-size.js';
import type { ApiContext } from './parts.js';
import type { Take } from './take.js';

export const POST_HEADERS = {
  'Idempotency-Key': { type: 'string', pattern: `^[!-~]{1,${IDEMPOTENCY_KEY_CHARS_MAX}}$` },
};
/** The envelope of a ready-made mail (message/rfc822). */
export const POST_QUERY = {
  to: {
    type: 'array',
    items: { type: 'string' },
    maxItems: MAIL_RECIPIENTS_MAX,
    description: 'of a message/rfc822: the recipients, or `headers` for those in To, Cc and Bcc',
  },
  from: { type: 'string', description: 'of a message/rfc822: the sender in the envelope' },
  priority: { type: 'string', enum: ['normal', 'high'], description: 'of a message/rfc822' },
};
const IDEMPOTENCY_KEY = new RegExp(POST_HEADERS['Idempotency-Key'].pattern);
const REPLAYED = { 'Idempotency-Replayed': 'true' };
/** A log line has at most this many characters of the ignored fields' names. */
export const LOGGED_CHARS_MAX = 200;

/** Answers once the messages are on stable storage. */
export async function post(exchange: Exchange, context: ApiContext): Promise<void> {
  const { store } = context;
  const key = idempotencyKey(exchange);
  const isForm = /^\s*multipart\/form-data\s*(?:;|$)/i.test(exchange.req.headers['content-type'] ?? '');
  // Loaded with the first form: many devices never send one.
  const take = isForm ? (await import('./take-form.js')).takeForm : takeJson;
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
