/**
 * Query parameters: switches, whole numbers, and their percent-encoding.
 */
import { type Fault, FieldpostError } from '../errors.js';

/** False if it is absent. Throws invalid. */
export function flagIn(query: string, name: string): boolean {
  const given = new URLSearchParams(query).get(name) ?? 'false';
  if (given !== 'true' && given !== 'false')
    throw invalidQuery([{ pointer: name, detail: 'must be true or false' }]);
  return given === 'true';
}

/**
 * `otherwise` if it is absent. Calls `report`, and gives `otherwise`, if it is no whole number from `least` to `most`.
 */
export function wholeNumberIn(
  given: URLSearchParams,
  name: string,
  [least, most, otherwise]: readonly [least: number, most: number, otherwise: number],
  report: (fault: Fault) => void,
): number {
  const text = given.get(name) ?? String(otherwise);
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  report({ pointer: name, detail: `must be a whole number from ${least} to ${most}` });
  return otherwise;
}

/** Null if it is absent. Calls `report`, and gives null, if it is none of these. */
export function oneOfIn<One extends string>(
  given: URLSearchParams,
  name: string,
  all: readonly One[],
  report: (fault: Fault) => void,
): One | null {
  const text = given.get(name);
  const found = all.find((one) => one === text) ?? null;
  if (text !== null && found === null) report({ pointer: name, detail: `must be one of ${all.join(', ')}` });
  return found;
}

/** The error for parameters that are not right. */
export function invalidQuery(faults: readonly Fault[]): FieldpostError {
  return new FieldpostError('invalid', 'The query is not right; see errors', { faults });
}

/** Throws malformed-request if the percent-encoding of a path or query is broken or not UTF-8. */
export function checkPercent(encoded: string): void {
  try {
    decodeURIComponent(encoded);
  } catch {
    throw new FieldpostError(
      'malformed-request',
      'The path or query has a % that is not a valid percent-encoding of UTF-8',
    );
  }
}
