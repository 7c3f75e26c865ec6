/** `GET /api/internal/events`: what is told, to whom, and when it ends. */
import { test } from 'tap';
import { CONNECTIONS_MAX, STREAMS_MAX } from '../../src/base/http/connection.js';
import { SECOND_MS } from '../../src/base/limits.js';
import { COMMENT_MS, LOOK_MS, RING_EVENTS, RING_KEPT_MS } from '../../src/device/api/events.js';
import {
  EMAIL,
  isProblem,
  MESSAGES,
  type RawClient,
  requestText,
  startApi,
  type TestApi,
} from '../support/api.js';
import { settled } from '../support/clock.js';
import { socketPath } from '../support/short-directory.js';
import { acceptOne, settleAs } from '../support/store.js';

const EVENTS = '/api/internal/events';

/** One event, as its reader gets it. */
interface Told {
  readonly id: number;
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks at what it expects to be there
  readonly data: any;
}

/** An api whose state does not change by itself. */
const startQuiet = (options: Parameters<typeof startApi>[0] = {}) =>
  startApi({
    relayState: () => ({ state: 'none', sinceMs: 0, reason: 'none set', nextTryMs: null, rate: null }),
    ...options,
  });

/** The events in an answer so far. */
function eventsIn(client: RawClient): Told[] {
  const body = client.rest
    .slice(client.rest.indexOf('\r\n\r\n') + 4)
    .replace(/\r\n[0-9a-f]+\r\n|^[0-9a-f]+\r\n/g, '');
  return [...body.matchAll(/id: (\d+)\nevent: (\S+)\ndata: (.*)\n\n/g)].map(
    ([, id, event = '', data = '']) => ({
      id: Number(id),
      event,
      data: JSON.parse(data),
    }),
  );
}

/** Resolves with the events once there are so many. */
async function untilTold(client: RawClient, count: number): Promise<Told[]> {
  while (eventsIn(client).length < count) await settled();
  return eventsIn(client);
}

/** A client that reads the events, and has the first one; after `lastId` it has none. */
async function reader(api: TestApi, lastId?: number | string, isResumed = false): Promise<RawClient> {
  const client = await api.connect();
  client.write(requestText('GET', EVENTS, lastId === undefined ? {} : { 'Last-Event-ID': String(lastId) }));
  if (isResumed) while (!client.rest.includes('\r\n\r\n')) await settled();
  else await untilTold(client, 1);
  return client;
}

/** Names of events and what is new in each. */
const gist = (told: readonly Told[]) =>
  told.map(({ event, data }) => [event, data.status ?? data.queue?.queued ?? data.count]);

test('a reader gets the state, then each change of a message, in order', async (t) => {
  await using api = await startQuiet();
  await using client = await reader(api);
  t.match(client.rest, /^HTTP\/1\.1 200 OK\r\n/);
  t.match(client.rest, /\r\nContent-Type: text\/event-stream\r\n/);
  const [first] = eventsIn(client);
  const state = (await api.call('GET', '/api/internal/state')).json;
  t.same([first?.event, first?.data], ['state', state], 'as GET /state');
  const id = (await api.post([EMAIL])).json[0].id;
  t.same((await untilTold(client, 2))[1]?.data, (await api.call('GET', `${MESSAGES}/${id}`)).json, 'as GET');
  api.store.claim(id);
  api.store.giveBack(id);
  api.store.claim(id);
  await api.store.settle(id, { kind: 'deferred', reply: '450 later', delayMs: 1000 });
  await settleAs(api.store, id, 'failed');
  await api.call('POST', `${MESSAGES}/${id}/retry`);
  await api.call('DELETE', `${MESSAGES}/${id}`);
  const told = await untilTold(client, 10);
  t.same(
    told.map(({ data }) => data.status),
    [
      undefined,
      'queued',
      'sending',
      'queued',
      'sending',
      'deferred',
      'sending',
      'failed',
      'queued',
      'cancelled',
    ],
  );
  t.match(told[5]?.data, { lastReply: '450 later', nextAttemptAt: /Z$/, final: false });
  const ids = told.map(({ id }) => id);
  t.same(
    ids,
    [...ids].sort((a, b) => a - b),
    'ids rise',
  );
  t.equal(new Set(ids).size, ids.length);
  t.ok(ids.every(Number.isSafeInteger));
});

test('the outcome of a message that is forgotten at once is told', async (t) => {
  await using api = await startQuiet({ historyMax: 0 });
  await using client = await reader(api);
  const id = await acceptOne(api.store, 'a');
  await settleAs(api.store, id);
  t.equal(api.store.get(id), undefined);
  t.same((await untilTold(client, 4))[3]?.data.status, 'sent');
});

test('the state is told when it has changed, at most once a second, and not for what changes by itself', async (t) => {
  let reason: string | null = null;
  await using api = await startApi({
    relayState: () => ({ state: reason ? 'failing' : 'ok', sinceMs: 0, reason, nextTryMs: null, rate: null }),
  });
  await using client = await reader(api);
  await api.clock.advance(10 * LOOK_MS);
  for (let i = 0; i < 10; i++) await api.clock.advance(LOOK_MS);
  t.equal(eventsIn(client).length, 1, 'time alone changes nothing');
  reason = 'no route';
  await api.clock.advance(LOOK_MS);
  t.match((await untilTold(client, 2))[1], { event: 'state', data: { relay: { state: 'failing', reason } } });
  for (let i = 0; i < 20; i++) await acceptOne(api.store, 'a');
  await untilTold(client, 22);
  t.equal(eventsIn(client).filter(({ event }) => event === 'state').length, 2);
  await api.clock.advance(LOOK_MS);
  t.same(gist(await untilTold(client, 23)).at(-1), ['state', 20]);
});

test('a message that a newer one replaces is told, also one of the same request', async (t) => {
  await using api = await startQuiet();
  await using client = await reader(api);
  const keyed = { ...EMAIL, collapse_key: 'level' };
  const [old] = (await api.post([keyed])).json;
  const [first, second] = (await api.post([keyed, keyed])).json;
  const told = (await untilTold(client, 5))
    .slice(1)
    .map(({ data }) => [data.id, data.status, data.replacedBy]);
  t.same(told.slice(0, 1), [[old.id, 'queued', undefined]]);
  t.strictSame(
    new Set(told.slice(1).map((one) => JSON.stringify(one))),
    new Set([
      JSON.stringify([old.id, 'replaced', second.id]),
      JSON.stringify([first.id, 'replaced', second.id]),
      JSON.stringify([second.id, 'queued', undefined]),
    ]),
  );
});

test('who got the state without a stream, and then reads, gets the state again', async (t) => {
  await using api = await startQuiet();
  await using once = await api.connect();
  once.write(requestText('GET', EVENTS) + requestText('GET', '/healthz'));
  const [{ id = 0 } = {}] = await untilTold(once, 1);
  await acceptOne(api.store, 'unseen');
  await using client = await reader(api, id, true);
  await acceptOne(api.store, 'seen');
  t.equal((await untilTold(client, 1))[0]?.event, 'state');
  t.equal(id < (eventsIn(client)[0]?.id ?? 0), true);
});

test('an edit of the address book is told, with its new ETag', async (t) => {
  await using api = await startQuiet();
  await using client = await reader(api);
  const path = '/api/internal/offline_notification_destinations';
  const body = JSON.stringify({ type: 1, destination: 'a@example.com', lang: 'en', name: 'A' });
  const added = await api.call('POST', path, { headers: { 'Content-Type': 'application/json' }, body });
  t.equal(added.status, 201);
  const { etag } = (await api.call('GET', path)).headers;
  t.same((await untilTold(client, 2))[1], {
    ...eventsIn(client)[1],
    event: 'destinations',
    data: { count: 1, etag },
  });
});

test('a comment comes every 30 s, and no limit of time ends the answer', async (t) => {
  await using api = await startQuiet();
  await using client = await reader(api);
  t.equal(api.timeoutMsOf(client), 0, 'an idle reader is not ended');
  for (let n = 1; n <= 3; n++) {
    for (let ms = 0; ms < COMMENT_MS; ms += LOOK_MS) await api.clock.advance(LOOK_MS);
    while ((client.rest.match(/\n:\n\n/g) ?? []).length < n) await settled();
  }
});

test('Last-Event-ID resumes as far as the ring has the events, else the state comes anew', async (t) => {
  await using api = await startQuiet();
  const client = await reader(api);
  const [{ id: first = 0 } = {}] = eventsIn(client);
  for (let i = 0; i < 5; i++) await acceptOne(api.store, String(i));
  const last = (await untilTold(client, 6))[5]?.id ?? 0;
  await client[Symbol.asyncDispose]();
  await api.clock.advance(RING_KEPT_MS / 2);
  await acceptOne(api.store, 'between');
  for (const [after, count] of [
    [first, 7],
    [last, 2],
    [last - 2, 4],
  ] as const) {
    await using again = await reader(api, after, true);
    const told = await untilTold(again, count);
    const ids = told.map(({ id }) => id);
    t.same(
      ids,
      [...ids.keys()].map((n) => after + 1 + n),
      `after ${after}`,
    );
  }
  await using idle = await reader(api, last + 2, true);
  t.same(eventsIn(idle), [], 'it is connected, and there is nothing to tell');
  for (const bad of ['', 'x', '-1', '1.5', first - 1, last + 100, '9'.repeat(30)]) {
    await using again = await reader(api, bad);
    t.equal(eventsIn(again)[0]?.event, 'state', `after ${JSON.stringify(bad)}`);
  }
  // The ring forgets.
  await using slow = await reader(api);
  for (let i = 0; i < RING_EVENTS; i++) await acceptOne(api.store, 'a');
  await untilTold(slow, 1 + RING_EVENTS);
  await using late = await reader(api, last);
  t.equal(eventsIn(late)[0]?.event, 'state');
});

test('nothing is told or timed a minute after the last reader has left, and its ids are over', async (t) => {
  await using api = await startQuiet();
  const client = await reader(api);
  const [{ id: first = 0 } = {}] = eventsIn(client);
  await client[Symbol.asyncDispose]();
  t.equal(api.clock.pending, 1);
  for (let ms = 0; ms <= RING_KEPT_MS + LOOK_MS; ms += LOOK_MS) await api.clock.advance(LOOK_MS);
  t.equal(api.clock.pending, 0);
  await acceptOne(api.store, 'unseen');
  await using again = await reader(api, first);
  // Not even an id was made meanwhile.
  t.match(eventsIn(again), [{ id: first + 1, event: 'state', data: { queue: { queued: 1 } } }]);
  await acceptOne(api.store, 'seen');
  t.match(await untilTold(again, 2), [{}, { event: 'message' }]);
});

test('another run of the daemon does not take the ids of this one for its own', async (t) => {
  await using one = await startQuiet();
  await using client = await reader(one);
  for (let i = 0; i < 3; i++) await acceptOne(one.store, 'a');
  const last = (await untilTold(client, 4))[3]?.id ?? 0;
  await using other = await startQuiet();
  await other.clock.advance(3);
  await using first = await reader(other);
  for (let i = 0; i < 5; i++) await acceptOne(other.store, 'a');
  await untilTold(first, 6);
  await using again = await reader(other, last);
  t.equal(eventsIn(again)[0]?.event, 'state');
});

test('16 may read and take no place from others; one more is a 503', async (t) => {
  await using api = await startQuiet();
  const clients: RawClient[] = [];
  for (let i = 0; i < STREAMS_MAX; i++) clients.push(await reader(api));
  const refused = await api.call('GET', EVENTS);
  isProblem(t, refused, 503, 'busy');
  t.equal(refused.headers['retry-after'], '1');
  // The last place is for the reader that comes then: it must not wait until a silent client leaves.
  for (let i = 1; i < CONNECTIONS_MAX; i++) {
    const client = await api.connect();
    client.write(requestText('GET', '/healthz'));
    t.equal((await client.answer()).headers.connection, 'keep-alive', 'no other client waits for a place');
    clients.push(client);
  }
  await clients[0]?.[Symbol.asyncDispose]();
  await settled();
  clients.push(await reader(api));
  for (const client of clients) await client[Symbol.asyncDispose]();
  t.same(api.errors, []);
});

test('a stop ends all readers at once', async (t) => {
  await using api = await startQuiet();
  const clients: RawClient[] = [];
  for (let i = 0; i < STREAMS_MAX; i++) clients.push(await reader(api));
  const stopped = api.api.stop(10 * SECOND_MS);
  for (const client of clients) t.equal(await client.ended, false, 'as an answer that is whole');
  t.ok(clients.every((client) => client.rest.endsWith('0\r\n\r\n')));
  for (const client of clients) await client[Symbol.asyncDispose]();
  await stopped;
  t.equal(api.clock.pending, 0);
});

test('a reader that does not read costs no more than its place in the ring, and is closed', async (t) => {
  // The kernel keeps a tenth of a MB of what nobody reads from a unix socket, and several MB of TCP.
  await using api = await startQuiet({ listen: { kind: 'unix', path: socketPath(t) } });
  await using quick = await reader(api);
  await using slow = await reader(api);
  slow.socket.pause();
  const hasClosed = () => api.lines.filter((line) => line.includes('reader closed')).length;
  const id = await acceptOne(api.store, 'a');
  const change = async (until: () => boolean) => {
    for (let n = 0; !until() && n < 50_000; n++) {
      api.store.claim(id);
      api.store.giveBack(id);
      if (n % 50 === 0) await settled();
    }
  };
  await change(() => hasClosed() === 1);
  t.equal(hasClosed(), 1, 'the slow one, not the quick one');
  const last = await acceptOne(api.store, 'b');
  while (!quick.rest.includes(last)) await settled();
  // It has 2 s to read the rest, and the comment that says why.
  slow.socket.resume();
  while (!/: closed, because this reader is too many events behind\n\n/.test(slow.rest.slice(-200)))
    await settled();
  t.notMatch(slow.rest, last);
  await using stuck = await reader(api);
  stuck.socket.pause();
  await change(() => hasClosed() === 2);
  while (api.clock.pending < 2) await settled();
  await api.clock.advance(2 * SECOND_MS);
  stuck.socket.resume();
  await stuck.ended;
  t.notMatch(stuck.rest.slice(-200), /: closed/, 'this one came too late');
  t.same(api.errors, []);
});

test('HEAD, a client that ends its side, and one that sends its next request are answered and go on', async (t) => {
  await using api = await startQuiet();
  const head = await api.call('HEAD', EVENTS);
  t.equal(head.status, 200);
  isProblem(t, await api.call('POST', EVENTS), 405, 'method-not-allowed');
  await using ending = await api.connect();
  ending.socket.end(requestText('GET', EVENTS));
  await untilTold(ending, 1);
  await ending.ended;
  await using next = await reader(api);
  next.write(requestText('GET', '/healthz'));
  while (!next.rest.endsWith('ok')) await settled();
  t.match(next.rest, /0\r\n\r\nHTTP\/1\.1 200 OK/);
});

test('only operators may read, from any door but that for senders', async (t) => {
  await using api = await startApi({ settings: { apiToken: 'all', sendToken: 'send' } });
  isProblem(t, await api.call('GET', EVENTS), 401, 'unauthorized');
  isProblem(
    t,
    await api.call('GET', EVENTS, { headers: { Authorization: 'Bearer send' } }),
    403,
    'forbidden',
  );
  isProblem(t, await api.call('GET', EVENTS, { headers: { Host: 'evil.example' } }), 403, 'not-local');
  await using client = await api.connect();
  client.write(requestText('GET', EVENTS, { Authorization: 'Bearer all' }));
  await untilTold(client, 1);
});
