/** `fieldpost history`: the chart of made-up days, on terminals of any width. */
import t from 'tap';
import { HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import type { HistoryEntry } from '../../src/base/views.js';
import { chartOf } from '../../src/cli/history.js';
import { painter, timesFor } from '../../src/cli/words.js';
import { startApi } from '../support/api.js';
import { envOf, fieldpost, preparedDaemon } from './terminal.js';

const HISTORY = '/api/internal/history';
const END_MS = Date.UTC(2026, 10, 27, 14);
const NONE = { accepted: 0, sent: 0, failed: 0, waitingMax: 0, oldestWaitMs: 0, relayUp: 1, linkUp: null };
const ESCAPE = '\u001b';
const plain = painter({ write: () => undefined, isTTY: false }, {});

/** An outage of ten hours: its mails wait, then leave at once. */
function outage(stepMs: number, count: number): HistoryEntry[] {
  return Array.from({ length: count }, (_, i) => {
    const hours = ((count - 1 - i) * stepMs) / HOUR_MS;
    const isOut = hours >= 20 && hours < 30;
    const row = { ...NONE, at: new Date(END_MS - (count - i) * stepMs).toISOString(), accepted: 4 };
    if (isOut)
      return {
        ...row,
        waitingMax: Math.round(24 * (30 - hours)),
        relayUp: 0,
        oldestWaitMs: (30 - hours) * HOUR_MS,
      };
    return { ...row, sent: hours < 20 && hours >= 19 ? 244 : 4, failed: i === 3 ? 2 : 0 };
  });
}

const linesOf = (rows: HistoryEntry[], step: '10m' | '1h', cells = 80, isUtf8 = true) =>
  chartOf(rows, step, { cells, isUtf8, times: timesFor({ options: {} }), paint: plain });

t.test('the chart shows what waited, was sent and failed, over time', async (t) => {
  t.strictSame(linesOf(outage(10 * MINUTE_MS, 288), '10m', 80, false), [
    '48 hours until 2026-11-27 14:00 UTC, 1 h a column',
    'waiting, the most messages at a time',
    '  240                          ###',
    '                             #####',
    '                          ########',
    '                        ##########',
    'sent, messages in 1 h',
    ' 1464                             #',
    '                                  #',
    '                                  #',
    '      ##################          ####################',
    'failed or expired, messages in 1 h',
    '    2 #',
    '      #',
    'relay ##################..........####################',
    '      ----------+-----------+-----------+-----------+-',
    '                11-26       12:00       11-27',
    '# reached all the time, + a part of it, . not; blank: not known',
    '1152 messages accepted, 2352 sent, 2 failed or expired, the longest wait was 10',
    'h.',
  ]);
});

t.test('a month is shown by days, and time without a row stays blank', async (t) => {
  const lines = linesOf(outage(HOUR_MS, 50), '1h', 60);
  t.equal(lines[0], '30 days until 2026-11-27 14:00 UTC, 1 d a column');
  t.equal(
    lines.find((line) => line.startsWith('relay')),
    `relay ${' '.repeat(27)}█▄█`,
  );
  t.match(lines[lines.findIndex((line) => line.includes('─┴')) + 1], /^ +11-03 +11-13 +11-23$/);
});

t.test('bars, strips and axis fit the terminal', async (t) => {
  for (const step of ['10m', '1h'] as const) {
    const rows = step === '10m' ? outage(10 * MINUTE_MS, 288) : outage(HOUR_MS, 720);
    for (let cells = 50; cells < 400; cells += 3) {
      const lines = linesOf(rows, step, cells);
      t.same(
        lines.filter(({ length }) => length > cells),
        [],
      );
      const drawn = lines.filter((line) => /^(?: |relay)/.test(line));
      const width = Math.max(...drawn.map(({ length }) => length));
      t.ok(width <= cells && width > Math.min(cells, 286) / 2.6, `${width} of ${cells}`);
    }
  }
  t.ok(linesOf(outage(HOUR_MS, 720), '1h', 1).length > 0);
});

t.test('the command asks for a step, and draws without colour unless it is a terminal', async (t) => {
  const rows = outage(HOUR_MS, 48);
  await using daemon = await preparedDaemon({
    [`GET ${HISTORY}?step=10m`]: { status: 200, body: { step: '10m', rows } },
    [`GET ${HISTORY}?step=1h`]: { status: 200, body: { step: '1h', rows } },
  });
  const ascii = await daemon.run(['history']);
  t.equal(ascii.code, 0);
  t.match(ascii.out, /^48 hours until .*\n[^█]*$/);
  const env = { ...daemon.env, LANG: 'de_DE.UTF-8' };
  const month = await daemon.run(['history', '--step=1h'], { env });
  t.match(month.out, /^30 days [\s\S]*█/);
  t.notOk(month.out.includes(ESCAPE));
  t.ok((await daemon.run(['history'], { env, isTTY: true })).out.includes(`${ESCAPE}[31m`));
  t.strictSame(JSON.parse((await daemon.run(['history', '--step', '1h', '--json'])).out), {
    step: '1h',
    rows,
  });
  t.match(await daemon.run(['history', '--step', '1d']), { code: 64, err: /--step is 10m or 1h/ });
});

t.test('--local shows times in the zone of this device', async (t) => {
  const { TZ } = process.env;
  t.teardown(() => {
    process.env.TZ = TZ ?? 'UTC';
  });
  const rows = outage(10 * MINUTE_MS, 288);
  await using daemon = await preparedDaemon({
    [`GET ${HISTORY}?step=10m`]: { status: 200, body: { step: '10m', rows } },
  });
  const shown = async (zone: string) => {
    process.env.TZ = zone;
    const lines = (await daemon.run(['history', '--local'])).out.split('\n');
    const axis = lines.findIndex((line) => line.includes('+--'));
    return [lines[0], ...lines.slice(axis, axis + 2)];
  };
  t.strictSame(await shown('America/New_York'), [
    '48 hours until 2026-11-27 09:00 -05:00, 1 h a column',
    '      ---+-----------+-----------+-----------+--------',
    '         12:00       11-26       12:00       11-27',
  ]);
  t.strictSame(await shown('Asia/Kolkata'), [
    '48 hours until 2026-11-27 19:30 +05:30, 1 h a column',
    '      -----+-----------+-----------+-----------+------',
    '           11-26       12:30       11-27       12:30',
  ]);
});

t.test('before anything is known it says so', async (t) => {
  await using api = await startApi();
  t.match(await fieldpost(['history'], { env: envOf(api) }), { code: 0, out: 'There is no history yet.\n' });
});
