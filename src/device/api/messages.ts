/**
 * The calls on messages except their POST: what became of them, and control of the queue.
 */
import { type Fault, FieldpostError } from '../../base/errors.js';
import type { Exchange } from '../../base/http/exchange.js';
import { checkPercent, flagIn, invalidQuery, wholeNumberIn } from '../../base/http/query.js';
import { firstAsJson } from '../../base/json.js';
import { LIST_LIMIT_MAX, PAGE_BYTES_MAX, SECOND_MS } from '../../base/limits.js';
import { wallMsOf } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import { isoOf } from '../../base/text.js';
import { isFinal, STATUSES, type Status } from '../../base/views.js';
import { type Message, messageIdOf } from '../../mail/message/message.js';
import { type ApiContext, callerOf } from './context.js';

export const LIST_LIMIT_DEFAULT = 100;
/** The longest `wait` of a GET of a message. */
export const POLL_S_MAX = 300;
/** Sent if too many requests wait already: a client that asks again at once would waste the processor. */
const ASK_AGAIN = { 'Retry-After': '1' };

/** `GET /api/internal/messages`: fewer than `limit` if they are long. It ignores unknown parameters. */
export function list(exchange: Exchange, context: ApiContext): void {
  const { messages, next } = context.store.list(parseListQuery(exchange.query));
  const texts = firstAsJson(viewsOf(messages, context), PAGE_BYTES_MAX);
  const last = texts.length < messages.length ? (messages[texts.length - 1] as Message).id : next;
  const pieces = texts.flatMap((text, i) => (i === 0 ? text : [',', text]));
  exchange.send(200, 'application/json', ['{"messages":[', ...pieces, `],"next":${JSON.stringify(last)}}`]);
}

function* viewsOf(messages: readonly Message[], context: ApiContext) {
  for (const message of messages) yield viewOf(message, context);
}

/** `GET /api/internal/messages/{id}`; with `?wait=30` it waits for the outcome. */
export async function get(exchange: Exchange, context: ApiContext): Promise<void> {
  checkPercent(exchange.query);
  const given = new URLSearchParams(exchange.query);
  const waitS = wholeNumberIn(given, 'wait', [0, POLL_S_MAX, 0], (fault) => {
    throw invalidQuery([fault]);
  });
  // This value has the outcome even if the store forgets the message at once.
  const message = known(exchange, context);
  const isDone =
    waitS === 0 ||
    isFinal(message.status) ||
    (await exchange.poll(waitS * SECOND_MS, (signal) => context.store.whenFinal(message.id, signal)));
  exchange.json(200, viewOf(message, context), isDone ? undefined : ASK_AGAIN);
}

/** `DELETE /api/internal/messages/{id}` */
export async function cancel(exchange: Exchange, context: ApiContext): Promise<void> {
  const { store, nudge, log } = context;
  const by = await callerOf(exchange, context);
  try {
    await store.cancel(exchange.id);
  } finally {
    // Delivery skips a message during its cancellation. If that fails, delivery must look again.
    nudge();
  }
  log.info('cancelled', { id: exchange.id, by });
  exchange.nothing();
}

/** `POST /api/internal/messages/{id}/retry` */
export async function retry(exchange: Exchange, context: ApiContext): Promise<void> {
  const { id } = exchange;
  const { store, wake, log } = context;
  const by = await callerOf(exchange, context);
  await store.retry(id);
  log.info('retried', { id, by });
  // Before wake(): the answer shows the effect of this call alone.
  const message = known(exchange, context);
  const view = viewOf(message, context);
  context.nudge(message.extras?.lifeMs);
  wake();
  exchange.json(202, view);
}

/** `POST /api/internal/queue/retry?status=failed` */
export async function retryAll(exchange: Exchange, context: ApiContext): Promise<void> {
  checkFailed(exchange);
  const by = await callerOf(exchange, context);
  try {
    const { count, lifeMs } = await context.store.retryFailed();
    context.log.info('retried', { status: 'failed', count, by });
    context.nudge(lifeMs);
    exchange.json(202, { count });
  } finally {
    // Some may be queued even if the disk has refused the rest.
    context.wake();
  }
}

/** `DELETE /api/internal/messages?status=failed` */
export async function cancelAll(exchange: Exchange, context: ApiContext): Promise<void> {
  checkFailed(exchange);
  const by = await callerOf(exchange, context);
  const count = await context.store.dropFailed();
  context.log.info('cancelled', { status: 'failed', count, by });
  exchange.nothing();
}

/** Throws invalid unless the query asks for the failed messages: nobody means all by leaving it out. */
function checkFailed({ query }: Exchange): void {
  checkPercent(query);
  if (new URLSearchParams(query).getAll('status').join() === 'failed') return;
  throw invalidQuery([{ pointer: 'status', detail: 'must be failed: only these are changed together' }]);
}

/** A call that changes the whole queue; `by` is the caller. It answers with the queue's counts. */
function onQueue(work: (context: ApiContext, by: string) => Promise<void>) {
  return async (exchange: Exchange, context: ApiContext): Promise<void> => {
    await work(context, await callerOf(exchange, context));
    exchange.json(202, context.store.counts());
  };
}

/** `POST /api/internal/queue/flush` */
export const flush = onQueue(async ({ store, wake, log }, by) => {
  await store.flush();
  log.info('queue flushed', { by });
  wake();
});

/** `POST /api/internal/queue/hold` */
export const hold = onQueue(async ({ store, log }, by) => {
  await store.hold();
  log.info('queue held', { by });
});

/** `POST /api/internal/queue/release` */
export const release = onQueue(async ({ store, wake, log }, by) => {
  await store.release();
  log.info('queue released', { by });
  wake();
});

/** `POST /api/internal/queue/purge` */
export async function purge(exchange: Exchange, context: ApiContext): Promise<void> {
  const { store, log } = context;
  const damaged = flagIn(exchange.query, 'damaged');
  const by = await callerOf(exchange, context);
  await store.purge(damaged);
  log.info('purged', { by, damaged });
  exchange.json(200, store.counts());
}

/** A message as clients see it: envelope and progress, no content. */
export function viewOf(message: Message, { store, clock }: ApiContext) {
  const { id, type, destination, from, subject, extras, status, replacedBy } = message;
  const { accepted, sent, attempts, lastReply } = message;
  const files = extras?.isReadyMade ? [] : message.attachments;
  return {
    id,
    type,
    destination,
    from: from ?? null,
    subject: type === 1 ? subject : null,
    messageId: messageIdOf(message, store.storeId),
    size: sizeOf(message),
    priority: extras?.urgent ? 'high' : 'normal',
    status,
    final: isFinal(status),
    replacedBy: replacedBy ?? null,
    acceptedAt: isoOf(wallMsOf(accepted, clock, store.boots)),
    sentAt: status === 'sent' && sent ? isoOf(wallMsOf(sent, clock, store.boots)) : null,
    attempts,
    lastReply,
    nextAttemptAt: status === 'deferred' ? isoOf(dueWallMs(message, clock)) : null,
    attachments: files.map(({ name, type, size }) => ({ name, type, size })),
  };
}

/** Octets of the texts, as they are stored, and of the files; of a ready-made mail those of the mail. */
function sizeOf({ extras, attachments, place, textBytes }: Message): number {
  const filesBytes = attachments.reduce((sum, { size }) => sum + size, 0);
  return extras?.isReadyMade ? filesBytes : filesBytes + (place?.length ?? textBytes);
}

/** When a deferred message is due, on the present wall clock. Only the boot's clock measures the wait. */
function dueWallMs({ due }: Message, clock: Clock): number {
  const waitMs = due === null || due.boot !== clock.boot ? 0 : Math.max(0, due.bootMs - clock.bootMs());
  return clock.wallMs() + waitMs;
}

/** The message of the path. Throws not-found. */
function known({ id }: Exchange, { store }: ApiContext): Message {
  const message = store.get(id);
  if (message !== undefined) return message;
  throw new FieldpostError('not-found', `There is no message ${JSON.stringify(id)}`, {
    hint: 'the daemon forgets the oldest finished ones',
  });
}

function parseListQuery(query: string): { status: Status | null; limit: number; after: string | null } {
  checkPercent(query);
  const given = new URLSearchParams(query);
  const faults: Fault[] = [];
  const status = given.get('status') as Status | null;
  if (status !== null && !STATUSES.includes(status)) {
    faults.push({ pointer: 'status', detail: `must be one of ${STATUSES.join(', ')}` });
  }
  const limit = wholeNumberIn(given, 'limit', [1, LIST_LIMIT_MAX, LIST_LIMIT_DEFAULT], (fault) =>
    faults.push(fault),
  );
  if (faults.length > 0) throw invalidQuery(faults);
  return { status, limit, after: given.get('after') };
}
