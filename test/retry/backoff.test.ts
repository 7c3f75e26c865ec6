import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { Backoff, PEER_GOOD_MS, patienceMs, pauseMs, spread } from '../../src/base/retry/backoff.js';
import { FakeClock } from '../support/clock.js';

const ALMOST_1 = 1 - Number.EPSILON;
const PAUSES = { backoffMinMs: SECOND_MS, backoffMaxMs: 5 * MINUTE_MS };

function start() {
  const clock = new FakeClock();
  const made = {
    clock,
    random: 0,
    config: { ...PAUSES },
    /** How long the next try has to wait yet, in seconds. */
    waitS: () => Math.max(0, backoff.readyMs - clock.bootMs()) / SECOND_MS,
  };
  const backoff = new Backoff({ config: made.config, clock, random: () => made.random });
  return Object.assign(made, {
    backoff,
    /** One try that fails, when it may begin. Gives the pause after it, in seconds. */
    fail: async (retryAfterMs?: number) => {
      await clock.advance(made.waitS() * SECOND_MS);
      backoff.begin();
      backoff.failed(retryAfterMs);
      return made.waitS();
    },
  });
}

t.test('pauses double from 1 s to 5 min, with full jitter', async (t) => {
  const wait = (failures: number, random: number) => pauseMs(failures, random, PAUSES);
  t.same(
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((failures) => wait(failures, 0) / SECOND_MS),
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 300],
  );
  t.equal(wait(10_000, 0), 5 * MINUTE_MS, 'no failure count is too high');
  t.equal(wait(4, 0.5), 4 * SECOND_MS);
  t.equal(wait(1, ALMOST_1), 1, 'never nothing at all');
  const gentle = { ...PAUSES, floorMs: 25 * SECOND_MS, leastShare: 0.5 };
  t.same(
    [0, 1, 5, 6, 10].map((failures) => pauseMs(failures, 0, gentle) / SECOND_MS),
    [25, 25, 25, 32, 300],
    'no ceiling is below the floor',
  );
  t.equal(pauseMs(6, ALMOST_1, gentle), 16 * SECOND_MS + 1, 'half of each is waited');
});

t.test('a Retry-After is kept, and up to a tenth more', async (t) => {
  t.equal(patienceMs(MINUTE_MS, 0), MINUTE_MS);
  t.equal(patienceMs(MINUTE_MS, ALMOST_1), 66 * SECOND_MS);
  t.equal(patienceMs(0, ALMOST_1), 0);
});

t.test('a spread wait is up to a tenth shorter or longer', async (t) => {
  const waits = [0, 0.5, ALMOST_1].map((random) => spread(MINUTE_MS, random));
  t.same(waits, [54 * SECOND_MS, MINUTE_MS, 66 * SECOND_MS]);
});

t.test('pauses grow, and start anew only after a good minute', async (t) => {
  const { backoff, clock, config, fail } = start();
  t.equal(backoff.isFailing, false);
  t.same([await fail(), await fail(), await fail()], [1, 2, 4]);
  t.equal(backoff.isFailing, true);
  backoff.good();
  t.equal(backoff.isFailing, false);
  t.ok(backoff.readyMs <= clock.bootMs(), 'good ends the pause');
  await clock.advance(PEER_GOOD_MS - 1);
  backoff.good();
  t.equal(await fail(), 8);
  backoff.good();
  await clock.advance(PEER_GOOD_MS);
  t.equal(await fail(), 1);
  config.backoffMaxMs = 1500;
  t.equal(await fail(), 1.5, 'a reload is followed');
});

t.test('tries that fail together are one failure', async (t) => {
  const { backoff, clock, waitS, fail } = start();
  backoff.begin();
  backoff.begin();
  backoff.failed();
  await clock.advance(500);
  backoff.failed();
  t.equal(waitS(), 0.5);
  t.equal(await fail(), 2);
});

t.test('wake() ends the pause, also during a try', async (t) => {
  const { backoff, waitS, fail } = start();
  await fail();
  await fail();
  backoff.wake();
  t.equal(waitS(), 0);
  t.equal(await fail(), 4, 'wake() was for this try');
  backoff.wake();
  backoff.begin();
  backoff.wake();
  backoff.failed();
  t.equal(waitS(), 0, 'this try began before wake()');
  t.equal(await fail(), 16, 'once');
  backoff.wake();
  backoff.good();
  backoff.failed();
  t.equal(waitS(), 32, 'after a good try wake() is done');
});

t.test('a Retry-After is kept also after wake(), with jitter', async (t) => {
  const made = start();
  const { backoff, clock, waitS, fail } = made;
  made.random = 0.5;
  t.equal(await fail(600_000), 630);
  backoff.wake();
  t.equal(waitS(), 630);
  await clock.advance(SECOND_MS);
  backoff.good();
  t.equal(waitS(), 629, 'another try that went well does not end it');
});
