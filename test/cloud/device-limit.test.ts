/** What a device may hand over in a span of time. */
import t from 'tap';
import { FieldpostError } from '../../src/base/errors.js';
import { MINUTE_MS } from '../../src/base/limits.js';
import { DeviceLimit } from '../../src/cloud/device-limit.js';
import { FLEET_DEVICES_MAX } from '../../src/cloud/devices.js';
import { FakeClock } from '../support/clock.js';
import { keptLog } from '../support/system.js';

function limited() {
  const clock = new FakeClock();
  const { log, lines } = keptLog();
  const limit = new DeviceLimit({ spanMs: MINUTE_MS, most: 3, reason: 'three a minute', clock, log });
  /** Takes a new message of this size. */
  const take = (device: string, size = 1) =>
    limit.within(device, size, async (admit) => {
      admit();
      return true;
    });
  return { limit, take, clock, lines };
}

/** A message of size 3 that is under way, until it turns out that it was known. */
function repeated(limit: DeviceLimit) {
  let resolve = () => {};
  const known = new Promise<boolean>((to) => (resolve = () => to(false)));
  const taking = limit.within('pump-3', 3, (admit) => {
    admit();
    return known;
  });
  return {
    async isKnown() {
      resolve();
      await taking;
    },
  };
}

const OVER = { code: 'rate-limited', message: 'three a minute' };

t.test('a device hands over so much in a span, which begins with its first message', async (t) => {
  const { take, clock } = limited();
  await take('pump-3');
  await clock.advance(MINUTE_MS - 1);
  await take('pump-3', 2);
  await t.rejects(take('pump-3'), OVER);
  await take('pump-3', 0);
  await take('pump-4', 3);
  await clock.advance(1);
  await take('pump-3', 2);
  await t.rejects(take('pump-3', 2), OVER);
  await take('pump-3', 1);
});

t.test('more than a whole span has is invalid, and not logged: a retry is no use', async (t) => {
  const { take, lines } = limited();
  await t.rejects(take('pump-3', 4), { code: 'invalid', message: 'three a minute' });
  await take('pump-3', 3);
  t.strictSame(lines, []);
});

t.test('what is under way counts; what is known already, or fails, does not stay counted', async (t) => {
  const { limit, take } = limited();
  const repeat = repeated(limit);
  await t.rejects(take('pump-3'), OVER);
  await repeat.isKnown();
  const failed = limit.within('pump-3', 3, async (admit) => {
    admit();
    throw new Error('no etcd');
  });
  await t.rejects(failed, { message: 'no etcd' });
  await limit.within('pump-3', 9, async () => false);
  await take('pump-3', 3);
});

t.test('what a span gives back does not count for the next one', async (t) => {
  const { limit, take, clock } = limited();
  const repeat = repeated(limit);
  await clock.advance(MINUTE_MS);
  await take('pump-3', 3);
  await repeat.isKnown();
  await t.rejects(take('pump-3'), OVER);
});

t.test('the first refusal of a span is logged, of whatever kind', async (t) => {
  const { limit, take, clock, lines } = limited();
  const full = new FieldpostError('queue-full', 'the outbox is full');
  for (const error of [full, full, new FieldpostError('invalid', 'bad'), new Error('bug')])
    await t.rejects(
      limit.within('pump-3', 1, async () => {
        throw error;
      }),
      error,
    );
  await take('pump-3', 3);
  await t.rejects(take('pump-3'), OVER);
  await take('pump-4', 3);
  await t.rejects(take('pump-4'), OVER);
  await clock.advance(MINUTE_MS);
  await take('pump-3', 3);
  await t.rejects(take('pump-3'), OVER);
  t.match(lines, [
    'device limited device=pump-3 reason="the outbox is full"',
    'device limited device=pump-4 reason="three a minute"',
    'device limited device=pump-3 reason="three a minute"',
  ]);
  t.equal(lines.length, 3);
});

t.test('it remembers as many devices as a fleet has', async (t) => {
  const { take } = limited();
  await take('first', 3);
  for (let n = 2; n <= FLEET_DEVICES_MAX; n++) await take(`pump-${n}`);
  await t.rejects(take('first'), OVER);
  await take('one more');
  await take('first', 3);
});
