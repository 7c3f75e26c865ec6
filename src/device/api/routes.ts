/**
 * The table of all calls. build/openapi/fieldpost.json describes them, and the tests hold each answer against it: a new
 * call is a new row here and a new operation there.
 */
import type { Exchange } from '../../base/http/exchange.js';
import type { Routed } from '../../base/http/http.js';
import type { Access, ApiContext } from './context.js';
import * as destinations from './destinations.js';
import * as messages from './messages.js';
import { post } from './post.js';
import { getHealth, getState, getStatusPage, tryRelays } from './state.js';

/** One call of the API. */
interface Route extends Routed {
  readonly access: Access;
  readonly handle: (exchange: Exchange, context: ApiContext) => void | Promise<void>;
}

export const MESSAGES = '/api/internal/messages';
const QUEUE = '/api/internal/queue';
const ALIVE = '/api/internal/alive';
const { DESTINATIONS } = destinations;

export const ROUTES: readonly Route[] = [
  { method: 'POST', path: MESSAGES, handle: post, access: 'senders' },
  { method: 'GET', path: MESSAGES, handle: messages.list, access: 'operators' },
  { method: 'DELETE', path: MESSAGES, handle: messages.cancelAll, access: 'operators' },
  { method: 'GET', path: `${MESSAGES}/{id}`, handle: messages.get, access: 'senders' },
  { method: 'DELETE', path: `${MESSAGES}/{id}`, handle: messages.cancel, access: 'operators' },
  { method: 'POST', path: `${MESSAGES}/{id}/retry`, handle: messages.retry, access: 'operators' },
  { method: 'POST', path: `${QUEUE}/retry`, handle: messages.retryAll, access: 'operators' },
  { method: 'POST', path: `${QUEUE}/flush`, handle: messages.flush, access: 'operators' },
  { method: 'POST', path: `${QUEUE}/hold`, handle: messages.hold, access: 'operators' },
  { method: 'POST', path: `${QUEUE}/release`, handle: messages.release, access: 'operators' },
  { method: 'POST', path: `${QUEUE}/purge`, handle: messages.purge, access: 'operators' },
  { method: 'GET', path: DESTINATIONS, handle: destinations.list, access: 'operators' },
  { method: 'POST', path: DESTINATIONS, handle: destinations.post, access: 'operators' },
  { method: 'GET', path: `${DESTINATIONS}/{id}`, handle: destinations.get, access: 'operators' },
  { method: 'PUT', path: `${DESTINATIONS}/{id}`, handle: destinations.put, access: 'operators' },
  { method: 'DELETE', path: `${DESTINATIONS}/{id}`, handle: destinations.remove, access: 'operators' },
  { method: 'POST', path: `${DESTINATIONS}/{id}/test`, handle: told('test'), access: 'operators' },
  { method: 'POST', path: '/api/internal/drill', handle: told('drill'), access: 'operators' },
  { method: 'GET', path: '/api/internal/quiet', handle: told('getQuiet'), access: 'operators' },
  { method: 'PUT', path: '/api/internal/quiet', handle: told('putQuiet'), access: 'operators' },
  { method: 'DELETE', path: '/api/internal/quiet', handle: told('deleteQuiet'), access: 'operators' },
  { method: 'PUT', path: '/api/internal/lastword', handle: told('putLastWord'), access: 'operators' },
  { method: 'GET', path: ALIVE, handle: alive('listAlive'), access: 'operators' },
  { method: 'PUT', path: `${ALIVE}/{id}`, handle: alive('putAlive'), access: 'senders' },
  { method: 'DELETE', path: `${ALIVE}/{id}`, handle: alive('deleteAlive'), access: 'senders' },
  { method: 'POST', path: '/api/internal/relay/trial', handle: tryRelays, access: 'operators' },
  { method: 'GET', path: '/api/internal/state', handle: getState, access: 'operators' },
  { method: 'GET', path: '/api/internal/history', handle: getHistory, access: 'operators' },
  { method: 'GET', path: '/api/internal/events', handle: getEvents, access: 'operators' },
  { method: 'GET', path: '/healthz', handle: getHealth, access: 'anybody' },
  { method: 'GET', path: '/metrics', handle: getMetrics, access: 'operators' },
  { method: 'GET', path: '/', handle: getStatusPage, access: 'anybody' },
  { method: 'GET', path: '/openapi.json', handle: getDescription, access: 'operators' },
];

// Few devices are ever asked for these: they are loaded with the first call.

function told(call: keyof typeof import('./telling.js')): Route['handle'] {
  return async (exchange, context) => (await import('./telling.js'))[call](exchange, context);
}

function alive(call: keyof typeof import('./alive.js')): Route['handle'] {
  return async (exchange, context) => (await import('./alive.js'))[call](exchange, context);
}

async function getEvents(exchange: Exchange, context: ApiContext): Promise<void> {
  await (await import('./events.js')).getEvents(exchange, context);
}

async function getMetrics(exchange: Exchange, context: ApiContext): Promise<void> {
  await (await import('./metrics.js')).getMetrics(exchange, context);
}

async function getHistory(exchange: Exchange, context: ApiContext): Promise<void> {
  await (await import('./history.js')).getHistory(exchange, context);
}

async function getDescription(exchange: Exchange): Promise<void> {
  const { default: text } = await import('../../../build/openapi/fieldpost.json?text');
  exchange.send(200, 'application/json', text);
}
