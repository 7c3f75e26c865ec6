/** The journal over real segments: the place of each record, and the reserve for outcomes. */
import t from 'tap';
import { KIB, OUTCOME_RESERVE_BYTES, PAGE_BYTES, SEGMENT_BYTES } from '../../src/base/limits.js';
import { Journal, type Urgency } from '../../src/mail/store/journal.js';
import { Segments } from '../../src/mail/store/segments.js';
import { FakeClock } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { seededRandom, testSeed } from '../support/random.js';

function start() {
  const disk = new FaultyDisk({ directories: ['/journal'] });
  /** What was applied, in order, and in which segment it lies. */
  const applied: string[] = [];
  const segments = new Segments(disk, '/journal');
  const journal = new Journal({
    segments,
    clock: new FakeClock(),
    storeId: 'a',
    follows: { segment: 0, upTo: 0 },
    unproven: [],
    resumable: null,
    apply: ({ contents }, { segment }) => {
      applied.push(`${contents[0]?.toString('latin1').replace(/\0+/, '')} in ${segment}`);
    },
    onProven: () => undefined,
    onTrouble: () => undefined,
  });
  return {
    applied,
    /** The first segment's bytes, without the zeros at its end. */
    written: async () => {
      const bytes = (await disk.readWhole('/journal/00000001.log')) ?? Buffer.alloc(0);
      return bytes.subarray(0, bytes.lastIndexOf(0x0a) + 1);
    },
    /** Appends a record of so many bytes, and about 300 more. Gives its name, or the code of the refusal. */
    append: async (name: string, urgency: Urgency, bytes: number) => {
      const content = Buffer.alloc(bytes);
      content.write(name);
      await journal
        .append({ events: [], contents: [content] }, urgency)
        .catch(({ code }) => applied.push(`${name}: ${code}`));
    },
    /** From now on there is no room for another segment. */
    fillDisk: async () => {
      await segments.close();
      disk.onOperation = (_n, { kind }) => (kind === 'create' ? 'error:ENOSPC' : 'ok');
    },
  };
}

t.test(
  'records keep their order: one that does not fit takes those behind it into a new segment',
  async (t) => {
    const { append, applied } = start();
    await append('first', 'synced', SEGMENT_BYTES / 2);
    await Promise.all([append('large', 'synced', SEGMENT_BYTES / 2), append('small', 'synced', 10)]);
    t.same(applied, ['first in 1', 'large in 2', 'small in 2']);
  },
);

t.test('the end of a segment is for outcomes alone', async (t) => {
  const { append, applied, fillDisk } = start();
  await append('filler', 'synced', SEGMENT_BYTES - OUTCOME_RESERVE_BYTES - 2 * KIB);
  await fillDisk();
  await append('message', 'synced', 2 * KIB);
  await append('outcome', 'written', 2 * KIB);
  await append('synced outcome', 'synced-outcome', 2 * KIB);
  t.same(applied, ['filler in 1', 'message: storage-full', 'outcome in 1', 'synced outcome in 1']);
});

t.test('a new segment is begun with at least the head, and not filled at once', async (t) => {
  const { append, applied } = start();
  const quarters = ['1', '2', '3', '4'].map((name) => [name, SEGMENT_BYTES / 4] as const);
  const all = [['huge', 3 * SEGMENT_BYTES] as const, ...quarters];
  await Promise.all(all.map(([name, bytes]) => append(name, 'synced', bytes)));
  t.same(applied, ['huge in 1', '1 in 2', '2 in 2', '3 in 2', '4 in 3']);
});

t.test(
  'without a new segment outcomes go where they still fit, and the first of all is refused',
  async (t) => {
    const { append, applied, fillDisk } = start();
    await append('filler', 'synced', SEGMENT_BYTES - OUTCOME_RESERVE_BYTES - 2 * KIB);
    await fillDisk();
    await Promise.all([
      append('too large', 'written', OUTCOME_RESERVE_BYTES + 3 * KIB),
      append('message', 'synced', 10),
      append('outcome', 'written', 10),
    ]);
    t.same(applied.sort(), [
      'filler in 1',
      'message: storage-full',
      'outcome in 1',
      'too large: storage-full',
    ]);
  },
);

/** Where the syncs of these lines ended, but for the last one: each record says what was on the device before it. */
function syncEnds(bytes: Buffer): number[] {
  const synced = bytes.toString('latin1').matchAll(/"synced":(\d+)/g);
  return [...new Set([...synced].map(([, end]) => Number(end)))];
}

t.test('a message and the outcome before it cost one page of the device', async (t) => {
  const { append, written } = start();
  for (let i = 0; i < 40; i++) {
    await append('message', 'synced', 1100);
    await append('outcome', 'written', 10);
  }
  const bytes = await written();
  const ends = syncEnds(bytes);
  t.equal(ends.length, 41);
  // The first sync says how long the next will be.
  for (const [i, end] of ends.slice(3).entries()) {
    const from = ends[i + 2] ?? 0;
    t.equal(Math.ceil(end / PAGE_BYTES) - Math.floor(from / PAGE_BYTES), 1, `${from}-${end}`);
  }
});

t.test('padding makes the journal at most half longer, and spares the reserve', async (t) => {
  const seed = testSeed();
  const random = seededRandom(seed);
  const { append, written } = start();
  for (let i = 0; i < 200; i++) {
    const urgency = random() < 0.5 ? 'written' : 'synced';
    await append('any', urgency, Math.floor(2500 ** random()));
  }
  await append(
    'filler',
    'synced',
    SEGMENT_BYTES - OUTCOME_RESERVE_BYTES - (await written()).length - 2 * KIB,
  );
  for (let i = 0; i < 20; i++) await append('outcome', 'synced-outcome', 1400);
  const text = (await written()).toString('latin1');
  t.ok(text.length > SEGMENT_BYTES - OUTCOME_RESERVE_BYTES + 16 * KIB, 'the reserve is in use');
  t.notMatch(text.slice(SEGMENT_BYTES - OUTCOME_RESERVE_BYTES), / \n/, 'no padding there');
  const padded = text.slice(0, text.lastIndexOf('filler'));
  t.match(padded, / \n/, 'there is some');
  const bare = padded.replace(/ +(?=\n)/g, '');
  t.ok(
    padded.length <= bare.length * 1.5 + PAGE_BYTES,
    `${padded.length} bytes for ${bare.length}, seed ${seed}`,
  );
});
