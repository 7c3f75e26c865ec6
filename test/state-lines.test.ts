import t from 'tap';
import { type DaemonState, headline } from '../src/state-lines.js';

const SINCE = '2026-11-20T14:02:00Z';
const queue = { queued: 0, sending: 0, deferred: 0, failed: 0, oldestAgeMs: 0, bytes: 0, held: false };
const waits = { ...queue, queued: 1, deferred: 1 };
const ok = { state: 'ok', since: SINCE, reason: null };
const failing = { state: 'failing', since: SINCE, reason: 'mail.example.com does not answer' };
const online = { ...ok, state: 'online', lastHeartbeat: null };
const offline = { ...online, state: 'offline', reason: 'no route to host' };
const none = { state: 'none', since: null, reason: 'No relay' };
const disabled = { ...online, state: 'disabled', reason: 'No cloud' };
const storage = {
  state: 'full',
  reason: 'no room',
  damaged: 0,
  newer: [],
  unusable: [],
  freeBytes: 0,
} as const;

t.test('the headline is the most important fact', async (t) => {
  const well: DaemonState = { queue, relay: ok, link: online };
  const bad: DaemonState = { queue: { ...waits, full: true, reason: 'too many' }, relay: failing };
  for (const [state, mood, words] of [
    [well, 'good', 'all is well, nothing waits'],
    [{ ...bad, storage }, 'bad', 'messages are refused: the storage is full: no room'],
    [bad, 'bad', 'messages are refused: the queue is full: too many'],
    [
      { ...well, queue: waits, settings: { ...failing, state: 'refused' } },
      'bad',
      /^the new settings are refused: mail/,
    ],
    [
      { ...well, queue: { ...waits, held: true }, relay: failing },
      'uneasy',
      '2 waiting: delivery is on hold',
    ],
    [
      { ...well, queue: waits, relay: failing },
      'uneasy',
      '2 waiting: mail.example.com does not answer since 14:02',
    ],
    [{ ...well, queue: waits, link: offline }, 'uneasy', '2 waiting: no route to host since 14:02'],
    [
      { queue: waits, relay: none, link: disabled },
      'uneasy',
      '2 waiting: no relay is configured (FIELDPOST_RELAY)',
    ],
    [{ ...well, queue: { ...queue, queued: 1 } }, 'good', '1 waiting'],
    [{ ...well, queue: waits }, 'uneasy', '2 waiting, 1 of them deferred'],
    [{ ...well, queue: { ...queue, held: true } }, 'uneasy', 'nothing waits, and delivery is on hold'],
    [{ ...well, queue: { ...queue, failed: 3 } }, 'uneasy', 'nothing waits; 3 failed'],
    [
      { ...well, link: offline },
      'uneasy',
      'nothing waits; the cloud link is offline since 14:02: no route to host',
    ],
    [{ ...well, link: disabled }, 'good', 'all is well, nothing waits'],
  ] as const) {
    const said = headline(state, (iso) => iso.slice(11, 16));
    t.equal(said?.[0], mood);
    t.match(said?.[1], words, String(words));
  }
  t.equal(headline({ version: '9' }, String), null);
});
