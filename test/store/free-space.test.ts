/** What must stay free on the disk: the reasons for a refusal, and the log. */
import t from 'tap';
import { KIB, MIB } from '../../src/base/limits.js';
import type { Space } from '../../src/base/system/disk.js';
import { FreeSpace } from '../../src/mail/store/free-space.js';
import { FakeClock } from '../support/clock.js';

/** A disk that has what `now` says, of which 16 MiB and 100 inodes must stay free. */
function setUp(now: Partial<Space>) {
  const lines: string[] = [];
  const log = {
    info: (event: string) => void lines.push(event),
    error: (event: string, fields?: { reason?: unknown }) => void lines.push(`${event}: ${fields?.reason}`),
    warn: (event: string, fields?: { reason?: unknown }) => void lines.push(`${event}: ${fields?.reason}`),
  };
  const found: Space = { freeBytes: 1024 * MIB, sizeBytes: 2048 * MIB, freeInodes: 1000, ...now };
  const disk = { space: async () => ({ ...found }) };
  const budget = { minFreeBytes: 16 * MIB };
  const space = new FreeSpace({ disk, clock: new FakeClock(), log, directory: '/', budget });
  const lookAt = async (next: Partial<Space>) => {
    Object.assign(found, next);
    await space.look();
    return space.shortage;
  };
  return { space, lines, lookAt };
}

t.test('a disk is short of bytes or of inodes, or too small', async (t) => {
  const { space, lookAt } = setUp({});
  t.equal(await lookAt({ freeBytes: 16 * MIB }), null);
  t.match(
    await lookAt({ freeBytes: 15 * MIB }),
    /has 15 MiB free; 16 MiB must stay free \(FIELDPOST_MIN_FREE\)/,
  );
  t.throws(() => space.check(), { code: 'storage-full', hint: 'free some space on the disk' });
  t.match(await lookAt({ sizeBytes: 16 * MIB }), /has 16 MiB in all, and 16 MiB must stay free/);
  t.throws(() => space.check(), { code: 'storage-full', hint: /^lower it, or give/ }, 'nothing to free');
  t.match(
    await lookAt({ freeBytes: 17 * MIB, sizeBytes: 64 * MIB, freeInodes: 99 }),
    /99 inodes free; 100 must/,
  );
});

t.test('a request for room must leave the reserve free', async (t) => {
  const { space, lookAt } = setUp({});
  await lookAt({ freeBytes: 16 * MIB + 8 * KIB });
  space.checkBytes(8 * KIB, 0);
  t.throws(() => space.checkBytes(9 * KIB, 0), {
    code: 'storage-full',
    message: / free, and 9 KiB are asked for; /,
  });
  space.checkBytes(9 * KIB, KIB);
  space.spend(4 * KIB);
  t.throws(() => space.checkBytes(8 * KIB, 0), { code: 'storage-full' });
  space.takeFile();
});

t.test('around the limit a full disk is logged once, and its end once', async (t) => {
  const { lines, lookAt } = setUp({});
  for (let round = 0; round < 3; round++) {
    t.not(await lookAt({ freeBytes: 16 * MIB - 1 }), null);
    t.equal(await lookAt({ freeBytes: 16 * MIB + MIB }), null, 'which is what it is asked for');
  }
  t.same(lines, ['storage full: the disk has 15 MiB free; 16 MiB must stay free (FIELDPOST_MIN_FREE)']);
  await lookAt({ freeBytes: 17.6 * MIB });
  t.same(lines.slice(1), ['storage no longer full']);

  for (let round = 0; round < 3; round++) {
    await lookAt({ freeInodes: 99 });
    await lookAt({ freeInodes: 109 });
  }
  await lookAt({ freeInodes: 110 });
  t.same(lines.slice(2), [
    'storage full: the disk has 99 inodes free; 100 must stay free',
    'storage no longer full',
  ]);
});
