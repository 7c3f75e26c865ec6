/** Presence and its notifications, also with the process killed at every write. Random histories: test/simulation. */
import t from 'tap';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { PRESENCE_WRITE_MS, Watch } from '../../src/cloud/files/watch.js';
import { DIGEST_WINDOW_MS } from '../../src/cloud/fleet-store.js';
import {
  CLOUD_GRACE_MS,
  type DeviceStatus,
  NO_STATUS,
  type Said,
  type Sent,
  type Sighting,
} from '../../src/cloud/presence.js';
import type { Happening } from '../../src/cloud/texts/texts.js';
import { FakeClock } from '../support/clock.js';
import { durable } from '../support/durable.js';
import { FaultyDisk, PowerCutError } from '../support/faulty-disk.js';
import { drawn, keptLog } from '../support/system.js';

const DELAY_MS = 90 * SECOND_MS;
const STOP_DELAY_MS = 15 * MINUTE_MS;
const TICK_MS = DELAY_MS / 10;
const DIRECTORY = '/var/lib';
const ID = 'pump-3';

interface Told {
  readonly id: string;
  readonly atMs: number;
  readonly happening: Happening;
}

/** A watch over many starts: one disk, one clock, and an outbox that knows the news it has had. */
class Bench {
  clock = new FakeClock();
  disk = new FaultyDisk({ directories: [DIRECTORY] });
  readonly told: Told[] = [];
  /** Thrown by the outbox while set. */
  refusal: Error | null = null;
  /** The device whose news the outbox refuses. */
  refused: string | null = null;
  /** Devices whose people wait for the end of the batch. */
  late: readonly string[] = [];
  watch: Watch | null = null;
  readonly #seen = new Set<string>();
  readonly #drawn = drawn(1);
  readonly #kept = keptLog();
  readonly lines = this.#kept.lines;

  async start(): Promise<void> {
    const { clock, disk } = this;
    this.watch = await Watch.open({
      disk,
      directory: DIRECTORY,
      clock,
      log: this.#kept.log,
      delays: { delayMs: DELAY_MS, stopDelayMs: STOP_DELAY_MS },
      randomBytes: this.#drawn.randomBytes,
      tell: async ({ news }, isClosed) => {
        if (disk.dead) throw new PowerCutError('dead');
        const told = new Set<string>();
        let refusal = this.refusal;
        for (const { id: name, device: id, ...happening } of this.refusal ? [] : news) {
          if (id === this.refused) refusal = new Error('too many at once');
          else if (isClosed || !this.late.includes(id)) {
            if (!this.#seen.has(name)) this.told.push({ id, atMs: this.clock.bootMs(), happening });
            this.#seen.add(name);
            told.add(name);
          }
        }
        return { told, refusal };
      },
    });
    this.watch.start();
    await clock.advance(0);
  }

  /** Kills the process (or cuts the power), and starts it again after `downMs`. */
  async restart({ downMs = 0, cut = false }: { downMs?: number; cut?: boolean } = {}): Promise<void> {
    const next = cut ? this.disk.afterPowerCut('nothing') : this.disk.afterKill();
    this.disk.cutPower();
    // Ends its timers. Its last writes go to the dead disk.
    void this.watch?.stop().catch(() => undefined);
    this.disk = next;
    await this.clock.advance(downMs);
    await this.start();
  }

  /** What the device reports of itself. */
  status: DeviceStatus | null = null;

  async beat(said: Said = 'running', everyMs = 0, sent: Sent | null = null): Promise<void> {
    this.watch?.heard(ID, { said, everyMs, sent, ...(this.status && { status: this.status }) });
    await this.clock.advance(0);
  }

  /** Sends a heartbeat every 30 s for this long. */
  async steady(ms: number): Promise<void> {
    for (let passedMs = 0; passedMs < ms; passedMs += 30 * SECOND_MS) {
      await this.beat();
      await this.clock.advance(Math.min(30 * SECOND_MS, ms - passedMs));
    }
  }

  get sightings(): Sighting[] {
    return [...(this.watch?.sightings() ?? [])];
  }

  get kinds(): string[] {
    return this.told.map(({ happening }) => happening.kind);
  }
}

async function started(): Promise<Bench> {
  const bench = new Bench();
  await bench.start();
  return bench;
}

t.test('people are told of silence after the delay, and of a return at once', async (t) => {
  const bench = await started();
  await bench.beat();
  const heardMs = bench.clock.wallMs();
  await bench.clock.advance(DELAY_MS - 1);
  t.same(bench.told, []);
  await bench.clock.advance(TICK_MS + 1);
  t.match(bench.told, [{ id: ID, happening: { kind: 'silent', sinceMs: heardMs } }]);
  await bench.clock.advance(HOUR_MS);
  // A change of the wall clock does not change the length.
  bench.clock.leap(-DELAY_MS);
  await bench.beat();
  const lastedMs = DELAY_MS + TICK_MS + HOUR_MS;
  t.match(bench.told[1]?.happening, { kind: 'back', sinceMs: bench.clock.wallMs(), lastedMs });
  await bench.steady(HOUR_MS);
  t.equal(bench.told.length, 2);
  t.match(bench.sightings, [{ id: ID, state: 'online' }]);
  t.match(bench.lines.join(''), /device offline device=pump-3 stopped=false\n.*device online device=pump-3/);
});

t.test('people are told of a planned stop only after the longer delay', async (t) => {
  const bench = await started();
  await bench.beat('stopping');
  await bench.clock.advance(STOP_DELAY_MS - SECOND_MS);
  await bench.beat();
  await bench.beat('stopping');
  await bench.clock.advance(SECOND_MS);
  await bench.restart();
  await bench.clock.advance(CLOUD_GRACE_MS + STOP_DELAY_MS - SECOND_MS);
  t.same(bench.kinds, [], 'a restart remembers that it was stopping');
  await bench.clock.advance(TICK_MS + SECOND_MS);
  t.same(bench.kinds, ['stopped']);
});

t.test('time while the watch was away counts no device as offline', async (t) => {
  const bench = await started();
  await bench.beat();
  await bench.restart({ downMs: HOUR_MS });
  await bench.clock.advance(CLOUD_GRACE_MS + DELAY_MS - 1);
  t.same(bench.kinds, [], 'a whole delay, after the time that a device needs to reconnect');
  await bench.beat();
  // The machine sleeps, or the process is stopped.
  bench.clock.suspend(HOUR_MS);
  await bench.clock.advance(CLOUD_GRACE_MS + DELAY_MS - 1);
  t.same(bench.kinds, []);
  await bench.clock.advance(TICK_MS + 1);
  t.same(bench.kinds, ['silent']);
  await bench.restart({ downMs: HOUR_MS });
  await bench.clock.advance(HOUR_MS);
  t.same(bench.kinds, ['silent'], 'a restart does not tell it again');
  await bench.beat();
  t.match(bench.told[1]?.happening, { kind: 'back' });
  const back = bench.told[1]?.happening;
  t.ok(back?.kind === 'back' && (back.lastedMs ?? 0) > 2 * HOUR_MS);
});

t.test('heartbeats hardly write, and a clean stop loses nothing', async (t) => {
  const bench = await started();
  await bench.beat();
  const before = bench.disk.operations;
  await bench.steady(HOUR_MS);
  const writes = HOUR_MS / PRESENCE_WRITE_MS;
  t.ok(
    bench.disk.operations - before <= writes * 6,
    `${bench.disk.operations - before} operations in an hour`,
  );
  const heardMs = bench.sightings[0]?.heardMs as number;
  await bench.watch?.stop();
  await bench.restart();
  t.equal(bench.sightings[0]?.heardMs, heardMs);
});

t.test('what a device reports is kept with the times: it alone writes nothing', async (t) => {
  const bench = await started();
  const queue = { queued: 1, deferred: 0, failed: 0 };
  const reported: DeviceStatus = { version: '1.2.3', queue, relay: 'ok', link: 'online' };
  bench.status = reported;
  await bench.beat();
  await bench.clock.advance(10 * SECOND_MS);
  const before = bench.disk.operations;
  const latest = { ...reported, version: '1.2.4', relay: 'failing', queue: { ...queue, failed: 7 } };
  bench.status = latest;
  await bench.beat();
  await bench.clock.advance(10 * SECOND_MS);
  t.equal(bench.disk.operations, before);
  t.strictSame(bench.sightings[0]?.status, latest);
  t.strictSame(bench.watch?.sighting(ID)?.status, latest);
  t.equal(bench.watch?.sighting('other'), null);
  await bench.steady(2 * PRESENCE_WRITE_MS);
  await bench.restart();
  t.strictSame(bench.sightings[0]?.status, latest);
  bench.status = null;
  await bench.beat();
  t.strictSame(bench.sightings[0]?.status, NO_STATUS, 'it reports nothing any more');
});

t.test('a change during a write is written soon, not at the next check', async (t) => {
  const bench = await started();
  // The write of the new device is under way when the device reports its interval.
  await bench.beat('running', HOUR_MS);
  await bench.clock.advance(2 * SECOND_MS);
  await bench.restart();
  await bench.clock.advance(CLOUD_GRACE_MS + HOUR_MS);
  t.same(bench.told, [], 'its interval of an hour is known');
  let isForgotten = false;
  bench.watch?.heard(ID, { said: 'stopping', everyMs: 0, sent: null });
  void bench.watch?.forget(ID).then(() => {
    isForgotten = true;
  });
  await bench.clock.advance(2 * SECOND_MS);
  t.ok(isForgotten);
});

t.test('a stop during a write leaves no timer', async (t) => {
  const bench = await started();
  bench.watch?.heard(ID, { said: 'running', everyMs: HOUR_MS, sent: null });
  await Promise.all([bench.watch?.stop(), bench.clock.advance(0)]);
  t.equal(bench.clock.pending, 0);
});

t.test('news that the outbox refuses is sent later, in order, and never twice', async (t) => {
  const bench = await started();
  await bench.beat();
  const firstMs = bench.clock.wallMs();
  bench.refusal = new Error('the outbox is full');
  for (let i = 0; i < 4; i++) {
    await bench.clock.advance(10 * DELAY_MS);
    await bench.beat();
  }
  t.same(bench.kinds, []);
  const complaints = bench.lines.filter((line) => line.includes('notification delayed'));
  t.match(complaints, [/reason="the outbox is full"/]);
  t.equal(complaints.length, 1, 'logged once, not at every try');
  bench.refusal = null;
  await bench.restart();
  t.same(bench.kinds, ['silent', 'back', 'silent', 'back'], 'the first and the last three');
  t.equal(bench.told[0]?.happening.sinceMs, firstMs);
  t.equal(bench.told[3]?.happening.sinceMs, bench.clock.wallMs());
  bench.disk.onOperation = () => 'error:ENOSPC';
  await bench.clock.advance(HOUR_MS);
  t.equal(bench.told.length, 4, 'what could not be written is not told');
  bench.disk.onOperation = () => 'ok';
  await bench.clock.advance(2 * TICK_MS);
  t.same(bench.kinds.slice(4), ['silent']);
});

t.test('news that the outbox refuses does not delay that of other devices', async (t) => {
  const bench = await started();
  bench.refused = ID;
  for (const id of [ID, 'pump-4', 'pump-5']) bench.watch?.heard(id, { said: 'running', everyMs: 0 });
  await bench.clock.advance(DELAY_MS + 2 * TICK_MS);
  t.match(bench.told, [{ id: 'pump-4' }, { id: 'pump-5' }]);
  bench.refused = null;
  await bench.clock.advance(2 * TICK_MS);
  t.match(bench.told.slice(2), [{ id: ID }]);
});

t.test('news that people wait for stays until the batch is closed, also across a restart', async (t) => {
  const bench = await started();
  bench.late = [ID];
  await bench.beat();
  await bench.clock.advance(DELAY_MS + TICK_MS);
  await bench.beat();
  await bench.clock.advance(DIGEST_WINDOW_MS - TICK_MS - SECOND_MS);
  t.same(bench.kinds, [], 'the batch is open');
  await bench.clock.advance(2 * SECOND_MS);
  t.same(bench.kinds, ['silent', 'back'], 'told when it closes, not at the next check');
  await bench.clock.advance(2 * DELAY_MS - DIGEST_WINDOW_MS + TICK_MS);
  t.equal(bench.told.length, 2);
  await bench.restart();
  t.same(bench.kinds.slice(2), ['silent'], 'the batch of an earlier run is closed');
});

t.test('news of one device are told in order across batches', async (t) => {
  const bench = await started();
  bench.refused = ID;
  await bench.beat();
  bench.watch?.heard('pump-4', { said: 'running', everyMs: 0, sent: null });
  await bench.clock.advance(DELAY_MS + TICK_MS);
  await bench.clock.advance(DIGEST_WINDOW_MS);
  bench.watch?.heard('pump-4', { said: 'running', everyMs: 0, sent: null });
  await bench.beat();
  await bench.clock.advance(DIGEST_WINDOW_MS + TICK_MS);
  t.match(bench.told, [
    { id: 'pump-4', happening: { kind: 'silent' } },
    { id: 'pump-4', happening: { kind: 'back' } },
  ]);
  bench.refused = null;
  await bench.clock.advance(TICK_MS);
  t.match(bench.told.slice(2, 4), [
    { id: ID, happening: { kind: 'silent' } },
    { id: ID, happening: { kind: 'back' } },
  ]);
});

t.test('news in a file of an earlier version, without batches, is told', async (t) => {
  const bench = await started();
  bench.refusal = new Error('the outbox is full');
  await bench.beat();
  await bench.clock.advance(DELAY_MS + TICK_MS);
  await bench.watch?.stop();
  const path = `${DIRECTORY}/presence.json`;
  type Written = Record<string, { news: [Record<string, unknown>] }>;
  const file = durable<Written | null>(bench.disk, path);
  const written = await file.read();
  const news = written?.[ID]?.news[0];
  t.type(news?.batch, 'string');
  delete news?.batch;
  await file.write(written);
  bench.refusal = null;
  await bench.restart();
  t.same(bench.kinds, ['silent']);
});

t.test('after a kill or a power cut at any write each outage and each return is sent once', async (t) => {
  for (const cut of [false, true]) {
    for (let at = 1; ; at++) {
      const bench = await started();
      let isDead = false;
      const { disk } = bench;
      disk.onOperation = (n) => {
        if (n !== at) return 'ok';
        isDead = true;
        return 'power-cut-after';
      };
      const next = async () => {
        if (disk.dead && bench.disk === disk) await bench.restart({ cut });
      };
      for (let outage = 0; outage < 2; outage++) {
        await bench.beat();
        await next();
        await bench.beat();
        await bench.clock.advance(20 * DELAY_MS);
        await next();
        await bench.clock.advance(20 * DELAY_MS);
        await bench.beat();
        await next();
        await bench.beat();
      }
      const name = `${cut ? 'cut' : 'killed'} at operation ${at}`;
      t.same(bench.kinds, ['silent', 'back', 'silent', 'back'], name);
      if (!isDead) break;
    }
  }
});

t.test('a device that is silent again and again causes few messages', async (t) => {
  const bench = await started();
  const day = 24 * HOUR_MS;
  for (let passedMs = 0; passedMs < day; passedMs += 2 * DELAY_MS) {
    await bench.beat();
    await bench.clock.advance(2 * DELAY_MS);
  }
  t.ok(bench.told.length <= 4, `${bench.told.length} messages of one day with 480 short outages`);
  await bench.steady(HOUR_MS);
  const before = bench.told.length;
  await bench.clock.advance(DELAY_MS + TICK_MS);
  t.equal(bench.told.length, before + 1, 'after a steady hour the delay is short again');
});

t.test('a device with a long interval is not offline while it keeps the interval', async (t) => {
  const bench = await started();
  for (let n = 0; n < 48; n++) {
    await bench.beat('running', 30 * MINUTE_MS);
    // Every second heartbeat is lost, and the next is a tenth late.
    await bench.clock.advance((n % 2 === 0 ? 27 : 66) * MINUTE_MS);
    if (n === 20) await bench.restart();
  }
  t.same(bench.told, []);
  await bench.beat('running', 30 * MINUTE_MS);
  await bench.clock.advance(74 * MINUTE_MS);
  t.same(bench.told, []);
  await bench.clock.advance(2 * MINUTE_MS);
  t.same(bench.kinds, ['silent'], 'after two and a half of its intervals');
  await bench.beat();
  await bench.steady(HOUR_MS);
  await bench.clock.advance(DELAY_MS + TICK_MS);
  t.same(bench.kinds, ['silent', 'back', 'silent'], 'without an interval the delay is that of the cloud');
});

t.test('a move tells nobody, and drops the news that was not told yet', async (t) => {
  const bench = await started();
  await bench.beat();
  await bench.beat('moved');
  await bench.clock.advance(HOUR_MS);
  await bench.restart({ downMs: HOUR_MS });
  await bench.clock.advance(HOUR_MS);
  t.same(bench.told, []);
  t.match(bench.sightings, [{ id: ID, state: 'moved' }]);
  t.equal(bench.lines.filter((line) => line.includes('device moved')).length, 1);
  await bench.beat();
  t.same(bench.told, [], 'people were never told that it was away');
  bench.refusal = new Error('the outbox is full');
  await bench.clock.advance(HOUR_MS);
  await bench.beat('moved');
  bench.refusal = null;
  await bench.clock.advance(HOUR_MS);
  await bench.restart();
  await bench.clock.advance(HOUR_MS);
  t.same(bench.told, []);
});

t.test('an overtaken heartbeat changes nothing', async (t) => {
  for (const goodbye of ['moved', 'stopping'] as const) {
    const bench = await started();
    const at = (uptimeMs: number, bootId = 'b1') => ({ bootId, uptimeMs });
    const isSaid = () => bench.sightings[0]?.state;
    await bench.beat('running', 0, at(1000));
    await bench.beat(goodbye, 0, at(3000));
    await bench.clock.advance(10 * SECOND_MS);
    await bench.beat('running', 0, at(2000));
    if (goodbye === 'moved') t.equal(isSaid(), 'moved');
    await bench.clock.advance(DELAY_MS + TICK_MS);
    t.same(bench.told, [], `${goodbye}: it still counts`);
    // An uptime that restarts, another boot, and a device that reports no clock.
    for (const sent of [at(10), at(20_000), at(5, 'b2'), null, at(1)]) {
      await bench.beat('running', 0, sent);
      t.equal(isSaid(), 'online');
      await bench.beat('moved', 0, sent && at(sent.uptimeMs + 1, sent.bootId));
      if (sent?.uptimeMs === 20_000) continue;
      t.equal(isSaid(), 'moved');
    }
  }
});

t.test('dates and durations of a wrong clock are left out', async (t) => {
  const bench = await started();
  const trueMs = bench.clock.wallMs();
  bench.clock = new FakeClock({ wallMs: 60_000 });
  await bench.start();
  await bench.beat();
  await bench.clock.advance(DELAY_MS + TICK_MS);
  t.same(bench.told.at(-1)?.happening, { kind: 'silent', sinceMs: null });
  // A time server corrects the wall clock. The boot's clock has measured the outage.
  bench.clock.leap(trueMs);
  await bench.restart();
  await bench.beat();
  t.match(bench.told.at(-1)?.happening, {
    kind: 'back',
    sinceMs: bench.clock.wallMs(),
    lastedMs: DELAY_MS + TICK_MS,
  });
  // The machine boots: its clock shows 1970, then the true time, but is never confirmed.
  for (const wallMs of [0, trueMs + HOUR_MS, trueMs + 24 * HOUR_MS]) {
    await bench.steady(HOUR_MS);
    await bench.clock.advance(DELAY_MS + TICK_MS);
    await bench.watch?.stop();
    bench.clock = bench.clock.reboot({ wallMs });
    await bench.start();
    await bench.beat();
    t.match(bench.told.at(-1)?.happening, {
      kind: 'back',
      sinceMs: wallMs === 0 ? null : bench.clock.wallMs(),
      lastedMs: null,
    });
  }
  bench.clock.confirm();
  await bench.beat();
  await bench.clock.advance(DELAY_MS * 16);
  await bench.watch?.stop();
  bench.clock = bench.clock.reboot({ offMs: HOUR_MS });
  bench.clock.confirm();
  await bench.start();
  await bench.beat();
  const back = bench.told.at(-1)?.happening;
  t.ok(
    back?.kind === 'back' && (back.lastedMs ?? 0) >= HOUR_MS + DELAY_MS * 16,
    'two confirmed clocks measure across a boot',
  );
});
