/** The behaviour of every store of the cloud's state. */
import type { Test } from 'tap';
import { FieldpostError } from '../../src/base/errors.js';
import { digest } from '../../src/base/http/access.js';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { NEWS_WINDOW_MS } from '../../src/cloud/fleet-store.js';
import { CLOUD_GRACE_MS, NO_STATUS } from '../../src/cloud/presence.js';
import { DELAYS } from '../support/fleet-world.js';
import { Bench, EVERY_MS, ID, SLACK_MS } from './fleet-bench.js';
import type { Place } from './fleet-stores.js';

/** A message of a device. */
export const SMS = {
  type: 2,
  destination: '+49151',
  content: { message: 'x' },
  attachments: [],
  ignored: [],
} as const;

/** Tries a store: each test has one of its own. */
export function testStore(t: Test, open: () => Place): void {
  const document = (name: string) => ({ name, destinations: [] });
  const code = (name: string) => ({ code: name });

  t.test('documents: created, replaced and removed under conditions', async (t) => {
    await using bench = await Bench.start(open);
    const { fleet } = bench;
    const { documents } = fleet;
    t.equal(await documents.read(ID), null);
    await t.rejects(documents.put(ID, document('A'), {}), code('precondition-required'));
    await t.rejects(documents.put(ID, document('A'), { 'if-match': '*' }), code('precondition-failed'));
    await t.rejects(documents.put(ID, 'x', { 'if-none-match': '*' }), code('malformed-request'));
    const first = await documents.put(ID, document('A'), { 'if-none-match': '*' });
    t.match(await documents.read(ID), { etag: first, document: document('A') });
    t.match(documents.about(ID), { etag: first, destinations: 0, name: 'A' });
    t.strictSame([...documents.ids], [ID]);
    await t.rejects(
      documents.put(ID, document('B'), { 'if-none-match': '*' }),
      code('precondition-failed'),
      'it is there already',
    );
    const second = await documents.put(ID, document('A'), { 'if-match': first });
    t.not(second, first, 'the same text has another ETag at each PUT');
    await t.rejects(documents.put(ID, document('C'), { 'if-match': first }), code('precondition-failed'));
    const third = await documents.put(ID, document('C'), { 'if-match': '*' });
    t.match(await documents.read(ID), { etag: third, document: document('C') });
    t.equal(documents.about(ID)?.name, 'C');
    await documents.put(ID, { destinations: [] }, { 'if-match': third });
    t.equal(documents.about(ID)?.name, null);
    await documents.remove(ID);
    t.equal(await documents.read(ID), null);
    t.equal(documents.about(ID), null);
    await documents.remove(ID);
    await t.rejects(documents.put(ID, document('C'), { 'if-match': third }), code('precondition-failed'));
  });

  t.test('documents: of two PUTs for one ETag one wins', async (t) => {
    await using bench = await Bench.start(open);
    const { fleet } = bench;
    const etag = await fleet.documents.put(ID, document('A'), { 'if-none-match': '*' });
    const puts = ['B', 'C'].map((name) => fleet.documents.put(ID, document(name), { 'if-match': etag }));
    const outcomes = await Promise.allSettled(puts);
    const won = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    t.equal(won.length, 1);
    t.equal((await fleet.documents.read(ID))?.etag, won[0]);
  });

  t.test('documents: a restart finds them', async (t) => {
    await using bench = await Bench.start(open);
    await bench.fleet.documents.put(ID, document('A'), { 'if-none-match': '*' });
    await bench.restart();
    t.match(await bench.fleet.documents.read(ID), { document: document('A') });
    t.match(bench.fleet.documents.about(ID), { destinations: 0, name: 'A' });
  });

  t.test('presence: silence is told once after the delay, a return at once', async (t) => {
    await using bench = await Bench.start(open);
    await bench.steady(5 * MINUTE_MS, ID, 'pump-4');
    t.strictSame(bench.told, []);
    await bench.steady(DELAYS.delayMs - EVERY_MS - SECOND_MS, 'pump-4');
    t.strictSame(bench.told, [], 'not before the delay');
    await bench.steady(HOUR_MS, 'pump-4');
    t.strictSame(bench.told, [`silent ${ID}`]);
    t.equal(bench.sighting()?.state, 'offline');
    const silent = bench.newsOf('silent');
    const silentMs = 'sinceMs' in silent ? silent.sinceMs : null;
    bench.hear();
    const sinceMs = bench.outside.clock.wallMs();
    await bench.advance(3 * SECOND_MS);
    t.strictSame(bench.told, [`silent ${ID}`, `back ${ID}`]);
    t.match(bench.newsOf('back'), { sinceMs, lastedMs: sinceMs - (silentMs ?? 0) });
    t.equal(bench.sighting()?.state, 'online');
    t.equal(bench.fleet.watch.untold, 0);
  });

  t.test('presence: a long interval of the device makes the delay longer', async (t) => {
    await using bench = await Bench.start(open);
    for (const isRestart of [false, true]) {
      bench.hear(ID, { everyMs: 10 * MINUTE_MS });
      if (isRestart) await bench.restart();
      const graceMs = isRestart ? CLOUD_GRACE_MS : 0;
      await bench.advance(24 * MINUTE_MS + graceMs);
      t.strictSame(bench.told.slice(isRestart ? 2 : 0), []);
      await bench.advance(MINUTE_MS + SLACK_MS);
      t.equal(bench.told.at(-1), `silent ${ID}`);
      bench.hear(ID, { everyMs: 10 * MINUTE_MS });
      await bench.steady(2 * HOUR_MS, ID);
      await bench.restart();
    }
    await bench.steady(HOUR_MS, ID);
    await bench.advance(DELAYS.delayMs + SLACK_MS);
    t.equal(bench.told.length, 5, 'without an interval the delay is that of the cloud');
  });

  t.test('presence: a planned stop has a longer delay', async (t) => {
    await using bench = await Bench.start(open);
    await bench.beat();
    bench.hear(ID, { said: 'stopping' });
    await bench.advance(DELAYS.stopDelayMs - SECOND_MS);
    t.strictSame(bench.told, []);
    await bench.restart();
    await bench.advance(CLOUD_GRACE_MS + DELAYS.stopDelayMs - SECOND_MS);
    t.strictSame(bench.told, [], 'a restart remembers that it was stopping');
    await bench.advance(SECOND_MS + SLACK_MS);
    t.strictSame(bench.told, [`stopped ${ID}`]);
    await bench.beat();
    t.strictSame(bench.told, [`stopped ${ID}`, `back ${ID}`]);
  });

  t.test('presence: a heartbeat that was overtaken changes nothing', async (t) => {
    await using bench = await Bench.start(open);
    const sent = (uptimeMs: number) => ({ sent: { bootId: 'b', uptimeMs } });
    await bench.beat(ID, sent(1000));
    bench.hear(ID, { said: 'stopping', ...sent(3000) });
    // Late, but within the time in which heartbeats may still be on their way to the store.
    bench.hear(ID, sent(2000));
    await bench.advance(5 * SECOND_MS);
    bench.hear(ID, sent(2500));
    await bench.advance(10 * MINUTE_MS);
    t.strictSame(bench.told, [], 'it is stopping still');
    await bench.advance(5 * MINUTE_MS + SLACK_MS);
    t.strictSame(bench.told, [`stopped ${ID}`]);
    // An uptime that restarts, another boot, a device that reports no clock, and one whose clock stands still.
    for (const sent of [10, 10, 20_000]
      .map((uptimeMs) => ({ bootId: 'b', uptimeMs }))
      .concat({ bootId: 'c', uptimeMs: 5 }, null as never)) {
      await bench.beat(ID, { said: 'moved', sent });
      t.equal(bench.sighting()?.state, 'moved', `${sent?.bootId} ${sent?.uptimeMs}`);
      await bench.beat(ID, { sent });
      t.equal(bench.sighting()?.state, 'online', `${sent?.bootId} ${sent?.uptimeMs}`);
    }
  });

  t.test('presence: a device that moved is no news, also if people wait to be told of it', async (t) => {
    await using bench = await Bench.start(open);
    bench.hear();
    bench.outside.refused = new Set([ID]);
    await bench.advance(DELAYS.delayMs + SLACK_MS);
    t.equal(bench.fleet.watch.untold, 1);
    bench.hear(ID, { said: 'moved' });
    await bench.advance(SLACK_MS);
    t.equal(bench.fleet.watch.untold, 0);
    bench.outside.refused = new Set();
    t.match(bench.sighting(), { state: 'moved' });
    await bench.advance(HOUR_MS);
    await bench.restart(HOUR_MS);
    await bench.advance(HOUR_MS);
    t.strictSame(bench.told, []);
    await bench.steady(MINUTE_MS, ID);
    t.equal(bench.sighting()?.state, 'online');
    await bench.advance(DELAYS.delayMs + SLACK_MS);
    t.strictSame(bench.told, [`silent ${ID}`], 'it is back, and watched again');
  });

  t.test('presence: flapping is damped', async (t) => {
    await using bench = await Bench.start(open);
    const silence = async () => {
      bench.hear();
      const fromMs = bench.outside.clock.bootMs();
      const before = bench.told.length;
      while (bench.told.length < before + 1 || bench.told.at(-1) !== `silent ${ID}`) {
        await bench.advance(SECOND_MS);
        if (bench.outside.clock.bootMs() - fromMs > HOUR_MS) break;
      }
      return bench.outside.clock.bootMs() - fromMs;
    };
    await bench.steady(2 * MINUTE_MS, ID);
    const delays = [await silence(), await silence(), await silence()];
    for (const [index, times] of [1, 2, 4].entries()) {
      const ms = delays[index] as number;
      t.ok(ms >= times * DELAYS.delayMs && ms <= times * DELAYS.delayMs + SLACK_MS, `${index}: ${ms} ms`);
    }
    await bench.beat();
    await bench.restart();
    await bench.steady(CLOUD_GRACE_MS + MINUTE_MS, ID);
    const damped = await silence();
    t.ok(damped >= 8 * DELAYS.delayMs && damped <= 8 * DELAYS.delayMs + SLACK_MS, 'also after a restart');
    await bench.steady(HOUR_MS, ID);
    const steady = await silence();
    t.ok(steady <= DELAYS.delayMs + SLACK_MS, 'after a steady hour the delay is short again');
  });

  t.test('presence: a removed device is forgotten with its news, and is new if it calls again', async (t) => {
    await using bench = await Bench.start(open);
    bench.hear();
    bench.outside.refused = new Set([ID]);
    await bench.advance(DELAYS.delayMs + SLACK_MS);
    t.ok(bench.fleet.watch.has(ID));
    await bench.fleet.watch.forget(ID);
    bench.outside.refused = new Set();
    await bench.advance(HOUR_MS);
    t.notOk(bench.fleet.watch.has(ID));
    t.strictSame([...bench.fleet.watch.ids], []);
    t.equal(bench.fleet.watch.untold, 0);
    await bench.beat();
    t.ok(bench.fleet.watch.has(ID));
    t.strictSame(bench.told, [], 'nobody was told, so it is not back');
    await bench.fleet.watch.forget('pump-9');
  });

  t.test('presence: the time of a restart is no silence; silence after it is told', async (t) => {
    await using bench = await Bench.start(open);
    await bench.steady(MINUTE_MS, ID);
    await bench.restart(HOUR_MS);
    await bench.advance(CLOUD_GRACE_MS + DELAYS.delayMs - SECOND_MS);
    t.strictSame(bench.told, []);
    await bench.beat();
    // The machine sleeps, or the process is stopped.
    bench.outside.clock.suspend(HOUR_MS);
    await bench.advance(CLOUD_GRACE_MS + DELAYS.delayMs - SECOND_MS);
    t.strictSame(bench.told, []);
    await bench.advance(2 * DELAYS.delayMs);
    t.strictSame(bench.told, [`silent ${ID}`]);
    await bench.restart();
    await bench.advance(HOUR_MS);
    t.strictSame(bench.told, [`silent ${ID}`], 'once, also after a restart');
    await bench.beat();
    t.strictSame(bench.told, [`silent ${ID}`, `back ${ID}`]);
  });

  t.test('sightings: the state, its moments, and what the device reports', async (t) => {
    await using bench = await Bench.start(open);
    const { clock } = bench.outside;
    t.equal(bench.sighting(), null);
    const firstMs = clock.wallMs();
    const status = { ...NO_STATUS, version: '1.2.3', queue: { queued: 1, deferred: 2, failed: 3 } };
    bench.hear(ID, { status });
    await bench.advance(EVERY_MS);
    t.match(bench.sighting(), { id: ID, state: 'online', heardMs: firstMs, sinceMs: firstMs, status });
    const lastMs = clock.wallMs();
    await bench.beat();
    t.match(bench.sighting(), { heardMs: lastMs, sinceMs: firstMs, status: NO_STATUS }, 'online since then');
    await bench.advance(DELAYS.delayMs + SLACK_MS);
    t.match(bench.sighting(), { state: 'offline', heardMs: lastMs, sinceMs: lastMs });
    const backMs = clock.wallMs();
    await bench.beat();
    t.match(bench.sighting(), { state: 'online', sinceMs: backMs });
    const movedMs = clock.wallMs();
    await bench.beat(ID, { said: 'moved' });
    t.match(bench.sighting(), { id: ID, state: 'moved', sinceMs: movedMs });
    await bench.restart();
    t.match(bench.sighting(), { state: 'moved', sinceMs: movedMs, heardMs: movedMs });
    await bench.beat(ID, { said: 'moved' });
    t.match(bench.sighting(), { state: 'moved', sinceMs: movedMs }, 'said again');
    const againMs = clock.wallMs();
    await bench.beat(ID, { said: 'stopping' });
    t.match(bench.sighting(), { state: 'online', sinceMs: againMs });
  });

  t.test('keys: a device may have two, and the first use of the new one ends the earlier', async (t) => {
    await using bench = await Bench.start(open);
    const opens = (key: string) => bench.fleet.keys.opens(ID, digest(key));
    t.notOk(bench.fleet.keys.has(ID));
    const first = await bench.fleet.keys.make(ID);
    t.ok(opens(first));
    t.notOk(bench.fleet.keys.opens('pump-4', digest(first)));
    const lost = await bench.fleet.keys.make(ID);
    const second = await bench.fleet.keys.make(ID);
    t.notOk(opens(lost), 'a key that was not used is replaced');
    t.ok(opens(first), 'the device may not have its new key yet');
    await bench.restart();
    t.ok(opens(first));
    t.ok(opens(second));
    await bench.advance(SECOND_MS);
    t.notOk(opens(first));
    t.ok(opens(second));
    await bench.restart();
    t.strictSame([...bench.fleet.keys.ids], [ID]);
    t.notOk(opens(first));
    await bench.fleet.keys.remove(ID);
    t.notOk(bench.fleet.keys.has(ID) || opens(second));
    await bench.restart();
    t.notOk(bench.fleet.keys.has(ID) || opens(second));
  });

  t.test('messages: once for a key, and no other content for it', async (t) => {
    await using bench = await Bench.start(open);
    let isOver = false;
    const take = (key: string, hash: string) =>
      bench.fleet.takeMessage(ID, SMS, { key, hash }, () => {
        if (isOver) throw new FieldpostError('rate-limited', 'too many');
      });
    await take('message pump-3 1', 'h1');
    await take('message pump-3 1', 'h1');
    await t.rejects(take('message pump-3 1', 'h2'), code('invalid'));
    await take('message pump-3 2', 'h1');
    await bench.advance(SECOND_MS);
    const accepted = { 'message pump-3 1': 'h1', 'message pump-3 2': 'h1' };
    t.strictSame(Object.fromEntries(bench.outside.journal), accepted);
    await bench.restart();
    await take('message pump-3 1', 'h1');
    await t.rejects(take('message pump-3 2', 'h2'), code('invalid'), 'also after a restart');
    isOver = true;
    t.equal(await take('message pump-3 1', 'h1'), false, 'a known one is not refused');
    await t.rejects(take('message pump-3 2', 'h2'), code('invalid'));
    await t.rejects(take('message pump-3 3', 'h1'), code('rate-limited'));
    await bench.advance(SECOND_MS);
    t.strictSame(Object.fromEntries(bench.outside.journal), accepted);
  });

  t.test('news that cannot be told stay, and are told later in order', async (t) => {
    await using bench = await Bench.start(open);
    await bench.steady(MINUTE_MS, ID, 'pump-4');
    bench.outside.refused = new Set([ID]);
    await bench.steady(DELAYS.delayMs + SLACK_MS, 'pump-4');
    await bench.steady(MINUTE_MS, ID, 'pump-4');
    t.strictSame(bench.told, []);
    t.equal(bench.fleet.watch.untold, 1, 'one device');
    await bench.steady(5 * MINUTE_MS, ID);
    t.strictSame(bench.told, ['silent pump-4'], 'the news of other devices do not wait for it');
    await bench.restart();
    t.equal(bench.fleet.watch.untold, 1);
    bench.outside.refused = new Set();
    await bench.steady(MINUTE_MS, ID);
    t.strictSame(bench.told, ['silent pump-4', `silent ${ID}`, `back ${ID}`]);
    t.equal(bench.fleet.watch.untold, 0);
  });

  t.test('of many news of a device that nobody can be told, the first and the last stay', async (t) => {
    await using bench = await Bench.start(open);
    await bench.steady(MINUTE_MS, ID);
    bench.outside.refused = new Set([ID]);
    for (let times = 1; times <= 4; times++) {
      await bench.advance(8 * DELAYS.delayMs + SLACK_MS);
      await bench.steady(MINUTE_MS, ID);
    }
    await bench.restart();
    bench.outside.refused = new Set();
    await bench.steady(2 * MINUTE_MS, ID);
    t.strictSame(bench.told, [`silent ${ID}`, `back ${ID}`, `silent ${ID}`, `back ${ID}`]);
  });

  t.test('news of a window are told together at its end, also after a refusal and a restart', async (t) => {
    await using bench = await Bench.start(open);
    const ids = Array.from({ length: 70 }, (_, n) => `pump-${n + 10}`);
    const { calls } = bench.outside;
    const largest = () => Math.max(0, ...calls.map(({ all }) => all.length));
    await bench.steady(MINUTE_MS, ...ids);
    bench.outside.isLate = true;
    await bench.advance(DELAYS.delayMs - EVERY_MS + SLACK_MS);
    t.equal(bench.fleet.watch.untold, ids.length);
    t.strictSame(bench.told, [], 'the window is open');
    bench.outside.refused = new Set(ids);
    calls.length = 0;
    await bench.advance(NEWS_WINDOW_MS + SLACK_MS);
    t.equal(largest(), ids.length, 'all of them at once');
    await bench.restart();
    calls.length = 0;
    bench.outside.refused = new Set();
    await bench.steady(MINUTE_MS, 'pump-1');
    t.equal(largest(), ids.length, 'the same after a restart');
    t.strictSame(
      [...bench.told].sort(),
      ids.map((id) => `silent ${id}`),
    );
  });
}
