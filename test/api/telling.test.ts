/** The calls by which the device speaks to people: over the real quiet, and a cloud that a test steers. */
import t from 'tap';
import { HOUR_MS } from '../../src/base/limits.js';
import { CloudError } from '../../src/base/retry/call-error.js';
import type { DrillAnswer } from '../../src/device/link/client.js';
import { Quiet } from '../../src/device/quiet.js';
import { isProblem, startApi } from '../support/api.js';
import { FakeClock } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { STATE_DIR } from '../support/store.js';
import { keptLog } from '../support/system.js';

const QUIET = '/api/internal/quiet';
const WORD = '/api/internal/lastword';
const DRILL = '/api/internal/drill';
const BOOK = '/api/internal/offline_notification_destinations';
const JOHN = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };

/** An api whose cloud hears while `fault` is null, and the words and drills that it has heard. */
async function start(parts: Partial<Parameters<typeof startApi>[0]> = {}) {
  const clock = new FakeClock();
  const made = {
    fault: null as string | null,
    words: [] as (string | undefined)[],
    drills: [] as (string | null)[],
    answer: (async () => ({ kind: 'begun', people: 2 })) as () => Promise<DrillAnswer>,
  };
  const sayNow = async (word?: string) => {
    if (made.fault !== null) return made.fault;
    made.words.push(word);
    quiet.untold()?.heard();
    return null;
  };
  const disk = new FaultyDisk({ directories: [STATE_DIR] });
  const { log } = keptLog();
  const quiet: Quiet = await Quiet.open({ disk, directory: STATE_DIR, clock, log, cloud: 'c', sayNow });
  const drill = async (uid: string | null) => {
    made.drills.push(uid);
    return await made.answer();
  };
  const api = await startApi({
    clock,
    peerUid: async () => 1000,
    telling: { quiet, sayNow, drill },
    ...parts,
  });
  const ask = (method: string, path: string, body?: unknown) =>
    api.call(method, path, {
      ...(body !== undefined && {
        headers: { 'Content-Type': 'application/json' },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    });
  return Object.assign(made, { api, ask, quietDisk: disk });
}

const NONE = { until: null, why: null, by: null, known_to_cloud: true };

t.test('quiet: begun, shown, shown first in the state, and ended', async (t) => {
  const made = await start();
  await using api = made.api;
  const { ask } = made;
  t.strictSame((await ask('GET', QUIET)).json, NONE);
  const begun = await ask('PUT', QUIET, { for_s: 7200, why: 'battery swap' });
  const shown = {
    until: '2026-11-20T11:00:00.000Z',
    ...{ why: 'battery swap', by: 'uid 1000', known_to_cloud: true },
  };
  t.equal(begun.status, 200);
  t.strictSame(begun.json, { ...shown, reason: null });
  t.strictSame((await ask('GET', QUIET)).json, shown);
  const state = (await ask('GET', '/api/internal/state')).json;
  t.equal(Object.keys(state)[0], 'quiet');
  t.strictSame(state.quiet, shown);
  made.fault = 'no route';
  t.strictSame((await ask('DELETE', QUIET)).json, { ...NONE, known_to_cloud: false, reason: 'no route' });
  t.match((await ask('PUT', QUIET, { for_s: 1 })).json, {
    why: null,
    known_to_cloud: false,
    reason: 'no route',
  });
  await api.clock.advance(1001);
  t.strictSame((await ask('GET', QUIET)).json, NONE);
});

t.test('quiet: what is not one', async (t) => {
  const made = await start();
  await using _ = made.api;
  const { ask } = made;
  const line = 'x'.repeat(120);
  for (const [body, pointers] of [
    [{}, ['/for_s']],
    [{ for_s: 0 }, ['/for_s']],
    [{ for_s: 604_801 }, ['/for_s']],
    [{ for_s: 1.5 }, ['/for_s']],
    [{ for_s: '7200' }, ['/for_s']],
    [{ for_s: null, why: 7 }, ['/for_s', '/why']],
    [{ for_s: 1, why: `${line}x` }, ['/why']],
    [{ for_s: 1, why: 'a\nb' }, ['/why']],
    [{ for_s: 1, why: '  ' }, ['/why']],
    [{ for_s: 1, why: '\ud800' }, ['/why']],
  ] as const) {
    const answer = await ask('PUT', QUIET, body);
    isProblem(t, answer, 422, 'invalid', JSON.stringify(body));
    t.same(
      answer.json.errors.map(({ pointer }: { pointer: string }) => pointer),
      pointers,
    );
  }
  isProblem(t, await ask('PUT', QUIET, []), 400, 'malformed-request');
  t.strictSame((await ask('GET', QUIET)).json, NONE, 'nothing was done');
  for (const body of [
    { for_s: 604_800 },
    { for_s: 1, why: '' },
    { for_s: 1, why: null },
    { for_s: 1, why: line },
  ])
    t.equal((await ask('PUT', QUIET, body)).status, 200, JSON.stringify(body));
});

t.test('quiet: neither the disk nor the cloud takes it', async (t) => {
  const made = await start();
  await using _ = made.api;
  made.fault = 'no route';
  made.quietDisk.onOperation = () => 'error:ENOSPC';
  const answer = await made.ask('PUT', QUIET, { for_s: 60 });
  isProblem(t, answer, 503, 'storage-failed');
  t.match(answer.json.detail, /the disk is full.*a restart forgets it.*no route/);
});

t.test('a last word: delivered, or why not', async (t) => {
  const made = await start();
  await using api = made.api;
  const { ask } = made;
  const answer = await ask('PUT', WORD, { text: 'mains failed, battery 10 min' });
  t.same([answer.status, answer.json], [200, { delivered: true }]);
  t.same(made.words, ['mains failed, battery 10 min']);
  made.fault = 'cloud.example: it cannot be reached';
  const failed = await ask('PUT', WORD, { text: 'x' });
  isProblem(t, failed, 503, 'unavailable');
  t.match(failed.json.detail, 'The cloud has not heard it: cloud.example: it cannot be reached');
  for (const text of [undefined, null, 7, '', ' ', 'a\r\nb', 'x'.repeat(121), '🔋'.repeat(61), '\udc00'])
    isProblem(t, await ask('PUT', WORD, { text }), 422, 'invalid', String(text));
  t.match(api.lines, [
    /<6>.*last word delivered by="uid 1000" word="mains failed, battery 10 min"/,
    /<4>.*last word not delivered by="uid 1000" word=x reason=/,
  ]);
});

t.test('a drill for everybody, and for one person by its uid', async (t) => {
  const made = await start();
  await using api = made.api;
  const { ask } = made;
  await ask('POST', BOOK, JOHN);
  const all = await ask('POST', DRILL);
  t.same([all.status, all.json], [202, { people: 2 }]);
  made.answer = async () => ({ kind: 'begun', people: 1 });
  const one = await ask('POST', `${BOOK}/1/test`);
  t.same([one.status, one.json], [202, { people: 1 }]);
  t.match(made.drills, [null, /^[0-9a-f-]{36}$/]);
  t.equal(made.drills[1], api.book.uidOf(1));
  isProblem(t, await ask('POST', `${BOOK}/2/test`), 404, 'not-found');
  t.equal(made.drills.length, 2);
  t.match(api.lines.slice(1), [
    /drill begun by="uid 1000" people=2/,
    /drill begun by="uid 1000" destination=1 people=1/,
  ]);
});

t.test('a drill that does not begin, in plain words', async (t) => {
  const sync = { synced: true, lastSyncMs: null, reason: null };
  const made = await start({ syncState: () => sync });
  await using _ = made.api;
  const { ask } = made;
  await ask('POST', BOOK, JOHN);
  const test = `${BOOK}/1/test`;
  made.answer = async () => ({ kind: 'unknown' });
  for (const path of [DRILL, test]) {
    const old = await ask('POST', path);
    isProblem(t, old, 501, 'not-offered');
    t.equal(old.json.detail, 'This cloud has no drill');
  }
  made.answer = async () => ({ kind: 'refused', reply: 'It has never called' });
  const refused = await ask('POST', DRILL);
  isProblem(t, refused, 409, 'conflict');
  t.equal(refused.json.detail, 'The cloud refuses: It has never called');
  made.answer = async () => {
    throw new CloudError('cloud.example: no answer');
  };
  const failed = await ask('POST', DRILL);
  isProblem(t, failed, 503, 'unavailable');
  t.match(failed.json.detail, /cloud\.example: no answer/);
  sync.synced = false;
  for (const answer of [{ kind: 'unknown' }, { kind: 'begun', people: 0 }] as const) {
    made.answer = async () => answer;
    const early = await ask('POST', test);
    isProblem(t, early, 409, 'conflict');
    t.match(early.json.detail, /does not have this destination yet/);
  }
});

t.test('without a cloud there is nobody to speak to', async (t) => {
  const made = await start({ telling: null });
  await using _ = made.api;
  const { ask } = made;
  await ask('POST', BOOK, JOHN);
  for (const [method, path, body] of [
    ['PUT', QUIET, { for_s: 60 }],
    ['DELETE', QUIET, undefined],
    ['PUT', WORD, { text: 'x' }],
    ['POST', DRILL, undefined],
    ['POST', `${BOOK}/1/test`, undefined],
  ] as const) {
    const answer = await ask(method, path, body);
    isProblem(t, answer, 409, 'conflict', `${method} ${path}`);
    t.match(answer.json.detail, /No cloud is configured \(FIELDPOST_CLOUD\)/);
  }
  t.strictSame((await ask('GET', QUIET)).json, NONE);
  t.strictSame((await ask('GET', '/api/internal/state')).json.quiet, NONE);
});

t.test('who may only send may do none of this', async (t) => {
  const made = await start({
    settings: { apiToken: 'boss', sendToken: 'send' },
  });
  await using api = made.api;
  for (const [method, path] of [
    ['GET', QUIET],
    ['PUT', QUIET],
    ['DELETE', QUIET],
    ['PUT', WORD],
    ['POST', DRILL],
    ['POST', `${BOOK}/1/test`],
  ] as const)
    isProblem(
      t,
      await api.call(method, path, { headers: { Authorization: 'Bearer send' } }),
      403,
      'forbidden',
    );
  t.same([made.words, made.drills], [[], []]);
});

t.test('a quiet that was begun an hour ago says when it ends, not how long', async (t) => {
  const made = await start();
  await using api = made.api;
  const { json } = await made.ask('PUT', QUIET, { for_s: 7200 });
  await api.clock.advance(HOUR_MS);
  t.equal((await made.ask('GET', QUIET)).json.until, json.until);
});
