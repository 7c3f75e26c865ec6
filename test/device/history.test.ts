/** The history: its records, its rows, and what of them is on the disk. */
import { Buffer } from 'node:buffer';
import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { DAY_BYTES, type History, openHistory, type Sight } from '../../src/device/history/history.js';
import { leapRecord, recordsIn, recordsOf } from '../../src/device/history/records.js';
import { type HistoryRow, type Numbered, shareOf, Table, TEN_MS } from '../../src/device/history/rows.js';
import { FakeClock } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { keptLog } from '../support/system.js';

const QUIET = { accepted: 0, sent: 0, failed: 0, waitingMax: 0, oldestS: 0, relay: 0, link: 0 };
/** 2026-11-20T09:00:00Z, when a fake clock begins. */
const NINE_MS = Date.UTC(2026, 10, 20, 9);

const HISTORY_DIR = '/var/lib/fieldpost';
const HISTORY = `${HISTORY_DIR}/history`;

async function historyOn(
  clock: FakeClock = new FakeClock(),
  disk: FaultyDisk = new FaultyDisk({ directories: [HISTORY_DIR] }),
) {
  const { log, lines } = keptLog();
  const unknown = { isUp: null, sinceMs: 0 };
  const device = {
    accepted: 0,
    sent: 0,
    failed: 0,
    waiting: 0,
    /** When the oldest waiting message was accepted, on the boot's clock. */
    oldestMs: 0,
    relay: unknown as Sight['relay'],
    link: unknown as Sight['link'],
  };
  const look = (): Sight => ({
    ...device,
    oldestAgeMs: device.waiting === 0 ? 0 : clock.bootMs() - device.oldestMs,
  });
  const history: History = await openHistory({ disk, clock, log, directory: HISTORY_DIR, look });
  return { history, device, clock, disk, lines };
}

/** The bytes that the disk is given from now on. */
function writesOn(disk: FaultyDisk): { bytes: number; count: number } {
  const written = { bytes: 0, count: 0 };
  const { open } = disk;
  disk.open = async (...how) => {
    const file = await open.apply(disk, how);
    const { write } = file;
    file.write = (bytes, offset) => {
      written.bytes += bytes.length;
      written.count++;
      return write.call(file, bytes, offset);
    };
    return file;
  };
  return written;
}

function tableOf(records: readonly Uint8Array[]): Table {
  const table = new Table();
  for (const { apply } of recordsIn(Buffer.concat(records))) apply(table);
  return table;
}

function randomRow(random: () => number): HistoryRow {
  const number = () => (random() < 0.5 ? 0 : Math.floor(10 ** (random() * 7)));
  const share = () => pick(random, [0, shareOf(0), shareOf(100), shareOf(Math.floor(random() * 101))]);
  const [accepted, sent, failed, waitingMax, oldestS] = Array.from({ length: 5 }, number) as number[];
  const row = { ...QUIET, accepted, sent, failed, waitingMax, oldestS, relay: share(), link: share() };
  return random() < 0.3 ? (row as HistoryRow) : QUIET;
}

t.test('what is written is read: any rows, with gaps and without', async (t) => {
  const random = seededRandom(testSeed());
  for (let round = 0; round < 300; round++) {
    const rows: Numbered[] = [];
    let number = 3_000_000 + Math.floor(random() * 1000);
    for (let count = random() * 288; count > 0; count--) {
      rows.push([number, random() < 0.5 ? randomRow(random) : (rows.at(-1)?.[1] ?? QUIET)]);
      number += random() < 0.9 ? 1 : 1 + Math.floor(random() * 300);
    }
    t.strictSame(tableOf(recordsOf(rows, 0)).tensFrom(0), rows, `${round}`);
  }
});

t.test('damage costs the records that it hits, and no other', async (t) => {
  const random = seededRandom(testSeed());
  const rows = Array.from({ length: 100 }, (_, i): Numbered => [10 * i, { ...QUIET, accepted: i + 1 }]);
  const records = recordsOf(rows, 0);
  t.equal(records.length, 100);
  for (let round = 0; round < 200; round++) {
    const hit = Math.floor(random() * 100);
    const damaged = records.map((record, i) => {
      if (i !== hit) return record;
      const copy = Buffer.from(record);
      if (random() < 0.5) return copy.subarray(0, Math.floor(random() * copy.length));
      const at = Math.floor(random() * copy.length);
      copy[at] = (copy[at] as number) ^ (1 + Math.floor(random() * 255));
      return copy;
    });
    const read = tableOf(damaged).tensFrom(0);
    t.strictSame(
      read,
      rows.filter((_, i) => i !== hit),
      `${round}`,
    );
  }
  t.strictSame([...recordsIn(Buffer.alloc(5000))], [], 'zeros are no records');
});

t.test('a long run of equal rows takes some octets', async (t) => {
  const row = { ...QUIET, relay: shareOf(100), link: shareOf(0) };
  const rows = Array.from({ length: 288 }, (_, i): Numbered => [i, row]);
  t.ok(Buffer.concat(recordsOf(rows, 0)).length < 16);
  // A message that waits the whole time is older with each row.
  const waiting = rows.map(([i, row]): Numbered => [i, { ...row, waitingMax: 7, oldestS: 900 + 600 * i }]);
  t.ok(Buffer.concat(recordsOf(waiting, 0)).length < 20);
});

t.test('a leap moves the rows behind it, and later rows stand for earlier ones', async (t) => {
  const row = (accepted: number): HistoryRow => ({ ...QUIET, accepted });
  const rows = [1, 2, 3, 4].map((number): Numbered => [1000 + number, row(number)]);
  const leapt = tableOf([...recordsOf(rows, 0), leapRecord(1003, 20)]);
  t.strictSame(
    leapt.tensFrom(0).map(([number]) => number),
    [1001, 1002, 1023, 1024],
  );
  const back = tableOf([...recordsOf(rows, 0), leapRecord(1003, -1)]);
  t.strictSame(back.tensFrom(0), [
    [1001, row(1)],
    [1002, row(3)],
    [1003, row(4)],
  ]);
  const again = tableOf([...recordsOf(rows, 0), ...recordsOf([[1003, row(9)]], 0)]);
  t.strictSame(again.tensFrom(0), [
    [1001, row(1)],
    [1002, row(2)],
    [1003, row(9)],
  ]);
});

t.test('a row tells what happened in its ten minutes', async (t) => {
  const { history, device, clock } = await historyOn();
  device.relay = { isUp: true, sinceMs: clock.bootMs() };
  await clock.advance(3 * MINUTE_MS);
  device.accepted = 5;
  device.sent = 1;
  device.waiting = 4;
  device.oldestMs = clock.bootMs();
  history.nudge();
  await clock.advance(2 * MINUTE_MS);
  device.relay = { isUp: false, sinceMs: clock.bootMs() };
  await clock.advance(6 * MINUTE_MS);
  device.sent = 3;
  device.failed = 2;
  device.waiting = 0;
  await clock.advance(10 * MINUTE_MS);
  const first = { accepted: 5, sent: 1, failed: 0, waitingMax: 4, oldestWaitMs: 7 * MINUTE_MS, linkUp: null };
  const second = { accepted: 0, sent: 2, failed: 2, waitingMax: 4, oldestWaitMs: 8 * MINUTE_MS };
  t.match(history.rows('10m'), [
    { at: NINE_MS, ...first, relayUp: 0.5 },
    { at: NINE_MS + TEN_MS, ...second, relayUp: 0 },
    { at: NINE_MS + 2 * TEN_MS, accepted: 0, waitingMax: 0, oldestWaitMs: 0, relayUp: 0 },
  ]);
  t.match(history.rows('1h'), [
    {
      at: NINE_MS,
      accepted: 5,
      sent: 3,
      failed: 2,
      waitingMax: 4,
      oldestWaitMs: 8 * MINUTE_MS,
      relayUp: 0.17,
    },
  ]);
});

/** The rows of a history that is opened anew, by the clock of the next boot or of this one. */
async function reread(disk: FaultyDisk, clock: FakeClock, step: '10m' | '1h' = '10m') {
  return (await historyOn(clock, disk)).history.rows(step);
}

t.test('a clean stop keeps all; a row that is under way goes on after it', async (t) => {
  const { history, device, clock, disk } = await historyOn();
  device.link = { isUp: true, sinceMs: 0 };
  device.accepted = 1;
  await clock.advance(HOUR_MS + 5 * MINUTE_MS);
  device.accepted = 4;
  const before = history.rows('10m');
  await history.close();
  const next = await historyOn(clock, disk);
  t.strictSame(next.history.rows('10m'), before);
  next.device.accepted = 2;
  next.device.link = { isUp: false, sinceMs: clock.bootMs() };
  await clock.advance(5 * MINUTE_MS);
  t.match(next.history.rows('10m').slice(-2), [
    { at: NINE_MS + HOUR_MS, accepted: 5, linkUp: 0.5 },
    { at: NINE_MS + HOUR_MS + TEN_MS, accepted: 0, linkUp: null },
  ]);
  t.match(next.history.rows('1h'), [{ accepted: 1 }, { accepted: 5 }]);
  await next.history.close();
  t.match(await reread(disk, clock, '1h'), [{ accepted: 1 }, { accepted: 5 }], 'counted once');
});

t.test('an idle daemon writes nothing, neither while all is well nor in an outage', async (t) => {
  const { history, device, clock, disk } = await historyOn();
  device.relay = { isUp: true, sinceMs: 0 };
  await clock.advance(2 * HOUR_MS);
  const written = writesOn(disk);
  const { fired } = clock;
  await clock.advance(70 * HOUR_MS);
  t.equal(written.count, 0);
  t.equal(clock.fired - fired, 70 * 6, 'one timer in ten minutes');
  device.accepted = 2;
  device.waiting = 2;
  device.oldestMs = clock.bootMs();
  device.relay = { isUp: false, sinceMs: clock.bootMs() };
  await clock.advance(2 * HOUR_MS);
  t.equal(written.count, 1);
  await clock.advance(70 * HOUR_MS);
  t.equal(written.count, 1, 'what waits grows older as predicted');
  const shown = history.rows('10m');
  t.equal(shown.length, 288);
  await history.close();
  t.equal(written.count, 2);
  t.ok(written.bytes < 250, `${written.bytes}`);
  t.strictSame(await reread(disk, clock), shown);
  const hours = await reread(disk, clock, '1h');
  t.equal(hours.length, 145);
  t.match(hours[0], { relayUp: 1, accepted: 0 });
  t.match(hours[72], { relayUp: 0, accepted: 2 });
});

t.test('the worst day takes a kilobyte, and no count is lost', async (t) => {
  const { history, device, clock, disk } = await historyOn();
  const written = writesOn(disk);
  const random = seededRandom(testSeed());
  const toll = async (minutes: number) => {
    for (let minute = 0; minute < minutes; minute++) {
      const big = () => Math.floor(10 ** (4 + random() * 2));
      device.accepted += big();
      device.sent += big();
      device.failed += big();
      device.waiting = big();
      device.oldestMs = clock.bootMs() - SECOND_MS * big();
      device.relay = { isUp: random() < 0.5, sinceMs: clock.bootMs() };
      device.link = { isUp: random() < 0.5, sinceMs: clock.bootMs() };
      await clock.advance(MINUTE_MS);
    }
  };
  // To just before midnight, when the first record of a day is written.
  await toll(15 * 60 - 1);
  for (let day = 0; day < 3; day++) {
    const before = written.bytes;
    await toll(24 * 60);
    t.ok(written.bytes - before <= DAY_BYTES, `${written.bytes - before}`);
    t.ok(written.bytes - before > DAY_BYTES / 2);
  }
  t.equal(written.count, 14 + 72);
  const hours = history.rows('1h');
  await history.close();
  const read = await reread(disk, clock, '1h');
  const sumOf = (rows: typeof hours) => rows.reduce((sum, { accepted }) => sum + accepted, 0);
  t.equal(sumOf(hours), device.accepted);
  t.equal(sumOf(read), device.accepted);
  const counts = ({ at, accepted, sent, failed, waitingMax, oldestWaitMs }: (typeof hours)[number]) => ({
    at,
    accepted,
    sent,
    failed,
    waitingMax,
    oldestWaitMs,
  });
  t.strictSame(read.map(counts), hours.map(counts));
});

t.test('restarts take no more than a kilobyte a day either', async (t) => {
  const clock = new FakeClock();
  const { history, disk } = await historyOn(clock);
  await history.close();
  const written = writesOn(disk);
  const dayMs = Date.UTC(2026, 10, 21) - clock.wallMs();
  for (let minute = 0; minute < dayMs / MINUTE_MS - 1; minute++) {
    const run = await historyOn(clock, disk);
    run.device.accepted = 3;
    await clock.advance(MINUTE_MS);
    await run.history.close();
  }
  t.ok(written.bytes <= DAY_BYTES, `${written.bytes}`);
  t.ok(written.bytes > DAY_BYTES / 2);
});

t.test('a month is kept in two files, and the rows before it are forgotten', async (t) => {
  const { device, clock, disk, history } = await historyOn();
  for (let hour = 0; hour < 63 * 24; hour++) {
    device.accepted += 2;
    device.sent += 1;
    await clock.advance(HOUR_MS);
  }
  t.ok(((await disk.look(HISTORY))?.bytes ?? 0) < 31 * DAY_BYTES);
  t.ok(((await disk.look(`${HISTORY}.1`))?.bytes ?? 0) < 31 * DAY_BYTES);
  t.strictSame(await disk.list(HISTORY_DIR), ['history', 'history.1']);
  const hours = history.rows('1h');
  t.equal(hours.length, 720);
  await history.close();
  const read = await reread(disk, clock, '1h');
  t.strictSame(read, hours);
  t.ok(read.slice(0, -1).every(({ accepted, sent }) => accepted === 2 && sent === 1));
  t.equal((await reread(disk, clock)).length, 288);
});

t.test('after time without power there is a gap', async (t) => {
  const { history, device, clock, disk } = await historyOn();
  device.accepted = 1;
  await clock.advance(HOUR_MS);
  await history.close();
  const later = clock.reboot({ offMs: 3 * HOUR_MS });
  const rows = await reread(disk, later);
  t.equal(rows.length, 7 + 1);
  t.equal(rows.at(-1)?.at, NINE_MS + 4 * HOUR_MS);
  t.equal((await reread(disk, later, '1h')).length, 3);
  const muchLater = await reread(disk, clock.reboot({ offMs: 40 * DAY_MS }), '1h');
  t.equal(muchLater.length, 1, 'only this hour');
});

t.test('while the clock is wrong nothing is shown or written; then the rows get their places', async (t) => {
  const { history, device, clock, disk } = await historyOn();
  device.accepted = 1;
  await clock.advance(HOUR_MS);
  await history.close();
  const kept = await reread(disk, clock);
  const next = clock.reboot({ wallMs: 0 });
  const run = await historyOn(next, disk);
  run.device.accepted = 7;
  const written = writesOn(disk);
  await next.advance(3 * HOUR_MS);
  t.strictSame(run.history.rows('10m'), kept.slice(0, 7));
  t.equal(written.count, 0);
  next.leap(NINE_MS + 10 * HOUR_MS - next.wallMs());
  const rows = run.history.rows('10m');
  t.equal(rows.length, 7 + 19);
  t.match(rows[7], { at: NINE_MS + 7 * HOUR_MS, accepted: 7 });
  t.equal(rows.at(-1)?.at, NINE_MS + 10 * HOUR_MS);
  await run.history.close();
  t.strictSame(await reread(disk, next), rows);
});

t.test('leaps of the clock move the rows of this run, on the disk too, and none goes back', async (t) => {
  for (const leapMs of [5 * HOUR_MS, -5 * HOUR_MS, 4 * MINUTE_MS, -12 * MINUTE_MS, 200 * DAY_MS]) {
    const clock = new FakeClock({ wallMs: NINE_MS - 7 * HOUR_MS });
    const first = await historyOn(clock);
    first.device.accepted = 1;
    await clock.advance(7 * HOUR_MS);
    await first.history.close();
    const run = await historyOn(clock, first.disk);
    run.device.accepted = 2;
    await clock.advance(2 * HOUR_MS + MINUTE_MS);
    run.device.accepted = 6;
    clock.leap(leapMs);
    await clock.advance(2 * HOUR_MS);
    const rows = run.history.rows('10m');
    t.equal(
      rows.reduce((sum, { accepted }) => sum + accepted, 0),
      leapMs > DAY_MS ? 6 : 7,
    );
    t.ok(
      rows.every(({ at }, i) => i === 0 || at > (rows[i - 1]?.at ?? 0)),
      `${leapMs}`,
    );
    t.ok(Math.abs((rows.at(-1)?.at ?? 0) + TEN_MS / 2 - clock.wallMs()) <= TEN_MS, `${leapMs}`);
    await run.history.close();
    t.strictSame(await reread(first.disk, clock), run.history.rows('10m'), `${leapMs}`);
  }
});

t.test('a file of a clock that was years ahead does not hide the present', async (t) => {
  const clock = new FakeClock({ wallMs: NINE_MS + 2 * 365 * DAY_MS });
  const run = await historyOn(clock);
  run.device.accepted = 1;
  await clock.advance(3 * HOUR_MS);
  await run.history.close();
  const next = clock.reboot({ wallMs: NINE_MS });
  const { history, device } = await historyOn(next, run.disk);
  device.accepted = 1;
  await next.advance(2 * HOUR_MS);
  t.equal(history.rows('10m').length, 13);
  await history.close();
  t.equal((await reread(run.disk, next)).length, 13);
});

t.test('after a power cut at any moment it starts, and knows what was kept', async (t) => {
  const random = seededRandom(testSeed());
  for (let round = 0; round < 40; round++) {
    const { device, clock, disk, history } = await historyOn();
    for (let hour = 0; hour < 8; hour++) {
      device.accepted += 1;
      await clock.advance(HOUR_MS);
    }
    const shown = history.rows('1h');
    const after = disk.afterPowerCut(
      pick(random, ['nothing', 'everything', 'random', 'torn-head', 'torn-tail']),
    );
    const next = await historyOn(clock.reboot(), after);
    const read = next.history.rows('1h').slice(0, -1);
    for (const row of read) t.match(row, shown.find(({ at }) => at === row.at) ?? 'unknown');
    next.device.accepted = 9;
    await next.clock.advance(2 * HOUR_MS);
    await next.history.close();
    t.equal(
      (await reread(after, next.clock, '1h')).reduce((sum, { accepted }) => sum + accepted, 0),
      read.length + 9,
    );
  }
});

t.test('a disk that refuses costs history alone, and is told once', async (t) => {
  const { device, clock, disk, lines, history } = await historyOn();
  disk.onOperation = (_, { path }) => (path.startsWith(HISTORY) ? 'error-half:ENOSPC' : 'ok');
  for (let hour = 0; hour < 5; hour++) {
    device.accepted += 1;
    await clock.advance(HOUR_MS);
  }
  t.equal(lines.length, 1);
  t.match(lines[0], /history not kept .*the disk is full/);
  disk.onOperation = () => 'ok';
  device.accepted += 1;
  await clock.advance(HOUR_MS);
  const shown = history.rows('1h');
  await history.close();
  t.strictSame(await reread(disk, clock, '1h'), shown, 'nothing is lost while it runs');
});

t.test('what is no file of ours is left alone or put aside, and stops no start', async (t) => {
  const directory = await historyOn();
  await directory.disk.makeDirectory(HISTORY);
  directory.device.accepted = 1;
  await directory.clock.advance(HOUR_MS);
  t.match(directory.lines, [/history not kept .*not a file/]);
  const { disk, clock } = await historyOn();
  const foreign = await disk.open(HISTORY, 'create');
  await foreign.write(Buffer.alloc(100_000, 'foreign'), 0);
  await foreign.close();
  const run = await historyOn(clock, disk);
  run.device.accepted = 1;
  await clock.advance(HOUR_MS);
  t.equal((await disk.look(`${HISTORY}.1`))?.bytes, 100_000);
  t.strictSame(await reread(disk, clock), run.history.rows('10m'));
  disk.onRead = () => 'EIO';
  t.equal((await reread(disk, clock)).length, 1);
});
