/**
 * The version of the format in which the store is written. It stands in every snapshot and in the head of every
 * segment; where it is missing it is 1.0. A newer minor version adds events and members: they are kept as they are and
 * written back. A newer major version may change all else, so its files are put aside whole. The frame stays for ever:
 * where in a file the version stands, and the checksum over it. Used by record.ts, snapshot.ts, replay.ts and state.ts.
 */

/** A version of the format. */
export interface Format {
  readonly major: number;
  readonly minor: number;
}

/** What this program writes. An event that brings content is a new major version: replay counts contents. */
export const FORMAT: Format = { major: 1, minor: 0 };

/** What a file of ours says of itself. Throws nothing: what is no version counts as none. */
export function formatOf(value: unknown): Format {
  const { major, minor } = (value ?? {}) as Partial<Format>;
  return Number.isInteger(major) && Number.isInteger(minor) ? (value as Format) : { major: 1, minor: 0 };
}

/** True if this program cannot read it. */
export function isForeign({ major }: Format): boolean {
  return major > FORMAT.major;
}

/** True if it may hold more than this program knows. */
export function isNewer({ major, minor }: Format): boolean {
  return major > FORMAT.major || (major === FORMAT.major && minor > FORMAT.minor);
}

/** As it is said in the log: `1.0`. */
export function formatText({ major, minor }: Format): string {
  return `${major}.${minor}`;
}

/** The members that are not among `known`; undefined where there are none, as nearly always. */
export function unknownMembers(
  value: object,
  known: ReadonlySet<string>,
): Record<string, unknown> | undefined {
  let more: Record<string, unknown> | undefined;
  for (const name in value) {
    if (known.has(name)) continue;
    more ??= {};
    more[name] = (value as Record<string, unknown>)[name];
  }
  return more;
}
