/**
 * The destinations document of a device: the people to notify, and the device's name, site and contact. Unknown members
 * are kept. And how many documents name each person.
 */
import { createHash } from 'node:crypto';
import { duration } from '../base/config/values.js';
import { type Fault, FieldpostError } from '../base/errors.js';
import { isJsonObject, isShallow } from '../base/json.js';
import { DESTINATION_NAME_CHARS_MAX, DOCUMENT_DEPTH_MAX } from '../base/limits.js';
import { harmlessName, oneSpaced } from '../base/text.js';
import { type Entry, faultsOf, isEntry, targetOf, uidOf } from '../mail/book/destination.js';
import { ruleFaults } from '../mail/book/rules.js';
import type { About } from './texts/texts.js';

/** A document as a PUT brings it. */
export interface Document {
  readonly destinations: readonly unknown[];
  readonly [member: string]: unknown;
}

/** What memory holds of a document. */
export interface AboutDocument {
  readonly etag: string;
  /** The number of its entries. */
  readonly destinations: number;
  /** What people call the device; null: nothing. */
  readonly name: string | null;
  readonly site: string | null;
  readonly tags: readonly string[];
  /** Silence of this length is offline; null: the settings say. */
  readonly delayMs: number | null;
  /** True if somebody wants the Monday mail. */
  readonly hasWeekly: boolean;
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

/** The faults of all entries, and of the delay. What has faults is kept in the document. */
export function* misunderstood({ destinations, delay }: Document): Generator<Fault> {
  if (delay !== undefined && delayIn(delay) === null)
    yield { pointer: '/delay', detail: `must be ${DELAY.allowed}` };
  const seen = new Set<string>();
  for (const [index, entry] of destinations.entries()) yield* entryFaults(entry, index, seen);
}

function entryFaults(entry: unknown, index: number, seen: Set<string>): Fault[] {
  const at = `/destinations/${index}`;
  if (!isJsonObject(entry)) {
    return [{ pointer: at, detail: 'must be a destination, which is a JSON object' }];
  }
  const faults = [...faultsOf(entry), ...ruleFaults(entry)].map(({ pointer, detail }) => ({
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

/** The same; of a placeholder the one of this device. */
export function personAt(device: string, entry: Entry): string {
  return personOf(entry) ?? `${device} ${targetOf(entry)}`;
}

/** The people whom a document names, each once. With a site, each also as one who has a device there: see atSite. */
export function peopleOf(document: Document): string[] {
  const people = entriesOf(document).flatMap((entry) => personOf(entry) ?? []);
  const site = lineOf(document.site);
  return site === null ? people : [...people, ...people.map((person) => atSite(person, site))];
}

/** This person, as one who has a device at the site. */
export function atSite(person: string, site: string): string {
  return `${person}\n${site}`;
}

/** What memory holds of a document, but for its revision. */
export function factsOf(document: Document): Omit<AboutDocument, 'etag'> {
  const { destinations, tags, delay, site } = document;
  const shown = Array.isArray(tags) ? tags.slice(0, TAGS_MAX).flatMap((tag) => lineOf(tag) ?? []) : [];
  return {
    destinations: destinations.length,
    name: nameOf(document),
    site: lineOf(site),
    tags: shown.length === 0 ? NO_TAGS : shown,
    delayMs: delayIn(delay),
    hasWeekly: entriesOf(document).some(({ weekly }) => weekly === true),
  };
}

const DELAY = duration('90s', '7d');

/** In ms; null: it is none. */
function delayIn(value: unknown): number | null {
  try {
    return typeof value === 'string' ? DELAY.parse(value) : null;
  } catch {
    return null;
  }
}

const TAGS_MAX = 20;
const NO_TAGS: readonly string[] = [];

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

/** Counts devices by person, and by person and site. */
export class People {
  /** A short hash of each person, negative of a person at a site, and the number of their devices. */
  readonly #devices = new Map<number, number>();
  /** The hashes of each device's people. */
  readonly #people = new Map<string, readonly number[]>();
  #count = 0;

  /** The number of people whom any document names. */
  get count(): number {
    return this.#count;
  }

  /** The people in the device's document (`peopleOf`), each once; null: the document is gone. */
  set(device: string, people: readonly string[] | null): void {
    for (const hash of this.#people.get(device) ?? []) this.#add(hash, -1);
    if (people === null || people.length === 0) this.#people.delete(device);
    else this.#people.set(device, people.map(personHash));
    for (const hash of this.#people.get(device) ?? []) this.#add(hash, 1);
  }

  /** The number of devices whose documents name this person; with a site, of those at the site. */
  devicesOf(person: string, site: string | null = null): number {
    return this.#devices.get(personHash(site === null ? person : atSite(person, site))) ?? 0;
  }

  #add(hash: number, change: 1 | -1): void {
    const before = this.#devices.get(hash) ?? 0;
    const count = before + change;
    if (count === 0) this.#devices.delete(hash);
    else this.#devices.set(hash, count);
    if (hash >= 0 && before === 0) this.#count++;
    if (hash >= 0 && count === 0) this.#count--;
  }
}

/** 48 bits: a number takes less memory than an address. Two people with one hash would only wait for the end of a window. */
function personHash(person: string): number {
  const hash = createHash('sha256').update(person).digest().readUIntBE(0, 6);
  return person.includes('\n') ? -hash : hash;
}
