/**
 * The calls of local-api §2: the address book of those who are told when this device goes offline.
 */
import { createHash } from 'node:crypto';
import { type Destination, parseFields } from '../destinations/destination.js';
import { FieldpostError } from '../errors.js';
import { readJson } from './body.js';
import { callerOf } from './caller.js';
import type { Exchange } from './exchange.js';
import { hiddenEntries, hiddenEntry, isHiddenId, wantsHidden } from './hidden.js';
import type { ApiContext } from './parts.js';
import { LOGGED_CHARS_MAX } from './post.js';

/** Where the list is; a destination is at its id below. */
export const DESTINATIONS = '/api/internal/offline_notification_destinations';
export const LIST_HEADERS = { 'If-None-Match': { type: 'string', description: 'the `ETag` of the list' } };

/** `GET /api/internal/offline_notification_destinations`; with `?hidden=true` what is not understood instead. */
export function list(exchange: Exchange, { store: { book } }: ApiContext): void {
  const body = JSON.stringify(wantsHidden(exchange.query) ? hiddenEntries(book.hidden) : book.list());
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  if (isAmong(exchange.req.headers['if-none-match'], etag)) exchange.nothing(304, { ETag: etag });
  else exchange.send(200, 'application/json', body, { ETag: etag });
}

/** `GET /api/internal/offline_notification_destinations/{id}` */
export function get(exchange: Exchange, context: ApiContext): void {
  const { hidden } = context.store.book;
  exchange.json(200, isHiddenId(exchange.id) ? hiddenEntry(hidden, exchange.id) : known(exchange, context));
}

/** `POST /api/internal/offline_notification_destinations` */
export async function post(exchange: Exchange, context: ApiContext): Promise<void> {
  const { store, settings, log } = context;
  const { fields, ignored } = parseFields(await readJson(exchange, settings.maxBodyBytes), null);
  const by = await callerOf(exchange, context);
  const added = await store.book.add(fields);
  log.info('destination added', { destination: added.id, by });
  context.edited();
  exchange.json(201, told(added, ignored, context), { Location: `${DESTINATIONS}/${added.id}` });
}

/** `PUT /api/internal/offline_notification_destinations/{id}` */
export async function put(exchange: Exchange, context: ApiContext): Promise<void> {
  const { store, settings, log } = context;
  const body = await readJson(exchange, settings.maxBodyBytes);
  const by = await callerOf(exchange, context);
  const { id } = known(exchange, context);
  const { fields, ignored } = parseFields(body, id);
  const replaced = await store.book.replace(id, fields);
  log.info('destination changed', { destination: id, by });
  context.edited();
  exchange.json(200, told(replaced, ignored, context));
}

/** `DELETE /api/internal/offline_notification_destinations/{id}` */
export async function remove(exchange: Exchange, context: ApiContext): Promise<void> {
  const { store, log } = context;
  const by = await callerOf(exchange, context);
  if (isHiddenId(exchange.id)) {
    const { entry } = hiddenEntry(store.book.hidden, exchange.id);
    await store.book.removeHidden(entry);
  } else await store.book.remove(known(exchange, context).id);
  log.info('destination removed', { destination: exchange.id, by });
  context.edited();
  exchange.nothing();
}

/** The destination of the path. Throws not-found. */
function known({ id }: Exchange, { store }: ApiContext): Destination {
  const destination = /^[1-9]\d{0,14}$/.test(id) ? store.book.get(Number(id)) : undefined;
  if (destination) return destination;
  throw new FieldpostError('not-found', `There is no destination ${JSON.stringify(id)}`, {
    hint: 'the list of them tells the ids',
  });
}

/** The answer to an edit. Members that are not known do no harm, but are not dropped in silence. */
function told(destination: Destination, ignored: readonly string[], { log }: ApiContext): object {
  if (ignored.length === 0) return destination;
  const fields = ignored.join(',').slice(0, LOGGED_CHARS_MAX);
  log.info('fields ignored', { destination: destination.id, fields });
  return { ...destination, ignored };
}

/** True if the header names the ETag (RFC 9110 §13.1.2: weak or strong makes no difference here). */
function isAmong(header: string | undefined, etag: string): boolean {
  const named = header?.split(',').map((one) => one.trim().replace(/^W\//, '')) ?? [];
  return named.includes(etag) || named.includes('*');
}
