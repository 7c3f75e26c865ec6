/** The states that the headline tells apart, and what each face says of them. */

const SINCE = '2026-11-20T14:02:00Z';
const SOON = '2026-11-20T14:16:59Z';
const LATE = '2026-11-20T14:17:00Z';
const none = { queued: 0, sending: 0, deferred: 0, failed: 0, oldestAgeMs: 0, bytes: 0, held: false };
const ok = { state: 'ok', since: SINCE, reason: null };
const failing = { state: 'failing', since: SINCE, reason: 'r:25: does not answer' };
const refusing = { ...failing, state: 'refusing', reason: 'r:25: daily limit', nextTryAt: LATE };
const rate = {
  used: [
    { limit: 30, windowMs: 60_000, sent: 28 },
    { limit: 50, windowMs: 86_400_000, sent: 47 },
  ],
  nextAt: LATE,
};
const noRelay = { state: 'none', since: null, reason: null };
const online = { ...ok, state: 'online', lastHeartbeat: null };
const offline = { ...online, state: 'offline', reason: 'no route to host' };
const disabled = { ...online, state: 'disabled', reason: 'No cloud' };
const mails = { ...none, queued: 2, forCloud: 0 };
const calls = { ...none, queued: 2, forCloud: 2 };
const fine = { state: 'ok', reason: null, damaged: 0, newer: [], unusable: [], freeBytes: 0 } as const;
const noRoom = { ...fine, state: 'full', reason: 'no room' } as const;
const full = { ...mails, full: true, reason: 'it holds 2' };
const bad = { ...ok, state: 'refused', reason: 'X=1: no' };
const quiet = { until: '2026-11-20T14:10:00Z', why: 'battery swap', by: 'uid 1000', known_to_cloud: true };
const people = { count: 4, synced: true, lastSync: null };
const soon = { trusted: true, now: SOON };
const late = { trusted: true, now: LATE };

/** The state, the colour, and the words, with times as `14:02`. */
type Row = readonly [state: object, mood: string, words: string];

const GOOD = { queue: none, relay: ok, link: online, storage: fine };

/** Each row of the table (src/base/state-lines.ts), and rows together. Each changes a state in which all is good. */
const CHANGES: readonly Row[] = [
  // Nothing waits.
  [{}, 'good', 'all is well, nothing waits'],
  [{ link: disabled }, 'good', 'all is well, nothing waits'],
  [{ relay: { ...ok, reason: 'spare:25: no' } }, 'good', 'all is well, nothing waits'],
  [{ relay: noRelay }, 'uneasy', 'nothing waits; no relay is configured (FIELDPOST_RELAY)'],
  [{ relay: failing, clock: late }, 'uneasy', 'nothing waits; r:25: does not answer since 14:02'],
  [{ relay: { ...failing, state: 'unknown' } }, 'uneasy', 'nothing waits; r:25: does not answer'],
  [
    { link: offline },
    'uneasy',
    'nothing waits; the cloud link has been offline since 14:02: no route to host',
  ],
  [{ alive: { count: 3, late: [] } }, 'good', 'all is well, nothing waits'],
  [{ alive: { count: 3, late: ['plc'] } }, 'bad', 'plc gives no sign'],
  [
    { alive: { count: 9, late: ['a', 'b', 'c', 'd', 'e'] }, queue: mails },
    'bad',
    'a, b, c and 2 more give no sign; 2 waiting',
  ],
  [{ queue: { ...none, held: true } }, 'uneasy', 'nothing waits, and delivery is on hold'],
  [{ queue: { ...none, failed: 3 } }, 'uneasy', 'nothing waits; 3 failed'],
  [
    { clock: { trusted: false } },
    'uneasy',
    'nothing waits; the time of day is not confirmed; dates shown may be wrong',
  ],
  [
    { storage: { ...fine, damaged: 2 }, clock: { trusted: false } },
    'bad',
    'nothing waits; 2 pieces of the store could not be read: see damaged/ and names in .damaged',
  ],
  [
    { destinations: people, link: disabled },
    'uneasy',
    'nothing waits; 4 destinations, but without a cloud nobody is told',
  ],
  // The device is quiet: that first, whatever else is so.
  [{ quiet }, 'uneasy', 'quiet until 14:10: battery swap; all is well, nothing waits'],
  [
    { quiet: { ...quiet, why: null, known_to_cloud: false }, queue: mails },
    'uneasy',
    'quiet until 14:10, but the cloud does not know it yet; 2 waiting',
  ],
  [
    { quiet, storage: noRoom },
    'bad',
    'quiet until 14:10: battery swap; messages are refused: the storage is full: no room',
  ],
  [{ quiet: { ...quiet, until: null, why: null } }, 'good', 'all is well, nothing waits'],
  // Emails wait: for the relay, whatever the cloud does.
  [{ queue: mails }, 'good', '2 waiting'],
  [{ queue: mails, relay: { ...ok, state: 'unknown' } }, 'good', '2 waiting'],
  [{ queue: { ...mails, deferred: 7 } }, 'uneasy', '9 waiting, 7 of them deferred'],
  [{ queue: { ...mails, deferred: 7, failed: 8 } }, 'uneasy', '9 waiting, 7 of them deferred; 8 failed'],
  [{ queue: { ...mails, failed: 8 } }, 'uneasy', '2 waiting; 8 failed'],
  [{ queue: { ...mails, held: true }, relay: failing }, 'uneasy', '2 waiting: delivery is on hold'],
  [{ queue: mails, relay: noRelay }, 'uneasy', '2 waiting: no relay is configured (FIELDPOST_RELAY)'],
  [
    { queue: mails, relay: noRelay, link: offline },
    'uneasy',
    '2 waiting: no relay is configured (FIELDPOST_RELAY)',
  ],
  [{ queue: mails, relay: failing }, 'uneasy', '2 waiting: r:25: does not answer since 14:02'],
  [{ queue: mails, relay: failing, clock: soon }, 'uneasy', '2 waiting: r:25: does not answer since 14:02'],
  [{ queue: mails, relay: failing, clock: late }, 'bad', '2 waiting: r:25: does not answer since 14:02'],
  [
    { queue: mails, relay: failing, link: offline, clock: soon },
    'uneasy',
    '2 waiting: r:25: does not answer since 14:02',
  ],
  [
    { queue: mails, relay: refusing, clock: soon },
    'uneasy',
    '2 waiting: r:25: daily limit since 14:02; next try 14:17',
  ],
  [
    { queue: mails, relay: refusing, clock: late },
    'bad',
    '2 waiting: r:25: daily limit since 14:02; next try 14:17',
  ],
  [
    { queue: { ...mails, failed: 8 }, relay: failing },
    'uneasy',
    '2 waiting: r:25: does not answer since 14:02; 8 failed',
  ],
  [
    { queue: mails, relay: { ...ok, reason: 'under way for 40 s' }, clock: late },
    'uneasy',
    '2 waiting: under way for 40 s',
  ],
  [{ queue: mails, relay: { ...ok, rate: { ...rate, nextAt: null } } }, 'good', '2 waiting'],
  [
    { queue: mails, relay: { ...ok, rate } },
    'uneasy',
    '2 waiting: the relay gets at most 50 mails a day (FIELDPOST_RELAY_RATE); the next may go at 14:17',
  ],
  [
    { queue: mails, relay: { ...ok, rate: { ...rate, used: rate.used.slice(0, 1) } } },
    'uneasy',
    '2 waiting: the relay gets at most 30 mails a minute (FIELDPOST_RELAY_RATE); the next may go at 14:17',
  ],
  [{ queue: mails, relay: { ...failing, rate } }, 'uneasy', '2 waiting: r:25: does not answer since 14:02'],
  [{ relay: { ...ok, rate } }, 'good', 'all is well, nothing waits'],
  [
    { queue: mails, link: offline },
    'uneasy',
    'the cloud link has been offline since 14:02: no route to host; 2 waiting',
  ],
  // SMS, calls and pushes wait: for the cloud, whatever the relay does.
  [{ queue: calls }, 'good', '2 waiting'],
  [{ queue: calls, link: disabled }, 'uneasy', '2 waiting: no cloud is configured (FIELDPOST_CLOUD)'],
  [
    { queue: calls, link: offline, clock: soon },
    'uneasy',
    '2 waiting: the cloud link has been offline since 14:02: no route to host',
  ],
  [
    { queue: calls, link: offline, clock: late },
    'bad',
    '2 waiting: the cloud link has been offline since 14:02: no route to host',
  ],
  [
    { queue: calls, link: offline, relay: failing },
    'uneasy',
    '2 waiting: the cloud link has been offline since 14:02: no route to host',
  ],
  [
    { queue: calls, link: { ...online, reason: 'messages wait: 503' } },
    'uneasy',
    '2 waiting: messages wait: 503',
  ],
  [{ queue: calls, relay: noRelay }, 'uneasy', 'no relay is configured (FIELDPOST_RELAY); 2 waiting'],
  // Both.
  [
    { queue: { ...calls, forCloud: 1 }, relay: failing, link: offline, clock: late },
    'bad',
    '2 waiting: r:25: does not answer since 14:02; the cloud link has been offline since 14:02: no route to host',
  ],
  [
    { queue: { ...calls, forCloud: 1 }, relay: noRelay, link: offline, clock: late },
    'bad',
    '2 waiting: no relay is configured (FIELDPOST_RELAY); the cloud link has been offline since 14:02: no route to host',
  ],
  // Something is refused: that, and its cause.
  [{ storage: noRoom }, 'bad', 'messages are refused: the storage is full: no room'],
  [
    { storage: noRoom, queue: { ...full, failed: 1 } },
    'bad',
    'messages are refused: the storage is full: no room; 2 waiting; 1 failed',
  ],
  [
    { queue: full, relay: failing },
    'bad',
    'messages are refused: the queue is full: it holds 2; 2 waiting: r:25: does not answer since 14:02',
  ],
  [
    { queue: { ...full, held: true, failed: 1 } },
    'bad',
    'messages are refused: the queue is full: it holds 2; 2 waiting: delivery is on hold; 1 failed',
  ],
  [{ settings: bad }, 'bad', 'the new settings are refused: X=1: no'],
  [
    { settings: bad, queue: mails, relay: failing },
    'bad',
    'the new settings are refused: X=1: no; 2 waiting: r:25: does not answer since 14:02',
  ],
];

/** The same with the whole state. */
export const HEADLINES = CHANGES.map(([change, mood, words]): Row => [{ ...GOOD, ...change }, mood, words]);

/** The words as a face may say them: each has its own way to show a time. */
export function spoken(words: string, time: string): RegExp {
  const exact = words.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
  return new RegExp(`^${exact.replace(/14:\d\d/g, time)}$`, 'im');
}
