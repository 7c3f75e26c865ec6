/** `fieldpost events`: what it prints, and how it goes on after a restart. */
import t from 'tap';
import { CommandError } from '../../src/cli/command.js';
import { preparedDaemon } from './terminal.js';

const CALL = 'GET /api/internal/events';
const MESSAGE = {
  id: '01A',
  status: 'deferred',
  destination: 'a@x.example',
  lastReply: '450 \u001b[2J łater',
};

const frame = (id: number, event: string, data: object) =>
  `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

/** Runs `fieldpost events` until it has paused so often. */
async function run(argv: readonly string[], bodies: readonly (string | number)[]) {
  const answer = (body: string | number | undefined) =>
    typeof body === 'string'
      ? { status: 200, type: 'text/event-stream', body }
      : { status: body ?? 503, body: {} };
  const answers = { [CALL]: answer(bodies[0]) };
  await using daemon = await preparedDaemon(answers);
  let calls = 1;
  const pause = async () => {
    if (calls === bodies.length) throw new CommandError(130, 'the end');
    answers[CALL] = answer(bodies[calls++]);
  };
  const result = await daemon.run(['events', ...argv], { pause });
  return { ...result, asked: daemon.asked.map(({ headers }) => headers['last-event-id']) };
}

t.test('a line for each change, harmless for a terminal; it goes on where it was', async (t) => {
  const first = frame(7, 'state', { queue: { queued: 1 } }) + frame(8, 'message', MESSAGE);
  const second = `:\n\n${frame(9, 'state', { queue: { queued: 2 } })}${frame(10, 'destinations', { count: 2, etag: '"x"' })}`;
  const { code, out, asked } = await run([], [first, 503, second]);
  t.equal(code, 130);
  const lines = out.trimEnd().split('\n');
  t.match(lines, [
    /^2026-11-20 09:00:00 UTC {2}\S/,
    /UTC {2}01A {2}deferred {2}a@x\.example {2}450 \\u001b\[2J łater$/,
    /UTC {2}address book: 2 destinations$/,
  ]);
  t.equal(lines.length, 3, 'the sentence on the state comes once');
  t.same(asked, [undefined, '8', '8']);
});

t.test('--local shows times in the zone of this device', async (t) => {
  const { TZ } = process.env;
  process.env.TZ = 'America/St_Johns';
  t.teardown(() => {
    process.env.TZ = TZ ?? 'UTC';
  });
  const { out } = await run(['--local'], [frame(7, 'message', MESSAGE)]);
  t.match(out, /^2026-11-20 05:30:00 -03:30 {2}01A /);
});

t.test('--json prints one object a line', async (t) => {
  const { out } = await run(
    ['--json'],
    [frame(7, 'message', MESSAGE) + frame(8, 'destinations', { count: 1 })],
  );
  const [one = '', two = ''] = out.trimEnd().split('\n');
  t.same(JSON.parse(one), { id: '7', event: 'message', data: MESSAGE });
  t.match(JSON.parse(two), { id: '8', event: 'destinations' });
});

t.test('a refusal at the start, or later one that will not pass, ends it', async (t) => {
  t.match(await run([], [503]), { code: 75 });
  t.match(await run([], [403]), { code: 77 });
  t.match(await run([], [frame(7, 'message', MESSAGE), 403]), { code: 77, out: /01A/ });
  t.match(await run([], ['nonsense']), { code: 69 });
});

t.test('it ends when the reader of its output is gone', async (t) => {
  const body = frame(7, 'message', MESSAGE);
  await using daemon = await preparedDaemon({ [CALL]: { status: 200, type: 'text/event-stream', body } });
  let close: () => void = () => undefined;
  const closed = new Promise<void>((resolve) => {
    close = resolve;
  });
  const pause = () => {
    close();
    return new Promise<void>(() => undefined);
  };
  t.match(await daemon.run(['events'], { pause, closed }), { code: 0, out: /01A/ });
});
