/**
 * The last settings with which a service ran, kept in the state directory. A start falls back on them if the present
 * settings cannot be used: a typing error must not stop a device that no technician can reach, or a cloud at night.
 *
 * `settings.json` is a durable file of `{"version", "settings": {key: value}}`: the FIELDPOST_ keys as they were given. The
 * value of a secret is left out: it is null, and a start that falls back takes it from its own environment. An earlier
 * program of a device takes no file with a null: it would open its API without the token.
 */
import { join } from 'node:path';
import { formatProblem, type Parsed, type Settings } from '../base/config/settings.js';
import type { Environment } from '../base/config/types.js';
import { secretPath } from '../base/config/values.js';
import { DurableFile, type Low, openLow } from '../base/durable-file.js';
import { wordsOf } from '../base/errors.js';
import { mapOf, shapeOf } from '../base/json.js';
import type { Disk } from '../base/system/disk.js';
import type { Log } from '../base/system/log.js';

/** Settings that can be used. */
export type GoodSettings<C> = Extract<Parsed<C>, { config: C }>;

/** The settings to start with, and what is wrong with those that were given; or why there are none. */
export type ChosenSettings<C> =
  | { readonly parsed: GoodSettings<C>; readonly env: Environment; readonly refused: string | null }
  | { readonly problems: readonly string[] };

/** Decides which settings a service runs with. */
export interface SettingsChoice<C> {
  parse(env: Environment): Parsed<C>;
  /** `fault`: why the env file cannot be read, or null. */
  choose(env: Environment, fault: string | null): ChosenSettings<C>;
  /** The service runs with `env` now. */
  keep(env: Environment): Promise<void>;
}

/** Decides for settings that are used as they are, or not at all. */
export function plainChoice<C>(parse: (env: Environment) => Parsed<C>): SettingsChoice<C> {
  return {
    parse,
    choose(env, fault) {
      const parsed = parse(env);
      const problems = fault === null ? [] : [fault];
      if ('problems' in parsed) problems.push(...parsed.problems.map(formatProblem));
      else if (fault === null) return { parsed, env, refused: null };
      return { problems };
    },
    keep: async () => undefined,
  };
}

interface LastSettingsOptions<C> {
  readonly settings: Settings<C>;
  readonly parse: (env: Environment, accepted: ReadonlySet<string>) => Parsed<C>;
  /** False: only the given settings are good enough, because a person can correct them. */
  readonly mayFallBack: boolean;
  readonly disk: Disk;
  readonly log: Log;
  readonly directory: string;
  readonly version: string;
}

interface Document {
  /** The program that wrote it. */
  readonly version: unknown;
  /** Null: a secret. */
  readonly settings: Readonly<Record<string, string | null>>;
}

/** The kept settings of one state directory. */
export class LastSettings<C> implements SettingsChoice<C> {
  readonly #options: LastSettingsOptions<C>;
  readonly #path: string;
  readonly #file: Low<Document | null>;

  /** Reads the kept settings. A file that cannot be read counts as none, and is logged. */
  static async open<C>(options: LastSettingsOptions<C>): Promise<LastSettings<C>> {
    const last = new LastSettings(options);
    await last.#file.read().catch((error) => last.#notKept(wordsOf(error)));
    return last;
  }

  private constructor(options: LastSettingsOptions<C>) {
    this.#options = options;
    this.#path = join(options.directory, 'settings.json');
    const onDamage = ({ copy }: { copy: string }) => this.#notKept(`the file is damaged: see ${copy}`);
    const file = { disk: options.disk, path: this.#path, parse: documentIn, onDamage };
    this.#file = openLow(new DurableFile<Document | null>(file), null);
  }

  get #kept(): Document['settings'] | null {
    return this.#file.data?.settings ?? null;
  }

  /** Parses `env`. The kept keys are accepted: a newer version knew them, even if this one does not. */
  parse(env: Environment): Parsed<C> {
    return this.#options.parse(env, new Set(Object.keys(this.#kept ?? {})));
  }

  /** The settings to start with: `env`, or the kept ones if `env` cannot be used. */
  choose(env: Environment, fault: string | null): ChosenSettings<C> {
    const found = plainChoice((one) => this.parse(one)).choose(env, fault);
    if (!('problems' in found) || !this.#options.mayFallBack || this.#kept === null) return found;
    const { problems } = found;
    const before = { ...withoutSettings(env), ...withoutNulls(this.#kept), ...this.#secretsIn(env) };
    const parsed = this.parse(before);
    const missing = 'problems' in parsed ? parsed.problems.map(formatProblem) : this.#missing(parsed);
    if (!('problems' in parsed) && missing.length === 0)
      return { parsed, env: before, refused: problems.join('; ') };
    const words = missing.join('; ');
    return { problems: [...problems, `the last good settings cannot be used either: ${words}`] };
  }

  /** Keeps `env`, with which the service runs now. A failure is logged. */
  async keep(env: Environment): Promise<void> {
    const settings: Record<string, string | null> = {};
    for (const [key, value] of Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1)))
      if (isSetting(key) && value?.trim()) settings[key] = this.#mayBeSecret(key, value) ? null : value;
    // Spare the flash: a start with the same settings writes nothing.
    if (JSON.stringify(settings) === JSON.stringify(this.#kept)) return;
    const before = this.#file.data;
    this.#file.data = { version: this.#options.version, settings };
    await this.#file.write().catch((error) => {
      this.#file.data = before;
      this.#notKept(wordsOf(error));
    });
  }

  /** What `env` gives for the secrets that were left out: in the key itself, or in a file. */
  #secretsIn(env: Environment): Environment {
    const keys = Object.keys(this.#kept ?? {}).filter((key) => this.#kept?.[key] === null);
    const names = keys.flatMap((key) => [key, `${key}_FILE`]).filter((name) => env[name] !== undefined);
    return Object.fromEntries(names.map((name) => [name, env[name]]));
  }

  /** A problem for each secret that the kept settings had, and that is nowhere now: a token must not fall away. */
  #missing({ config }: GoodSettings<C>): string[] {
    const gone = this.#options.settings.rows.filter(
      ([member, { key }]) => this.#kept?.[key] === null && config[member as keyof C] === null,
    );
    return gone.map(([, { key }]) => `${key}: it was set, a secret is not kept, and it is not set now`);
  }

  /** True if the value is a secret itself, or that of a key that this version does not know. A path is none. */
  #mayBeSecret(key: string, value: string): boolean {
    const { rows, secretByKey } = this.#options.settings;
    const row = rows.find(([, row]) => row.key === key)?.[1];
    if (row === undefined) return !secretByKey.has(key);
    const { isSecret, credential, file, kind } = row;
    if (!isSecret || kind === secretPath || (file !== null && credential === null)) return false;
    return kind.hides?.(kind.parse(value.trim())) ?? true;
  }

  #notKept(reason: string): void {
    this.#options.log.warn('settings not kept', { path: this.#path, reason });
  }
}

function isSetting(key: string): boolean {
  return key.startsWith('FIELDPOST_');
}

function withoutSettings(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([key]) => !isSetting(key)));
}

function withoutNulls(kept: Document['settings']): Environment {
  return Object.fromEntries(Object.entries(kept).map(([key, value]) => [key, value ?? undefined]));
}

const hasTexts = shapeOf({ settings: mapOf((value) => value === null || typeof value === 'string') });

/** Null if the value has another shape. Earlier programs kept keys without a value, too. */
function documentIn(value: unknown): Document | null {
  if (!hasTexts(value)) return null;
  const { version, settings } = value as Document;
  if (!Object.keys(settings).every(isSetting)) return null;
  return {
    version,
    settings: Object.fromEntries(Object.entries(settings).filter(([, text]) => text !== '')),
  };
}
