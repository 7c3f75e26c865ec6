/**
 * JSON whose shape is not known yet. Pure.
 */
import { Buffer, isUtf8 } from 'node:buffer';

/** An object whose members are not known yet. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The value of a JSON text; undefined for other octets or another text. */
export function jsonIn(octets: Buffer | string): unknown {
  if (typeof octets !== 'string' && !isUtf8(octets)) return undefined;
  try {
    return JSON.parse(octets.toString());
  } catch {
    return undefined;
  }
}

/** The JSON object in the octets, or in the text; null if they are none. */
export function objectIn(octets: Buffer | string): JsonObject | null {
  const value = jsonIn(octets);
  return isJsonObject(value) ? value : null;
}

/** True for an object that is neither null nor an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The value's JSON with the members of every object in one order: equal for equal values. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    if (!isJsonObject(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/** True if the value is nested at most `depth` deep. JSON.stringify fails for very deep ones. */
export function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return depth > 0 && Object.values(value).every((inner) => isShallow(inner, depth - 1));
}

/** True for a value of one shape. */
export type Shape = (value: unknown) => boolean;

/**
 * A value that stands for all of its shape. 0 stands for whole numbers from 0 on, another number for all numbers. A list
 * with one item stands for all lists of such items, one with more for a tuple, an empty one for all lists. A member
 * `name?` may be left out, `name|null` may be null. An object may have further members.
 */
type Sample = string | number | boolean | Shape | readonly Sample[] | { readonly [name: string]: Sample };

/** The shape that a sample stands for. */
export function shapeOf(sample: Sample): Shape {
  if (typeof sample === 'function') return sample;
  if (sample === 0) return (value) => Number.isSafeInteger(value) && (value as number) >= 0;
  if (Array.isArray(sample)) return listShape(sample.map(shapeOf));
  if (typeof sample === 'object') return objectShape(Object.entries(sample));
  return (value) => typeof value === typeof sample;
}

/** The shape of objects with any names, whose members all have this shape. */
export function mapOf(sample: Sample): Shape {
  const shape = shapeOf(sample);
  return (value) => isJsonObject(value) && Object.values(value).every(shape);
}

function listShape(items: readonly Shape[]): Shape {
  const [only, second] = items;
  if (second) return (value) => Array.isArray(value) && items.every((shape, at) => shape(value[at]));
  return (value) => Array.isArray(value) && (!only || value.every((item) => only(item)));
}

function objectShape(entries: readonly (readonly [string, Sample])[]): Shape {
  const members = entries.map(([key, sample]) => {
    const mark = ['?', '|null'].find((end) => key.endsWith(end)) ?? '';
    const name = key.slice(0, key.length - mark.length);
    return { name, none: mark === '|null' ? null : undefined, isNeeded: mark === '', shape: shapeOf(sample) };
  });
  return (value) => {
    if (!isJsonObject(value)) return false;
    for (const { name, none, isNeeded, shape } of members) {
      const member = value[name];
      if ((isNeeded || member !== none) && !shape(member)) return false;
    }
    return true;
  };
}

/** The first of the values, each as JSON: as many as fit into `bytesMax`, but at least one. */
export function firstAsJson(values: Iterable<unknown>, bytesMax: number): string[] {
  const texts: string[] = [];
  let bytes = 0;
  for (const value of values) {
    const text = JSON.stringify(value);
    bytes += Buffer.byteLength(text) + ','.length;
    if (bytes > bytesMax && texts.length > 0) break;
    texts.push(text);
  }
  return texts;
}
