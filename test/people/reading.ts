/**
 * What a person understands of a message: its kind, and the devices that it is about. Reads English, and names as the worlds
 * have them.
 */

/** The kinds of messages that people tell apart. */
export type Kind =
  | 'silent'
  | 'stopped'
  | 'back'
  | 'was'
  | 'quiet'
  | 'word'
  | 'still'
  | 'stuck'
  | 'flows'
  | 'drill'
  | 'weekly';

export interface Told {
  readonly kind: Kind;
  readonly devices: readonly string[];
  /** So many are meant; the words may name fewer of them. */
  readonly count: number;
  /** Null: it is about no site. */
  readonly site: string | null;
  /** True: one message for a site, or for many. */
  readonly isDigest: boolean;
}

/** The first that fits the title. */
const KINDS: readonly (readonly [RegExp, Kind])[] = [
  [/^TEST: /, 'drill'],
  [/ is quiet until /, 'quiet'],
  [/^Last word from /, 'word'],
  [/but (?:its|their) mails do not leave$/, 'stuck'],
  [/ sends? (?:its|their) mails again$/, 'flows'],
  [/ is still shut down$/, 'stopped'],
  [/ is still offline/, 'still'],
  [/ (?:was|were) offline/, 'was'],
  [/in the past 7 days$/, 'weekly'],
  [/ back online$/, 'back'],
  [/ offline$/, 'silent'],
];

/** Throws for words that nobody would understand. */
export function read(title: string, words: string): Told {
  const [, kind] = KINDS.find(([shape]) => shape.test(title)) ?? [];
  if (kind === undefined) throw new Error(`nobody understands “${title}”: ${words}`);
  const devices = [...new Set(`${title} ${words}`.match(/\bdev-\d+/g) ?? [])];
  const [, site, ofSite] = /^Site (\w+): (\d+) of \d+ /.exec(title) ?? [];
  const [, many] = /^(\d+) devices (?:are|were|send) /.exec(title) ?? [];
  const count = Number(ofSite ?? many ?? 1);
  return { kind, devices, count, site: site ?? null, isDigest: ofSite !== undefined || many !== undefined };
}
