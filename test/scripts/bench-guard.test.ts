import { readFileSync } from 'node:fs';
import t from 'tap';
// @ts-expect-error: a script without types.
import { judge } from '../../scripts/bench/judge.mjs';

interface Verdict {
  readonly name: string;
  readonly verdict: string;
  readonly passes: boolean;
}

const most = { atMost: 100, margin: 10, unit: 'µs', why: 'x' };
const least = { atLeast: 100, margin: 10, unit: '/s', why: 'x' };

/** The only verdict. */
function on(figure: number | undefined, budget: object | undefined): Verdict {
  const [verdict, ...more] = judge(
    figure === undefined ? {} : { figure },
    budget === undefined ? {} : { figure: budget },
  );
  t.equal(more.length, 0);
  return verdict;
}

t.test('a figure fails above its budget by more than its margin', async (t) => {
  t.match(on(100, most), { verdict: 'ok', passes: true });
  t.match(on(110, most), { verdict: 'within the margin', passes: true });
  t.match(on(110.1, most), { verdict: 'OVER BUDGET', passes: false });
  t.match(on(0, most), { verdict: 'ok' });
});

t.test('a least is a budget too', async (t) => {
  t.match(on(100, least), { verdict: 'ok', passes: true });
  t.match(on(90, least), { verdict: 'within the margin', passes: true });
  t.match(on(89.9, least), { verdict: 'OVER BUDGET', passes: false });
});

t.test('a figure without a budget fails, and a budget without a figure', async (t) => {
  t.match(on(1, undefined), { name: 'figure', verdict: 'NO BUDGET', passes: false });
  t.match(on(undefined, most), { name: 'figure', verdict: 'NOT MEASURED', passes: false });
  t.match(on(Number.NaN, most), { verdict: 'NOT MEASURED', passes: false });
  t.match(on(Number.POSITIVE_INFINITY, least), { verdict: 'NOT MEASURED', passes: false });
});

t.test('each budget has one bound, a margin, a unit and its reason', async (t) => {
  const budgets = JSON.parse(readFileSync('scripts/bench/budget.json', 'utf8'));
  for (const [name, { atMost, atLeast, margin, unit, why, ...more }] of Object.entries<
    Record<string, unknown>
  >(budgets)) {
    t.same(more, {}, name);
    t.not(atMost === undefined, atLeast === undefined, name);
    t.equal(typeof (atMost ?? atLeast), 'number', name);
    t.ok(typeof margin === 'number' && margin >= 0, name);
    t.ok(typeof unit === 'string' && unit !== '', name);
    t.ok(typeof why === 'string' && why !== '', name);
  }
});
