/** The calls of programs that give signs, over the real watch. */
import t from 'tap';
import { SECOND_MS } from '../../src/base/limits.js';
import { isProblem, startApi } from '../support/api.js';

const ALIVE = '/api/internal/alive';
const PLC = `${ALIVE}/plc-reader`;

t.test(
  'the first sign begins the watch, further ones need no answer, and a late program is shown',
  async (t) => {
    await using api = await startApi();
    t.same((await api.call('GET', ALIVE)).json, { programs: [] });
    const first = await api.call('PUT', `${PLC}?within=10s&to=ops%2Bplc@example.com`);
    const program = {
      ...{ name: 'plc-reader', withinMs: 10_000, to: 'ops+plc@example.com', late: false },
      lastSignAt: '2026-11-20T09:00:00.000Z',
    };
    t.equal(first.status, 201);
    t.same(first.json, program);
    await api.clock.advance(9 * SECOND_MS);
    const next = await api.call('PUT', `${PLC}?within=10s&to=ops%2Bplc@example.com`);
    t.match(next, { status: 204, body: '' });
    await api.clock.advance(10 * SECOND_MS);
    const lastSignAt = '2026-11-20T09:00:09.000Z';
    t.same((await api.call('GET', ALIVE)).json, { programs: [{ ...program, late: true, lastSignAt }] });
    t.match((await api.call('GET', '/api/internal/state')).json, {
      alive: { count: 1, late: ['plc-reader'] },
    });
    const metrics = (await api.call('GET', '/metrics')).body;
    t.match(metrics, /^fieldpost_programs_watched 1$/m);
    t.match(metrics, /^fieldpost_programs_late 1$/m);
    t.equal((await api.call('DELETE', PLC)).status, 204);
    t.match((await api.call('GET', '/api/internal/state')).json, { alive: { count: 0, late: [] } });
    isProblem(t, await api.call('DELETE', PLC), 404, 'not-found');
  },
);

t.test('a body is not needed, and one that comes is not read', async (t) => {
  await using api = await startApi();
  const given = { headers: { 'Content-Type': 'text/plain' }, body: 'hello' };
  t.equal((await api.call('PUT', `${PLC}?within=1h`, given)).status, 201);
});

t.test('each fault of a sign is named', async (t) => {
  await using api = await startApi();
  const detailsOf = async (path: string) => {
    const answer = await api.call('PUT', path);
    isProblem(t, answer, 422, 'invalid');
    return answer.json.errors ?? answer.json.detail;
  };
  const fault = (pointer: string, detail: RegExp) => ({ pointer, detail });
  const CASES = [
    ['', 'within', /^is required: a duration such as/],
    ['?within=10', 'within', /^the unit is missing/],
    ['?within=9s', 'within', /^less than 10s/],
    ['?within=8d', 'within', /^more than 7d/],
    ['?within=soon', 'within', /^not a duration/],
    ['?within=10m&to=', 'to', /^must be exactly one email address/],
    ['?within=10m&to=+31612345678', 'to', /a \+ is written %2B$/],
    ['?within=10m&to=root@localhost', 'to', /whose mail nobody reads$/],
  ] as const;
  for (const [query, pointer, detail] of CASES)
    t.match(await detailsOf(`${PLC}${query}`), [fault(pointer, detail)], query);
  t.match(await detailsOf(`${PLC}?to=x`), [fault('within', /required/), fault('to', /must be/)]);
  for (const name of ['-x', '.', 'a%20b', 'a%2Fb', 'x'.repeat(65)])
    t.match(await detailsOf(`${ALIVE}/${name}?within=10m`), /^The name of a program has/, name);
  isProblem(t, await api.call('PUT', `${PLC}?within=%ff`), 400, 'malformed-request');
  t.same((await api.call('GET', ALIVE)).json.programs, []);
  t.equal((await api.call('PUT', `${ALIVE}/${'x'.repeat(64)}?within=7d`)).status, 201);
});

t.test('a caller who may only send gives signs and ends them, and sees no list', async (t) => {
  await using api = await startApi({ settings: { apiToken: 'all', sendToken: 'some' } });
  const as = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } });
  isProblem(t, await api.call('PUT', `${PLC}?within=10m`), 401, 'unauthorized');
  t.equal((await api.call('PUT', `${PLC}?within=10m`, as('some'))).status, 201);
  isProblem(t, await api.call('GET', ALIVE, as('some')), 403, 'forbidden');
  t.equal((await api.call('GET', ALIVE, as('all'))).json.programs.length, 1);
  t.equal((await api.call('DELETE', PLC, as('some'))).status, 204);
});

t.test('a full or broken disk, and too many programs, as other calls say it', async (t) => {
  await using api = await startApi();
  await api.call('PUT', `${PLC}?within=10m`);
  await api.fillDisk();
  isProblem(t, await api.call('PUT', `${ALIVE}/other?within=10m`), 507, 'storage-full');
  t.equal((await api.call('PUT', `${PLC}?within=10m`)).status, 204, 'a sign writes nothing');
  await api.emptyDisk();
  api.disk.capacityBytes -= (await api.disk.space('/')).freeBytes - 2 ** 19;
  await api.store.look();
  isProblem(t, await api.call('PUT', `${ALIVE}/other?within=10m`), 507, 'storage-full');
  await api.emptyDisk();
  api.disk.onOperation = () => 'error:EIO';
  isProblem(t, await api.call('PUT', `${ALIVE}/other?within=10m`), 503, 'storage-failed');
  api.disk.onOperation = () => 'ok';
  for (let index = 1; index < 100; index++) await api.call('PUT', `${ALIVE}/p${index}?within=10m`);
  const refused = await api.call('PUT', `${ALIVE}/other?within=10m`);
  isProblem(t, refused, 429, 'rate-limited');
  t.equal(refused.headers['retry-after'], '60');
});
