/** What every store of the cloud's state decides for the sake of people: quiet, delays, last words, reminders, mails. */
import type { Test } from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { CLOUD_GRACE_MS, NO_STATUS, type Report } from '../../src/cloud/presence.js';
import { DELAYS } from '../support/fleet-world.js';
import { Bench, EVERY_MS, ID, SLACK_MS } from './fleet-bench.js';
import type { Place } from './fleet-stores.js';

const FAILING = { ...NO_STATUS, relay: 'failing', queue: { queued: 3, deferred: 0, failed: 0 } };
const sent = (bootId: string, uptimeMs: number): Partial<Report> => ({ sent: { bootId, uptimeMs } });

/** Tries a store: each test has one of its own. */
export function testPeople(t: Test, open: () => Place): void {
  t.test(
    'quiet: nobody is told until its end, also over a restart; then of a device that is silent',
    async (t) => {
      await using bench = await Bench.start(open);
      const { watch } = bench.fleet;
      await bench.steady(MINUTE_MS, ID);
      const untilMs = bench.outside.clock.wallMs() + 2 * HOUR_MS;
      await bench.until(watch.quiet(ID, { untilMs, why: 'battery swap' }));
      await bench.until(watch.quiet(ID, { untilMs: untilMs + SECOND_MS, why: 'battery swap' }));
      await bench.advance(SECOND_MS);
      t.strictSame(bench.told, [`quiet ${ID}`], 'once');
      t.match(bench.newsOf('quiet'), { untilMs, why: 'battery swap' });
      await bench.advance(HOUR_MS);
      await bench.restart();
      t.match(bench.sighting()?.marks.quiet, { untilMs, why: 'battery swap' });
      await bench.advance(HOUR_MS - 2 * MINUTE_MS);
      t.strictSame(bench.told, [`quiet ${ID}`]);
      t.equal(bench.sighting()?.state, 'online', 'it is quiet, not offline');
      await bench.advance(2 * MINUTE_MS + SLACK_MS);
      t.strictSame(bench.told, [`quiet ${ID}`, `silent ${ID}`]);
      await bench.beat();
      t.equal(bench.told.at(-1), `back ${ID}`);
    },
  );

  t.test('quiet: a device that comes and goes in it, and is online at its end, is no news', async (t) => {
    await using bench = await Bench.start(open);
    await bench.beat(ID, { quiet: { forMs: HOUR_MS, why: null } });
    await bench.advance(20 * MINUTE_MS);
    await bench.steady(2 * HOUR_MS, ID);
    t.strictSame(bench.told, [`quiet ${ID}`]);
    await bench.advance(20 * MINUTE_MS);
    t.equal(bench.told.at(-1), `silent ${ID}`, 'it is watched again');
  });

  t.test('quiet: its end can be said; of an unknown device nothing can', async (t) => {
    await using bench = await Bench.start(open);
    await bench.beat(ID, { quiet: { forMs: DAY_MS, why: null } });
    await bench.beat(ID, { quiet: { forMs: 0, why: null } });
    t.equal(bench.sighting()?.marks.quiet, null);
    await bench.advance(DELAYS.delayMs + SLACK_MS);
    t.strictSame(bench.told, [`quiet ${ID}`, `silent ${ID}`]);
    await bench.beat(ID, { quiet: { forMs: 30 * DAY_MS, why: null } });
    const endMs = (bench.sighting()?.marks.quiet?.untilMs ?? 0) - bench.outside.clock.wallMs();
    t.ok(endMs <= 7 * DAY_MS, 'at most a week');
    await t.rejects(bench.fleet.watch.quiet('unknown', null), { code: 'conflict' });
    await t.rejects(bench.fleet.watch.drill('unknown', null), { code: 'conflict' });
  });

  t.test('delay: that of the document counts, and a long one is not damped', async (t) => {
    await using bench = await Bench.start(open);
    const { documents } = bench.fleet;
    const etag = await documents.put(ID, { delay: '2h', destinations: [] }, { 'if-none-match': '*' });
    for (let times = 1; times <= 3; times++) {
      await bench.beat();
      await bench.advance(2 * HOUR_MS - MINUTE_MS);
      t.equal(bench.told.length, 2 * (times - 1), 'not before the delay');
      await bench.advance(MINUTE_MS + SLACK_MS);
      t.equal(bench.told.at(-1), `silent ${ID}`);
      await bench.beat();
    }
    await documents.put(ID, { delay: '5m', destinations: [] }, { 'if-match': etag });
    await bench.steady(3 * HOUR_MS, ID);
    await bench.advance(5 * MINUTE_MS - EVERY_MS);
    t.equal(bench.told.at(-1), `back ${ID}`);
    await bench.advance(EVERY_MS + SLACK_MS);
    t.equal(bench.told.at(-1), `silent ${ID}`);
  });

  t.test('delay: one of days goes on over a restart, but for its last day', async (t) => {
    await using bench = await Bench.start(open);
    await bench.fleet.documents.put(ID, { delay: '3d', destinations: [] }, { 'if-none-match': '*' });
    await bench.beat();
    await bench.restart(DAY_MS);
    await bench.restart(DAY_MS + 20 * HOUR_MS);
    await bench.advance(23 * HOUR_MS);
    t.strictSame(bench.told, [], 'it had no day to call in');
    await bench.advance(HOUR_MS + CLOUD_GRACE_MS + SLACK_MS);
    t.strictSame(bench.told, [`silent ${ID}`]);
  });

  t.test('last word: told at once and once, and again with the silence that follows', async (t) => {
    await using bench = await Bench.start(open);
    await bench.beat();
    const last = 'mains failed, battery 10 min';
    await bench.beat(ID, { last });
    await bench.beat(ID, { last });
    t.strictSame(bench.told, [`word ${ID}`], 'the answer to the first may have been lost');
    await bench.steady(10 * MINUTE_MS, ID);
    await bench.restart();
    await bench.advance(CLOUD_GRACE_MS + DELAYS.delayMs + SLACK_MS);
    t.match(bench.newsOf('silent'), { word: last });
    await bench.steady(2 * HOUR_MS, ID);
    await bench.advance(DELAYS.delayMs + SLACK_MS);
    t.notOk('word' in bench.newsOf('silent'), 'it belongs to that silence only');
  });

  t.test('why: it ran throughout, it restarted, it came and went', async (t) => {
    await using bench = await Bench.start(open);
    const outage = async (ms: number, after: Partial<Report>, isRestart = false) => {
      if (isRestart) await bench.restart();
      await bench.advance(ms);
      await bench.beat(ID, after);
      return bench.newsOf('back');
    };
    await bench.beat(ID, sent('a', HOUR_MS));
    t.match(await outage(10 * MINUTE_MS, sent('a', 2 * HOUR_MS)), { why: { kind: 'ran' } });
    const second = await outage(20 * MINUTE_MS, sent('b', 40 * SECOND_MS));
    t.match(second, { why: { kind: 'restarted', upMs: 40 * SECOND_MS }, flaps: { times: 2 } });
    await bench.steady(HOUR_MS, ID);
    await bench.beat(ID, sent('c', MINUTE_MS));
    const later = await outage(HOUR_MS, sent('c', 2 * HOUR_MS), true);
    t.match(later, { why: { kind: 'ran' } }, 'also if the cloud was restarted meanwhile');
    t.notOk('flaps' in later, 'it was steady in between');
    await bench.steady(2 * HOUR_MS, ID);
    await bench.beat(ID, { ...sent('c', 3 * HOUR_MS), said: 'stopping' });
    const planned = await outage(HOUR_MS, sent('c', 4 * HOUR_MS));
    t.notOk('why' in planned, 'it was stopped, and no network was away');
  });

  t.test('reminders: after a day and after a week, each once, and none after the end', async (t) => {
    await using bench = await Bench.start(open);
    await bench.beat();
    await bench.advance(DELAYS.delayMs + SLACK_MS);
    /** The machine sleeps: a day of checks would take too long. */
    const pass = async (ms: number) => {
      bench.outside.clock.suspend(ms);
      await bench.advance(2 * MINUTE_MS);
    };
    await pass(23 * HOUR_MS);
    t.strictSame(bench.told, [`silent ${ID}`]);
    await pass(HOUR_MS);
    t.strictSame(bench.told, [`silent ${ID}`, `still ${ID}`]);
    await bench.restart();
    await pass(5 * DAY_MS);
    t.equal(bench.told.length, 2);
    await pass(DAY_MS + HOUR_MS);
    t.strictSame(bench.told.slice(2), [`still ${ID}`]);
    await pass(14 * DAY_MS);
    t.equal(bench.told.length, 3);
    await bench.beat();
    await bench.steady(HOUR_MS, ID);
    t.equal(bench.told.length, 4);
  });

  t.test('mails that do not leave are told after an hour, and when they leave again', async (t) => {
    await using bench = await Bench.start(open);
    const report = (status: Report['status'], ms: number) =>
      bench.steadyWith(ms, ID, status === undefined ? {} : { status });
    await report(FAILING, 50 * MINUTE_MS);
    await report(NO_STATUS, MINUTE_MS);
    await report(FAILING, 55 * MINUTE_MS);
    t.strictSame(bench.told, [], 'not an hour without a break');
    await bench.restart();
    await report(FAILING, 10 * MINUTE_MS);
    t.strictSame(bench.told, [`stuck ${ID}`]);
    t.match(bench.newsOf('stuck'), { relay: 'failing', failed: 0 });
    await report(FAILING, 3 * HOUR_MS);
    t.equal(bench.told.length, 1, 'once');
    await report(NO_STATUS, MINUTE_MS);
    t.strictSame(bench.told, [`stuck ${ID}`, `flows ${ID}`]);
  });

  t.test('mails: a relay that goes down after messages have failed hides no end', async (t) => {
    await using bench = await Bench.start(open);
    const failed = { ...NO_STATUS, queue: { queued: 0, deferred: 0, failed: 1 } };
    await bench.steadyWith(HOUR_MS + MINUTE_MS, ID, { status: failed });
    t.strictSame(bench.told, [`stuck ${ID}`]);
    await bench.steadyWith(10 * MINUTE_MS, ID, { status: { ...failed, relay: 'failing' } });
    await bench.restart();
    await bench.steadyWith(MINUTE_MS, ID, { status: NO_STATUS });
    t.strictSame(bench.told, [`stuck ${ID}`, `flows ${ID}`]);
  });

  t.test('a drill is told; its links last for a day', async (t) => {
    await using bench = await Bench.start(open);
    await bench.beat();
    await bench.until(bench.fleet.watch.drill(ID, null));
    const key = () => bench.sighting()?.marks.drill?.key;
    const first = key();
    await bench.until(bench.fleet.watch.drill(ID, 'x'));
    await bench.advance(SECOND_MS);
    t.match(bench.newsOf('drill'), { key: first, uid: 'x' });
    await bench.restart(DAY_MS);
    await bench.until(bench.fleet.watch.drill(ID, null));
    t.not(key(), first);
    t.match(key(), /^[0-9a-f]{32}$/);
  });
}
