/**
 * The table of all calls of the reference cloud. build/openapi/fieldpost-cloud.json describes them, and the tests hold each
 * answer against it: a new call is a new row here and a new operation there.
 */
import type { Exchange } from '../base/http/exchange.js';
import type { Routed } from '../base/http/http.js';
import * as calls from './calls.js';
import * as drill from './drill.js';
import * as operator from './operator.js';
import { listOutages } from './outage-calls.js';

/** One call of the cloud. */
interface CloudRoute extends Routed {
  /** `device`: the device in the path, or the operator. These are the calls of the contract. */
  readonly for: 'device' | 'operator' | 'anyone';
  readonly handle: (exchange: Exchange, parts: calls.CloudParts) => void | Promise<void>;
}

export const CLOUD_ROUTES: readonly CloudRoute[] = [
  { method: 'PUT', path: '/devices/{id}/heartbeat', handle: calls.heartbeat, for: 'device' },
  { method: 'GET', path: '/devices/{id}/destinations', handle: calls.getDestinations, for: 'device' },
  { method: 'PUT', path: '/devices/{id}/destinations', handle: calls.putDestinations, for: 'device' },
  { method: 'POST', path: '/devices/{id}/messages', handle: calls.postMessage, for: 'device' },
  { method: 'POST', path: '/devices/{id}/mails', handle: calls.postMail, for: 'device' },
  { method: 'PUT', path: '/devices/{id}/quiet', handle: calls.putQuiet, for: 'device' },
  { method: 'POST', path: '/devices/{id}/drill', handle: calls.postDrill, for: 'device' },
  { method: 'GET', path: '/devices', handle: operator.listDevices, for: 'operator' },
  { method: 'GET', path: '/devices/{id}', handle: operator.getDevice, for: 'operator' },
  { method: 'GET', path: '/devices/{id}/outages', handle: listOutages, for: 'operator' },
  { method: 'DELETE', path: '/devices/{id}', handle: operator.removeDevice, for: 'operator' },
  { method: 'POST', path: '/devices/{id}/key', handle: operator.makeKey, for: 'operator' },
  { method: 'GET', path: '/status', handle: operator.getStatus, for: 'operator' },
  { method: 'GET', path: '/metrics', handle: operator.getMetrics, for: 'operator' },
  { method: 'GET', path: '/', handle: operator.getFleetPage, for: 'anyone' },
  { method: 'GET', path: '/drill/{device}/{uid}/{token}', handle: drill.getDrill, for: 'anyone' },
  { method: 'POST', path: '/drill/{device}/{uid}/{token}', handle: drill.confirmDrill, for: 'anyone' },
  { method: 'GET', path: '/healthz', handle: operator.getHealth, for: 'anyone' },
  { method: 'GET', path: '/openapi.json', handle: getDescription, for: 'anyone' },
];

// Loaded with the first call.
async function getDescription(exchange: Exchange): Promise<void> {
  const { default: text } = await import('../../build/openapi/fieldpost-cloud.json?text');
  exchange.send(200, 'application/json', text);
}
