/** Lists of `fieldpost`: what they choose, how they fit the terminal, and their times. */
import t from 'tap';
import { listing, message, preparedDaemon } from './terminal.js';

const GET_STATE = 'GET /api/internal/state';

/** Messages for lists: ids with their recipients. */
const MIXED: readonly [id: string, type: number, destination: string][] = [
  ['01E', 2, '+4915112345678'],
  ['01D', 1, 'ANN@example.com'],
  ['01C', 1, 'bob@example.com'],
  ['01B', 1, 'ann@example.com'],
];

t.test('queue: --limit, --to and --type choose of the list, newest first', async (t) => {
  const mixed = MIXED.map(([id, type, destination]) => message(id, { type, destination }));
  await using daemon = await preparedDaemon({
    ...listing('sending', []),
    ...listing('queued', mixed.slice(0, 3), '01C'),
    ...listing('queued', mixed.slice(3), null, '&after=01C'),
    ...listing('deferred', []),
    ...listing('failed', mixed),
    'GET /api/internal/messages?status=failed&limit=2': {
      status: 200,
      body: { messages: mixed.slice(0, 2), next: '01D' },
    },
  });
  const idsOf = async (...argv: string[]) => {
    const { out } = await daemon.run(['queue', 'list', '--json', ...argv]);
    return JSON.parse(out).map(({ id }: { id: string }) => id);
  };
  t.strictSame(await idsOf('--to', 'Ann@Example.com'), ['01D', '01B'], 'also on a later page');
  t.strictSame(await idsOf('--type', 'sms'), ['01E']);
  t.strictSame(await idsOf('--type=email', '--to', '+4915112345678'), []);
  t.strictSame(await idsOf('--to=ann@example.com', '--limit=1'), ['01D']);
  t.strictSame(await idsOf('--status=failed', '--limit=2'), ['01E', '01D']);
  const asked = daemon.asked.filter(({ call }) => call.includes('failed'));
  t.equal(asked.length, 1, 'the daemon is asked for no more');
  t.match(
    (await daemon.run(['queue', '--status=failed', '--limit=2'])).out,
    /\n\nThe newest 2 failed messages\.\n$/,
  );
  t.match((await daemon.run(['queue', '--to=x@example.com'])).out, /^No such message is found\.\n/);
  for (const argv of [
    ['--limit=0'],
    ['--limit=1.5'],
    ['--type=letter'],
    ['flush', '--to=x'],
    ['show', '1', '--limit=1'],
  ])
    t.equal((await daemon.run(['queue', ...argv])).code, 64, argv.join(' '));
});

t.test('queue: a list fits the terminal; into a file it is not cut', async (t) => {
  const subject = 'Temperature of the 漏水 hall is too high 🚨 again';
  const relay = { state: 'failing', since: '2026-11-20T08:00:00.000Z', reason: 'mail.example.com is gone' };
  const queue = { queued: 0, sending: 0, deferred: 1, failed: 0, oldestAgeMs: 1, bytes: 1, held: false };
  const lastReply = '451 4.7.1 Greylisted, please try again in five minutes';
  const deferred = message('01B', {
    status: 'deferred',
    subject,
    lastReply,
    destination: 'maintenance@example.com',
  });
  await using daemon = await preparedDaemon({
    ...listing('sending', []),
    ...listing('queued', []),
    ...listing('deferred', [deferred]),
    [GET_STATE]: { status: 200, body: { relay, queue } },
  });
  const shown = async (world: object) => (await daemon.run(['queue'], world)).out.split('\n');
  const whole = await shown({ columns: 60 });
  t.ok(whole[1]?.endsWith(`maintenance@example.com  ${subject}`));
  t.match(whole[2], /five minutes/);
  for (const columns of [100, 80, 60, 40, 20]) {
    const lines = await shown({ isTTY: true, columns });
    for (const line of lines) t.ok(cellsOf(line) <= columns, `${columns}: ${line}`);
    t.match(lines[1], /^01B .*…$/);
    t.match(lines.join(' ').replace(/\s+/g, ' '), lastReply, 'of the reply nothing is lost');
  }
  t.match(
    (await shown({ isTTY: true, columns: 80 }))[1],
    / mainten\S*… {2}Temp\S*.*…$/,
    'both columns give way',
  );
  t.strictSame(await shown({ isTTY: true }), whole, 'a terminal that does not tell its width');
  const env = { ...daemon.env, NO_COLOR: '1' };
  const state = (await daemon.run(['status'], { env, isTTY: true, columns: 60 })).out;
  t.match(
    state,
    /^relay +failing since 2026-11-20 08:00:00 UTC:\n {7}mail\.example\.com is gone$/m,
    'status, too',
  );
});

/** The width of a line on a terminal, by the two wide characters of the test. */
function cellsOf(line: string): number {
  return [...line].reduce((sum, char) => sum + (/[漏水🚨]/u.test(char) ? 2 : 1), 0);
}

t.test('--local shows times in the zone of this device, with its distance from UTC', async (t) => {
  const { TZ } = process.env;
  // Half an hour, and summer time.
  process.env.TZ = 'America/St_Johns';
  t.teardown(() => {
    process.env.TZ = TZ ?? 'UTC';
  });
  const winter = message('01B', {
    status: 'sent',
    acceptedAt: '2026-11-20T02:04:30.123Z',
    sentAt: '2026-07-20T09:04:30.000Z',
  });
  const relay = { state: 'failing', since: '2026-11-20T09:00:00.000Z', reason: 'gone', nextTryAt: null };
  await using daemon = await preparedDaemon({
    ...listing('sent', [winter]),
    'GET /api/internal/messages/01B': { status: 200, body: winter },
    [GET_STATE]: { status: 200, body: { relay } },
  });
  const out = async (...argv: string[]) => (await daemon.run(argv)).out;
  t.match(await out('queue', '--status=sent'), /ACCEPTED \(UTC\) [\s\S]* 2026-11-20 02:04:30 /);
  t.match(await out('queue', '--status=sent', '--local'), /ACCEPTED \(LOCAL\) [\s\S]* 2026-11-19 22:34:30 /);
  t.match(await out('queue', 'show', '01B'), /^acceptedAt +2026-11-20T02:04:30\.123Z$/m);
  t.match(
    await out('queue', 'show', '01B', '--local'),
    /^acceptedAt +2026-11-19 22:34:30 -03:30\n[\s\S]*^sentAt +2026-07-20 06:34:30 -02:30$/m,
  );
  t.match(await out('status'), /^relay +failing since 2026-11-20 09:00:00 UTC: gone$/m);
  t.match(await out('status', '--local'), /^relay +failing since 2026-11-20 05:30:00 -03:30: gone$/m);
  process.env.TZ = 'Asia/Kolkata';
  t.match(await out('status', '--local'), /since 2026-11-20 14:30:00 \+05:30/);
});
