/**
 * Makes room in the journal while the disk is short. Used by acceptance.ts.
 */
import { TIDY_EVERY_MS } from '../limits.js';

/** What is tidied. */
export interface Tidied {
  /** What the state directory takes on the disk. */
  bytes(): number;
  /** A checkpoint that also moves content which is otherwise not worth moving. Never rejects. */
  checkpoint(): Promise<void>;
  bootMs(): number;
}

/**
 * A function that makes checkpoints until nothing more goes, at most every 30 s. Each start begins a segment, so a few small
 * messages may hold many. One checkpoint is not enough, because the older snapshot still needs segments for its replay.
 */
export function createTidy({ bytes, checkpoint, bootMs }: Tidied): () => Promise<void> {
  let lastMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (bootMs() - lastMs < TIDY_EVERY_MS) return;
    lastMs = bootMs();
    for (let before = Number.POSITIVE_INFINITY; bytes() < before; ) {
      before = bytes();
      await checkpoint();
      if (bytes() === before) await checkpoint();
    }
  };
}
