/**
 * Query parameters: switches and whole numbers.
 */
import { type Fault, FieldpostError } from '../errors.js';

/** The range of a whole number, as OpenAPI describes it. */
interface WholeNumber {
  readonly minimum: number;
  readonly maximum: number;
  readonly default: number;
}

/** False if it is absent. Throws invalid. */
export function flagIn(query: string, name: string): boolean {
  const given = new URLSearchParams(query).get(name) ?? 'false';
  if (given !== 'true' && given !== 'false')
    throw invalidQuery([{ pointer: name, detail: 'must be true or false' }]);
  return given === 'true';
}

/** The default if it is absent. Calls `report` if it is not a whole number in the range. */
export function wholeNumberIn(
  given: URLSearchParams,
  name: string,
  range: WholeNumber,
  report: (fault: Fault) => void,
): number {
  const text = given.get(name) ?? String(range.default);
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= range.minimum && value <= range.maximum) return value;
  report({ pointer: name, detail: `must be a whole number from ${range.minimum} to ${range.maximum}` });
  return range.default;
}

/** The error for parameters that are not right. */
export function invalidQuery(faults: readonly Fault[]): FieldpostError {
  return new FieldpostError('invalid', 'The query is not right; see errors', { faults });
}
