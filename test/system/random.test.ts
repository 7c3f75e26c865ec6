/** Bytes from the kernel. */
import t from 'tap';
import { openRandom, randomBytes } from '../../src/base/system/random.js';

t.test('random bytes have the asked length, and never repeat', async (t) => {
  const random = openRandom();
  t.equal(random(1000).length, 1000);
  t.not(random(16).toString('hex'), random(16).toString('hex'));
  for (const count of [0, 1, 5, 2560, 1_000_000]) t.equal(randomBytes(count).length, count);
  t.not(randomBytes(16).toString('hex'), randomBytes(16).toString('hex'));
  // Of a million bytes each value comes about 3,906 times: what is left zero at either end would stand out.
  const counts = new Uint32Array(256);
  for (const byte of randomBytes(1_000_000)) counts[byte] = (counts[byte] as number) + 1;
  t.ok(counts.every((count) => count > 3000 && count < 5000));
});
