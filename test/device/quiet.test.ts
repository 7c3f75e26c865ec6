/** The quiet on a faulty disk and a clock that stands still: what the cloud is told, and what a restart knows. */
import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { type KeptQuiet, leftMs, Quiet, type QuietOptions } from '../../src/device/quiet.js';
import { FakeClock, settled } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { STATE_DIR } from '../support/store.js';
import { keptLog } from '../support/system.js';

const CLOUD = 'https://cloud.example/devices/pump-3';
const PATH = `${STATE_DIR}/quiet.json`;
const NOW = '2026-11-20T09:00:00.000Z';

/** A device, its quiet, and a cloud that hears of it while `isUp`. */
async function open(options: Partial<QuietOptions> & { clock?: FakeClock; isUp?: boolean } = {}) {
  const {
    clock = new FakeClock(),
    isUp = true,
    disk = new FaultyDisk({ directories: [STATE_DIR] }),
  } = options;
  const { log, lines } = keptLog();
  const made = { clock, disk: disk as FaultyDisk, lines, isUp, told: [] as object[] };
  /** One heartbeat. */
  const beat = async (): Promise<string | null> => {
    const untold = quiet.untold();
    if (!made.isUp) return 'no route';
    if (untold !== null) made.told.push(untold.members);
    untold?.heard();
    return null;
  };
  const quiet: Quiet = await Quiet.open({
    ...{ directory: STATE_DIR, clock, log, cloud: CLOUD, sayNow: beat },
    ...options,
    disk,
  });
  return Object.assign(made, { quiet, beat, file: () => made.disk.readWhole(PATH) });
}

type Made = Awaited<ReturnType<typeof open>>;

/** After a power cut, `offMs` without power, and a boot. */
async function reboot(
  { clock, disk }: Made,
  options: { offMs?: number; wallMs?: number; isUp?: boolean; cloud?: string } = {},
) {
  const { offMs = 0, wallMs = clock.wallMs() + offMs, isUp = true, cloud = CLOUD } = options;
  const after = disk.afterPowerCut('nothing');
  return await open({ disk: after, clock: clock.reboot({ wallMs }), isUp, cloud });
}

const until = ({ quiet }: Made) => {
  const { untilMs } = quiet.view();
  return untilMs === null ? null : new Date(untilMs).toISOString();
};

t.test('it begins, the cloud hears of it once, and it ends by itself', async (t) => {
  const made = await open();
  t.same(made.quiet.view(), { untilMs: null, why: null, by: null, isKnown: true });
  t.same(await made.quiet.begin(2 * HOUR_MS, 'battery swap', 'uid 1000'), {
    untilMs: Date.parse(NOW) + 2 * HOUR_MS,
    ...{ why: 'battery swap', by: 'uid 1000', isKnown: true, reason: null },
  });
  t.same(made.told, [{ quietMs: 2 * HOUR_MS, why: 'battery swap' }]);
  await made.beat();
  t.equal(made.told.length, 1, 'it is not repeated');
  await made.clock.advance(2 * HOUR_MS - 1);
  t.equal(until(made), '2026-11-20T11:00:00.000Z');
  await made.clock.advance(2);
  t.equal(until(made), null);
  await settled();
  t.equal(await made.file(), null);
  await made.beat();
  t.equal(made.told.length, 1, 'the cloud counts on its own clock');
  t.match(made.lines, [
    /quiet begun .*until=2026-11-20T11:00:00.000Z .*why="battery swap" by="uid 1000"/,
    /quiet known .*until=2026-11-20T11:00:00.000Z/,
    /quiet over/,
  ]);
  t.equal(made.clock.pending, 0);
});

t.test('a cloud that is out of reach hears of what is left of it', async (t) => {
  const made = await open({ isUp: false });
  t.match(await made.quiet.begin(2 * HOUR_MS, null, 'uid 0'), { isKnown: false, reason: 'no route' });
  await made.clock.advance(30 * MINUTE_MS);
  made.isUp = true;
  await made.beat();
  t.same(made.told, [{ quietMs: 90 * MINUTE_MS }]);
  t.match(made.quiet.view(), { isKnown: true });
});

t.test('off is said until the cloud has heard it, with or without a quiet of this device', async (t) => {
  const made = await open();
  await made.quiet.begin(2 * HOUR_MS, 'x', 'uid 0');
  made.isUp = false;
  t.match(await made.quiet.end('uid 1'), { untilMs: null, why: null, by: null, isKnown: false });
  await made.beat();
  const again = await reboot(made, { isUp: false });
  t.match(again.quiet.view(), { untilMs: null, isKnown: false }, 'a restart remembers it');
  again.isUp = true;
  await again.beat();
  await again.beat();
  t.same(again.told, [{ quietMs: 0 }]);
  t.same(again.quiet.view(), { untilMs: null, why: null, by: null, isKnown: true });
  await again.quiet.stop();
  t.equal(await again.file(), null);
  t.match(await again.quiet.end('uid 1'), { isKnown: true });
  t.same(again.told.at(-1), { quietMs: 0 }, 'the operator may have begun one');
});

t.test('an off that never arrives is forgotten when the quiet would have ended', async (t) => {
  const made = await open();
  await made.quiet.begin(HOUR_MS, 'x', 'uid 0');
  made.isUp = false;
  await made.quiet.end('uid 0');
  await made.clock.advance(HOUR_MS + 1);
  await settled();
  t.equal(made.quiet.untold(), null);
  t.equal(await made.file(), null);
});

t.test('a second quiet replaces the first, whose late answer counts for nothing', async (t) => {
  const made = await open({ isUp: false });
  await made.quiet.begin(HOUR_MS, 'one', 'uid 0');
  const first = made.quiet.untold();
  await made.quiet.begin(8 * HOUR_MS, 'two', 'uid 0');
  first?.heard();
  t.match(made.quiet.view(), { why: 'two', isKnown: false });
  await made.quiet.end('uid 0');
  first?.heard();
  t.match(made.quiet.untold(), { members: { quietMs: 0 } });
});

t.test('a technician pulls the battery', async (t) => {
  const made = await open();
  await made.quiet.begin(2 * HOUR_MS, 'battery swap', 'uid 1000');
  await made.quiet.stop();
  await made.clock.advance(10 * MINUTE_MS);
  const back = await reboot(made, { offMs: 20 * MINUTE_MS });
  t.match(back.quiet.view(), { why: 'battery swap', by: 'uid 1000', isKnown: true });
  t.equal(until(back), '2026-11-20T11:00:00.000Z');
  await back.beat();
  t.same(back.told, [], 'the cloud knows it');
  await back.clock.advance(90 * MINUTE_MS);
  t.equal(until(back), null);

  const later = await reboot(made, { offMs: 3 * HOUR_MS });
  t.equal(until(later), null, 'it ended meanwhile');
  await settled();
  t.equal(await later.file(), null);
  t.match(later.lines, [/quiet over/]);

  const other = await reboot(made, { cloud: 'https://other.example/devices/pump-3' });
  await other.beat();
  t.match(other.told, [{ why: 'battery swap' }], 'another cloud does not know it');
});

t.test('the battery is pulled before the cloud has heard of it', async (t) => {
  const made = await open({ isUp: false });
  await made.quiet.begin(2 * HOUR_MS, 'x', 'uid 0');
  const back = await reboot(made, { offMs: HOUR_MS });
  await back.beat();
  t.same(back.told, [{ quietMs: HOUR_MS - MINUTE_MS, why: 'x' }], 'a boot takes a minute');
});

t.test('how much is left, row by row', async (t) => {
  const [boot, other] = ['b1', 'b0'];
  const kept = (of: string, wallMs: number | null) => ({
    boot: of,
    bootMs: HOUR_MS,
    wallMs,
    forMs: 2 * HOUR_MS,
  });
  const at = Date.parse(NOW);
  const clock = (bootMs: number, wallMs: number, trust: 'plausible' | 'confirmed' | 'wrong') => ({
    boot,
    bootMs: () => bootMs,
    wallMs: () => wallMs,
    trust: () => trust,
  });
  for (const [name, of, wallMs, bootMs, nowMs, trust, leftS] of [
    ['the same boot', boot, at, HOUR_MS + 60_000, at + 60_000, 'confirmed', 7140],
    ['the same boot, the wall has leapt', boot, at, HOUR_MS + 60_000, at + DAY_MS, 'confirmed', 7140],
    ['another boot', other, at, 60_000, at + HOUR_MS, 'plausible', 3600],
    ['another boot, long ago', other, at, 60_000, at + DAY_MS, 'confirmed', -79_200],
    ['another boot, no clock now', other, at, 60_000, 0, 'wrong', 7140],
    ['another boot, a clock that is doubted', other, at, 60_000, at + DAY_MS, 'wrong', 7140],
    ['another boot, no clock then', other, null, 60_000, at, 'confirmed', 7140],
    ['another boot, the wall has gone back', other, at, 60_000, at - DAY_MS, 'plausible', 7140],
  ] as const)
    t.equal(leftMs(kept(of, wallMs), clock(bootMs, nowMs, trust)) / SECOND_MS, leftS, name);
});

t.test('a clock that is set later puts the end right', async (t) => {
  const made = await open();
  await made.quiet.begin(2 * HOUR_MS, 'x', 'uid 0');
  await made.quiet.stop();
  const back = await reboot(made, { wallMs: 0 });
  t.equal(back.clock.trust(), 'wrong');
  back.clock.leap(Date.parse(NOW) + 90 * MINUTE_MS - back.clock.wallMs());
  t.equal(until(back), '2026-11-20T11:00:00.000Z');
  back.clock.leap(HOUR_MS);
  t.equal(until(back), null);
});

t.test('it is written when something changes, and never else', async (t) => {
  const made = await open();
  const writes: string[] = [];
  made.disk.onOperation = (_, { kind, path }) => {
    if (kind === 'create' || kind === 'remove') writes.push(`${kind} ${path}`);
    return 'ok';
  };
  await made.quiet.begin(7 * DAY_MS, 'x', 'uid 0');
  await made.quiet.stop();
  const once = writes.filter((one) => one.startsWith('create'));
  t.equal(once.length, 2, 'when it begins, and when the cloud knows it');
  writes.length = 0;
  const alive = await open({ disk: made.disk, clock: made.clock });
  for (let hour = 0; hour < 167; hour++) {
    await made.clock.advance(HOUR_MS);
    await alive.beat();
    alive.quiet.view();
  }
  t.same(writes, []);
});

t.test('a disk that fails costs nothing while the cloud knows it', async (t) => {
  const made = await open();
  made.disk.onOperation = () => 'error:ENOSPC';
  t.match(await made.quiet.begin(HOUR_MS, 'x', 'uid 0'), { isKnown: true, reason: null });
  t.match(made.lines, [/quiet begun/, /<4>.*quiet not kept .*quiet\.json.*the disk is full/]);
  made.isUp = false;
  await t.rejects(made.quiet.begin(2 * HOUR_MS, 'x', 'uid 0'), {
    code: 'storage-failed',
    message: /the disk is full.*the cloud is not told/,
    hint: /a restart forgets it.*no route/,
  });
  t.match(made.quiet.untold(), { members: { quietMs: 2 * HOUR_MS } }, 'it lasts until a restart');
});

t.test('power cuts at each write: it is there as promised', async (t) => {
  for (let at = 1; at < 40; at++) {
    const made = await open({ isUp: false });
    made.disk.onOperation = (n) => (n === at ? 'power-cut-before' : 'ok');
    const begun = await made.quiet.begin(HOUR_MS, 'x', 'uid 0').then(
      () => true,
      () => false,
    );
    const isCut = made.disk.dead;
    const back = await open({ disk: made.disk.afterPowerCut('nothing'), clock: made.clock.reboot() });
    if (begun) t.match(back.quiet.view(), { why: 'x' }, `cut ${at}`);
    if (!isCut) return;
  }
  t.fail('no run went without a cut');
});

t.test('a file that is damaged, of another shape, or cannot be read', async (t) => {
  const made = await open();
  await made.quiet.begin(HOUR_MS, 'x', 'uid 0');
  await made.quiet.stop();
  const bytes = (await made.file()) as Buffer;
  t.match(JSON.parse(bytes.toString('utf8', 9)) as KeptQuiet, {
    forMs: HOUR_MS,
    by: 'uid 0',
    knownTo: CLOUD,
  });
  const file = await made.disk.open(PATH, 'update');
  await file.write(Buffer.from('?'), 20);
  await file.close();
  const back = await open({ disk: made.disk, clock: made.clock });
  t.equal(until(back), null);
  t.match(back.lines, [/quiet not kept .*damaged/]);
  made.disk.onRead = () => 'EIO';
  const unread = await open({ disk: made.disk, clock: made.clock });
  t.equal(until(unread), null, 'the daemon starts all the same');
});
