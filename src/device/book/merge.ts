/**
 * The three-way merge of the address book, for when device and cloud have both changed it. A document is a list of any
 * values: one that is not an entry is merged as well, but not shown.
 */
import { grouped } from '../../base/collections.js';
import { canonical, type JsonObject } from '../../base/json.js';
import { type Entry, FIELDS, isEntry, targetOf, uidOf } from '../../mail/book/destination.js';
import { RULES } from '../../mail/book/rules.js';

/**
 * How far a document is believed. `full`: it descends from the known one. `edits`: its edits count, its deletions do
 * not. `none`: nothing counts as deleted in the cloud, and of a field that both sides have, this device's counts.
 */
type Belief = 'full' | 'edits' | 'none';

/** The input of the merge. */
export interface Sides {
  /** How far remote is believed. */
  readonly trust: Belief;
  /** The cloud's document when both last agreed; empty if it is unknown: nothing counts as deleted then. */
  readonly base: readonly unknown[];
  /** The document that the cloud was given then. The cloud may have changed it by itself. */
  readonly given: readonly unknown[];
  /** Documents of later PUTs that may have arrived. */
  readonly attempted: readonly (readonly unknown[])[];
  /** The entries that this device shows, oldest first. */
  readonly local: readonly Entry[];
  /** The values of the document that are no entries. */
  readonly hidden: readonly unknown[];
  readonly remote: readonly unknown[];
}

/** The result of the merge. */
export interface Merged {
  /** Remote's values in their order, then new ones. */
  readonly document: readonly unknown[];
  /** The entries of the document, and its other values. */
  readonly shown: readonly Entry[];
  readonly hidden: readonly unknown[];
  /** The uid of a replaced local entry, by the uid of the entry that replaces it. */
  readonly heirs: ReadonlyMap<string, string>;
}

/** An entry on each side before; undefined: absent. */
interface Before {
  readonly here: unknown;
  readonly there: unknown;
}

/** The members that mean something to this device. */
const OURS: ReadonlySet<string> = new Set([...FIELDS, ...RULES]);

const NOTHING: Before = { here: undefined, there: undefined };

type Document = ReadonlyMap<string, unknown>;

/** The result holds everything that either side would miss. */
export function merge(sides: Sides): Merged {
  const base = keyed(sides.base);
  const given = keyed(sides.given);
  const attempted = sides.attempted.map(keyed);
  const local = keyed([...sides.local, ...sides.hidden]);
  const remote = keyed(sides.remote);
  const merged = new Map<string, unknown>();
  const edited = new Set<string>();
  for (const key of new Set([...remote.keys(), ...local.keys()])) {
    const [here, there] = [local.get(key), remote.get(key)];
    const before =
      ofAttempt(attempted, sides.trust, base.get(key), key, there) ??
      believed(
        sides.trust,
        { here: given.get(key), there: keptOf(given.get(key), base.get(key)) },
        here,
        there,
      );
    const value = mergeOne(before, here, there);
    if (value !== undefined) merged.set(key, value);
    if (!same(before.here, here)) edited.add(key);
  }
  const heirs = new Map<string, string>();
  const shown = new Set(sides.local.map(({ uid }) => uid));
  for (const group of sameTargets(merged)) unite(group, { merged, remote, shown, edited, heirs });
  const document = [...merged.values()];
  const entries = new Set<unknown>(entriesOf(merged));
  return {
    document,
    shown: [...entries] as Entry[],
    hidden: document.filter((value) => !entries.has(value)),
    heirs,
  };
}

/** True if two documents hold the same values, in whatever order. */
export function sameDocument(a: readonly unknown[], b: readonly unknown[]): boolean {
  const [left, right] = [keyed(a), keyed(b)];
  return left.size === right.size && [...left].every(([key, value]) => same(value, right.get(key)));
}

/** The value before, if it is from our own PUT whose answer was lost: nobody else has edited it. */
function ofAttempt(
  attempted: readonly Document[],
  trust: Belief,
  base: unknown,
  key: string,
  there: unknown,
): Before | null {
  if (attempted.some((put) => same(put.get(key), there))) return { here: there, there };
  // Without a base of this entry, only our own PUT can have brought it there.
  if (trust === 'none' || base !== undefined || there === undefined) return null;
  const put = attempted.findLast((one) => one.has(key))?.get(key);
  return put === undefined ? null : { here: put, there: put };
}

/** The value before, as far as `trust` lets it count. */
function believed(trust: Belief, before: Before, here: unknown, there: unknown): Before {
  if (trust !== 'full' && there === undefined) return NOTHING;
  if (trust === 'none' && here !== undefined) return NOTHING;
  return before;
}

/** The members of a given value that the cloud has kept. Members that it added are new here. */
function keptOf(given: unknown, kept: unknown): unknown {
  if (given === undefined || kept === undefined || uidOf(given) === null) return given && kept;
  return Object.fromEntries(
    Object.entries(kept as object).filter(([name]) => Object.hasOwn(given as object, name)),
  );
}

/**
 * The value, by what each side has done to it since both agreed:
 *
 *     nothing there                        this device's
 *     nothing here                         the cloud's
 *     edited on both sides                 member by member; of one edited on both sides this device's
 *     edited on one, deleted on the other  the edit: a conflict drops nobody who should be warned
 */
function mergeOne(before: Before, here: unknown, there: unknown): unknown {
  if (here !== undefined && there !== undefined) return mergeMembers(before, here, there);
  if (same(there, before.there)) return here;
  if (same(here, before.here)) return there;
  return here ?? there;
}

/** Merges member by member. If both sides changed a member, local's counts. */
function mergeMembers(before: Before, here: unknown, there: unknown): unknown {
  if (same(here, there)) return there;
  const names = new Set([...Object.keys(there as object), ...Object.keys(here as object)]);
  const members: [string, unknown][] = [];
  for (const name of names) {
    const [was, ours] = [member(before.here, name), member(here, name)];
    const [wasTheirs, theirs] = [member(before.there, name), member(there, name)];
    // Without a value before, nothing counts as deleted.
    const isOurs =
      before.here === undefined ? ours !== undefined : !same(ours, was) || same(theirs, wasTheirs);
    const value = isOurs ? ours : theirs;
    if (value !== undefined) members.push([name, value]);
  }
  const merged: unknown = Object.fromEntries(members);
  if (isEntry(merged) || !isEntry(here) || !isEntry(there)) return merged;
  // The type of one side and the destination of the other may not fit, and would reach nobody.
  return { ...(merged as object), type: here.type, destination: here.destination };
}

function member(value: unknown, name: string): unknown {
  return value !== undefined && Object.hasOwn(value as object, name)
    ? (value as JsonObject)[name]
    : undefined;
}

/**
 * The members that a cloud has changed or dropped, by the uid of the value that it was given. It may change members that
 * are not ours. `gone`: it has dropped the whole value.
 */
export function alterations(
  given: readonly unknown[],
  kept: readonly unknown[],
): ReadonlyMap<string, readonly string[]> {
  const there = keyed(kept);
  const found = new Map<string, readonly string[]>();
  for (const [key, value] of keyed(given)) {
    const now = there.get(key);
    const names = now === undefined ? ['gone'] : uidOf(value) === null ? [] : changedMembers(value, now);
    if (names.length > 0) found.set(key, names);
  }
  return found;
}

function changedMembers(given: unknown, kept: unknown): string[] {
  return Object.keys(given as object).filter((name) => {
    const [was, is] = [member(given, name), member(kept, name)];
    return is === undefined || (OURS.has(name) && !same(was, is));
  });
}

/** Groups of two and more entries that would notify the same place. */
function sameTargets(merged: Document): Entry[][] {
  return [...grouped(entriesOf(merged), targetOf).values()].filter(({ length }) => length > 1);
}

/** The entries. A second value with the same uid is kept, but is not an entry. */
function entriesOf(document: Document): Entry[] {
  const found: Entry[] = [];
  for (const [key, value] of document) if (key === uidOf(value) && isEntry(value)) found.push(value);
  return found;
}

/** Makes one entry of the group: remote's uid, the id of the local one, and local's fields. */
function unite(
  group: readonly Entry[],
  sides: {
    merged: Map<string, unknown>;
    remote: Document;
    shown: ReadonlySet<string>;
    edited: ReadonlySet<string>;
    heirs: Map<string, string>;
  },
): void {
  const { merged, remote, shown, edited, heirs } = sides;
  const here = group.filter(({ uid }) => shown.has(uid));
  const kept = here.find(({ uid }) => edited.has(uid)) ?? here[0] ?? (group[0] as Entry);
  const known = remote.has(kept.uid) ? kept : (group.find(({ uid }) => remote.has(uid)) ?? kept);
  for (const { uid } of group) if (uid !== known.uid) merged.delete(uid);
  merged.set(known.uid, { ...known, ...kept, uid: known.uid });
  if (known !== kept && !shown.has(known.uid)) heirs.set(known.uid, kept.uid);
}

/** The values of a document by uid. One without a uid, or with one that came before, is keyed by its own text. */
function keyed(values: readonly unknown[]): Map<string, unknown> {
  const found = new Map<string, unknown>();
  for (const value of values) {
    const uid = uidOf(value);
    found.set(uid === null || found.has(uid) ? canonical(value) : uid, value);
  }
  return found;
}

function same(a: unknown, b: unknown): boolean {
  return a === b || canonical(a) === canonical(b);
}
