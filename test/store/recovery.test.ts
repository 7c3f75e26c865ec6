/** Recovery's tables: every combination of what the files can look like has exactly one meaning. */
import t from 'tap';
import { encodeLine, type Follows, type SealedRecord, seal } from '../../src/mail/store/record.js';
import {
  chooseBase,
  type Head,
  judge,
  linkHistory,
  rowsFor,
  type SegmentsState,
  type SnapshotState,
  type Stretch,
  scan,
} from '../../src/mail/store/recovery.js';

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

t.test('how each kind of start begins', async (t) => {
  const base = (current: SnapshotState, previous: SnapshotState, segments: SegmentsState) => {
    const { from, trusted } = chooseBase({ current, previous, segments });
    return `${from}${trusted ? '' : ', not trusted'}`;
  };
  t.equal(base('bad', 'good', 'later'), 'previous', 'the newest snapshot is damaged');
  t.equal(base('absent', 'good', 'later'), 'previous', 'the power was cut between the renames');
  t.equal(base('absent', 'absent', 'none'), 'empty', 'a new store');
  t.equal(base('absent', 'absent', 'later'), 'empty, not trusted', 'the snapshots are lost');
  t.equal(base('bad', 'bad', 'later'), 'empty, not trusted', 'both are damaged');
  t.equal(base('newer', 'good', 'later'), 'previous, not trusted', 'a newer version went on');
  t.equal(base('newer', 'newer', 'from-first'), 'empty, not trusted', 'only a newer version knows more');
  t.equal(base('absent', 'newer', 'later'), 'empty, not trusted', 'a cut between its renames');
  t.equal(base('bad', 'absent', 'from-first'), 'empty', 'the journal has everything');
});

t.test('the history is linked from the newest segment along its heads', async (t) => {
  const link = (heads: Record<number, Head>, segment: number, offset = 0) =>
    linkHistory(new Map(Object.entries(heads).map(([number, head]) => [Number(number), head])), {
      segment,
      offset,
    });
  const after = (segment: number, upTo: number): Follows => ({ segment, upTo });
  const stretch = (segment: number, from: number, upTo: number | null) => ({ segment, from, upTo });
  const whole = (...stretches: Stretch[]) => ({ stretches, whole: true, missing: [] });

  t.same(
    link({ 1: after(0, 0), 2: after(1, 500) }, 0),
    whole(stretch(1, 0, 500), stretch(2, 0, null)),
    'a plain chain',
  );
  t.same(
    link({ 4: after(3, 9), 5: after(4, 700), 6: after(4, 700) }, 4, 100),
    whole(stretch(4, 100, 700), stretch(6, 0, null)),
    'a segment begun in doubt and passed over is void',
  );
  t.same(link({ 4: after(3, 9) }, 4, 100), whole(stretch(4, 100, null)), 'the snapshot ends in the newest');
  t.same(link({ 7: after(6, 80) }, 5, 100).whole, false, 'a segment between snapshot and newest is missing');
  t.same(link({}, 5, 100), { stretches: [], whole: false, missing: [5] }, 'the journal is gone');
  t.same(link({}, 0), whole(), 'there never was one');
  t.same(
    link({ 1: after(0, 0), 2: 'unreadable' }, 0),
    whole(stretch(1, 0, null), stretch(2, 0, null)),
    'a torn head: nothing says that the segment before ends early',
  );
});

const line = (events: SealedRecord['events'], synced: number) =>
  encodeLine(seal({ events, contents: [] }), { segment: 1, synced });
const cancelled = (id: string) => [{ e: 'cancelled', id, at: { wallMs: 0, boot: '', bootMs: 0 } } as const];

/** Three records, the third of which says that the first two were synced. */
function threeLines(): { bytes: Buffer; starts: number[] } {
  const first = line(cancelled('a'), 0);
  const second = line(cancelled('b'), first.length);
  const third = line(cancelled('c'), first.length + second.length);
  const bytes = Buffer.concat([first, second, third, Buffer.alloc(500)]);
  return { bytes, starts: [0, first.length, first.length + second.length] };
}

function judged(bytes: Buffer, upTo: number | null = null) {
  const stretch = { segment: 1, from: 0, upTo };
  const { valid, damaged, provenTo } = judge(stretch, scan(bytes, stretch));
  return { ids: valid.map(({ record }) => (record.events[0] as { id: string }).id), damaged, provenTo };
}

t.test('complete lines are read up to the zeros', async (t) => {
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

t.test('before `upTo` nothing may be missing, and nothing behind it counts', async (t) => {
  const { bytes, starts } = threeLines();
  const [, second, third] = starts as [number, number, number];
  t.same(judged(bytes, third), { ids: ['a', 'b'], damaged: [], provenTo: third }, 'the rest is void');
  const holed = Buffer.from(bytes).fill(0, second, third);
  t.same(judged(holed, third), { ids: ['a'], damaged: [{ offset: second, end: third }], provenTo: third });
});

t.test('the bytes that the file `synced` covers count as proven', async (t) => {
  const { bytes, starts } = threeLines();
  const end = bytes.length - 500;
  const third = starts[2] as number;
  const judgedNoted = (bytes: Buffer) => {
    const stretch = { segment: 1, from: 0, upTo: null, noted: end };
    return judge(stretch, scan(bytes, stretch));
  };
  t.match(judgedNoted(bytes), { damaged: [], provenTo: end });
  t.same(
    judgedNoted(Buffer.from(bytes).fill(0, third)).damaged,
    [{ offset: third, end }],
    'the last is gone',
  );
  t.same(judgedNoted(Buffer.alloc(bytes.length)).damaged, [{ offset: 0, end }], 'all is gone');
});

t.test('a segment that the file `synced` names and that is gone is missing', async (t) => {
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

t.test('records of an earlier use of the segment are no history', async (t) => {
  const { bytes } = threeLines();
  const used = Buffer.concat([bytes, bytes, bytes]);
  const again = encodeLine(seal({ events: cancelled('new'), contents: [] }), { segment: 2, synced: 0 });
  again.copy(used, 0);
  const stretch = { segment: 2, from: 0, upTo: null };
  const { valid, damaged } = judge(stretch, scan(used, stretch));
  t.equal(valid.length, 1);
  t.same(damaged, []);
});
