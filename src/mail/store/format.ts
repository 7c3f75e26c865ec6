/**
 * The version of the store's format, in every snapshot and in the head of every segment; 1.0 if it is missing. A newer
 * minor version adds events and members: they are kept and written back. A newer major version may change all else, so
 * its files are put aside whole. The place of the version in a file and the checksum over it never change.
 *
 * The minor number rises with each new event and member. A program of the former number must not send a message in another
 * form, or later than it may. So a message for which a new member matters has a new type: a program that does not know the
 * type fails the message, and a person can retry it after the next update (isUnderstood).
 *
 * 2.1 adds the collapse key of a message and the event `replaced`. A program of 2.0 sends the older messages of a key, too.
 * It also adds the Content-ID of a file. A program of 2.0 sends the file without it, as an attachment.
 */
import type { JsonObject } from '../../base/json.js';

/** A version of the format. */
export interface Format {
  readonly major: number;
  readonly minor: number;
}

/** What this program writes. A new event with content needs a new major version, because replay counts contents. */
export const FORMAT: Format = { major: 2, minor: 1 };

/** The version that a file names. Anything else counts as a missing version. */
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

/** True for the format that this program writes. */
export function isOurs(format: Format): boolean {
  return formatText(format) === formatText(FORMAT);
}

/** For the log: `1.0`. */
export function formatText({ major, minor }: Format): string {
  return `${major}.${minor}`;
}

/** The members that are not among `known`; undefined if there are none. */
export function unknownMembers(
  value: object,
  known: Pick<ReadonlySet<string>, 'has'>,
): JsonObject | undefined {
  let more: Record<string, unknown> | undefined;
  for (const name in value) {
    if (known.has(name)) continue;
    more ??= {};
    more[name] = (value as JsonObject)[name];
  }
  return more;
}
