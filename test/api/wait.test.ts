/** `GET /api/internal/messages/{id}?wait=30`: when it is answered, and what it leaves to others. */
import { test } from 'tap';
import { CONNECTIONS_MAX, POLLS_MAX } from '../../src/base/http/connection.js';
import { SECOND_MS } from '../../src/base/limits.js';
import { POLL_S_MAX } from '../../src/device/api/messages.js';
import { isProblem, MESSAGES, type RawClient, requestText, startApi, type TestApi } from '../support/api.js';
import { settled } from '../support/clock.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { acceptOne, settleAs } from '../support/store.js';

const getText = (id: string, wait: number | string = 30) =>
  requestText('GET', `${MESSAGES}/${id}?wait=${wait}`);

/** Counts the waits that the store knows. */
function countWaits(api: TestApi): { now: number } {
  const count = { now: 0 };
  const { whenFinal } = api.store;
  api.store.whenFinal = async (id, signal) => {
    count.now++;
    await whenFinal.call(api.store, id, signal);
    count.now--;
  };
  return count;
}

/** Resolves when so many wait. */
async function untilWaiting(waits: { now: number }, count: number): Promise<void> {
  while (waits.now !== count) await settled();
}

/** A client that waits for the message. */
async function waiter(api: TestApi, waits: { now: number }, id: string, wait = 30): Promise<RawClient> {
  const client = await api.connect();
  const before = waits.now;
  client.write(getText(id, wait));
  await untilWaiting(waits, before + 1);
  return client;
}

test('it is answered when the message is final', async (t) => {
  await using api = await startApi();
  const waits = countWaits(api);
  const ends: Record<string, (id: string) => Promise<void>> = {
    sent: (id) => settleAs(api.store, id),
    failed: (id) => settleAs(api.store, id, 'failed'),
    expired: (id) => settleAs(api.store, id, 'expired'),
    cancelled: async (id) => void (await api.call('DELETE', `${MESSAGES}/${id}`)),
  };
  for (const [status, end] of Object.entries(ends)) {
    const id = await acceptOne(api.store, status);
    await using client = await waiter(api, waits, id);
    await api.clock.advance(29 * SECOND_MS);
    t.equal(client.rest, '', `${status}: not before`);
    await end(id);
    const answer = await client.answer();
    t.match(answer, { status: 200, json: { id, status, final: true } });
    t.same(answer.json, (await api.call('GET', `${MESSAGES}/${id}`)).json, 'it is the answer of a plain GET');
    t.equal(answer.headers.connection, 'keep-alive');
    client.write(requestText('GET', '/healthz'));
    t.equal((await client.answer()).status, 200, 'the connection goes on');
    const again = await api.call('GET', `${MESSAGES}/${id}?wait=30`);
    t.equal(again.json.status, status, 'a final message is answered at once');
  }
  t.equal(waits.now, 0);
  t.equal(api.clock.pending, 0, 'no timer is left');
});

test('it is answered with the message as it is when the time is up', async (t) => {
  await using api = await startApi();
  const waits = countWaits(api);
  const id = await acceptOne(api.store, 'a');
  for (const wait of [1, POLL_S_MAX]) {
    await using client = await waiter(api, waits, id, wait);
    await api.clock.advance(wait * SECOND_MS - 1);
    t.equal(client.rest, '');
    api.store.claim(id);
    await api.store.settle(id, { kind: 'deferred', reply: '450 later', delayMs: 1000 });
    await api.clock.advance(1);
    const { status, json, headers } = await client.answer();
    t.match(
      { status, json },
      { status: 200, json: { status: 'deferred', final: false, lastReply: '450 later' } },
    );
    t.equal(headers['retry-after'], undefined);
  }
  for (const query of ['', '?wait=0', '?wait=']) {
    const { status } = await api.call('GET', `${MESSAGES}/${id}${query}`);
    t.equal(status, query === '?wait=' ? 422 : 200, query);
  }
  t.equal(waits.now, 0);
});

test('a wait that is not a whole number from 0 to 300 is a 422, an unknown message a 404', async (t) => {
  await using api = await startApi();
  const id = await acceptOne(api.store, 'a');
  for (const wait of ['-1', '301', '1.5', '1e2', 'yes', '', ' 1']) {
    const answer = await api.call('GET', `${MESSAGES}/${id}?wait=${encodeURIComponent(wait)}`);
    isProblem(t, answer, 422, 'invalid', wait);
    t.match(answer.json.errors, [{ pointer: 'wait', detail: /from 0 to 300/ }]);
  }
  isProblem(t, await api.call('GET', `${MESSAGES}/nope?wait=300`), 404, 'not-found');
  isProblem(t, await api.call('GET', `${MESSAGES}/${id}?wait=%`), 400, 'malformed-request');
});

test('a message that is forgotten as soon as it is final tells its outcome all the same', async (t) => {
  await using api = await startApi({ historyMax: 0 });
  const waits = countWaits(api);
  const id = await acceptOne(api.store, 'a');
  await using client = await waiter(api, waits, id);
  await settleAs(api.store, id);
  t.equal(api.store.get(id), undefined);
  t.match((await client.answer()).json, { status: 'sent', final: true });
});

test('a failed message that is retried can be waited for again', async (t) => {
  await using api = await startApi();
  const waits = countWaits(api);
  const id = await acceptOne(api.store, 'a');
  await using client = await waiter(api, waits, id);
  await settleAs(api.store, id, 'failed');
  t.equal((await client.answer()).json.status, 'failed');
  t.equal((await api.call('POST', `${MESSAGES}/${id}/retry`)).status, 202);
  client.write(getText(id));
  await untilWaiting(waits, 1);
  t.equal((await api.call('POST', `${MESSAGES}/${id}/retry`)).status, 202);
  await api.clock.advance(SECOND_MS);
  t.equal(client.rest, '', 'a retry of a message that is not final is no outcome');
  await settleAs(api.store, id);
  t.equal((await client.answer()).json.status, 'sent');
});

test('waits leave the places to others; one wait too many is answered at once', async (t) => {
  await using api = await startApi();
  const waits = countWaits(api);
  const id = await acceptOne(api.store, 'a');
  const clients: RawClient[] = [];
  for (let i = 0; i < POLLS_MAX; i++) clients.push(await waiter(api, waits, id));
  await using oneMore = await api.connect();
  oneMore.write(getText(id));
  const early = await oneMore.answer();
  t.match(early, { status: 200, json: { status: 'queued', final: false }, headers: { 'retry-after': '1' } });
  t.equal(POLLS_MAX, CONNECTIONS_MAX / 2);
  const others: RawClient[] = [];
  // `oneMore` has a place, too.
  for (let i = 1; i < CONNECTIONS_MAX; i++) {
    const client = await api.connect();
    client.write(requestText('GET', '/healthz'));
    t.equal((await client.answer()).headers.connection, 'keep-alive', 'no other client waits for a place');
    others.push(client);
  }
  await using late = await api.connect();
  late.write(requestText('GET', '/healthz'));
  while (api.clock.pending === POLLS_MAX) await settled();
  await api.clock.advance(SECOND_MS);
  t.equal((await late.answer()).status, 200, 'then a silent one gives way');
  await settleAs(api.store, id);
  for (const client of clients) t.equal((await client.answer()).json.status, 'sent', 'never one that waits');
  for (const client of [...clients, ...others]) await client[Symbol.asyncDispose]();
});

test('a wait frees its place for a client that waits for one', async (t) => {
  await using api = await startApi();
  const waits = countWaits(api);
  const id = await acceptOne(api.store, 'a');
  const clients: RawClient[] = [];
  for (let i = 0; i < CONNECTIONS_MAX; i++) {
    const client = await api.connect();
    client.write(requestText('GET', '/healthz'));
    await client.answer();
    clients.push(client);
  }
  await using late = await api.connect();
  late.write(requestText('GET', '/healthz'));
  while (api.clock.pending === 0) await settled();
  clients[0]?.write(getText(id));
  await untilWaiting(waits, 1);
  t.equal((await late.answer()).status, 200);
  for (const client of clients) await client[Symbol.asyncDispose]();
  await untilWaiting(waits, 0);
});

test('a client that leaves ends its wait at once', async (t) => {
  await using api = await startApi();
  const waits = countWaits(api);
  const id = await acceptOne(api.store, 'a');
  const leaves: Record<string, (client: RawClient) => void> = {
    killed: ({ socket }) => socket.destroy(),
    reset: ({ socket }) => socket.resetAndDestroy(),
    halfClosed: ({ socket }) => socket.end(),
  };
  for (const [name, leave] of Object.entries(leaves)) {
    for (let i = 0; i < 2 * POLLS_MAX; i++) {
      const client = await waiter(api, waits, id);
      leave(client);
      await untilWaiting(waits, 0);
      if (name === 'halfClosed') {
        t.match(await client.answer(), { status: 200, json: { final: false } }, 'it gets an answer');
        await client.ended;
      }
      await client[Symbol.asyncDispose]();
    }
    t.equal(api.clock.pending, 0, `${name}: no timer is left`);
  }
  t.same(api.errors, []);
});

test('the next request on the connection, or bytes that are none, end a wait', async (t) => {
  await using api = await startApi();
  const waits = countWaits(api);
  const id = await acceptOne(api.store, 'a');
  await using client = await waiter(api, waits, id);
  client.write(getText(id) + requestText('GET', '/healthz'));
  for (let i = 0; i < 2; i++) t.equal((await client.answer()).json.final, false);
  t.equal((await client.answer()).body, 'ok');
  client.write(getText(id));
  await untilWaiting(waits, 1);
  client.write('nonsense\r\n\r\n');
  t.equal((await client.answer()).json.final, false);
  isProblem(t, await client.answer(), 400, 'malformed-request');
  t.equal(waits.now, 0);
});

test('a stop answers the waits as they are, and no new ones wait', async (t) => {
  await using api = await startApi();
  const waits = countWaits(api);
  const id = await acceptOne(api.store, 'a');
  await using client = await waiter(api, waits, id);
  await using fresh = await api.connect();
  await settled();
  const stopped = api.api.stop(10 * SECOND_MS);
  const answer = await client.answer();
  t.match(answer, { status: 200, json: { final: false }, headers: { connection: 'close' } });
  fresh.write(getText(id));
  t.match(await fresh.answer(), { status: 200, json: { final: false } });
  t.equal(waits.now, 0);
  for (const each of [client, fresh]) await each[Symbol.asyncDispose]();
  await stopped;
});

test('programs that may only send may wait; an unread body does not wait', async (t) => {
  await using api = await startApi({ settings: { apiToken: 'all', sendToken: 'send' } });
  const waits = countWaits(api);
  const id = await acceptOne(api.store, 'a');
  await using client = await api.connect();
  const headers = { Authorization: 'Bearer send' };
  client.write(requestText('GET', `${MESSAGES}/${id}?wait=30`, headers));
  await untilWaiting(waits, 1);
  await settleAs(api.store, id);
  t.equal((await client.answer()).json.status, 'sent');
  const other = await acceptOne(api.store, 'b');
  client.write(requestText('GET', `${MESSAGES}/${other}?wait=30`, headers, 5));
  t.equal((await client.answer()).json.status, 'queued');
});

test('no time limit for silent connections ends a wait', async (t) => {
  await using api = await startApi();
  const waits = countWaits(api);
  const id = await acceptOne(api.store, 'a');
  await using client = await api.connect();
  client.write(requestText('GET', '/healthz'));
  await client.answer();
  t.not(api.timeoutMsOf(client), 0, 'node:http ends a silent connection');
  client.write(getText(id));
  await untilWaiting(waits, 1);
  t.equal(api.timeoutMsOf(client), 0, 'but none that waits');
  await settleAs(api.store, id);
  t.equal((await client.answer()).json.status, 'sent');
  t.not(api.timeoutMsOf(client), 0, 'afterwards the limit is back');
});

test('thousands of waits, of which some leave, end well', async (t) => {
  await using api = await startApi();
  const waits = countWaits(api);
  const seed = testSeed();
  const random = seededRandom(seed);
  const clients = new Map<RawClient, string>();
  const ids: string[] = [];
  let [asked, early, told] = [0, 0, 0];
  const answered = async (client: RawClient) => {
    const { status, json, headers } = await client.answer();
    clients.delete(client);
    t.equal(status, 200) || t.bailout(`seed ${seed}`);
    if (headers['retry-after'] !== undefined) early++;
    else if (json.final) told++;
    await client[Symbol.asyncDispose]();
  };
  const settle = async () => {
    const [id = ''] = ids.splice(Math.floor(random() * ids.length), 1);
    const kind = pick(random, ['sent', 'failed', 'expired'] as const);
    const waiting = [...clients].filter(([, of]) => of === id).map(([client]) => client);
    await settleAs(api.store, id, kind);
    await Promise.all(waiting.map(answered));
  };
  while (asked < 2000) {
    while (ids.length < 20) ids.push(await acceptOne(api.store, 'a'));
    const id = pick(random, ids);
    const roll = random();
    if (roll < 0.75) {
      const client = await api.connect();
      const isFull = waits.now === POLLS_MAX;
      asked++;
      client.write(getText(id, 300));
      if (isFull) await answered(client);
      else {
        clients.set(client, id);
        await untilWaiting(waits, clients.size);
      }
    } else if (roll < 0.9) await settle();
    else {
      const [client] = clients.keys();
      if (client === undefined) continue;
      clients.delete(client);
      await client[Symbol.asyncDispose]();
      await untilWaiting(waits, clients.size);
    }
    t.ok(waits.now <= POLLS_MAX) || t.bailout(`seed ${seed}`);
  }
  while (clients.size > 0) await settle();
  t.ok(early > 0 && told > 500, `${early} answered early, ${told} told the outcome`);
  await untilWaiting(waits, 0);
  t.equal(api.clock.pending, 0);
  t.same(api.errors, []);
});
