/**
 * The destinations document of a device: the people to notify, and the device's name, site and contact. Unknown members
 * are kept. And how many documents name each person.
 */
import { createHash } from 'node:crypto';
import { type Fault, FieldpostError } from '../base/errors.js';
import { isJsonObject, isShallow } from '../base/json.js';
import { DESTINATION_NAME_CHARS_MAX, DOCUMENT_DEPTH_MAX } from '../base/limits.js';
import { harmlessName, oneSpaced } from '../base/text.js';
import { type Entry, faultsOf, isEntry, targetOf, uidOf } from '../mail/book/destination.js';
import type { About } from './texts/texts.js';

/** A document as a PUT brings it. */
export interface Document {
  readonly destinations: readonly unknown[];
  readonly [member: string]: unknown;
}

/** Returns the parsed body as a document. Throws malformed-request if it is not one. */
export function parseDocument(body: unknown): Document {
  if (!isDocument(body)) {
    throw new FieldpostError(
      'malformed-request',
      'The body must be an object with an array named destinations',
      {
        hint: 'like {"destinations":[]}',
      },
    );
  }
  // Devices take no deeper one.
  if (!isShallow(body, DOCUMENT_DEPTH_MAX))
    throw new FieldpostError('malformed-request', `The body is nested deeper than ${DOCUMENT_DEPTH_MAX}`);
  return body;
}

/** True for an object with an array named destinations. Its entries may have any shape. */
export function isDocument(value: unknown): value is Document {
  return isJsonObject(value) && Array.isArray(value.destinations);
}

/** The faults of all entries. An entry with faults is kept in the document. */
export function* misunderstood({ destinations }: Document): Generator<Fault> {
  const seen = new Set<string>();
  for (const [index, entry] of destinations.entries()) yield* entryFaults(entry, index, seen);
}

function entryFaults(entry: unknown, index: number, seen: Set<string>): Fault[] {
  const at = `/destinations/${index}`;
  if (!isJsonObject(entry)) {
    return [{ pointer: at, detail: 'must be a destination, which is a JSON object' }];
  }
  const faults = faultsOf(entry).map(({ pointer, detail }) => ({
    pointer: `${at}${pointer}`,
    detail,
  }));
  const uid = uidOf(entry)?.toLowerCase() ?? null;
  if (uid === null) faults.unshift({ pointer: `${at}/uid`, detail: 'is required and must be a UUID' });
  else if (seen.has(uid))
    faults.unshift({ pointer: `${at}/uid`, detail: 'is also the uid of an earlier entry' });
  else seen.add(uid);
  return faults;
}

/** The entries to notify: one for each target (type and address). */
export function entriesOf({ destinations }: Document): Entry[] {
  const byTarget = new Map<string, Entry>();
  for (const entry of destinations) {
    if (isEntry(entry) && !byTarget.has(targetOf(entry))) byTarget.set(targetOf(entry), entry);
  }
  return [...byTarget.values()];
}

/**
 * The person behind a destination, the same in the documents of all devices. Null for a placeholder such as OWNER: for each
 * device it may be another person.
 */
export function personOf(entry: Entry): string | null {
  return entry.type === 4 && !entry.destination.includes('@') ? null : targetOf(entry);
}

/** The people whom a document names, each once. */
export function peopleOf(document: Document): string[] {
  return entriesOf(document).flatMap((entry) => personOf(entry) ?? []);
}

/** What people call the device, harmless in any text; null: they have given it no name. */
export function nameOf({ name }: Document): string | null {
  return lineOf(name);
}

/** How texts describe the device: by its name, else by its id; also by site and contact if the document has them. */
export function aboutOf(document: Document, id: string): About {
  const { site, contact } = document;
  return { device: nameOf(document) ?? id, site: lineOf(site), contact: lineOf(contact) };
}

/** The text as one line without control characters; null if it is too long or has no visible character. */
function lineOf(value: unknown): string | null {
  if (typeof value !== 'string' || value.length > DESTINATION_NAME_CHARS_MAX) return null;
  const line = oneSpaced(harmlessName(value, ' '));
  return /[\p{L}\p{N}\p{P}\p{S}]/u.test(line) ? line : null;
}

/** Counts devices by person. */
export class People {
  /** A short hash of each person, and the number of their devices. */
  readonly #devices = new Map<number, number>();
  /** The hashes of each device's people. */
  readonly #people = new Map<string, readonly number[]>();

  /** The number of people whom any document names. */
  get count(): number {
    return this.#devices.size;
  }

  /** The people in the device's document (`peopleOf`), each once; null: the document is gone. */
  set(device: string, people: readonly string[] | null): void {
    for (const hash of this.#people.get(device) ?? []) this.#add(hash, -1);
    if (people === null || people.length === 0) this.#people.delete(device);
    else this.#people.set(device, people.map(personHash));
    for (const hash of this.#people.get(device) ?? []) this.#add(hash, 1);
  }

  /** The number of devices whose documents name this person. */
  devicesOf(person: string): number {
    return this.#devices.get(personHash(person)) ?? 0;
  }

  #add(hash: number, change: 1 | -1): void {
    const count = (this.#devices.get(hash) ?? 0) + change;
    if (count === 0) this.#devices.delete(hash);
    else this.#devices.set(hash, count);
  }
}

/** 48 bits: a number takes less memory than an address. Two people with one hash would only wait for the end of a batch. */
function personHash(person: string): number {
  return createHash('sha256').update(person).digest().readUIntBE(0, 6);
}
