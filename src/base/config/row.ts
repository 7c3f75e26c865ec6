/**
 * One row of a table of settings, and the four kinds of rows.
 */
import { certificatesPath, type Kind, secretPath, type TextKind } from './values.js';

/** What takes up a new value. `live`: its readers, at each use. `delivery`: a new delivery. `restart`: the next start. */
export type Follower = 'live' | 'delivery' | 'restart';

/** One setting, whose value is a T. */
export interface Row<T> {
  /** FIELDPOST_… */
  readonly key: string;
  readonly kind: TextKind<T>;
  /** What KEY may be, in words. */
  readonly allowed: string;
  /** The default as somebody would write it; null: none. */
  readonly fallback: string | null;
  /** The default in words, for fieldpost.env(5). */
  readonly fallbackWords: string;
  /** The kind of path if a file holds the value; null if the key holds it. */
  readonly file: Kind<string> | null;
  /** The systemd credential of a secret, which KEY_FILE, KEY or this credential gives. Null: the key alone gives it. */
  readonly credential: string | null;
  /** True: no message shows the value of the key. */
  readonly isSecret: boolean;
  readonly follows: Follower;
  /** Variables of others that give it if the key does not. */
  readonly also: readonly string[];
  readonly about: string;
}

/** Rows by the members of a configuration. */
export type SettingRows = Readonly<Record<string, Row<unknown>>>;

/** The values of rows. */
export type ValuesOf<R> = { readonly [M in keyof R]: R[M] extends Row<infer T> ? T : never };

interface Spec<K> {
  readonly key: string;
  readonly kind: K;
  /** `restart` if left out. */
  readonly follows?: Follower;
  readonly about: string;
  readonly isSecret?: true;
  readonly also?: readonly string[];
}

const PLAIN = {
  fallback: null,
  file: null,
  credential: null,
  isSecret: false,
  follows: 'restart',
  also: [],
} as const;

/** A setting that always has a value; `words` describe a default that `fallback` does not. */
export function given<T>({ words, ...spec }: Spec<Kind<T>> & { fallback: string; words?: string }): Row<T> {
  const fallbackWords = words ?? `\`${spec.fallback}\``;
  return { ...PLAIN, ...spec, fallbackWords, allowed: spec.kind.allowed };
}

/** A setting that is null if it is not set; its default in words is `none`, if nothing else is given. */
export function optional<T>({ none = 'none', ...spec }: Spec<Kind<T>> & { none?: string }): Row<T | null> {
  return { ...PLAIN, ...spec, fallbackWords: none, allowed: spec.kind.allowed };
}

/** A setting whose key names a file with the value; null if it is not set. */
export function inFile<T>({ none = 'none', ...spec }: Spec<TextKind<T>> & { none?: string }): Row<T | null> {
  const file = spec.isSecret ? secretPath : certificatesPath;
  return { ...PLAIN, ...spec, fallbackWords: none, file, allowed: file.allowed };
}

type SecretSpec<T> = Spec<Kind<T>> & { credential: string; none?: string };

/** A secret in the file that `<key>_FILE` names, in `key` itself, or in a systemd credential. */
export function secret<T>({ none = 'none', ...spec }: SecretSpec<T>): Row<T | null> {
  const words = `the systemd credential \`${spec.credential}\`, else ${none}`;
  return {
    ...optional({ ...spec, none: words }),
    file: secretPath,
    credential: spec.credential,
    isSecret: true,
  };
}

/** These rows, all of which are taken up by `follows`. */
export function following<R extends SettingRows>(follows: Follower, rows: R): R {
  return Object.fromEntries(Object.entries(rows).map(([member, row]) => [member, { ...row, follows }])) as R;
}
