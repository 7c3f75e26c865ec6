/**
 * The calls on the address book, which says whom the cloud tells when this device goes offline. Hidden entries are those of
 * the cloud's document that this version does not understand. The list shows them only with `?hidden=true`; a DELETE of
 * their id, made from their content, removes them.
 */
import { createHash } from 'node:crypto';
import { FieldpostError } from '../../base/errors.js';
import { readJson } from '../../base/http/body.js';
import { checkPrecondition, etagOf, sendTagged } from '../../base/http/etag.js';
import type { Exchange } from '../../base/http/exchange.js';
import { flagIn } from '../../base/http/query.js';
import { canonical, firstAsJson } from '../../base/json.js';
import { PAGE_BYTES_MAX } from '../../base/limits.js';
import { cut } from '../../base/text.js';
import { type Destination, parseFields, whyHidden } from '../../mail/book/destination.js';
import { type ApiContext, callerOf } from './context.js';
import { LOGGED_CHARS_MAX } from './post.js';

export const DESTINATIONS = '/api/internal/offline_notification_destinations';
const HIDDEN_PREFIX = 'hidden-';
const HIDDEN_ID_DIGITS = 16;

/** `GET /api/internal/offline_notification_destinations`; with `?hidden=true` the hidden entries. */
export function list(exchange: Exchange, { book }: ApiContext): void {
  const hidden = () => `[${firstAsJson(hiddenEntries(book.hidden), PAGE_BYTES_MAX).join()}]`;
  sendTagged(exchange, flagIn(exchange.query, 'hidden') ? hidden() : JSON.stringify(book.list()));
}

/** `GET /api/internal/offline_notification_destinations/{id}` */
export function get(exchange: Exchange, context: ApiContext): void {
  const one = isHiddenId(exchange.id)
    ? hiddenEntry(context.book.hidden, exchange.id)
    : known(exchange, context);
  sendTagged(exchange, JSON.stringify(one));
}

/** `POST /api/internal/offline_notification_destinations` */
export async function post(exchange: Exchange, context: ApiContext): Promise<void> {
  const { book, settings, log } = context;
  const { fields, ignored } = parseFields(await readJson(exchange, settings.maxBodyBytes), null);
  const by = await callerOf(exchange, context);
  const added = await book.add(fields, () =>
    checkPrecondition(exchange.req.headers, etagOf(JSON.stringify(book.list()))),
  );
  log.info('destination added', { destination: added.id, by });
  context.edited();
  exchange.json(201, told(added, ignored, context), {
    ETag: etagOf(JSON.stringify(added)),
    Location: `${DESTINATIONS}/${added.id}`,
  });
}

/** `PUT /api/internal/offline_notification_destinations/{id}` */
export async function put(exchange: Exchange, context: ApiContext): Promise<void> {
  const { book, settings, log } = context;
  const body = await readJson(exchange, settings.maxBodyBytes);
  const by = await callerOf(exchange, context);
  const { id } = known(exchange, context);
  const { fields, ignored } = parseFields(body, id);
  const replaced = await book.replace(id, fields, () => checkOne(exchange, context));
  log.info('destination changed', { destination: id, by });
  context.edited();
  exchange.json(200, told(replaced, ignored, context), { ETag: etagOf(JSON.stringify(replaced)) });
}

/** `DELETE /api/internal/offline_notification_destinations/{id}` */
export async function remove(exchange: Exchange, context: ApiContext): Promise<void> {
  const { book, log } = context;
  const by = await callerOf(exchange, context);
  if (isHiddenId(exchange.id)) {
    const hidden = hiddenEntry(book.hidden, exchange.id);
    checkPrecondition(exchange.req.headers, etagOf(JSON.stringify(hidden)));
    await book.removeHidden(hidden.entry);
  } else await book.remove(known(exchange, context).id, () => checkOne(exchange, context));
  log.info('destination removed', { destination: exchange.id, by });
  context.edited();
  exchange.nothing();
}

/** The destination of the path. Throws not-found. */
export function known({ id }: Exchange, { book }: ApiContext): Destination {
  const destination = /^[1-9]\d{0,14}$/.test(id) ? book.get(Number(id)) : undefined;
  if (destination) return destination;
  throw new FieldpostError('not-found', `There is no destination ${JSON.stringify(id)}`, {
    hint: 'the list has the ids',
  });
}

/** Throws precondition-failed unless the edit is meant for the destination as it is now. */
function checkOne(exchange: Exchange, context: ApiContext): void {
  checkPrecondition(exchange.req.headers, etagOf(JSON.stringify(known(exchange, context))));
}

/** The answer to an edit. It names the ignored fields; so does the log. */
function told(destination: Destination, ignored: readonly string[], { log }: ApiContext): object {
  if (ignored.length === 0) return destination;
  const fields = cut(ignored.join(','), LOGGED_CHARS_MAX);
  log.info('fields ignored', { destination: destination.id, fields });
  return { ...destination, ignored };
}

/** A hidden entry as clients see it. */
interface HiddenEntry {
  /** `hidden-` and 16 hex digits of a hash of the entry. */
  readonly id: string;
  readonly reason: string;
  readonly entry: unknown;
}

function isHiddenId(id: string): boolean {
  return id.startsWith(HIDDEN_PREFIX);
}

/** One by one: a document may hold many thousands. */
function* hiddenEntries(values: readonly unknown[]): Generator<HiddenEntry> {
  for (const entry of values) yield { id: hiddenIdOf(entry), reason: whyHidden(entry), entry };
}

/** The hidden entry with that id. Throws not-found. */
function hiddenEntry(values: readonly unknown[], id: string): HiddenEntry {
  for (const one of hiddenEntries(values)) if (one.id === id) return one;
  throw new FieldpostError('not-found', `There is no hidden entry ${JSON.stringify(id)}`, {
    hint: 'the list with ?hidden=true has the ids; an id changes with the entry',
  });
}

function hiddenIdOf(value: unknown): string {
  const hash = createHash('sha256').update(canonical(value)).digest('hex');
  return `${HIDDEN_PREFIX}${hash.slice(0, HIDDEN_ID_DIGITS)}`;
}
