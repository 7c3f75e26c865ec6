/** Heartbeats that do not wait for each other: what they are, how many, and what counts. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { fleetId } from './fleet-load.js';
import { type OpenLoad, runOpenLoad } from './open-load.js';
import { seededRandom, testSeed } from './random.js';
import { startCloud } from './reference-cloud.js';

const seed = testSeed();
const LOAD = { devices: 10, rate: 500, warmMs: 0, ms: 200, connections: 4 };
const load = (urls: readonly string[], more: Partial<OpenLoad> = {}) =>
  runOpenLoad({ ...LOAD, urls, random: seededRandom(seed), ...more });

t.test(`the cloud takes them, from every device (seed ${seed})`, async (t) => {
  await using cloud = await startCloud();
  const { due, counts, p50Ms, p99Ms, maxMs } = await load([cloud.url]);
  t.strictSame(counts, { '200': due });
  // 100 are expected, and 50 are five standard deviations.
  t.ok(due > 50 && due < 150, `${due} are due in 200 ms`);
  const { json } = await cloud.call('GET', '/devices');
  t.strictSame(
    json.devices.map(({ id }: { id: string }) => id).sort(),
    Array.from({ length: LOAD.devices }, (_, index) => fleetId(index)),
  );
  t.ok((p50Ms as number) <= (p99Ms as number) && (p99Ms as number) <= (maxMs as number));
});

t.test(`servers are asked in turn, and no answer is waited for (seed ${seed})`, async (t) => {
  const asked = [0, 0];
  const waiting: (() => void)[] = [];
  const servers = asked.map((_, at) =>
    createServer((req, res) => {
      asked[at] = (asked[at] ?? 0) + 1;
      req.resume();
      waiting.push(() => void res.writeHead(at === 0 ? 200 : 503, { 'Content-Length': 2 }).end('{}'));
    }),
  );
  for (const server of servers) await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => servers.forEach((server) => void server.close()));
  const urls = servers.map((server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  // More connections than heartbeats: each arrives although none is answered.
  const loading = load(urls, { connections: 200 });
  while (waiting.length < 50) await new Promise((resolve) => setImmediate(resolve));
  let isOver = false;
  const figures = loading.finally(() => {
    isOver = true;
  });
  while (!isOver) {
    for (const answer of waiting.splice(0)) answer();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { due, counts } = await figures;
  t.strictSame(counts, { '200': asked[0], '503': asked[1] });
  t.equal((asked[0] ?? 0) + (asked[1] ?? 0), due);
  t.ok(Math.abs((asked[0] ?? 0) - (asked[1] ?? 0)) <= 1, asked.join());
});

t.test('an answer 200 must be one of the contract', async (t) => {
  const server = createServer((req, res) => {
    req.resume();
    res.end('<h1>Welcome to our hotel</h1>');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => void server.close());
  const { due, counts } = await load([`http://127.0.0.1:${(server.address() as AddressInfo).port}`]);
  t.strictSame(counts, { 'not the contract': due });
});

t.test(`what is due before the warm-up is over does not count; a refusal does (seed ${seed})`, async (t) => {
  await using cloud = await startCloud();
  const all = await load([cloud.url], { ms: 100, warmMs: 400 });
  t.ok(all.due < 100, `${all.due} of about 250`);
  t.strictSame(all.counts, { '200': all.due });
  await cloud.stop();
  const { due, counts, p99Ms } = await load([cloud.url]);
  t.strictSame(counts, { ECONNREFUSED: due });
  t.equal(p99Ms, null);
});
