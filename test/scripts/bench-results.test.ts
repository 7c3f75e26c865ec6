import t from 'tap';
// @ts-expect-error: a script without types.
import { markdownOf, pageOf } from '../../scripts/bench/results.mjs';
// @ts-expect-error: a script without types.
import { compare, faultOf, unmeasured } from '../../scripts/bench/rounds.mjs';

const peer = { name: 'peer', numbers: [50, 100, 200] };

t.test('a row has the ratio of the medians, and the target decides', async (t) => {
  const row = compare('rate', '/s', [100, 200, 300], peer, { atLeast: 2 });
  t.match(row, { ours: '200 (100–300)', ratio: '2.00', spread: '1.50–2.00', target: '≥ 2 ×', met: 'yes' });
  t.equal(compare('rate', '/s', [100, 199, 300], peer, { atLeast: 2 }).met, 'NO');
  t.equal(
    unmeasured('rate', '/s', [1], 'Postfix', 'it needs root').peer,
    'Postfix not measured: it needs root',
  );
});

t.test('the page is the same for the same figures', async (t) => {
  const rows = [compare('a|b', '', [1], undefined, { ownAtMost: 1 })];
  t.match(markdownOf(rows), '| a\\|b |  | 1.00 (1.00–1.00) |');
  const run = { facts: [['CPU', '2 × x']], rounds: 9, minutes: 30, tables: [['idle', rows]] };
  t.match(pageOf(run), /- CPU: 2 × x\n\n## idle\n\n.+\n\n\| figure /);
  t.equal(pageOf(run), pageOf(run));
});

t.test(
  'a smoke run finds a figure that is no number, and a peer that is missing where it can be had',
  async (t) => {
    const missing = unmeasured('rate', '/s', [1], 'Postfix', 'it is not installed');
    t.equal(faultOf(compare('rate', '/s', [1], peer), true), null);
    t.equal(faultOf(compare('rate', '/s', [Number.NaN], peer), true), 'rate: not a number');
    t.equal(faultOf(compare('rate', '/s', [], peer), true), 'rate: not a number');
    t.equal(faultOf(missing, true), 'rate: Postfix not measured: it is not installed');
    t.equal(faultOf(missing, false), null);
  },
);
