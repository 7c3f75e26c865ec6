/**
 * Guesses what a mistyped word means.
 */

/** `; did you mean …?` with the candidate that is nearest to `word`; empty if none is near enough. */
export function guessOf(word: string, candidates: Iterable<string>, mark = ''): string {
  const meant = nearest(word, candidates);
  return meant === null ? '' : `; did you mean ${mark}${meant}?`;
}

function nearest(word: string, candidates: Iterable<string>): string | null {
  let best: string | null = null;
  // At most one slip in three characters, and three in all: beyond that a guess misleads.
  let bestSlips = Math.min(4, Math.floor(word.length / 3) + 1);
  for (const candidate of candidates) {
    const slips = slipsBetween(word.toLowerCase(), candidate.toLowerCase());
    if (slips < bestSlips) {
      best = candidate;
      bestSlips = slips;
    }
  }
  return best;
}

/** Characters added, dropped, changed, or swapped with their neighbour to get from `a` to `b`. */
function slipsBetween(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let slips = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
      );
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) slips = Math.min(slips, (beforeLast[column - 2] ?? 0) + 1);
      current.push(slips);
    }
    beforeLast = last;
    last = current;
  }
  return last[b.length] ?? a.length;
}
