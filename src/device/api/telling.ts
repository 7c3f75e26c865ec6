/**
 * The calls by which this device speaks to people, by way of the cloud: its quiet, its last word, and drills. Each needs a
 * cloud. Loaded with the first of them.
 */
import { FieldpostError } from '../../base/errors.js';
import { readJson } from '../../base/http/body.js';
import type { Exchange } from '../../base/http/exchange.js';
import { isJsonObject, type JsonObject } from '../../base/json.js';
import { QUIET_MS_MAX, REASON_CHARS_MAX, SECOND_MS } from '../../base/limits.js';
import { CloudError } from '../../base/retry/call-error.js';
import { hasControl, hasLoneSurrogate } from '../../base/text.js';
import { type ApiContext, callerOf } from './context.js';
import { known } from './destinations.js';
import { NEVER_QUIET, NO_CLOUD, quietView } from './state.js';

/** `GET /api/internal/quiet` */
export function getQuiet(exchange: Exchange, { telling }: ApiContext): void {
  exchange.json(200, quietView(telling?.quiet.view() ?? NEVER_QUIET));
}

/** `PUT /api/internal/quiet` */
export async function putQuiet(exchange: Exchange, context: ApiContext): Promise<void> {
  const { quiet } = tellingOf(context);
  const { for_s: forS, why = null } = await fieldsOf(
    exchange,
    context,
    '{"for_s":7200,"why":"battery swap"}',
  );
  const mostS = QUIET_MS_MAX / SECOND_MS;
  const isLength = Number.isSafeInteger(forS) && (forS as number) >= 1 && (forS as number) <= mostS;
  refuse({
    for_s: isLength ? null : `is required and must be a whole number of seconds from 1 to ${mostS}`,
    why: why === null || why === '' ? null : wordsFault(why),
  });
  const by = await callerOf(exchange, context);
  const told = await quiet.begin((forS as number) * SECOND_MS, (why as string | null) || null, by);
  exchange.json(200, { ...quietView(told), reason: told.reason });
}

/** `DELETE /api/internal/quiet` */
export async function deleteQuiet(exchange: Exchange, context: ApiContext): Promise<void> {
  const { quiet } = tellingOf(context);
  const told = await quiet.end(await callerOf(exchange, context));
  exchange.json(200, { ...quietView(told), reason: told.reason });
}

/** `PUT /api/internal/lastword`: answered once the cloud has it. */
export async function putLastWord(exchange: Exchange, context: ApiContext): Promise<void> {
  const { sayNow } = tellingOf(context);
  const { text } = await fieldsOf(exchange, context, '{"text":"mains failed, battery 10 min"}');
  refuse({ text: wordsFault(text) });
  const by = await callerOf(exchange, context);
  const reason = await sayNow(text as string);
  if (reason !== null) {
    context.log.warn('last word not delivered', { by, word: text as string, reason });
    throw new FieldpostError('unavailable', `The cloud has not heard it: ${reason}`, { hint: 'try again' });
  }
  context.log.info('last word delivered', { by, word: text as string });
  exchange.json(200, { delivered: true });
}

/** `POST /api/internal/drill`: everybody in the address book. */
export async function drill(exchange: Exchange, context: ApiContext): Promise<void> {
  await call(exchange, context, null);
}

/** `POST /api/internal/offline_notification_destinations/{id}/test`: this person alone. */
export async function test(exchange: Exchange, context: ApiContext): Promise<void> {
  await call(exchange, context, known(exchange, context).id);
}

async function call(exchange: Exchange, context: ApiContext, id: number | null): Promise<void> {
  const { drill } = tellingOf(context);
  const { log, book, syncState } = context;
  const uid = id === null ? null : (book.uidOf(id) ?? null);
  const by = await callerOf(exchange, context);
  const answer = await drill(uid, new AbortController().signal).catch((error) => {
    if (!(error instanceof CloudError)) throw error;
    log.warn('drill failed', { by, destination: id ?? undefined, reason: error.message });
    throw new FieldpostError('unavailable', `The cloud has not begun the drill: ${error.message}`);
  });
  if (answer.kind === 'refused') throw new FieldpostError('conflict', `The cloud refuses: ${answer.reply}`);
  // A new cloud does not know an entry that it has not got yet.
  const isUnknown = uid !== null && syncState()?.synced === false;
  if (isUnknown && (answer.kind === 'unknown' || answer.people === 0))
    throw new FieldpostError('conflict', 'The cloud does not have this destination yet', {
      hint: 'the state tells when the address book is in step with the cloud',
    });
  if (answer.kind === 'unknown') throw new FieldpostError('not-offered', 'This cloud has no drill');
  const { people } = answer;
  log.info('drill begun', { by, destination: id ?? undefined, people });
  exchange.json(202, { people });
}

function tellingOf({ telling }: ApiContext): NonNullable<ApiContext['telling']> {
  if (telling === null) throw new FieldpostError('conflict', NO_CLOUD, { hint: 'only a cloud tells people' });
  return telling;
}

async function fieldsOf(exchange: Exchange, { settings }: ApiContext, like: string): Promise<JsonObject> {
  const body = await readJson(exchange, settings.maxBodyBytes);
  if (isJsonObject(body)) return body;
  throw new FieldpostError('malformed-request', 'The body must be a JSON object', { hint: `like ${like}` });
}

/** Throws invalid with these faults, by the names of their fields; null: that field has none. */
function refuse(details: Readonly<Record<string, string | null>>): void {
  const faults = Object.entries(details).flatMap(([name, detail]) =>
    detail === null ? [] : [{ pointer: `/${name}`, detail }],
  );
  if (faults.length > 0) throw new FieldpostError('invalid', 'Nothing was done; see errors', { faults });
}

function wordsFault(text: unknown): string | null {
  if (typeof text !== 'string' || text.trim() === '') return 'must be a string, not empty';
  if (text.length > REASON_CHARS_MAX) return `must not be longer than ${REASON_CHARS_MAX} characters`;
  if (hasControl(text)) return 'must be one line without control characters';
  return hasLoneSurrogate(text) ? 'contains half a surrogate pair, which is not a character' : null;
}
