/**
 * The pieces of which the schemas of the description are made (JSON Schema 2020-12).
 */

export const text = { type: 'string' };
export const flag = { type: 'boolean' };
export const count = { type: 'integer', minimum: 0 };
export const names = { type: 'array', items: text };
export const instant = { type: 'string', format: 'date-time' };
/** A list that is left out if it would be empty. */
export const ignored = { ...names, minItems: 1, description: 'fields of the request that are not used' };

/** The schema, or null. */
export function orNull<Schema extends { readonly type: string }>(schema: Schema) {
  return { ...schema, type: [schema.type, 'null'] };
}

/** An object of exactly these members; all but the optional ones are always there. */
export function record(properties: Readonly<Record<string, object>>, optional: readonly string[] = []) {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: 'object', properties, required, additionalProperties: false };
}

/** A list of such values. */
export function listOf(items: object) {
  return { type: 'array', items };
}

/** The schema of that name. */
export function ref(name: string) {
  return { $ref: `#/components/schemas/${name}` };
}
