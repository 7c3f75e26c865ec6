/**
 * The table of all calls of the reference cloud: their handlers, and their description for OpenAPI.
 */
import type { Exchange } from '../base/http/exchange.js';
import type { DescribedRoute } from '../base/http/openapi.js';
import type { Method } from '../base/http/routing.js';
import * as calls from './calls.js';
import * as operator from './operator.js';
import type { CloudSchemaName } from './schemas.js';

/** One call of the cloud: path, handler, and description for OpenAPI. */
export interface CloudRoute extends DescribedRoute<CloudSchemaName> {
  /** `device`: the device in the path, or the operator. These are the calls of the contract. */
  readonly for: 'device' | 'operator' | 'anyone';
  readonly handle: (exchange: Exchange, parts: calls.CloudParts) => void | Promise<void>;
}

function route(
  who: CloudRoute['for'],
  method: Method,
  path: string,
  handle: CloudRoute['handle'],
  doc: Omit<CloudRoute, 'for' | 'method' | 'path' | 'handle'>,
): CloudRoute {
  return { for: who, method, path, handle, ...doc };
}

const ETAG = { ETag: { description: 'strong; each PUT makes a new one', required: true } } as const;
const header = { type: 'string' };

const CONTRACT = [
  route('device', 'PUT', '/devices/{id}/heartbeat', calls.heartbeat, {
    name: 'putHeartbeat',
    summary: 'Say that the device is alive',
    description:
      'Unknown members, and those of a wrong type that need no fault, are ignored. The device waits 15 s for the answer. Any other answer than this counts as none: the device is offline after three, or after 30 s, and retries after 13 s at the soonest.',
    body: { 'application/json': 'Heartbeat' },
    status: 200,
    answer: 'HeartbeatAnswer',
    problems: [413, 415, 422],
  }),
  route('device', 'GET', '/devices/{id}/destinations', calls.getDestinations, {
    name: 'getDestinations',
    summary: 'Read the document with the people to notify',
    description:
      'The ETag is strong, and the answer neither compressed nor redirected. 404, with a problem, only while no document was ever stored: an empty list is something else.',
    headers: { 'If-None-Match': header },
    status: 200,
    answer: 'Document',
    answerHeaders: ETAG,
    cacheable: true,
    problems: [404],
  }),
  route('device', 'PUT', '/devices/{id}/destinations', calls.putDestinations, {
    name: 'putDestinations',
    summary: 'Replace that document',
    description:
      'A condition is required: `If-Match` with the ETag that is replaced, or `If-None-Match: *` for the first. Of two PUTs with one ETag only one succeeds; `If-Match` without a document is a 412. Members and entries that the cloud does not know are kept and given back, and texts stay as they are. What is nested deeper than 32 is a 400. Each PUT gets a new ETag, even if it changes nothing.',
    headers: { 'If-Match': header, 'If-None-Match': header },
    body: { 'application/json': 'Document' },
    status: 204,
    answerHeaders: ETAG,
    otherwise: { 200: { answer: 'Misunderstood', answerHeaders: ETAG } },
    problems: [412, 413, 415, 428, 507],
  }),
  route('device', 'POST', '/devices/{id}/messages', calls.postMessage, {
    name: 'postMessage',
    summary: 'Take an SMS, phone call or push message',
    description:
      'The key is unique for the device, and is remembered for 7 days together with its message. 400, 413, 415 and 422 with a problem refuse the message for good. After any other answer the device retries, after `Retry-After` if there is one; a cloud without a way to send answers 501 or 503.',
    headers: { 'Idempotency-Key': { ...header, description: 'the id of the message' } },
    body: { 'application/json': 'Message' },
    status: 202,
    answer: 'Taken',
    problems: [409, 413, 415, 422, 429, 507],
  }),
];

const OPERATOR = [
  route('operator', 'GET', '/devices', operator.listDevices, {
    name: 'listDevices',
    summary: 'List the devices by id, in pages; as CSV with `format=csv` or `Accept: text/csv`',
    description: 'In CSV the header `Link` (`rel="next"`) names the next page.',
    query: operator.DEVICES_QUERY,
    headers: { Accept: header },
    status: 200,
    answer: ['Devices', 'text/csv'],
    answerHeaders: { Link: { description: 'of CSV: the next page' } },
    problems: [422],
  }),
  route('operator', 'GET', '/devices/{id}', operator.getDevice, {
    name: 'getDevice',
    summary: 'One device',
    status: 200,
    answer: 'Device',
    problems: [404],
  }),
  route('operator', 'DELETE', '/devices/{id}', operator.removeDevice, {
    name: 'removeDevice',
    summary: 'Forget a device, its document, and the keys that were made for it',
    status: 204,
    problems: [404],
  }),
  route('operator', 'POST', '/devices/{id}/key', operator.makeKey, {
    name: 'makeKey',
    summary: 'Make a key for a device, which may be a new one; the key is shown only here',
    description:
      'An earlier key stays valid until the new one is first used. A key that was never used is replaced. Without a file of keys the call is refused (409).',
    status: 201,
    answer: 'DeviceKey',
    answerHeaders: { 'Cache-Control': { description: 'no-store', required: true } },
    problems: [409, 422],
  }),
  route('operator', 'GET', '/metrics', measure, {
    name: 'getMetrics',
    summary: 'Prometheus metrics',
    status: 200,
    answer: 'text/plain',
  }),
];

export const CLOUD_ROUTES: readonly CloudRoute[] = [
  ...CONTRACT,
  ...OPERATOR,
  route('anyone', 'GET', '/', operator.getFleetPage, {
    name: 'getFleetPage',
    summary: 'A page for the operator, which uses the calls above',
    status: 200,
    answer: 'text/html',
  }),
  route('anyone', 'GET', '/healthz', operator.getHealth, {
    name: 'getHealth',
    summary: '`ok` while messages to people can be stored',
    status: 200,
    answer: 'text/plain',
  }),
  route('anyone', 'GET', '/openapi.json', describeAll, {
    name: 'getDescription',
    summary: 'This description',
    status: 200,
    answer: 'Description',
  }),
];

async function measure(exchange: Exchange, parts: calls.CloudParts): Promise<void> {
  const { getMetrics } = await import('./metrics.js');
  await getMetrics(exchange, parts);
}

async function describeAll(exchange: Exchange, { version }: calls.CloudParts): Promise<void> {
  const { describeCloud } = await import('./openapi.js');
  exchange.send(200, 'application/json', describeCloud(CLOUD_ROUTES, version));
}
