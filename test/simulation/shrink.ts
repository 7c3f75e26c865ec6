/**
 * Makes a failing history shorter: leaves steps out, ever fewer at a time, as long as what remains fails as before.
 */

/** Which of `all` remain, after at most `triesMax` tries. */
export async function shrunk<T>(
  all: readonly T[],
  fails: (some: readonly T[]) => Promise<boolean>,
  triesMax: number,
): Promise<readonly T[]> {
  let kept = all;
  let tries = 0;
  for (let size = Math.max(1, kept.length >> 1); ; size = Math.max(1, size >> 1)) {
    const before = kept.length;
    // From the end on, because what comes after a fault is not needed, and what comes before often is.
    for (let end = kept.length; end > 0; end -= size) {
      if (tries++ === triesMax) return kept;
      const rest = [...kept.slice(0, Math.max(0, end - size)), ...kept.slice(end)];
      if (await fails(rest)) kept = rest;
    }
    if (size === 1 && kept.length === before) return kept;
  }
}

/** What kind of fault words tell of: the same for every message, moment and id. */
export function kindOf(words: string): string {
  const [line = ''] = words.split('\n');
  return line.replace(/\b(?=\w*\d)[\w-]+/g, '#');
}
