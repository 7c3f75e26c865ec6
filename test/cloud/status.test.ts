/** What a device says of itself, and what of it is ignored. */
import t from 'tap';
import { type DeviceStatus, keptStatus, NO_STATUS, needsHelp, statusOf } from '../../src/cloud/presence.js';

const QUEUE = { queued: 3, deferred: 2, failed: 1 };
const FULL = { version: '1.2.3', queue: QUEUE, relay: 'failing', link: 'unsteady' };

t.test('a whole report is taken', async (t) => {
  t.strictSame(statusOf({ ...FULL, state: 'running', other: 1 }), FULL);
  t.strictSame(statusOf({}), NO_STATUS);
});

t.test('what has the wrong type or length is ignored, and the rest is taken', async (t) => {
  for (const wrong of [null, 1, true, {}, [], ['ok'], '', ' ', 'x'.repeat(1000)]) {
    for (const member of ['version', 'relay', 'link'] as const) {
      t.strictSame(statusOf({ ...FULL, [member]: wrong }), { ...FULL, [member]: null }, `${member} ${wrong}`);
    }
  }
  const counts = [null, '1', -1, 0.5, 2 ** 60, [1], undefined, Number.NaN];
  const queues = counts.flatMap((wrong) => Object.keys(QUEUE).map((name) => ({ ...QUEUE, [name]: wrong })));
  for (const queue of [...queues, null, 1, 'x', [], [1, 2, 3], {}]) {
    t.strictSame(statusOf({ ...FULL, queue }), { ...FULL, queue: null }, JSON.stringify(queue));
  }
});

t.test('texts become one harmless line; a word of a later version is kept', async (t) => {
  const { version, relay, link } = statusOf({
    version: '1.2\n\u001b[31m3',
    relay: 'throttled',
    link: '\u202efine',
  });
  t.strictSame([version, relay, link], ['1.2 [31m3', 'throttled', 'fine']);
});

t.test('equal reports are one object in memory, whatever differs makes another', async (t) => {
  const first = statusOf(FULL);
  t.equal(keptStatus(first, statusOf(FULL)), first);
  const others: DeviceStatus[] = [
    { ...FULL, version: '1.2.4' },
    { ...FULL, relay: 'ok' },
    { ...FULL, link: null },
    { ...FULL, queue: null },
    ...Object.keys(QUEUE).map((name) => ({ ...FULL, queue: { ...QUEUE, [name]: 9 } })),
  ];
  for (const other of others) {
    t.equal(keptStatus(first, other), other);
    t.equal(keptStatus(other, first), first);
  }
  const empty = { queued: 0, deferred: 0, failed: 0 };
  t.equal(statusOf({ queue: empty }).queue, statusOf({ queue: { ...empty } }).queue, 'most queues are empty');
});

t.test(
  'a person should look after failed messages and a failing relay, and after nothing else',
  async (t) => {
    const cases: readonly (readonly [Partial<DeviceStatus>, boolean])[] = [
      [{}, false],
      [{ relay: 'ok', queue: { queued: 9, deferred: 9, failed: 0 } }, false],
      [{ relay: 'unknown', link: 'offline' }, false],
      [{ relay: 'failing' }, true],
      [{ queue: { queued: 0, deferred: 0, failed: 1 } }, true],
    ];
    for (const [status, expected] of cases) t.equal(needsHelp({ ...NO_STATUS, ...status }), expected);
  },
);
