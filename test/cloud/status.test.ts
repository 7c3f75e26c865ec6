/** What a device says of itself, and what of it is ignored. */
import t from 'tap';
import { type DeviceStatus, NO_STATUS, needsHelp, statusOf } from '../../src/cloud/presence.js';

const QUEUE = { queued: 3, deferred: 2, failed: 1 };
const FULL = { version: '1.2.3', queue: QUEUE, relay: 'failing', link: 'unsteady', late: ['plc'] };

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

t.test('of the names of late programs, those that are none are left out', async (t) => {
  const late = (value: unknown) => statusOf({ ...FULL, late: value }).late;
  for (const wrong of [null, 'plc', 1, {}, [], [1, null, '', 'x'.repeat(65)]]) t.strictSame(late(wrong), []);
  t.strictSame(late([1, 'plc', 'a\nb']), ['plc', 'a b']);
  t.equal(late(Array.from({ length: 50 }, (_, n) => `p${n}`)).length, 20);
  t.strictSame(statusOf({ late: ['plc'] }), { ...NO_STATUS, late: ['plc'] });
  t.ok(needsHelp({ ...NO_STATUS, late: ['plc'] }));
});

t.test('texts become one harmless line; a word of a later version is kept', async (t) => {
  const { version, relay, link } = statusOf({
    version: '1.2\n\u001b[31m3',
    relay: 'throttled',
    link: '\u202efine',
  });
  t.strictSame([version, relay, link], ['1.2 [31m3', 'throttled', 'fine']);
});

t.test('devices that report nothing, or an empty queue, share one object in memory', async (t) => {
  const empty = { queued: 0, deferred: 0, failed: 0 };
  t.equal(statusOf({ queue: empty }).queue, statusOf({ queue: { ...empty } }).queue, 'most queues are empty');
  for (const body of [{}, { version: '', relay: 7, link: null, queue: {} }])
    t.equal(statusOf(body), NO_STATUS);
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
