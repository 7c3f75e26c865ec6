/**
 * The table of everything that can be called: what answers it, and what openapi.ts says of it. Adding a call
 * is adding a row.
 */

import type { Exchange } from '../http/exchange.js';
import type { Routed } from '../http/routing.js';
import type { Access } from './access.js';
import * as destinations from './destinations.js';
import { HIDDEN_QUERY } from './hidden.js';
import * as messages from './messages.js';
import { getMetrics } from './metrics.js';
import type { SchemaName } from './openapi.js';
import type { ApiContext } from './parts.js';
import { POST_HEADERS, post } from './post.js';
import { getHealth, getState } from './state.js';

/** One call of the API: what it answers to, what it does, and how it is described. */
export interface Route extends Routed {
  /** Operators alone where it is left out. */
  readonly access?: Access;
  readonly handle: (exchange: Exchange, context: ApiContext) => void | Promise<void>;
  readonly doc: RouteDoc;
}

/** What the OpenAPI description says of a route, beside what is the same for all. */
export interface RouteDoc {
  readonly summary: string;
  readonly query?: Readonly<Record<string, object>>;
  readonly headers?: Readonly<Record<string, object>>;
  readonly body?: SchemaName;
  /** The same as a form. */
  readonly form?: SchemaName;
  readonly status: number;
  readonly answer?: SchemaName | 'text/plain';
  /** Has an ETag, and answers 304 to whoever knows it. */
  readonly cacheable?: true;
  /** Statuses of the problems this route adds to those that every route may answer. */
  readonly problems?: readonly number[];
}

/** Where messages are posted. */
export const MESSAGES = '/api/internal/messages';
const QUEUE = '/api/internal/queue';
const { DESTINATIONS } = destinations;

export const ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: MESSAGES,
    access: 'senders',
    handle: post,
    doc: {
      summary: 'Accept messages for delivery, all of them or none; answered once they are on stable storage',
      headers: POST_HEADERS,
      body: 'Drafts',
      form: 'Form',
      status: 202,
      answer: 'Accepted',
      problems: [409, 413, 415, 422, 429, 507],
    },
  },
  {
    method: 'GET',
    path: MESSAGES,
    handle: messages.list,
    doc: {
      summary: 'List messages, newest first',
      query: messages.LIST_QUERY,
      status: 200,
      answer: 'Page',
      problems: [422],
    },
  },
  {
    method: 'GET',
    path: `${MESSAGES}/{id}`,
    access: 'senders',
    handle: messages.get,
    doc: { summary: 'What became of a message', status: 200, answer: 'Message', problems: [404] },
  },
  {
    method: 'DELETE',
    path: `${MESSAGES}/{id}`,
    handle: messages.cancel,
    doc: {
      summary: 'Cancel a message that is not final; of a failed one, delete the content for good',
      status: 204,
      problems: [404, 409, 507],
    },
  },
  {
    method: 'POST',
    path: `${MESSAGES}/{id}/retry`,
    handle: messages.retry,
    doc: {
      summary: 'Make a message due now; queue a failed one anew',
      status: 202,
      answer: 'Message',
      problems: [404, 409, 507],
    },
  },
  {
    method: 'POST',
    path: `${QUEUE}/flush`,
    handle: messages.flush,
    doc: { summary: 'Make everything due now', status: 202, answer: 'Queue', problems: [507] },
  },
  {
    method: 'POST',
    path: `${QUEUE}/hold`,
    handle: messages.hold,
    doc: { summary: 'Stop delivery, also across restarts', status: 202, answer: 'Queue', problems: [507] },
  },
  {
    method: 'POST',
    path: `${QUEUE}/release`,
    handle: messages.release,
    doc: { summary: 'Resume delivery', status: 202, answer: 'Queue', problems: [507] },
  },
  {
    method: 'POST',
    path: `${QUEUE}/purge`,
    handle: messages.purge,
    doc: {
      summary:
        'Overwrite what is left on the disk of messages that are done with; answered when that is done',
      query: messages.PURGE_QUERY,
      status: 200,
      answer: 'Queue',
      problems: [422, 507],
    },
  },
  {
    method: 'GET',
    path: DESTINATIONS,
    handle: destinations.list,
    doc: {
      summary: 'Whom to tell when this device goes offline',
      query: HIDDEN_QUERY,
      headers: destinations.LIST_HEADERS,
      status: 200,
      answer: 'Destinations',
      problems: [422],
      cacheable: true,
    },
  },
  {
    method: 'POST',
    path: DESTINATIONS,
    handle: destinations.post,
    doc: {
      summary: 'Add a destination; `Location` says where it is',
      headers: destinations.EDIT_HEADERS,
      body: 'DestinationFields',
      status: 201,
      answer: 'Destination',
      problems: [409, 412, 413, 415, 422, 507],
    },
  },
  {
    method: 'GET',
    path: `${DESTINATIONS}/{id}`,
    handle: destinations.get,
    doc: {
      summary: 'One destination',
      headers: destinations.LIST_HEADERS,
      status: 200,
      answer: 'OneDestination',
      problems: [404],
      cacheable: true,
    },
  },
  {
    method: 'PUT',
    path: `${DESTINATIONS}/{id}`,
    handle: destinations.put,
    doc: {
      summary: 'Replace a destination',
      headers: destinations.EDIT_HEADERS,
      body: 'DestinationFields',
      status: 200,
      answer: 'Destination',
      problems: [404, 409, 412, 413, 415, 422, 507],
    },
  },
  {
    method: 'DELETE',
    path: `${DESTINATIONS}/{id}`,
    handle: destinations.remove,
    doc: {
      summary: 'Remove a destination',
      headers: destinations.EDIT_HEADERS,
      status: 204,
      problems: [404, 412, 507],
    },
  },
  {
    method: 'GET',
    path: '/api/internal/state',
    handle: getState,
    doc: { summary: 'How the daemon is doing', status: 200, answer: 'State' },
  },
  {
    method: 'GET',
    path: '/healthz',
    access: 'anybody',
    handle: getHealth,
    doc: {
      summary: '`ok` while messages can be accepted and stored, whatever the network does',
      status: 200,
      answer: 'text/plain',
    },
  },
  {
    method: 'GET',
    path: '/metrics',
    handle: getMetrics,
    doc: { summary: 'Prometheus metrics', status: 200, answer: 'text/plain' },
  },
  {
    method: 'GET',
    path: '/openapi.json',
    async handle(exchange, { version }) {
      // Loaded when somebody asks, which on most devices nobody does.
      const { describe } = await import('./openapi.js');
      exchange.send(200, 'application/json', describe(ROUTES, version));
    },
    doc: { summary: 'This description', status: 200, answer: 'Description' },
  },
];
