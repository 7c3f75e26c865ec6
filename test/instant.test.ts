/** Points in time as a reader sees them. */
import t from 'tap';
import { isoOf } from '../src/base/instant.js';

t.test('a time is written as toISOString writes it', async (t) => {
  const edges = [
    0, -1, 951_782_399_999, 951_782_400_000, 253_402_300_799_999, 253_402_300_800_000, -62_167_219_200_001,
  ];
  for (const ms of [...edges, 1_700_000_000_007]) t.equal(isoOf(ms), new Date(ms).toISOString());
  t.throws(() => isoOf(Number.NaN), RangeError);
});
