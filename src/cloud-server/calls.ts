/**
 * The calls of the cloud's contract (cloud.md), and two for its operator. server.ts puts them behind HTTP.
 */
import { readJson } from '../api/body.js';
import type { Exchange } from '../api/exchange.js';
import type { Routed } from '../api/routing.js';
import { FieldpostError } from '../errors.js';
import { CLOUD_BODY_BYTES_MAX } from '../limits.js';
import type { Clock } from '../system/clock.js';
import type { Documents } from './documents.js';
import { isKnown } from './etag.js';
import type { Post } from './post.js';
import type { Watch } from './watch.js';

/** What the calls work on. */
export interface CloudParts {
  readonly documents: Documents;
  readonly watch: Watch;
  readonly post: Post;
  readonly clock: Clock;
  /** How often devices are to report. */
  readonly heartbeatMs: number;
  readonly maxDocumentBytes: number;
}

/** One call. */
export interface CloudRoute extends Routed {
  /** `device`: the one in the path, or the operator. */
  readonly for: 'device' | 'operator' | 'anyone';
  readonly handle: (exchange: Exchange, parts: CloudParts) => void | Promise<void>;
}

export const CLOUD_ROUTES: readonly CloudRoute[] = [
  { method: 'PUT', path: '/devices/{id}/heartbeat', for: 'device', handle: heartbeat },
  { method: 'GET', path: '/devices/{id}/destinations', for: 'device', handle: getDestinations },
  { method: 'PUT', path: '/devices/{id}/destinations', for: 'device', handle: putDestinations },
  { method: 'POST', path: '/devices/{id}/messages', for: 'device', handle: postMessage },
  { method: 'GET', path: '/devices', for: 'operator', handle: listDevices },
  { method: 'GET', path: '/healthz', for: 'anyone', handle: getHealth },
];

async function heartbeat(exchange: Exchange, parts: CloudParts): Promise<void> {
  const { id } = exchange;
  const body = await readJson(exchange, CLOUD_BODY_BYTES_MAX);
  const { state } = (body ?? {}) as { state?: unknown };
  if (state !== 'running' && state !== 'stopping') {
    const faults = [{ pointer: '/state', detail: 'must be running or stopping' }];
    throw new FieldpostError('invalid', 'This is no heartbeat; see errors', { faults });
  }
  parts.watch.heard(id, state === 'stopping');
  const etag = parts.documents.get(id)?.etag;
  exchange.json(200, {
    ...(etag !== undefined && { destinations: etag }),
    heartbeatMs: parts.heartbeatMs,
    // A clock that is known to be wrong would confirm the device's wrong one.
    ...(parts.clock.trust() !== 'wrong' && { serverTime: new Date(parts.clock.wallMs()).toISOString() }),
  });
}

function getDestinations(exchange: Exchange, { documents }: CloudParts): void {
  const stored = documents.get(exchange.id);
  if (stored === null) throw new FieldpostError('not-found', 'No document was ever stored for this device');
  const ETag = stored.etag;
  if (isKnown(exchange.req.headers, ETag)) exchange.nothing(304, { ETag });
  else exchange.send(200, 'application/json', stored.text, { ETag });
}

async function putDestinations(
  exchange: Exchange,
  { documents, maxDocumentBytes }: CloudParts,
): Promise<void> {
  const body = await readJson(exchange, maxDocumentBytes);
  const ETag = await documents.put(exchange.id, body, exchange.req.headers);
  exchange.nothing(204, { ETag });
}

async function postMessage(exchange: Exchange, { post }: CloudParts): Promise<void> {
  const key = exchange.req.headers['idempotency-key'];
  const body = await readJson(exchange, CLOUD_BODY_BYTES_MAX);
  exchange.json(202, { id: await post.take(exchange.id, key, body) });
}

function listDevices(exchange: Exchange, { watch, documents }: CloudParts): void {
  const devices = [...watch.sightings()].map(({ id, state, heardMs }) => ({
    id,
    state,
    lastHeartbeat: new Date(heardMs).toISOString(),
    destinations: documents.get(id)?.document.destinations.length ?? null,
  }));
  exchange.json(200, { devices });
}

function getHealth(exchange: Exchange, { post }: CloudParts): void {
  const { state, reason } = post.storage();
  if (state !== 'ok') throw new FieldpostError('unavailable', reason ?? `storage ${state}`);
  exchange.send(200, 'text/plain', 'ok');
}
