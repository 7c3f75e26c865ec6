/** The files' store: what a failing, a slow and a dead disk do to news. */
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { People } from '../../src/cloud/document.js';
import { openFileFleet } from '../../src/cloud/files/fleet.js';
import { DIGEST_WINDOW_MS, type FleetStore, type NewsBatch } from '../../src/cloud/fleet-store.js';
import { CLOUD_GRACE_MS } from '../../src/cloud/presence.js';
import { FakeClock } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { DELAYS } from '../support/fleet-world.js';
import { drawn, keptLog } from '../support/system.js';

const ID = 'pump-1';
const OFFLINE_MS = DELAYS.delayMs + 12 * SECOND_MS;
const REPORT = { said: 'running', everyMs: 0, sent: null } as const;
const PRESENCE = '/var/lib/cloud/presence.json.new';

class Bench {
  readonly clock = new FakeClock();
  disk = new FaultyDisk({ directories: ['/var/lib'] });
  readonly closed: NewsBatch[] = [];
  readonly #randomBytes = drawn(1).randomBytes;
  fleet!: FleetStore;
  isLate = true;

  static async start(): Promise<Bench> {
    const bench = new Bench();
    await bench.open();
    await bench.clock.advance(CLOUD_GRACE_MS + MINUTE_MS);
    bench.fleet.watch.heard(ID, REPORT);
    await bench.clock.advance(2 * SECOND_MS);
    return bench;
  }

  async open(): Promise<void> {
    const { clock, disk } = this;
    this.fleet = await openFileFleet({
      ...{ disk, clock, log: keptLog().log, randomBytes: this.#randomBytes, directory: '/var/lib/cloud' },
      ...{ delays: DELAYS, people: new People(), accept: async () => ({ replayed: false }) },
      tell: async (batch, isClosed) => {
        if (isClosed) this.closed.push(batch);
        const told = isClosed || !this.isLate ? batch.news.map(({ id }) => id) : [];
        return { told: new Set(told), refusal: null };
      },
    });
    await this.fleet.start();
  }
}

t.test('a batch whose cut could not be kept is not told as closed', async (t) => {
  const bench = await Bench.start();
  await bench.clock.advance(OFFLINE_MS);
  let fails = 0;
  bench.disk.onOperation = (_n, { kind, path }) =>
    kind === 'write' && path === PRESENCE && fails++ < 1 ? 'error:EIO' : 'ok';
  while (fails === 0) await bench.clock.advance(SECOND_MS);
  while (bench.closed.length === 0) await bench.clock.advance(SECOND_MS);
  const old = bench.disk;
  bench.disk = old.afterKill();
  old.cutPower();
  await bench.open();
  await bench.clock.advance(DIGEST_WINDOW_MS + MINUTE_MS);
  const ids = new Set(bench.closed.map(({ id }) => id));
  t.equal(ids.size, 1, 'after a kill it is the same batch');
});

t.test('a decision that waits for the disk is dropped when the device is heard, or forgotten', async (t) => {
  for (const then of ['heard', 'forgotten']) {
    const bench = await Bench.start();
    let go: () => void = () => undefined;
    bench.disk.pace = ({ kind }) =>
      kind === 'sync'
        ? new Promise((resolve) => {
            go = resolve;
          })
        : null;
    bench.fleet.watch.heard('pump-2', { ...REPORT, said: 'moved' });
    await bench.clock.advance(OFFLINE_MS);
    if (then === 'heard') bench.fleet.watch.heard(ID, REPORT);
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
