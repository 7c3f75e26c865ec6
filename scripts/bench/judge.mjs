/** The verdict of the guard: its figures against the budgets of budget.json. */

/**
 * What a figure may be. `margin` is in its unit: so far a sound program may be off on a busy machine.
 * @typedef {{atMost?: number, atLeast?: number, margin: number, unit: string, why: string}} Budget
 * @typedef {{name: string, figure: string, budget: string, verdict: string, passes: boolean}} Verdict
 */

/**
 * One verdict for each name. A figure without a budget fails, and so does a budget without a figure.
 * @param {Record<string, number>} figures
 * @param {Record<string, Budget>} budgets
 * @returns {Verdict[]}
 */
export function judge(figures, budgets) {
  const names = new Set([...Object.keys(budgets), ...Object.keys(figures)]);
  return [...names].map((name) => {
    const [figure, budget] = [figures[name], budgets[name]];
    const verdict = verdictOn(figure, budget);
    return {
      name,
      figure: figure === undefined ? '' : `${digits(figure)} ${budget?.unit ?? ''}`.trim(),
      budget: budget === undefined ? '' : wordsOf(budget),
      verdict,
      passes: verdict === 'ok' || verdict === 'within the margin',
    };
  });
}

/** @type {(figure: number | undefined, budget: Budget | undefined) => string} */
function verdictOn(figure, budget) {
  if (budget === undefined) return 'NO BUDGET';
  if (figure === undefined || !Number.isFinite(figure)) return 'NOT MEASURED';
  const { atMost = Number.POSITIVE_INFINITY, atLeast = Number.NEGATIVE_INFINITY, margin } = budget;
  const over = Math.max(figure - atMost, atLeast - figure);
  if (over <= 0) return 'ok';
  return over <= margin ? 'within the margin' : 'OVER BUDGET';
}

/** @type {(budget: Budget) => string} */
function wordsOf({ atMost, atLeast, margin }) {
  return `${atMost === undefined ? `≥ ${atLeast}` : `≤ ${atMost}`} ± ${margin}`;
}

/** @type {(number: number) => string} */
function digits(number) {
  return number.toFixed(Math.abs(number) >= 100 ? 0 : Math.abs(number) >= 10 ? 1 : 2);
}
