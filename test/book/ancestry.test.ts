/** What a document is to the one that is known: every combination of what base, mark, ETag and attempts can be. */
import t from 'tap';
import {
  type Ancestry,
  ancestryOf,
  counterOf,
  MARK_COUNTER_MAX,
  MARK_TEXT_CHARS_MAX,
  markOf,
} from '../../src/device/book/ancestry.js';
import { type Attempt, type Base, MARK, type Mark, type Remote } from '../../src/mail/book/book.js';

const OURS: Mark = { lineage: 'ours', counter: 5, nonce: 'five' };
const more = (mark: Mark | null) => (mark === null ? {} : { more: { [MARK]: mark, name: 'Pump 3' } });

const MARKS: Readonly<Record<string, Mark | null>> = {
  none: null,
  same: OURS,
  ahead: { ...OURS, counter: 6, nonce: 'six, of a copy of this device' },
  arrived: { ...OURS, counter: 6, nonce: 'six' },
  'made anew by us': { lineage: 'new', counter: 1, nonce: 'one' },
  fork: { ...OURS, nonce: 'five of another' },
  older: { ...OURS, counter: 4, nonce: 'four' },
  other: { lineage: 'other', counter: 99, nonce: 'x' },
};
const BASES: Readonly<Record<string, Base | null>> = {
  none: null,
  marked: { etag: '"1"', document: ['base'], ...more(OURS) },
  'marked, of another cloud': { etag: null, document: ['base'], ...more(OURS) },
  'of a cloud that drops the mark': { etag: '"1"', document: ['base'], bare: true },
  'put to a cloud that drops the mark': { etag: '"1"', document: ['base'], bare: true, ...more(OURS) },
};
const ATTEMPTS: Readonly<Record<string, readonly Attempt[]>> = {
  none: [],
  two: [
    { document: ['six'], mark: { ...OURS, counter: 6, nonce: 'six' } },
    { document: ['one'], mark: { lineage: 'new', counter: 1, nonce: 'one' } },
  ],
};

type Verdict = Pick<Ancestry, 'trust' | 'estranged' | 'lineage'>;

interface Row {
  readonly name: string;
  matches(mark: string, base: string, isSameEtag: boolean, hasTwo: boolean): boolean;
  readonly verdict: (mark: Mark | null) => Verdict;
}

const isOurPut = (mark: string, hasTwo: boolean) =>
  hasTwo && (mark === 'arrived' || mark === 'made anew by us');
const isMarked = (base: string) => base.startsWith('marked') || base.startsWith('put');
const full = (mark: Mark | null): Verdict => ({
  trust: 'full',
  estranged: null,
  lineage: mark?.lineage ?? null,
});

const TABLE: readonly Row[] = [
  {
    name: 'a nonce of ours: it is what was put',
    matches: (mark, _base, _same, hasTwo) => isOurPut(mark, hasTwo),
    verdict: full,
  },
  {
    name: 'nothing is known: joined, and no wonder',
    matches: (mark, base, _same, hasTwo) => base === 'none' && !isOurPut(mark, hasTwo),
    verdict: (mark) => ({ trust: 'none', estranged: null, lineage: mark?.lineage ?? null }),
  },
  {
    name: 'no mark, but the ETag that is known: nobody has edited it',
    matches: (mark, base, isSameEtag) => mark === 'none' && base !== 'none' && isSameEtag,
    verdict: full,
  },
  {
    name: 'no mark, from a cloud that drops it: its edits count, what it lacks does not',
    matches: (mark, base, isSameEtag) =>
      mark === 'none' && base === 'of a cloud that drops the mark' && !isSameEtag,
    verdict: () => ({ trust: 'edits', estranged: null, lineage: null }),
  },
  {
    name: 'no mark any more, or not yet the one that was put, or of another cloud: joined',
    matches: (mark, base, isSameEtag) => mark === 'none' && isMarked(base) && !isSameEtag,
    verdict: () => ({ trust: 'none', estranged: 'bare', lineage: null }),
  },
  {
    name: 'the mark that is known: it descends',
    matches: (mark, base) => isMarked(base) && mark === 'same',
    verdict: full,
  },
  {
    name: 'a higher counter, but not put by us: joined, and gone on with',
    matches: (mark, base, _same, hasTwo) =>
      isMarked(base) && ['ahead', 'arrived'].includes(mark) && !isOurPut(mark, hasTwo),
    verdict: (mark) => ({ trust: 'none', estranged: 'ahead', lineage: mark?.lineage ?? null }),
  },
  {
    name: 'an earlier one, or another of the same count: it has gone back',
    matches: (mark, base) => isMarked(base) && ['fork', 'older'].includes(mark),
    verdict: () => ({ trust: 'none', estranged: 'older', lineage: null }),
  },
  {
    name: 'of another lineage: joined, and gone on with',
    matches: (mark, base, _same, hasTwo) => {
      if (mark === 'none' || base === 'none' || isOurPut(mark, hasTwo)) return false;
      return !isMarked(base) || mark === 'other' || mark === 'made anew by us';
    },
    verdict: (mark) => ({ trust: 'none', estranged: 'other', lineage: mark?.lineage ?? null }),
  },
];

t.test('every combination finds one row of the table', async (t) => {
  const wrong: string[] = [];
  let count = 0;
  for (const [baseName, base] of Object.entries(BASES)) {
    for (const [markName, mark] of Object.entries(MARKS)) {
      for (const [attemptsName, attempts] of Object.entries(ATTEMPTS)) {
        for (const etag of ['"1"', '"2"']) {
          const remote: Remote = { etag, document: ['remote'], ...more(mark) };
          const { trust, estranged, lineage } = ancestryOf(base, attempts, remote);
          const isSameEtag = base?.etag === etag;
          const rows = TABLE.filter((row) =>
            row.matches(markName, baseName, isSameEtag, attemptsName === 'two'),
          );
          const expected = rows[0]?.verdict(mark);
          count++;
          const isRight = JSON.stringify({ trust, estranged, lineage }) === JSON.stringify(expected);
          if (rows.length !== 1 || !isRight) {
            const names = rows.map(({ name }) => name).join(' and ');
            wrong.push(
              `base ${baseName}, mark ${markName}, attempts ${attemptsName}, ${etag}: ${names}; ${trust} ${estranged} ${lineage}`,
            );
          }
        }
      }
    }
  }
  t.same(wrong, []);
  t.equal(count, 5 * 8 * 2 * 2);
});

t.test('the base that a document is compared with', async (t) => {
  const two = ATTEMPTS.two ?? [];
  const base = BASES.marked ?? null;
  const of = (name: string, document: string[], etag = '"2"', known = base, attempts = two) =>
    ancestryOf(known, attempts, { etag, document, ...more(MARKS[name] ?? null) });
  t.match(
    of('arrived', ['x']),
    { base: ['six'], given: ['six'], attempted: [], isLanded: true },
    'what arrived',
  );
  t.match(
    of('same', ['x']),
    { base: ['base'], attempted: [], isLanded: false },
    'a nonce tells that none arrived',
  );
  t.match(
    of('none', ['x']),
    { base: ['base'], attempted: [['six'], ['one']] },
    'without a mark any may have',
  );
  const altered = of('same', ['BASE'], '"1"');
  t.match(
    altered,
    { base: ['BASE'], given: ['base'] },
    'what differs under one ETag the cloud has made of it',
  );
  t.match(of('same', ['base'], '"1"'), { base: ['base'], given: ['base'] });
  const known: Base = { etag: '"1"', document: ['BASE'], given: ['base'], ...more(OURS) };
  t.match(
    of('same', ['BASE', 'new'], '"2"', known),
    { base: ['BASE'], given: ['base'] },
    'and goes on to be that',
  );
});

t.test('which values are a mark', async (t) => {
  t.same(markOf({ [MARK]: { ...OURS, more: 1 } }), OURS);
  t.equal(markOf(undefined), null);
  const long = 'x'.repeat(MARK_TEXT_CHARS_MAX + 1);
  const odd: unknown[] = [
    null,
    'x',
    [],
    {},
    ...['', 5, null, long].flatMap((it) => [
      { ...OURS, lineage: it },
      { ...OURS, nonce: it },
    ]),
  ];
  for (const counter of [0, -1, 1.5, '5', null, Number.NaN, MARK_COUNTER_MAX]) odd.push({ ...OURS, counter });
  for (const mark of odd) t.equal(markOf({ [MARK]: mark }), null, JSON.stringify(mark));
});

t.test('the highest counter of a lineage', async (t) => {
  t.equal(counterOf('ours', [null, OURS, MARKS.ahead ?? null, MARKS.other ?? null]), 6);
  t.equal(counterOf('ours', [null, MARKS.other ?? null]), 0);
});
