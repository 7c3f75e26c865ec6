/**
 * The three-way merge of cloud.md, "Destination sync": what becomes of the book when device and cloud have both
 * changed it. Documents are lists of whatever stands in them; what is no entry takes part, but is not shown.
 */
import { type Entry, isEntry, targetOf, uidOf } from './destination.js';

/** What the merge looks at. */
export interface Sides {
  /** What device and cloud last agreed on; empty if that is not known: then nothing is taken for deleted. */
  readonly base: readonly unknown[];
  /** What was put since, and may or may not have arrived. */
  readonly attempted: readonly (readonly unknown[])[];
  /** The entries that this device shows, oldest first. */
  readonly local: readonly Entry[];
  /** What it keeps of the document without showing it. */
  readonly hidden: readonly unknown[];
  readonly remote: readonly unknown[];
}

/** What comes of it. */
export interface Merged {
  /** The new document: what remote has in its order, then what is new. */
  readonly document: readonly unknown[];
  /** Of that, what is an entry in all its parts, and the rest. */
  readonly shown: readonly Entry[];
  readonly hidden: readonly unknown[];
  /** Of an entry that has taken the place of a local one with another uid: its uid, and that one's. */
  readonly heirs: ReadonlyMap<string, string>;
}

type Document = ReadonlyMap<string, unknown>;
type Members = Readonly<Record<string, unknown>>;

/** Merges; pure, and complete: the result holds all that either side would miss. */
export function merge(sides: Sides): Merged {
  const base = keyed(sides.base);
  const attempted = sides.attempted.map(keyed);
  const local = keyed([...sides.local, ...sides.hidden]);
  const remote = keyed(sides.remote);
  const merged = new Map<string, unknown>();
  const edited = new Set<string>();
  for (const key of new Set([...remote.keys(), ...local.keys()])) {
    const [here, there] = [local.get(key), remote.get(key)];
    // Our own write, of which the answer was lost, is not somebody else's edit.
    const isOurs = attempted.some((put) => same(put.get(key), there));
    const before = isOurs ? there : base.get(key);
    const value = mergeOne(before, here, there);
    if (value !== undefined) merged.set(key, value);
    if (!same(before, here)) edited.add(key);
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

/** True if two documents say the same, in whatever order. */
export function sameDocument(a: readonly unknown[], b: readonly unknown[]): boolean {
  const [left, right] = [keyed(a), keyed(b)];
  return left.size === right.size && [...left].every(([key, value]) => same(value, right.get(key)));
}

/** The table: `before` is what both once had; undefined stands for absent. */
function mergeOne(before: unknown, here: unknown, there: unknown): unknown {
  if (same(here, before)) return there;
  if (same(there, before)) return here;
  // Edited and deleted: nobody who should be warned is dropped by a conflict.
  return mergeMembers(before, here, there);
}

/** Member by member; one that both have changed is local's. Where one side is absent, the other one whole. */
function mergeMembers(before: unknown, here: unknown, there: unknown): unknown {
  if (here === undefined || same(here, there)) return there;
  if (there === undefined) return here;
  const names = new Set([...Object.keys(there as object), ...Object.keys(here as object)]);
  const members: [string, unknown][] = [];
  for (const name of names) {
    const [was, ours, theirs] = [before, here, there].map((value) => member(value, name));
    // Where nothing was before, nothing is taken for deleted.
    const isTheirs = before === undefined ? ours === undefined : same(ours, was);
    const value = isTheirs ? theirs : ours;
    if (value !== undefined) members.push([name, value]);
  }
  const merged: unknown = Object.fromEntries(members);
  if (isEntry(merged) || !isEntry(here) || !isEntry(there)) return merged;
  // A type of one side and a destination of the other that do not go together would reach nobody.
  return { ...(merged as object), type: here.type, destination: here.destination };
}

function member(value: unknown, name: string): unknown {
  return value !== undefined && Object.hasOwn(value as object, name) ? (value as Members)[name] : undefined;
}

/** The entries that would notify the same place, where there is more than one. */
function sameTargets(merged: Document): Entry[][] {
  const groups = new Map<string, Entry[]>();
  for (const entry of entriesOf(merged)) {
    const target = targetOf(entry);
    const group = groups.get(target);
    if (group) group.push(entry);
    else groups.set(target, [entry]);
  }
  return [...groups.values()].filter(({ length }) => length > 1);
}

/** The values that are entries. What stands a second time under one uid is kept as it is, and is none. */
function entriesOf(document: Document): Entry[] {
  const found: Entry[] = [];
  for (const [key, value] of document) if (key === uidOf(value) && isEntry(value)) found.push(value);
  return found;
}

/** Makes one of them: remote's uid, the id of the one that is shown here, and local's fields. */
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

/** The values of a document by their uids. What has none, or one that came before, has its own text for a key. */
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

/** The value's JSON with the members of every object in one order. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
