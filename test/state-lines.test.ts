import { readFileSync } from 'node:fs';
import t from 'tap';
import { type DaemonState, headline, stateLines } from '../src/base/state-lines.js';
import { HEADLINES } from './support/headlines.js';

t.test('the headline, row by row', async (t) => {
  for (const [state, mood, words] of HEADLINES)
    t.same(
      headline(state, (iso) => iso.slice(11, 16)),
      [mood, words],
    );
});

t.test('the headline of a daemon that tells less', async (t) => {
  t.equal(headline({ version: '9' }, String), null);
  const storage = {
    state: 'full',
    reason: 'no room',
    freeBytes: 0,
    damaged: 0,
    newer: [],
    unusable: [],
  } as const;
  t.same(headline({ storage }, String), ['bad', 'messages are refused: the storage is full: no room']);
  // Emails are the rule: what waits is said to wait for the relay.
  const queue = { queued: 1, sending: 0, deferred: 0, failed: 0, oldestAgeMs: 0, bytes: 0, held: false };
  t.same(headline({ queue, relay: { state: 'none', since: null, reason: null } }, String), [
    'uneasy',
    '1 waiting: no relay is configured (FIELDPOST_RELAY)',
  ]);
});

t.test('the quiet stands first, and says what a person must know', async (t) => {
  const relay = { state: 'none', since: null, reason: null };
  const lines = (quiet: object) =>
    stateLines({ relay, quiet } as DaemonState, (iso) => iso.slice(11, 16)).map((line) => line.join(', '));
  const [until, why, by] = ['2026-11-20T14:10:00Z', 'battery swap', 'uid 1000'];
  for (const [quiet, words] of [
    [{ until, why, by, known_to_cloud: true }, 'until 14:10: battery swap (begun by uid 1000)'],
    [
      { until, why: null, by: null, known_to_cloud: false },
      'until 14:10; the cloud does not know it yet, so people may still be told',
    ],
    [
      { until: null, why: null, by: null, known_to_cloud: false },
      'ended, but the cloud does not know it yet',
    ],
  ] as const)
    t.equal(lines(quiet)[0], `quiet, uneasy, ${words}`);
  t.match(lines({ until: null, why: null, by: null, known_to_cloud: true })[0], /^relay, /);
  const only = { quiet: { until, why, by, known_to_cloud: true } };
  t.same(
    headline(only, String),
    ['uneasy', `quiet until ${until}: battery swap`],
    'a daemon that tells less',
  );
});

t.test('the relay and its last mail, and what a page leaves to its pictures and buttons', async (t) => {
  const time = (iso: string) => iso.slice(11, 16);
  const now = '2026-11-20T12:00:00Z';
  const lines = (state: object, isPage = false) =>
    stateLines({ clock: { trusted: true, now }, ...state } as DaemonState, time, isPage).map(
      ([, , words]) => words,
    );
  const since = '2026-11-20T09:00:00Z';
  const relay = {
    state: 'ok',
    since,
    reason: null,
    name: 'mail.example.com:587',
    lastSentAt: '2026-11-20T11:57:00Z',
  };
  t.same(lines({ relay }), ['mail.example.com:587, ok since 09:00', 'last mail sent 3 min ago']);
  t.same(lines({ relay: { ...relay, lastSentAt: null } }), ['mail.example.com:587, ok since 09:00']);
  t.same(
    lines({ relay: { ...relay, lastSentAt: '2026-11-20T12:00:09Z' } }).length,
    1,
    'a clock that went back',
  );
  const failing = { ...relay, state: 'failing', reason: 'mail.example.com:587: no answer', lastSentAt: null };
  t.same(lines({ relay: failing }), ['failing since 09:00: mail.example.com:587: no answer'], 'named once');
  t.same(lines({ relay: { ...relay, state: 'unknown', lastSentAt: null } }), [
    'mail.example.com:587, not tried yet',
  ]);
  const queue = {
    ...{ queued: 0, sending: 0, deferred: 0, failed: 2, oldestAgeMs: 0, bytes: 0, held: true },
    used: { messages: 0, bytes: 0, memoryBytes: 0 },
    limits: { messages: 1, bytes: 1, memoryBytes: null },
  };
  t.match(lines({ queue }).join('\n'), /room: .*fieldpost queue release.*fieldpost queue list/s);
  t.same(lines({ queue }, true), ['empty, 0 bytes on disk', 'delivery is on hold', '2 messages failed']);
});

const MOODS = ['good', 'uneasy', 'bad'];

t.test('the page has a part for each topic', async (t) => {
  const page = readFileSync('src/pages/status/status.ts', 'utf8');
  // A line has its topic in front of its mood.
  const lines = readFileSync('src/base/state-lines.ts', 'utf8').matchAll(/\[\['([a-z ]+)', (?:'|[a-z])/g);
  const topics = [...lines].map(([, topic = '']) => topic).filter((topic) => !MOODS.includes(topic));
  t.ok(topics.length > 8);
  for (const topic of topics) t.ok(page.includes(`'${topic}'`), topic);
});

t.test('the programs that must give signs', async (t) => {
  const linesOf = (count: number, late: readonly string[]) =>
    stateLines({ alive: { count, late } }, (iso) => iso);
  t.same(linesOf(0, []), []);
  t.same(linesOf(1, []), [['programs', 'good', '1 program watched']]);
  t.same(linesOf(2, ['plc']), [['programs', 'bad', 'plc gives no sign; 2 watched']]);
  t.same(linesOf(2, ['a', 'b']), [['programs', 'bad', 'a and b give no sign; 2 watched']]);
  t.same(linesOf(9, ['a', 'b', 'c', 'd']), [
    ['programs', 'bad', 'a, b, c and 1 more give no sign; 9 watched'],
  ]);
});
