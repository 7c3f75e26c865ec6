/** The refresh token that followed the given one survives power cuts and full disks, until a person gives a newer one. */
import t from 'tap';
import { STORAGE_RETRY_MS } from '../../src/base/limits.js';
import { type GivenToken, RefreshToken } from '../../src/mail/store/refresh-token.js';
import { FakeClock } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import type { PowerCut } from '../support/faulty-nodes.js';
import { keptLog } from '../support/system.js';

const GIVEN: GivenToken = { url: 'https://login.example/token', clientId: 'app', token: 'given' };
const FILE = '/dir/relay-token.json';
const VARIANTS: readonly PowerCut[] = ['nothing', 'everything', 'random', 'random', 'torn-head', 'torn-tail'];

function open(disk = new FaultyDisk({ directories: ['/dir'] })) {
  const clock = new FakeClock();
  const { log, lines } = keptLog();
  return { disk, clock, lines, refresh: new RefreshToken({ disk, clock, log, directory: '/dir' }) };
}

t.test('the newest token takes the place of the given one, also after a restart', async (t) => {
  const { disk, refresh } = open();
  t.equal(await refresh.newest(GIVEN), 'given');
  await refresh.replaceBy('second', GIVEN);
  await refresh.replaceBy('third', GIVEN);
  t.equal(await refresh.newest(GIVEN), 'third');
  t.equal(await open(disk.afterPowerCut('nothing')).refresh.newest(GIVEN), 'third', 'it was synced');
});

t.test('a token that a person gives later wins, and so does another application or endpoint', async (t) => {
  const { disk, refresh } = open();
  await refresh.replaceBy('second', GIVEN);
  for (const other of [{ token: 'newer' }, { clientId: 'b' }, { url: 'https://other.example/' }]) {
    const given = { ...GIVEN, ...other };
    t.equal(await open(disk).refresh.newest(given), given.token);
  }
  t.notMatch(String(await disk.readWhole(FILE)), /:"given"/, 'the given token is not copied');
});

t.test('whenever the power is cut, the old token or the new one is there', async (t) => {
  const { disk, refresh } = open();
  await refresh.replaceBy('second', GIVEN);
  const cuts: FaultyDisk[] = [];
  disk.onOperation = () => {
    cuts.push(...VARIANTS.map((variant) => disk.afterPowerCut(variant)));
    return 'ok';
  };
  await refresh.replaceBy('third', GIVEN);
  const seen = new Set<string>();
  for (const cut of cuts) {
    const again = open(cut);
    seen.add(await again.refresh.newest(GIVEN));
    t.same(again.lines, []);
  }
  t.same([...seen].sort(), ['second', 'third']);
});

t.test(
  'a token that the disk does not take is used, told once, and written when there is room',
  async (t) => {
    const { disk, clock, lines, refresh } = open();
    await refresh.replaceBy('second', GIVEN);
    disk.onOperation = () => 'error:ENOSPC';
    await refresh.replaceBy('third', GIVEN);
    await clock.advance(3 * STORAGE_RETRY_MS);
    await refresh.replaceBy('fourth', GIVEN);
    t.equal(await refresh.newest(GIVEN), 'fourth');
    t.match(lines, [/refresh token not kept path=\/dir\/relay-token\.json reason=.*the disk is full/]);
    t.equal(lines.length, 1);
    disk.onOperation = () => 'ok';
    await clock.advance(STORAGE_RETRY_MS);
    t.match(lines.slice(1), [/refresh token kept/]);
    t.notMatch(lines.join(), /second|third|fourth/);
    t.equal(await open(disk.afterPowerCut('nothing')).refresh.newest(GIVEN), 'fourth');
    t.equal(clock.pending, 0);
  },
);

t.test('a stop tries once more, and leaves no timer', async (t) => {
  const { disk, clock, refresh } = open();
  disk.onOperation = () => 'error:EIO';
  await refresh.replaceBy('second', GIVEN);
  await refresh.close();
  t.equal(clock.pending, 0);
  disk.onOperation = () => 'ok';
  await refresh.close();
  t.equal(await open(disk).refresh.newest(GIVEN), 'second');
});

t.test(
  'a file that cannot be read is no reason to use an old token; a damaged one is put aside',
  async (t) => {
    const { disk, refresh } = open();
    await refresh.replaceBy('second', GIVEN);
    const again = open(disk);
    disk.onRead = () => 'EIO';
    await t.rejects(again.refresh.newest(GIVEN), { code: 'EIO' });
    disk.onRead = () => null;
    t.equal(await again.refresh.newest(GIVEN), 'second');
    const file = await disk.open(FILE, 'update');
    await file.write(Buffer.from('?'), 12);
    await file.close();
    const third = open(disk);
    t.equal(await third.refresh.newest(GIVEN), 'given');
    t.match(third.lines, [
      /refresh token not kept .*the file is damaged: see \/dir\/relay-token\.json\.damaged/,
    ]);
  },
);
