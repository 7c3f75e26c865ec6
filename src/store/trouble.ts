/**
 * What a failed call to the disk means for whoever wanted something kept. Used where the store writes.
 */
import { FieldpostError, systemCodeOf, wordsOf } from '../errors.js';

/** `storage-full` where there is no room, else `storage-failed`; what is an answer already is left as it is. */
export function asTrouble(error: unknown): FieldpostError {
  if (error instanceof FieldpostError) return error;
  const code = systemCodeOf(error);
  return code === 'ENOSPC' || code === 'EDQUOT'
    ? new FieldpostError('storage-full', 'the disk is full', { cause: error })
    : asFailure(error);
}

/** `storage-failed`, whatever the reason: nobody knows how much of it will be found. */
export function asFailure(error: unknown): FieldpostError {
  return new FieldpostError('storage-failed', `the disk refuses to keep data: ${wordsOf(error)}`, {
    cause: error,
  });
}
