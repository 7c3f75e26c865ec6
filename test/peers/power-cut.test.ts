/**
 * Real power cuts at random moments: the built daemon under load on ext4 and xfs. Acknowledged messages survive each cut,
 * refused ones never appear, and every message is delivered. Planted faults are found.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { Cut } from '../power/device.js';
import { type Ended, History } from '../power/history.js';
import { FILE_SYSTEMS, type FileSystem, RecordedDisk } from '../power/recorded-disk.js';
import { testSeed } from '../support/random.js';
import { sharedDirectory, skipWithout } from './peers.js';

const TOP = fileURLToPath(new URL('../..', import.meta.url));
/** For each file system. */
const CUTS = 12;
const HISTORIES = process.env.FIELDPOST_TEST_LONG === '1' ? 10 : 1;
/** A planted fault is found within this many. */
const CUTS_UNTIL_FOUND = 30;
const KINDS: readonly Cut[] = ['device', 'file system'];
/** The faults of planted.mjs, and the cuts that find each. A file system shuts down too slowly to forestall a sync. */
const PLANTS: Readonly<Record<string, readonly Cut[]>> = {
  'no-sync': KINDS,
  'no-spool-sync': KINDS,
  'early-answer': ['device'],
};
const skip = skipWithout('/usr/sbin/mkfs.ext4', '/usr/sbin/mkfs.xfs', '/usr/sbin/xfs_io', '/dev/fuse');
/** The findings that mean a loss of something acknowledged. */
const LOSS =
  /is not found|did not arrive|was answered|although|address is known|was cancelled|same key|has arrived/;
const seed = testSeed();
const timeout = HISTORIES * 600_000;

t.comment(`seed ${seed}`);

function summaryOf({ cuts, promised, edits, arrived, twice, left }: Ended): string {
  const writes = `of the writes not flushed ${left.kept} kept, ${left.torn} torn, ${left.lost} lost`;
  return `${cuts} cuts: ${promised} promised, ${arrived} arrived, ${twice} twice, ${edits} edits; ${writes}`;
}

for (const [i, fileSystem] of FILE_SYSTEMS.entries()) {
  t.test(`power cuts on ${fileSystem.name} break no promise`, { skip, timeout }, async (t) => {
    const cuts = Array.from({ length: CUTS }, (_, n) => (n % 6 === 5 ? 'start' : (KINDS[n % 2] as Cut)));
    for (let history = 0; history < HISTORIES; history++) {
      const ended = await new History(
        seed + i + history * FILE_SYSTEMS.length,
        new RecordedDisk(fileSystem),
      ).live(cuts);
      t.comment(summaryOf(ended));
      if (!t.same(ended.found, [], 'no promise is broken')) t.comment(ended.log.slice(-50).join('\n'));
      t.equal(ended.cuts, CUTS);
    }
  });
}

for (const [plant, kinds] of Object.entries(PLANTS)) {
  t.test(`power cuts find the planted fault ${plant}`, { skip, timeout }, async (t) => {
    const directory = sharedDirectory(t);
    execFileSync(process.execPath, ['test/power/planted.mjs', directory, plant], { cwd: TOP });
    const main = join(directory, 'main.cjs');
    chmodSync(main, 0o755);
    for (const kind of kinds) {
      const history = new History(seed, new RecordedDisk(FILE_SYSTEMS[0] as FileSystem), main);
      const ended = await history.live(Array.from({ length: CUTS_UNTIL_FOUND }, () => kind));
      t.comment(`by a cut of the ${kind}: ${summaryOf(ended)}`);
      for (const words of ended.found.slice(0, 3)) t.comment(words);
      t.match(ended.found.join('\n'), LOSS, `by a cut of the ${kind}`);
    }
  });
}
