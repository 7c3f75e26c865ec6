/**
 * Objects of parsed JSON. Pure.
 */

/** An object whose members are not known yet. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** True for an object that is neither null nor an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
