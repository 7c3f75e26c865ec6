/** What must be said at once: it waits for no pause and no heartbeat that hangs, and is said until the cloud has heard it. */
import t from 'tap';
import { HOUR_MS, SECOND_MS } from '../../src/base/limits.js';
import { CloudError } from '../../src/base/retry/call-error.js';
import type { HeartbeatAnswer, HeartbeatReport } from '../../src/device/link/client.js';
import { Link, type Untold } from '../../src/device/link/link.js';
import { FakeClock, settled } from '../support/clock.js';

const SETTINGS = { heartbeatMs: 30 * SECOND_MS, backoffMinMs: SECOND_MS, backoffMaxMs: 5 * 60 * SECOND_MS };

/** A heartbeat under way. */
interface Asked {
  readonly report: HeartbeatReport;
  readonly signal: AbortSignal;
  answer(answer?: HeartbeatAnswer): void;
  fail(reason: string): void;
}

/** A started link; each heartbeat waits for its answer, as long as it is not given up. */
function started() {
  const clock = new FakeClock({ bootMs: HOUR_MS });
  const asked: Asked[] = [];
  const log = () => undefined;
  const made = { clock, asked, untold: null as Untold | null, online: 0 };
  const link = new Link({
    client: {
      heartbeat: (report, signal) =>
        new Promise((resolve, reject) => {
          const fail = (reason: string) => reject(new CloudError(reason));
          signal.addEventListener('abort', () => fail('the call was given up'));
          asked.push({ report, signal, fail, answer: (answer = {}) => resolve(answer) });
        }),
    },
    config: SETTINGS,
    report: () => ({ queue: { queued: 0, deferred: 0, failed: 0 }, version: '1.2.3' }),
    untold: () => made.untold,
    clock,
    random: () => 0.5,
    log: { debug: log, info: log, warn: log, error: log },
  });
  link.start({ online: () => void made.online++, destinations: () => undefined });
  return Object.assign(made, { link, last: () => asked.at(-1) as Asked });
}

t.test('a last word goes at once, in a heartbeat of its own', async (t) => {
  const made = started();
  made.last().answer();
  await settled();
  t.equal(made.asked.length, 1);
  const said = made.link.sayNow('mains failed');
  t.match(made.last().report, { last: 'mains failed', sequence: 2, state: 'running' });
  made.last().answer();
  t.equal(await said, null);
  await made.clock.advance(30 * SECOND_MS);
  t.equal(made.asked.length, 3);
  t.notOk('last' in made.last().report, 'it is said once');
});

t.test('a heartbeat that hangs is given up for it', async (t) => {
  const made = started();
  const [hung] = made.asked;
  const said = made.link.sayNow('mains failed');
  t.equal(made.asked.length, 2, 'it does not wait');
  t.ok(hung?.signal.aborted);
  made.last().answer();
  t.equal(await said, null);
  t.equal(made.link.view().state, 'online', 'and it counts as any heartbeat does');
  t.equal(made.online, 1);
  await made.clock.advance(30 * SECOND_MS);
  t.equal(made.asked.length, 3, 'one every 30 s, as before');
  t.equal(made.link.view().history.length, 1, 'the one that was given up is no failure');
});

t.test('a word that is under way is not given up for another, nor for a quiet', async (t) => {
  const made = started();
  const said = [made.link.sayNow('one'), made.link.sayNow('two'), made.link.sayNow()];
  await settled();
  t.equal(made.asked.length, 2, 'the first heartbeat, and the first word');
  made.last().answer();
  await settled();
  t.match(made.last().report, { last: 'two' });
  made.last().answer();
  await settled();
  t.notOk('last' in made.last().report);
  made.last().answer();
  t.same(await Promise.all(said), [null, null, null]);
  t.same(
    made.asked.slice(1).map(({ signal }) => signal.aborted),
    [false, false, false],
  );
});

t.test('a word overtakes a quiet, and has it with it', async (t) => {
  const made = started();
  let heard = 0;
  made.untold = { members: { quietMs: 7_200_000, why: 'battery swap' }, heard: () => void heard++ };
  const quiet = made.link.sayNow();
  const word = made.link.sayNow('mains failed');
  t.match(made.last().report, { last: 'mains failed', quietMs: 7_200_000, why: 'battery swap' });
  made.last().answer();
  t.same(await Promise.all([quiet, word]), [null, null]);
  t.equal(heard, 1);
});

t.test('a link that is down says why, and is tried all the same', async (t) => {
  const made = started();
  made.last().fail('no route');
  await settled();
  const word = made.link.sayNow('mains failed');
  t.match(made.last().report, { last: 'mains failed' }, 'within the pause');
  made.last().fail('no name server');
  t.equal(await word, 'no name server');
  t.notOk('last' in made.last().report && made.asked.length > 2, 'and it is not kept');
  await made.clock.advance(HOUR_MS);
  made.last().fail('no route');
  await settled();
  t.equal(made.link.view().state, 'offline');
  const again = made.link.sayNow();
  made.last().answer();
  t.equal(await again, null);
  t.equal(made.link.view().state, 'online');
});

t.test('what the cloud must hear is said until it has heard it, in a goodbye too', async (t) => {
  const made = started();
  made.last().answer();
  await settled();
  let heard = 0;
  made.untold = { members: { quietMs: 0 }, heard: () => void heard++ };
  await made.clock.advance(30 * SECOND_MS);
  t.match(made.last().report, { quietMs: 0 });
  made.last().fail('503');
  await settled();
  t.equal(heard, 0, 'a failed heartbeat may not have arrived');
  await made.clock.advance(30 * SECOND_MS);
  t.match(made.last().report, { quietMs: 0 });
  made.last().answer();
  await settled();
  t.equal(heard, 1);
  const stopped = made.link.stop();
  await settled();
  t.match(made.last().report, { state: 'stopping', quietMs: 0 });
  made.last().answer();
  await stopped;
  t.equal(heard, 2);
});

t.test('a stop ends what is under way, and what waits', async (t) => {
  const made = started();
  const said = [made.link.sayNow('one'), made.link.sayNow('two')];
  await settled();
  const stopped = made.link.stop();
  await settled();
  if (made.last().report.state === 'stopping') made.last().answer();
  await stopped;
  const [one, two] = await Promise.all(said);
  t.equal(one, 'the call was given up');
  t.match(two, /stopping/);
  t.match(await made.link.sayNow('three'), /stopping/);
  t.notOk(made.asked.some(({ report }) => report.last === 'two' || report.last === 'three'));
});
