/** `fieldpost quiet`, `lastword`, `drill` and `destinations test`: what they ask for, what they say, and how they end. */
import t from 'tap';
import { preparedDaemon } from './terminal.js';

const QUIET = '/api/internal/quiet';
const WORD = '/api/internal/lastword';
const DRILL = '/api/internal/drill';
const TEST = '/api/internal/offline_notification_destinations/1/test';
const BEGUN = {
  until: '2026-11-20T11:00:00.000Z',
  ...{ why: 'battery \u001b[2Jswap', by: 'uid 1000', known_to_cloud: true, reason: null },
};
const NONE = { until: null, why: null, by: null, known_to_cloud: true, reason: null };
const LATER = ' It is told as soon as the link is back.\n';

/** A daemon that gives this answer to every call, and the command run against it. */
async function run(argv: readonly string[], answer: { status: number; body?: object }) {
  const calls = [
    `GET ${QUIET}`,
    `PUT ${QUIET}`,
    `DELETE ${QUIET}`,
    `PUT ${WORD}`,
    `POST ${DRILL}`,
    `POST ${TEST}`,
  ];
  await using daemon = await preparedDaemon(Object.fromEntries(calls.map((call) => [call, answer])));
  const { code, out, err } = await daemon.run(argv);
  return { code, out, err, asked: daemon.asked.map(({ call, body }) => [call, body]) };
}

const ok = (body: object, status = 200) => ({ status, body });
const problem = (status: number, detail: string) => ({ status, body: { title: 'No', status, detail } });

t.test('quiet: begun, asked for, ended', async (t) => {
  const begun = await run(['quiet', '2h', '--why', 'battery swap'], ok(BEGUN));
  t.same(begun, {
    ...{ code: 0, err: '', out: 'Quiet until 2026-11-20 11:00:00 UTC: battery \\u001b[2Jswap.\n' },
    asked: [[`PUT ${QUIET}`, { for_s: 7200, why: 'battery swap' }]],
  });
  t.same((await run(['quiet', '90500ms'], ok(BEGUN))).asked, [[`PUT ${QUIET}`, { for_s: 91 }]]);
  const asked = await run(['quiet'], ok(BEGUN));
  t.same(
    [asked.code, asked.out],
    [0, 'Quiet until 2026-11-20 11:00:00 UTC: battery \\u001b[2Jswap, begun by uid 1000.\n'],
  );
  t.same(asked.asked, [[`GET ${QUIET}`, null]]);
  const off = await run(['quiet', 'off'], ok(NONE));
  t.same(off, {
    code: 0,
    out: 'This device is no longer quiet.\n',
    err: '',
    asked: [[`DELETE ${QUIET}`, null]],
  });
  t.equal((await run(['quiet'], ok(NONE))).out, 'This device is not quiet.\n');
  t.same(JSON.parse((await run(['quiet', '--json'], ok(BEGUN))).out), BEGUN);
});

t.test('quiet: 75 while the cloud does not know it, so that nobody pulls the battery too soon', async (t) => {
  const unknown = { ...BEGUN, why: null, known_to_cloud: false, reason: 'no route\u001b' };
  const begun = await run(['quiet', '2h'], ok(unknown));
  t.same(begun.code, 75);
  t.equal(
    begun.out,
    `Quiet until 2026-11-20 11:00:00 UTC.\nThe cloud does not know that yet: no route\\u001b.${LATER}`,
  );
  const ended = await run(['quiet', 'off'], ok({ ...NONE, known_to_cloud: false, reason: 'no route' }));
  t.same(
    [ended.code, ended.out],
    [75, `This device is no longer quiet.\nThe cloud does not know that yet: no route.${LATER}`],
  );
  const { reason: _, ...shown } = unknown;
  const asked = await run(['quiet'], ok(shown));
  t.equal(asked.code, 0, 'a question is answered');
  t.match(asked.out, /^Quiet until .*\nThe cloud does not know that yet\. It is told/);
  const json = await run(['quiet', '1h', '--json'], ok(unknown));
  t.equal(json.code, 75);
});

t.test('a last word', async (t) => {
  const said = await run(['lastword', 'mains failed, battery 10 min'], ok({ delivered: true }));
  t.same(said, {
    ...{ code: 0, err: '', out: 'The cloud has it, and tells people now.\n' },
    asked: [[`PUT ${WORD}`, { text: 'mains failed, battery 10 min' }]],
  });
  t.same((await run(['lastword', 'mains', 'failed'], ok({}))).asked, [
    [`PUT ${WORD}`, { text: 'mains failed' }],
  ]);
  t.same(JSON.parse((await run(['lastword', 'x', '--json'], ok({ delivered: true }))).out), {
    delivered: true,
  });
  const failed = await run(
    ['lastword', 'x'],
    problem(503, 'The cloud has not heard it: no route; try again'),
  );
  t.same(
    [failed.code, failed.out, failed.err],
    [75, '', 'fieldpost: The cloud has not heard it: no route; try again\n'],
  );
});

t.test('a drill, for all and for one', async (t) => {
  const all = await run(['drill'], ok({ people: 3 }, 202));
  t.same(all, {
    ...{ code: 0, err: '', out: 'The cloud tells 3 people that this is a test.\n' },
    asked: [[`POST ${DRILL}`, null]],
  });
  const one = await run(['destinations', 'test', '1'], ok({ people: 1 }, 202));
  t.same(one, {
    ...{ code: 0, err: '', out: 'The cloud tells 1 person that this is a test.\n' },
    asked: [[`POST ${TEST}`, null]],
  });
  t.same(JSON.parse((await run(['drill', '--json'], ok({ people: 3 }, 202))).out), { people: 3 });
  t.match(await run(['drill'], ok({ people: 0 }, 202)), { code: 65, out: '', err: /nobody is told/ });
  t.match(await run(['destinations', 'test', '1'], ok({ people: 0 }, 202)), { code: 65, out: '' });
});

t.test('each failure in plain words, with its exit status', async (t) => {
  const commands = [['drill'], ['destinations', 'test', '1'], ['quiet', '1h'], ['lastword', 'x']];
  for (const argv of commands)
    for (const [status, words, code] of [
      [409, 'No cloud is configured (FIELDPOST_CLOUD)', 65],
      [422, 'Nothing was done', 65],
      [503, 'The cloud has not begun the drill: no route', 75],
      [501, 'This cloud has no drill', argv[0] === 'quiet' || argv[0] === 'lastword' ? 75 : 69],
    ] as const)
      t.match(await run(argv, problem(status, words)), { code, out: '', err: `fieldpost: ${words}\n` });
});

t.test('wrong use asks nobody', async (t) => {
  for (const argv of [
    ['quiet', 'on'],
    ['quiet', '2'],
    ['quiet', '8d'],
    ['quiet', '0s'],
    ['quiet', '2h', 'x'],
    ['quiet', '--why', 'x'],
    ['quiet', 'off', '--why', 'x'],
    ['lastword'],
    ['lastword', ' '],
    ['drill', 'x'],
    ['destinations', 'test'],
    ['destinations', 'test', '1', '2'],
    ['destinations', 'test', '1', '--name', 'x'],
  ]) {
    const { code, out, asked } = await run(argv, ok({}));
    t.same([code, out, asked], [64, '', []], argv.join(' '));
  }
  t.match((await run(['quiet', '8d'], ok({}))).err, /8d.*; it takes off, or a duration/);
});
