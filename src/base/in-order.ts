/**
 * Stops a service step by step.
 */
import { wordsOf } from './errors.js';
import type { Log } from './system/log.js';

/** Runs each step, even after a failure. Throws the first failure at the end. */
export async function inOrder(
  complain: Log['error'],
  steps: readonly (() => Promise<void>)[],
): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) {
    await step().catch((error) => {
      complain('stop failed', { reason: wordsOf(error) });
      failures.push(error);
    });
  }
  if (failures.length > 0) throw failures[0];
}
