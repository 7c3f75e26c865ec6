/**
 * The table of all calls: their handlers, and their description for OpenAPI. A new call is a new row.
 */
import type { Exchange } from '../../base/http/exchange.js';
import type { DescribedRoute } from '../../base/http/openapi.js';
import type { Method } from '../../base/http/routing.js';
import type { Access } from './access.js';
import * as destinations from './destinations.js';
import { HIDDEN_QUERY } from './hidden.js';
import * as messages from './messages.js';
import type { ApiContext } from './parts.js';
import { POST_HEADERS, POST_QUERY, post } from './post.js';
import type { SchemaName } from './schemas.js';
import { getHealth, getState } from './state.js';

/** One call of the API: path, handler, and description for OpenAPI. */
export interface Route extends DescribedRoute<SchemaName> {
  /** Left out: operators. */
  readonly access?: Access;
  readonly handle: (exchange: Exchange, context: ApiContext) => void | Promise<void>;
}

export const MESSAGES = '/api/internal/messages';
const QUEUE = '/api/internal/queue';
const { DESTINATIONS } = destinations;

const ETAG = { ETag: { description: 'for `If-Match` and `If-None-Match`', required: true } } as const;
const LOCATION = { Location: { description: 'the path of the destination', required: true } } as const;

function route(
  method: Method,
  path: string,
  handle: Route['handle'],
  doc: Omit<Route, 'method' | 'path' | 'handle'>,
): Route {
  return { method, path, handle, ...doc };
}

export const ROUTES: readonly Route[] = [
  route('POST', MESSAGES, post, {
    name: 'postMessages',
    access: 'senders',
    summary: 'Accept messages for delivery, all of them or none; answered once they are on stable storage',
    query: POST_QUERY,
    headers: POST_HEADERS,
    body: { 'application/json': 'Drafts', 'multipart/form-data': 'Form', 'message/rfc822': 'ReadyMade' },
    status: 202,
    answer: 'Accepted',
    answerHeaders: { 'Idempotency-Replayed': { description: 'true: the answer to an earlier request' } },
    problems: [409, 413, 415, 422, 429, 507],
  }),
  route('GET', MESSAGES, messages.list, {
    name: 'listMessages',
    summary: 'List messages, newest first',
    query: messages.LIST_QUERY,
    status: 200,
    answer: 'Page',
    problems: [422],
  }),
  route('GET', `${MESSAGES}/{id}`, messages.get, {
    name: 'getMessage',
    access: 'senders',
    summary: 'Get the status of a message',
    query: messages.GET_QUERY,
    status: 200,
    answer: 'Message',
    answerHeaders: { 'Retry-After': { description: 'seconds; too many requests wait already' } },
    problems: [404, 422],
  }),
  route('DELETE', `${MESSAGES}/{id}`, messages.cancel, {
    name: 'cancelMessage',
    summary: 'Cancel a message that is not final, or delete the content of a failed one for good',
    status: 204,
    problems: [404, 409, 507],
  }),
  route('POST', `${MESSAGES}/{id}/retry`, messages.retry, {
    name: 'retryMessage',
    summary: 'Make a message due now; queue a failed one anew',
    status: 202,
    answer: 'Message',
    problems: [404, 409, 507],
  }),
  route('POST', `${QUEUE}/flush`, messages.flush, {
    name: 'flushQueue',
    summary: 'Make everything due now',
    status: 202,
    answer: 'Queue',
    problems: [507],
  }),
  route('POST', `${QUEUE}/hold`, messages.hold, {
    name: 'holdQueue',
    summary: 'Stop delivery, also across restarts',
    status: 202,
    answer: 'Queue',
    problems: [507],
  }),
  route('POST', `${QUEUE}/release`, messages.release, {
    name: 'releaseQueue',
    summary: 'Resume delivery',
    status: 202,
    answer: 'Queue',
    problems: [507],
  }),
  route('POST', `${QUEUE}/purge`, messages.purge, {
    name: 'purgeQueue',
    summary: 'Overwrite the content of final messages on the disk; answered when that is done',
    query: messages.PURGE_QUERY,
    status: 200,
    answer: 'Queue',
    problems: [422, 507],
  }),
  route('GET', DESTINATIONS, destinations.list, {
    name: 'listDestinations',
    summary: 'List the people to notify when this device goes offline',
    query: HIDDEN_QUERY,
    headers: destinations.LIST_HEADERS,
    status: 200,
    answer: 'Destinations',
    answerHeaders: ETAG,
    problems: [422],
    cacheable: true,
  }),
  route('POST', DESTINATIONS, destinations.post, {
    name: 'addDestination',
    summary: 'Add a destination; `Location` says where it is',
    headers: destinations.EDIT_HEADERS,
    body: { 'application/json': 'DestinationFields' },
    status: 201,
    answer: 'Destination',
    answerHeaders: { ...ETAG, ...LOCATION },
    problems: [409, 412, 413, 415, 422, 507],
  }),
  route('GET', `${DESTINATIONS}/{id}`, destinations.get, {
    name: 'getDestination',
    summary: 'One destination',
    headers: destinations.LIST_HEADERS,
    status: 200,
    answer: 'OneDestination',
    answerHeaders: ETAG,
    problems: [404],
    cacheable: true,
  }),
  route('PUT', `${DESTINATIONS}/{id}`, destinations.put, {
    name: 'replaceDestination',
    summary: 'Replace a destination',
    headers: destinations.EDIT_HEADERS,
    body: { 'application/json': 'DestinationFields' },
    status: 200,
    answer: 'Destination',
    answerHeaders: ETAG,
    problems: [404, 409, 412, 413, 415, 422, 507],
  }),
  route('DELETE', `${DESTINATIONS}/{id}`, destinations.remove, {
    name: 'removeDestination',
    summary: 'Remove a destination',
    headers: destinations.EDIT_HEADERS,
    status: 204,
    problems: [404, 412, 507],
  }),
  route('GET', '/api/internal/state', getState, {
    name: 'getState',
    summary: 'Get the state of the daemon',
    status: 200,
    answer: 'State',
  }),
  route('GET', '/healthz', getHealth, {
    name: 'getHealth',
    access: 'anybody',
    summary: '`ok` while messages can be accepted and stored, whatever the network does',
    status: 200,
    answer: 'text/plain',
  }),
  route('GET', '/metrics', measure, {
    name: 'getMetrics',
    summary: 'Prometheus metrics',
    status: 200,
    answer: 'text/plain',
  }),
  route('GET', '/', showStatus, {
    name: 'getStatusPage',
    access: 'anybody',
    summary: 'A page for people, which shows the state and uses the calls above',
    status: 200,
    answer: 'text/html',
  }),
  route('GET', '/openapi.json', describeAll, {
    name: 'getDescription',
    summary: 'This description',
    status: 200,
    answer: 'Description',
  }),
];

async function measure(exchange: Exchange, context: ApiContext): Promise<void> {
  const { getMetrics } = await import('./metrics.js');
  await getMetrics(exchange, context);
}

async function showStatus(exchange: Exchange, context: ApiContext): Promise<void> {
  const { getStatusPage } = await import('./status-page.js');
  getStatusPage(exchange, context);
}

async function describeAll(exchange: Exchange, { version }: ApiContext): Promise<void> {
  // Few devices ever ask for it.
  const { describe } = await import('./openapi.js');
  exchange.send(200, 'application/json', describe(ROUTES, version));
}
