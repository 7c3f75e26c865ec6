/**
 * Fields of a posted message, and how their faults are reported. Pure.
 */
import type { JsonObject } from '../../base/json.js';
import { hasLoneSurrogate } from '../../base/text.js';

/** Takes a fault of a field, or of one member of it; '' is the whole message. */
export type FaultReport = (field: string, detail: string, member?: string | number) => void;

/** An optional text; empty if it is absent or reported. */
export function textOf(fields: JsonObject, name: string, report: FaultReport): string {
  const value = fields[name];
  if (!isGiven(value)) return '';
  if (typeof value !== 'string') {
    report(name, 'must be a string');
    return '';
  }
  if (hasLoneSurrogate(value)) report(name, 'contains half a surrogate pair, which is not a character');
  return value;
}

/** True unless the field is absent: one of a wrong kind is a fault, also if it is empty. */
export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** True if the field is not empty, whatever its kind. */
export function isSet(value: unknown): boolean {
  return isGiven(value) && value !== '';
}

/** True for the values by which clients of other mailers say that they do not use a field. */
export function isEmpty(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return !isSet(value) || value === false;
  return Object.keys(value).length === 0;
}
