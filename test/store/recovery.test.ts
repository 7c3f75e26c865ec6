/** Recovery's tables: every combination of what the files can look like has exactly one meaning. */
import t from 'tap';
import { encodeLine, type Follows, type SealedRecord, seal } from '../../src/store/record.js';
import {
  chooseBase,
  type Head,
  judge,
  linkHistory,
  rowsFor,
  type SegmentsState,
  type SnapshotState,
  scan,
} from '../../src/store/recovery.js';

const SNAPSHOTS: readonly SnapshotState[] = ['good', 'bad', 'absent', 'newer'];
const SEGMENTS: readonly SegmentsState[] = ['none', 'from-first', 'later'];

t.test('exactly one row of the base table for every combination', async (t) => {
  for (const current of SNAPSHOTS) {
    for (const previous of SNAPSHOTS) {
      for (const segments of SEGMENTS) {
        const rows = rowsFor({ current, previous, segments });
        t.equal(rows.length, 1, `${current}, ${previous}, ${segments}`);
      }
    }
  }
});

t.test('what the page says of each case', async (t) => {
  const base = (current: SnapshotState, previous: SnapshotState, segments: SegmentsState) =>
    chooseBase({ current, previous, segments });
  t.same(base('bad', 'good', 'later'), { from: 'previous', trusted: true }, 'the one before');
  t.same(base('absent', 'good', 'later'), { from: 'previous', trusted: true }, 'between the renames');
  t.same(base('absent', 'absent', 'none'), { from: 'empty', trusted: true }, 'a new store');
  t.same(base('absent', 'absent', 'later'), { from: 'empty', trusted: false }, 'snapshots are lost');
  t.same(base('bad', 'bad', 'later'), { from: 'empty', trusted: false }, 'both are bad');
  t.same(base('newer', 'good', 'later'), { from: 'previous', trusted: false }, 'a newer version went on');
  t.same(base('newer', 'newer', 'from-first'), { from: 'empty', trusted: false }, 'it knows the rest alone');
  t.same(base('absent', 'newer', 'later'), { from: 'empty', trusted: false }, 'a cut between its renames');
  t.same(base('bad', 'absent', 'from-first'), { from: 'empty', trusted: true }, 'the journal has it all');
});

t.test('the history is linked from the newest segment along its heads', async (t) => {
  const link = (heads: [number, Head][], segment: number, offset = 0) =>
    linkHistory(new Map(heads), { segment, offset });
  const after = (segment: number, upTo: number): Follows => ({ segment, upTo });

  t.same(
    link(
      [
        [1, after(0, 0)],
        [2, after(1, 500)],
        [3, 'untouched'],
      ],
      0,
    ),
    {
      stretches: [
        { segment: 1, from: 0, upTo: 500 },
        { segment: 2, from: 0, upTo: null },
      ],
      whole: true,
      missing: [],
    },
    'a plain chain; the prepared segment is not part of it',
  );
  t.same(
    link(
      [
        [4, after(3, 9)],
        [5, after(4, 700)],
        [6, after(4, 700)],
      ],
      4,
      100,
    ),
    {
      stretches: [
        { segment: 4, from: 100, upTo: 700 },
        { segment: 6, from: 0, upTo: null },
      ],
      whole: true,
      missing: [],
    },
    'a segment begun in doubt and passed over is void',
  );
  t.same(
    link([[4, after(3, 9)]], 4, 100),
    { stretches: [{ segment: 4, from: 100, upTo: null }], whole: true, missing: [] },
    'behind a snapshot in the newest segment',
  );
  t.same(link([[7, after(6, 80)]], 5, 100).whole, false, 'a segment between snapshot and newest is missing');
  t.same(link([], 5, 100), { stretches: [], whole: false, missing: [5] }, 'the journal is gone');
  t.same(link([], 0), { stretches: [], whole: true, missing: [] }, 'there never was one');
  t.same(
    link(
      [
        [1, after(0, 0)],
        [2, 'unreadable'],
      ],
      0,
    ),
    {
      stretches: [
        { segment: 1, from: 0, upTo: null },
        { segment: 2, from: 0, upTo: null },
      ],
      whole: true,
      missing: [],
    },
    'a torn head: nothing says that the segment before ends early',
  );
});

const line = (events: SealedRecord['events'], synced: number) =>
  encodeLine(seal({ events, contents: [] }), { segment: 1, synced });
const held = (id: string) => [{ e: 'cancelled', id, at: { wallMs: 0, boot: '', bootMs: 0 } } as const];

/** Three records, the third of which says that the first two were synced. */
function threeLines(): { bytes: Buffer; starts: number[] } {
  const first = line(held('a'), 0);
  const second = line(held('b'), first.length);
  const third = line(held('c'), first.length + second.length);
  const bytes = Buffer.concat([first, second, third, Buffer.alloc(500)]);
  return { bytes, starts: [0, first.length, first.length + second.length] };
}

function judged(bytes: Buffer, upTo: number | null = null) {
  const stretch = { segment: 1, from: 0, upTo };
  const { valid, damaged, provenTo } = judge(stretch, scan(bytes, stretch));
  return { ids: valid.map(({ record }) => (record.events[0] as { id: string }).id), damaged, provenTo };
}

t.test('whole lines are read up to the zeros', async (t) => {
  const { bytes, starts } = threeLines();
  t.same(judged(bytes), { ids: ['a', 'b', 'c'], damaged: [], provenTo: starts[2] });
});

t.test(
  'every flipped bit and every cut is a torn tail above what was synced, and damage below',
  async (t) => {
    const { bytes, starts } = threeLines();
    const end = bytes.length - 500;
    const third = starts[2] as number;
    const lineOf = (at: number) => starts.filter((start) => start <= at).length - 1;
    for (let at = 0; at < end; at++) {
      for (const flip of [0x01, 0x20, 0x80]) {
        const broken = Buffer.from(bytes);
        broken[at] = (broken[at] as number) ^ flip;
        const { ids, damaged } = judged(broken);
        const lost = lineOf(at);
        const names = ['a', 'b', 'c'];
        if (!ids.every((id) => id !== names[lost])) t.fail(`byte ${at}: a broken line was read`);
        // A lost line feed joins two lines, of which the second is still good.
        if (ids.length !== 2) t.fail(`byte ${at}: ${ids.join()} left, of what only one line was broken`);
        // A torn write leaves text and zeros, nothing else.
        const foreign = (broken[at] as number) < 0x20 && broken[at] !== 0x0a && broken[at] !== 0;
        const impossible = foreign || (broken[at] as number) > 0xf4;
        if (damaged.length > 0 !== (at < third || impossible))
          t.fail(`byte ${at}: damage ${JSON.stringify(damaged)}`);
      }
    }
    for (let cut = 0; cut < end; cut++) {
      const torn = Buffer.concat([bytes.subarray(0, cut), Buffer.alloc(bytes.length - cut)]);
      const { ids, damaged } = judged(torn);
      // A line whose line feed alone is missing is still whole.
      const whole = starts.filter((_, i) => cut >= (starts[i + 1] ?? end) - 1).length;
      if (ids.length !== whole) t.fail(`cut at ${cut}: ${ids.length} of ${whole} lines read`);
      if (damaged.length > 0) t.fail(`cut at ${cut}: a torn tail is no damage`);
    }
    t.pass(`${end} bytes`);
  },
);

t.test('below a follower nothing may be missing, and nothing behind it counts', async (t) => {
  const { bytes, starts } = threeLines();
  const [, second, third] = starts as [number, number, number];
  t.same(judged(bytes, third), { ids: ['a', 'b'], damaged: [], provenTo: third }, 'what is behind is void');
  const holed = Buffer.from(bytes).fill(0, second, third);
  t.same(judged(holed, third), { ids: ['a'], damaged: [{ offset: second, end: third }], provenTo: third });
});

t.test('what a second place says was synced counts as proven', async (t) => {
  const { bytes, starts } = threeLines();
  const end = bytes.length - 500;
  const third = starts[2] as number;
  const judgedMarked = (bytes: Buffer) => {
    const stretch = { segment: 1, from: 0, upTo: null, noted: end };
    return judge(stretch, scan(bytes, stretch));
  };
  t.same(judgedMarked(bytes).damaged, []);
  t.equal(judgedMarked(bytes).provenTo, end);
  t.same(
    judgedMarked(Buffer.from(bytes).fill(0, third)).damaged,
    [{ offset: third, end }],
    'the last is gone',
  );
  t.same(judgedMarked(Buffer.alloc(bytes.length)).damaged, [{ offset: 0, end }], 'all is gone');
});

t.test('a segment of which a second place knows, and which is gone, is missing', async (t) => {
  const heads = new Map<number, Head>([[4, { segment: 3, upTo: 9 }]]);
  const base = { segment: 4, offset: 100 };
  t.same(linkHistory(heads, base, { segment: 5, offset: 80 }), {
    stretches: [{ segment: 4, from: 100, upTo: null }],
    whole: false,
    missing: [5],
  });
  t.same(
    linkHistory(heads, base, { segment: 3, offset: 80 }),
    linkHistory(heads, base),
    'an old note says nothing',
  );
});

t.test('what an earlier use of the segment left is no history', async (t) => {
  const { bytes } = threeLines();
  const used = Buffer.concat([bytes, bytes, bytes]);
  const again = encodeLine(seal({ events: held('new'), contents: [] }), { segment: 2, synced: 0 });
  again.copy(used, 0);
  const stretch = { segment: 2, from: 0, upTo: null };
  const { valid, damaged } = judge(stretch, scan(used, stretch));
  t.equal(valid.length, 1);
  t.same(damaged, []);
});
