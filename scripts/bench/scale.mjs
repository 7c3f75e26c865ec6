/** How much a run measures: all, or with `--smoke` just enough to see that every figure still ends and gives numbers. */

/** True in a smoke run. Its numbers mean nothing. */
export const isSmoke = process.argv.includes('--smoke');
const PART = 50;

/**
 * A count, a size or a time: as it is given, or a small part of it in a smoke run.
 * @param {number} whole
 */
export function scaled(whole) {
  return isSmoke ? Math.ceil(whole / PART) : whole;
}
