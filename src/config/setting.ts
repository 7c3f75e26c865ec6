/**
 * What a setting is: a kind of value with a default and a purpose. Used by the table in settings.ts.
 */
import type { Config } from '../config.js';
import type { Kind } from './values.js';

/** One setting, whose parsed value is a T. */
export interface Setting<T> {
  /** As it would be written; null: none, or one that depends on the device. */
  readonly fallback: string | null;
  /** The default in the README's words. */
  readonly fallbackWords: string;
  readonly allowed: string;
  readonly about: string;
  /** True: the value is never shown. */
  readonly secret: boolean;
  parse(text: string): T;
  /** The effective value for people, on a device of that name; null where another key tells it. */
  readonly show: ((config: Config, hostname: string) => string) | null;
}

/** How a setting differs from most. */
export interface Traits {
  readonly secret?: true;
}

/** A setting that always has a value. */
export function given<T>(
  kind: Kind<T>,
  fallback: string,
  valueIn: (config: Config) => T,
  about: string,
  traits: Traits = {},
): Setting<T> {
  const show = (config: Config) => kind.show(valueIn(config));
  return make(kind, fallback, `\`${fallback}\``, show, about, traits);
}

/** A setting that is null where nobody has set it; `none` says in words what holds then. */
export function optional<T>(
  kind: Omit<Kind<T>, 'show'>,
  none: string,
  show: Setting<T>['show'],
  about: string,
  traits: Traits = {},
): Setting<T | null> {
  return make<T | null>(kind, null, none, show, about, traits);
}

function make<T>(
  kind: Omit<Kind<T>, 'show'>,
  fallback: string | null,
  fallbackWords: string,
  show: Setting<T>['show'],
  about: string,
  traits: Traits,
): Setting<T> {
  const { secret = false } = traits;
  return { fallback, fallbackWords, allowed: kind.allowed, about, secret, parse: kind.parse, show };
}

/** What a secret's setting is beside its kind. */
export const SECRET: Traits = { secret: true };

/** A secret as `fieldpost check` shows it. */
export function hidden(secret: string | null | undefined): string {
  return secret == null ? '' : '(hidden)';
}

/** The README's words for a secret that systemd may give. */
export function credential(name: string): string {
  return `the systemd credential \`${name}\`, else none`;
}
