/** `fieldpost alive`: what it asks for, what it says, and how it ends. */
import t from 'tap';
import { preparedDaemon } from './terminal.js';

const ALIVE = '/api/internal/alive';
const PLC = `${ALIVE}/plc`;
const PROGRAMS = [
  { name: 'plc', withinMs: 600_000, to: null, late: true, lastSignAt: '2026-11-20T09:00:00.000Z' },
  { name: 'backup', withinMs: 93_600_000, to: 'ops@example.com', late: false, lastSignAt: null },
];

/** A daemon that gives this answer to every call, and the command run against it. */
async function run(argv: readonly string[], answer: { status: number; body?: object }) {
  const calls = [`GET ${ALIVE}`, `PUT ${PLC}`, `DELETE ${PLC}`].flatMap((call) => [
    call,
    `${call}?within=10m`,
    `${call}?within=10m&to=ops%2Bplc%40example.com`,
  ]);
  await using daemon = await preparedDaemon(Object.fromEntries(calls.map((call) => [call, answer])));
  const { code, out, err } = await daemon.run(['alive', ...argv]);
  return { code, out, err, asked: daemon.asked.map(({ call }) => call) };
}

t.test('a sign: the first is confirmed, further ones say nothing', async (t) => {
  const first = await run(['plc', '--within', '10m'], { status: 201, body: PROGRAMS[0] as object });
  t.same(first, {
    ...{ code: 0, out: 'plc is watched from now on.\n', err: '' },
    asked: [`PUT ${PLC}?within=10m`],
  });
  const next = await run(['plc', '--within', '10m', '--to', 'ops+plc@example.com'], { status: 204 });
  t.same(next, {
    ...{ code: 0, out: '', err: '' },
    asked: [`PUT ${PLC}?within=10m&to=ops%2Bplc%40example.com`],
  });
  const shown = await run(['plc', '--within', '10m', '--json'], { status: 204 });
  t.same(JSON.parse(shown.out), { name: 'plc', done: 'sign' });
});

t.test('off', async (t) => {
  t.same(await run(['plc', '--off'], { status: 204 }), {
    ...{ code: 0, out: 'plc is no longer watched.\n', err: '', asked: [`DELETE ${PLC}`] },
  });
  const answer = { status: 404, body: { title: 'No', status: 404, detail: 'No program "plc" gives signs' } };
  t.match(await run(['plc', '--off'], answer), { code: 65, err: /No program "plc" gives signs/ });
});

t.test('the list', async (t) => {
  const { code, out } = await run([], { status: 200, body: { programs: PROGRAMS } });
  t.equal(code, 0);
  t.equal(
    out,
    [
      'NAME    STATE  WITHIN  LAST SIGN (UTC)      TELLS',
      'plc     late   10m     2026-11-20 09:00:00  the address book',
      'backup  ok     26h     -                    ops@example.com',
      '',
      '2 programs, 1 late.',
      '',
    ].join('\n'),
  );
  t.equal((await run([], { status: 200, body: { programs: [] } })).out, 'No program is watched.\n');
  const shown = await run(['--json'], { status: 200, body: { programs: PROGRAMS } });
  t.same(JSON.parse(shown.out), PROGRAMS);
});

t.test('what cannot be meant is refused before the daemon is asked', async (t) => {
  const CASES = [
    [['plc'], /give --within DURATION, or --off/],
    [['plc', '--off', '--within', '10m'], /--off takes no --within/],
    [['--within', '10m'], /the name of the program is missing/],
    [['--off'], /the name of the program is missing/],
    [['plc', 'backup', '--within', '10m'], /backup/],
  ] as const;
  for (const [argv, words] of CASES) {
    const { code, err, asked } = await run(argv, { status: 204 });
    t.match({ code, err, asked: asked.length }, { code: 64, err: words, asked: 0 }, argv.join(' '));
  }
});

t.test('refusals of the daemon', async (t) => {
  for (const [status, code] of [
    [422, 65],
    [429, 75],
    [507, 75],
  ] as const) {
    const answer = { status, body: { title: 'No', status, detail: 'so it is' } };
    t.match(await run(['plc', '--within', '10m'], answer), { code, err: /so it is/ });
  }
});
