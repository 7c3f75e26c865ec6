/**
 * `POST /api/internal/messages`: an array of messages as JSON, or one email with files as a form.
 */
import { FieldpostError } from '../../base/errors.js';
import { readJson } from '../../base/http/body.js';
import type { Exchange } from '../../base/http/exchange.js';
import { IDEMPOTENCY_KEY_CHARS_MAX } from '../../base/limits.js';
import { cut } from '../../base/text.js';
import { parseDrafts } from '../../mail/message/draft.js';
import { type Draft, recipientsOf } from '../../mail/message/message.js';
import { storedKey } from '../../mail/store/keys.js';
import { type ApiContext, sharerOf } from './context.js';
import { checkMails, draftLimits, hashOf, marked, type Take } from './intake.js';

const IDEMPOTENCY_KEY = new RegExp(`^[!-~]{1,${IDEMPOTENCY_KEY_CHARS_MAX}}$`);
const REPLAYED = { 'Idempotency-Replayed': 'true' };
/** A log line has at most this many characters of the ignored fields' names. */
export const LOGGED_CHARS_MAX = 200;

/** Answers once the messages are on stable storage. */
export async function post(exchange: Exchange, context: ApiContext): Promise<void> {
  const { store } = context;
  if (context.settings.maxShare < 100) exchange.caller = await sharerOf(exchange, context);
  const key = idempotencyKey(exchange);
  const take = await takerOf(exchange.req.headers['content-type'] ?? '');
  const { drafts, ids, replayed } =
    key === null
      ? await take(exchange, context, null, (drafts) => store.accept(marked(drafts, exchange), null))
      : await store.withKey(key, (accept) =>
          take(exchange, context, key, (drafts, files) =>
            accept(marked(drafts, exchange), hashOf(drafts, files)),
          ),
        );
  if (!replayed) {
    context.accepted.total += ids.length;
    context.nudge(Math.min(...drafts.map(({ lifeMs = Number.POSITIVE_INFINITY }) => lifeMs)));
  }
  exchange.json(202, entriesOf(drafts, ids, context), replayed ? REPLAYED : undefined);
}

/** The way of a body of this media type. The rare ones are loaded with the first of them. */
async function takerOf(type: string): Promise<Take> {
  if (/^\s*multipart\/form-data\s*(?:;|$)/i.test(type)) return (await import('./form.js')).takeForm;
  if (/^\s*message\/rfc822\s*(?:;|$)/i.test(type)) return (await import('./mail-door.js')).takeMail;
  return takeJson;
}

/** One entry for each recipient. The first one of a mail tells what was ignored. */
function entriesOf(drafts: readonly Draft[], ids: readonly string[], { log }: ApiContext): object[] {
  const left = ids.values();
  return drafts.flatMap((draft) =>
    recipientsOf(draft).map((destination, index) => {
      const id = left.next().value;
      const entry = { id, type: draft.type, destination, status: 'queued' };
      if (index > 0 || draft.ignored.length === 0) return entry;
      log.info('fields ignored', { id, fields: cut(draft.ignored.join(','), LOGGED_CHARS_MAX) });
      return { ...entry, ignored: draft.ignored };
    }),
  );
}

const takeJson: Take = async (exchange, context, key, accept) => {
  const { store, settings } = context;
  const body = await readJson(exchange, settings.maxBodyBytes);
  if (Array.isArray(body) ? body.some(hasFiles) : hasFiles(body))
    return (await import('./json-files.js')).takeFiles(body, exchange, context, key, accept);
  const drafts = parseDrafts(body, draftLimits(context));
  // A replay gets the first answer, even if the relay's size limit is smaller now.
  if (key === null || store.recall(key) === null) checkMails(drafts, context);
  return { drafts, ...(await accept(drafts, [])) };
};

/** True if it is a message with files, also with none or wrong ones. */
function hasFiles(message: unknown): boolean {
  return (message as { attachments?: unknown } | null)?.attachments !== undefined;
}

function idempotencyKey({ req, onlySends }: Exchange): string | null {
  const key = req.headers['idempotency-key'];
  if (key === undefined) return null;
  // Node joins repeated headers with comma and blank; a key cannot contain a blank.
  if (typeof key === 'string' && IDEMPOTENCY_KEY.test(key)) return storedKey(key, onlySends);
  throw new FieldpostError(
    'malformed-request',
    `An Idempotency-Key is 1 to ${IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters`,
  );
}
