/** Buffers that were streamed are freed from time to time. */
// A process of its own: it measures the memory of buffers.
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { MIB } from '../../src/base/limits.js';
import { garbageCollector } from '../../src/base/system/memory.js';

/** Resolves when a collector has loaded what its first collection needs. */
async function loaded(): Promise<void> {
  await Promise.all([import('node:v8'), import('node:vm')]);
  await nextTurn();
}

t.test('one collection runs for every 4 MiB', async (t) => {
  let looks = 0;
  const streamed = garbageCollector('minor', () => {
    looks++;
  });
  for (let i = 0; i < 64 * 8; i++) streamed(MIB / 64);
  t.equal(looks, 2);
});

t.test('a major collection frees buffers that were kept for a while', async (t) => {
  const dropped = garbageCollector('major');
  dropped(4 * MIB);
  await loaded();
  let kept: Buffer[] = [];
  const garbage = () => {
    for (let i = 0; i < 8 * 1024; i++) JSON.parse('[{"a":[1]}]');
  };
  let most = 0;
  for (let round = 0; round < 20; round++) {
    kept = Array.from({ length: 64 }, () => Buffer.allocUnsafeSlow(65_536));
    // Old by now: young collections do not find them.
    garbage();
    await nextTurn();
    const bytes = kept.reduce((sum, { length }) => sum + length, 0);
    kept = [];
    dropped(bytes);
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    most = Math.max(most, process.memoryUsage().arrayBuffers);
  }
  t.ok(most < 16 * MIB, `${most / MIB} MiB at most`);
});

t.test('a minor collection frees buffers that lived shortly', async (t) => {
  const streamed = garbageCollector('minor');
  streamed(4 * MIB);
  await loaded();
  let most = 0;
  for (let i = 0; i < 2000; i++) {
    const { length } = Buffer.allocUnsafeSlow(65_536);
    streamed(length);
    if (i % 16 === 0) await nextTurn();
    most = Math.max(most, process.memoryUsage().arrayBuffers);
  }
  t.ok(most < 16 * MIB, `${most / MIB} MiB at most`);
});
