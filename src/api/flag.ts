/**
 * A query parameter that is true or false. Used by destinations.ts and messages.ts.
 */
import { FieldpostError } from '../errors.js';

/** False if it is absent. Throws invalid. */
export function flagIn(query: string, name: string): boolean {
  const given = new URLSearchParams(query).get(name) ?? 'false';
  if (given === 'true' || given === 'false') return given === 'true';
  const faults = [{ pointer: name, detail: 'must be true or false' }];
  throw new FieldpostError('invalid', 'The query is not right; see errors', { faults });
}
