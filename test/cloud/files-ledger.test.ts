/** What the cloud of one machine keeps in presence.json: when it is written, and a disk that is full, killed or cut off. */
import t from 'tap';
import { HOUR_MS, SECOND_MS } from '../../src/base/limits.js';
import { type FleetStore, NEWS_WINDOW_MS } from '../../src/cloud/fleet-store.js';
import { CLOUD_GRACE_MS, type Report } from '../../src/cloud/presence.js';
import type { Sighting } from '../../src/cloud/sighting.js';
import { PRESENCE_WRITE_MS } from '../../src/cloud/watch.js';
import { FakeClock, settled } from '../support/clock.js';
import { durable } from '../support/durable.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { DELAYS } from '../support/fleet-world.js';
import { DIRECTORY, filesOf, Outside } from './fleet-stores.js';

const { delayMs: DELAY_MS } = DELAYS;
const TICK_MS = DELAY_MS / 10;
const OFFLINE_MS = DELAY_MS + TICK_MS + 3 * SECOND_MS;
const ID = 'pump-3';
const FILE = `${DIRECTORY}/presence.json`;

/** One disk, one clock and one outbox over many starts. */
class Bench {
  readonly outside = new Outside();
  disk = new FaultyDisk({ directories: ['/var/lib'] });
  fleet!: FleetStore;
  readonly #delays: typeof DELAYS;

  constructor(delays = DELAYS) {
    this.#delays = delays;
  }

  static async start(delays = DELAYS): Promise<Bench> {
    const bench = new Bench(delays);
    await bench.start();
    return bench;
  }

  async start(): Promise<void> {
    this.fleet = await filesOf(this.outside, this.disk, this.#delays).open();
    await this.fleet.start();
    await this.clock.advance(0);
  }

  /** Kills the process, or cuts the power, and starts it again. */
  async restart(cut = false): Promise<void> {
    const next = cut ? this.disk.afterPowerCut('nothing') : this.disk.afterKill();
    this.disk.cutPower();
    // Ends its timers. Its last writes go to the dead disk.
    void this.fleet.stop().catch(() => undefined);
    this.disk = next;
    await this.start();
  }

  hear(report: Partial<Report> = {}, id = ID): void {
    void this.fleet.watch.heard(id, { said: 'running', everyMs: 0, sent: null, ...report });
  }

  async beat(report: Partial<Report> = {}): Promise<void> {
    this.hear(report);
    await this.clock.advance(0);
  }

  /** Sends a heartbeat every 30 s for this long. */
  async steady(ms: number): Promise<void> {
    for (let passedMs = 0; passedMs < ms; passedMs += 30 * SECOND_MS) {
      await this.beat();
      await this.clock.advance(30 * SECOND_MS);
    }
  }

  get clock(): FakeClock {
    return this.outside.clock;
  }

  get sighting(): Sighting | null {
    return this.fleet.watch.sighting(ID);
  }

  get kinds(): string[] {
    return this.outside.news.map(({ kind }) => kind);
  }
}

t.test('heartbeats and reports hardly write, and a clean stop loses nothing', async (t) => {
  const bench = await Bench.start();
  await bench.beat();
  const before = bench.disk.operations;
  await bench.steady(HOUR_MS);
  const operations = bench.disk.operations - before;
  t.ok(operations <= (HOUR_MS / PRESENCE_WRITE_MS) * 6, `${operations} operations in an hour`);
  const status = {
    version: '1.2.4',
    queue: { queued: 1, deferred: 0, failed: 7 },
    relay: 'ok',
    link: 'online',
    late: [],
  };
  await bench.beat({ status });
  const { heardMs } = bench.sighting as Sighting;
  await bench.fleet.stop();
  await bench.restart();
  t.match(bench.sighting, { heardMs, status });
});

t.test('a change during a write is written soon, not at the next check', async (t) => {
  const bench = await Bench.start();
  // The write of the new device is under way when the device reports its interval.
  bench.hear();
  await bench.beat({ everyMs: HOUR_MS });
  await bench.clock.advance(2 * SECOND_MS);
  await bench.restart();
  await bench.clock.advance(CLOUD_GRACE_MS + HOUR_MS);
  t.same(bench.outside.told, [], 'its interval of an hour is known');
  bench.hear({ said: 'stopping' });
  const forgotten = bench.fleet.watch.forget(ID);
  await bench.clock.advance(2 * SECOND_MS);
  await forgotten;
});

t.test('a stop during a slow write waits for the write that follows it', async (t) => {
  const bench = await Bench.start();
  await bench.beat();
  await bench.clock.advance(2 * SECOND_MS);
  let go: () => void = () => undefined;
  bench.disk.pace = ({ kind, path }) =>
    kind === 'sync' && path.startsWith(FILE)
      ? new Promise((resolve) => {
          go = resolve;
          bench.disk.pace = () => null;
        })
      : null;
  bench.hear({}, 'pump-4');
  await bench.clock.advance(2 * SECOND_MS);
  bench.hear({}, 'pump-5');
  const stopping = bench.fleet.stop();
  await settled();
  go();
  await stopping;
  await bench.restart();
  t.same([...bench.fleet.watch.ids].sort(), [ID, 'pump-4', 'pump-5']);
});

t.test('a stop during a write leaves no timer', async (t) => {
  const bench = await Bench.start();
  bench.hear({ everyMs: HOUR_MS });
  await Promise.all([bench.fleet.stop(), bench.clock.advance(0)]);
  t.equal(bench.clock.pending, 0);
});

t.test('what a full disk does not keep is not told, and a removal fails; later both are', async (t) => {
  const bench = await Bench.start();
  await bench.beat();
  await bench.clock.advance(2 * SECOND_MS);
  bench.disk.onOperation = () => 'error:ENOSPC';
  await bench.clock.advance(HOUR_MS);
  t.same(bench.outside.told, []);
  t.equal(bench.sighting?.state, 'online', 'not decided');
  const complaints = bench.outside.lines.filter((line) => line.includes('devices not kept'));
  t.match(complaints, [/reason="the disk is full"/]);
  t.equal(complaints.length, 1, 'not at every try');
  bench.hear({}, 'pump-4');
  const refused = t.rejects(bench.fleet.watch.forget('pump-4'), { code: 'storage-failed' });
  await bench.clock.advance(10 * SECOND_MS);
  await refused;
  bench.disk.onOperation = () => 'ok';
  await bench.clock.advance(2 * TICK_MS);
  t.same(bench.kinds, ['silent']);
  await bench.restart();
  t.strictSame([...bench.fleet.watch.ids], [ID]);
});

t.test('after a kill or a power cut at any write each outage and each return is told once', async (t) => {
  for (const cut of [false, true]) {
    for (let at = 1; ; at++) {
      const bench = await Bench.start();
      let isDead = false;
      const { disk } = bench;
      const from = disk.operations;
      disk.onOperation = (n) => {
        if (n !== from + at) return 'ok';
        isDead = true;
        return 'power-cut-after';
      };
      const next = async () => {
        if (disk.dead && bench.disk === disk) await bench.restart(cut);
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
        await bench.clock.advance(2 * SECOND_MS);
        await next();
      }
      t.same(
        bench.kinds,
        ['silent', 'back', 'silent', 'back'],
        `${cut ? 'cut' : 'killed'} at operation ${at}`,
      );
      if (!isDead) break;
    }
  }
});

t.test(
  'a file of an earlier version is read: news without order and moment, a device without since',
  async (t) => {
    const bench = await Bench.start();
    bench.outside.refused = new Set([ID]);
    await bench.beat();
    await bench.clock.advance(DELAY_MS + NEWS_WINDOW_MS + 2 * TICK_MS);
    await bench.fleet.stop();
    type Written = Record<string, Record<string, unknown> & { news: [Record<string, unknown>] }>;
    const file = durable<Written | null>(bench.disk, FILE);
    const written = await file.read();
    const { since, away, news, ...device } = written?.[ID] ?? { news: [{}] };
    t.match([since, away], [{ confirmed: false }, { confirmed: false }]);
    const [{ order, atMs, ...one }] = news;
    t.match([order, atMs], [1, Number]);
    await file.write({ [ID]: { ...device, news: [one] } });
    bench.outside.refused = new Set();
    await bench.restart();
    t.same(bench.kinds, ['silent']);
    t.match(bench.sighting, { state: 'offline' });
    await bench.beat();
    await bench.clock.advance(2 * SECOND_MS);
    t.match(bench.outside.news[1], { kind: 'back', lastedMs: DELAY_MS + NEWS_WINDOW_MS + 2 * TICK_MS });
    t.notMatch(bench.outside.lines.join(''), /damaged/);
    t.match(
      bench.outside.lines.join(''),
      /device offline device=pump-3 stopped=false\n.*device online device=pump-3 offlineMs=\d+/s,
    );
    for (let times = 0; times < 2; times++) await bench.beat({ said: 'moved' });
    t.equal(bench.outside.lines.filter((line) => line.includes('device moved device=pump-3')).length, 1);
  },
);

t.test('dates and durations of a wrong clock are left out', async (t) => {
  const bench = new Bench();
  const trueMs = bench.clock.wallMs();
  bench.outside.clock = new FakeClock({ wallMs: 60_000 });
  await bench.start();
  await bench.beat();
  await bench.clock.advance(DELAY_MS + TICK_MS);
  t.match(bench.outside.news.at(-1), { kind: 'silent', sinceMs: null });
  // A time server corrects the wall clock. The boot's clock has measured the outage.
  bench.clock.leap(trueMs);
  await bench.restart();
  const back = async () => {
    await bench.beat();
    const sinceMs = bench.clock.wallMs();
    await bench.clock.advance(2 * SECOND_MS);
    return { kind: 'back', sinceMs };
  };
  const first = await back();
  t.match(bench.outside.news.at(-1), { ...first, lastedMs: DELAY_MS + TICK_MS });
  // The machine boots: its clock shows 1970, then the true time, but is never confirmed.
  for (const wallMs of [0, trueMs + HOUR_MS, trueMs + 24 * HOUR_MS]) {
    await bench.steady(HOUR_MS);
    await bench.clock.advance(DELAY_MS + TICK_MS);
    await bench.fleet.stop();
    bench.outside.clock = bench.clock.reboot({ wallMs });
    await bench.start();
    const expected = await back();
    t.match(bench.outside.news.at(-1), {
      ...expected,
      ...(wallMs === 0 && { sinceMs: null }),
      lastedMs: null,
    });
  }
  bench.clock.confirm();
  await bench.beat();
  await bench.clock.advance(DELAY_MS * 16);
  await bench.fleet.stop();
  bench.outside.clock = bench.clock.reboot({ offMs: HOUR_MS });
  bench.clock.confirm();
  await bench.start();
  await back();
  const last = bench.outside.news.at(-1);
  t.ok(
    last?.kind === 'back' && (last.lastedMs ?? 0) >= HOUR_MS + DELAY_MS * 16,
    'two confirmed clocks measure across a boot',
  );
});

t.test('a short delay makes no absence of the stall of a busy machine', async (t) => {
  const bench = await Bench.start({ ...DELAYS, delayMs: SECOND_MS });
  await bench.beat();
  bench.clock.suspend(4 * SECOND_MS);
  await bench.clock.advance(2 * SECOND_MS);
  t.same(bench.kinds, ['silent']);
  await bench.fleet.stop();
});

t.test('a delay of a device that is shorter than that of the cloud is met as well', async (t) => {
  const hour = 60 * 60 * SECOND_MS;
  const bench = await Bench.start({ ...DELAYS, delayMs: hour });
  await bench.clock.advance(hour);
  await bench.beat();
  await bench.fleet.documents.put(ID, { delay: '2m', destinations: [] }, { 'if-none-match': '*' });
  await bench.beat();
  await bench.clock.advance(110 * SECOND_MS);
  t.same(bench.kinds, []);
  await bench.clock.advance(30 * SECOND_MS);
  t.same(bench.kinds, ['silent']);
  await bench.restart();
  await bench.beat();
  await bench.clock.advance(6 * 60 * SECOND_MS);
  t.same(bench.kinds, ['silent', 'back', 'silent'], 'also after a restart');
  await bench.fleet.stop();
});

t.test('a decision that waits for the disk is dropped when the device is heard, or forgotten', async (t) => {
  for (const then of ['heard', 'forgotten']) {
    const bench = await Bench.start();
    bench.outside.refused = new Set([ID]);
    await bench.beat();
    let go: () => void = () => undefined;
    bench.disk.pace = ({ kind }) =>
      kind === 'sync'
        ? new Promise((resolve) => {
            go = resolve;
          })
        : null;
    bench.hear({ said: 'moved' }, 'pump-2');
    await bench.clock.advance(OFFLINE_MS);
    if (then === 'heard') bench.hear();
    else void bench.fleet.watch.forget(ID);
    bench.disk.pace = () => null;
    go();
    await bench.clock.advance(2 * SECOND_MS);
    t.equal(bench.fleet.watch.untold, 0, then);
    await bench.clock.advance(OFFLINE_MS);
    t.equal(bench.fleet.watch.untold, then === 'heard' ? 1 : 0, then);
    await bench.fleet.stop();
  }
});
