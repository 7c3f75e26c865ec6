/**
 * What no setting says by itself: that a partition is too small for what must stay free on it. Pure; `fieldpost check`
 * shows it, and daemon/warnings.ts logs it.
 */
import type { Config } from '../config.js';
import { JOURNAL_BYTES_MIN } from '../limits.js';
import { bytesInWords } from '../sizes.js';

/** A sentence where the file system of the state directory, of `sizeBytes`, takes no message even when it is empty. */
export function diskAdvice(
  { minFreeBytes, stateDir }: Pick<Config, 'minFreeBytes' | 'stateDir'>,
  sizeBytes: number,
): readonly string[] {
  if (sizeBytes >= minFreeBytes + JOURNAL_BYTES_MIN) return [];
  const size = `the file system of ${stateDir} has ${bytesInWords(sizeBytes)} in all`;
  const needed = `${bytesInWords(minFreeBytes)} must stay free and the journal takes ${bytesInWords(JOURNAL_BYTES_MIN)}`;
  return [`${size}, but ${needed}, so that every message is refused: lower FIELDPOST_MIN_FREE`];
}
