/**
 * The errors of calls that etcd cannot serve.
 */
import { FieldpostError } from '../../base/errors.js';
import { EtcdError } from './etcd.js';

/** The error of a call that etcd cannot serve now. */
export function unavailable(cause?: EtcdError): FieldpostError {
  return new FieldpostError(
    'unavailable',
    `The fleet's store cannot be reached${cause ? `: ${cause.message}` : ''}`,
    { cause },
  );
}

/** Turns a failure of etcd into unavailable, or storage-failed if it refuses. */
export async function orUnavailable<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
    if (error.kind === 'unavailable') throw unavailable(error);
    throw new FieldpostError('storage-failed', `etcd refuses: ${error.message}`, { cause: error });
  }
}
