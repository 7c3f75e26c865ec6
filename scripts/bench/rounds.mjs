/** Rounds in which every contestant runs once, and the rows of a table from their numbers. */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * `rounds` to go, and `base`, the directory on the disk that is measured.
 * @typedef {{rounds: number, base: string}} Plan
 * @typedef {Record<'figure' | 'unit' | 'ours' | 'peer' | 'ratio' | 'spread' | 'target' | 'met', string>} Row
 * @typedef {{atLeast?: number | undefined, atMost?: number, moreAtMost?: number, ownAtMost?: number}} Target
 */

/**
 * Runs each contestant once a round, with an empty directory. Each round begins with another contestant, so that a drift of
 * the machine affects all equally. Resolves with what each resolved with, by name.
 * @template {Record<string, ((directory: string) => Promise<any>) | undefined>} C
 * @param {Plan} plan
 * @param {C} contestants
 * @returns {Promise<{[N in keyof C]: Awaited<ReturnType<NonNullable<C[N]>>>[]}>}
 */
export async function interleave({ rounds: count, base }, contestants) {
  const names = Object.keys(contestants);
  /** @type {any} */
  const samples = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round < count; round++) {
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(round + turn) % names.length] ?? '';
      const directory = await mkdtemp(join(base, `${name}-`));
      // Postfix gives up its rights, and must still reach its files in there.
      await chmod(directory, 0o711);
      samples[name].push(await contestants[name]?.(directory));
      await rm(directory, { recursive: true });
    }
    process.stderr.write(`\r  round ${round + 1} of ${count} `);
  }
  process.stderr.write('\r\x1b[K');
  return samples;
}

/**
 * The same plan with a third of the rounds, for figures that hardly vary.
 * @param {Plan} plan
 */
export function aThird(plan) {
  return { ...plan, rounds: Math.ceil(plan.rounds / 3) };
}

/**
 * The earlier build as one more contestant, `before` if it gets no other name; none without BENCH_BEFORE.
 * @template T
 * @template {string} [N='before']
 * @param {(kind: 'before') => T} contestant
 * @param {N} [name]
 * @returns {Partial<Record<N, T>>}
 */
export function before(contestant, name) {
  const found = process.env.BENCH_BEFORE ? { [name ?? 'before']: contestant('before') } : {};
  return /** @type {Partial<Record<N, T>>} */ (found);
}

/**
 * The row of our numbers against those of the earlier build, or none.
 * @param {string} figure
 * @param {string} unit
 * @param {readonly number[]} ours
 * @param {readonly number[] | undefined} numbers
 * @returns {Row[]}
 */
export function againstBefore(figure, unit, ours, numbers) {
  return numbers ? [compare(figure, unit, ours, { name: 'before', numbers })] : [];
}

/**
 * NaN if there is none.
 * @param {readonly number[]} numbers
 */
export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [lower = Number.NaN, upper = Number.NaN] = [sorted[sorted.length - 1 - middle], sorted[middle]];
  return (lower + upper) / 2;
}

/**
 * One row of the table: our numbers against a peer's, round by round. `target` bounds the ratio of medians
 * (`atLeast`, `atMost`), the difference (`moreAtMost`), or our own figure alone (`ownAtMost`).
 * @param {string} figure
 * @param {string} unit
 * @param {readonly number[]} ours
 * @param {{name: string, numbers: readonly number[]} | undefined} [peer]
 * @param {Target | undefined} [target]
 * @returns {Row}
 */
export function compare(figure, unit, ours, peer, target) {
  const own = median(ours);
  const row = { figure, unit, ours: told(ours), peer: '', ratio: '', spread: '', target: '', met: '' };
  if (peer) {
    const ratios = ours.map((number, round) => number / (peer.numbers[round] ?? Number.NaN));
    row.peer = `${told(peer.numbers)} ${peer.name}`;
    row.ratio = (own / median(peer.numbers)).toFixed(2);
    row.spread = `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`;
  }
  const theirs = peer ? median(peer.numbers) : Number.NaN;
  for (const [kind, bound] of Object.entries(target ?? {})) {
    if (bound === undefined) continue;
    const [words, met] = /** @type {Record<string, [string, boolean]>} */ ({
      atLeast: [`≥ ${bound} ×`, own / theirs >= bound],
      atMost: [`≤ ${bound} ×`, own / theirs <= bound],
      moreAtMost: [`≤ peer + ${bound}`, own - theirs <= bound],
      ownAtMost: [`≤ ${bound}`, own <= bound],
    })[kind] ?? ['', false];
    row.target = words;
    row.met = met ? 'yes' : 'NO';
  }
  return row;
}

const NOT_MEASURED = ' not measured: ';

/**
 * A row of our numbers without those of a peer, and why.
 * @param {string} figure
 * @param {string} unit
 * @param {readonly number[]} ours
 * @param {string} name
 * @param {string | null | undefined} why
 * @returns {Row}
 */
export function unmeasured(figure, unit, ours, name, why) {
  return { ...compare(figure, unit, ours), peer: `${name}${NOT_MEASURED}${why}` };
}

/**
 * What keeps a row from being one of numbers; null: nothing. Where `all` peers can be had, one that was not measured counts.
 * @param {Row} row
 * @param {boolean} all
 */
export function faultOf({ figure, ours, peer }, all) {
  if (/NaN|Infinity/.test(`${ours} ${peer}`)) return `${figure}: not a number`;
  return all && peer.includes(NOT_MEASURED) ? `${figure}: ${peer}` : null;
}

/** The median, and the lowest and highest. */
function told(numbers) {
  const middle = median(numbers);
  const digits = middle >= 100 ? 0 : middle >= 10 ? 1 : 2;
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  return `${middle.toFixed(digits)} (${low.toFixed(digits)}–${high.toFixed(digits)})`;
}

/** The columns of a table. */
export const COLUMNS = ['figure', 'unit', 'ours', 'peer', 'ratio', 'spread', 'target', 'met'];

/**
 * Rows as lines of aligned columns, with their names above.
 * @param {readonly Record<string, string>[]} rows
 */
export function tableOf(rows) {
  const columns = Object.keys(rows[0] ?? {});
  const all = [Object.fromEntries(columns.map((name) => [name, name])), ...rows];
  const widths = columns.map((name) => Math.max(...all.map((row) => row[name]?.length ?? 0)));
  return all
    .map((row) => columns.map((name, at) => row[name]?.padEnd(widths[at] ?? 0)).join('  '))
    .map((line) => line.trimEnd())
    .join('\n');
}
