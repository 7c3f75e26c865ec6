/**
 * The last settings with which the daemon ran, kept in the state directory. A start falls back on them if the present
 * settings cannot be used: a typing error must not stop a device that no technician can reach.
 *
 * `settings.json` is a sealed file of `{"version", "settings": {key: value}}`: the FIELDPOST_ keys as they were given,
 * without secrets from files or credentials.
 */
import { join } from 'node:path';
import { type Environment, formatProblem, type ParsedConfig } from '../config.js';
import { wordsOf } from '../errors.js';
import { isJsonObject } from '../json.js';
import { readSealed, writeSealed } from '../store/sealed.js';
import type { Disk } from '../system/disk.js';
import type { Log } from '../system/log.js';

/** Settings that can be used, and what is wrong with those that cannot. */
type Chosen =
  | { readonly parsed: Good; readonly env: Environment; readonly refused: string | null }
  | { readonly problems: readonly string[] };

type Good = Exclude<ParsedConfig, { problems: unknown }>;

interface LastSettingsOptions {
  readonly parse: (env: Environment, accepted: ReadonlySet<string>) => ParsedConfig;
  /** False: the file is read, but never written. */
  readonly keeps: boolean;
  readonly disk: Disk;
  readonly log: Log;
  readonly directory: string;
  readonly version: string;
}

/** The kept settings of one state directory. */
export class LastSettings {
  readonly #options: LastSettingsOptions;
  readonly #path: string;
  #kept: Readonly<Record<string, string>> | null = null;

  /** Reads the kept settings. A file that cannot be read counts as none, and is logged. */
  static async open(options: LastSettingsOptions): Promise<LastSettings> {
    const last = new LastSettings(options);
    await last.#read();
    return last;
  }

  private constructor(options: LastSettingsOptions) {
    this.#options = options;
    this.#path = join(options.directory, 'settings.json');
  }

  /** Parses `env`. The kept keys are accepted: a newer version knew them, even if this one does not. */
  parse(env: Environment): ParsedConfig {
    return this.#options.parse(env, new Set(Object.keys(this.#kept ?? {})));
  }

  /**
   * The settings to start with: `env`, or the kept ones if `env` cannot be used and `mayFallBack`. `fault`: why the env
   * file cannot be read, or null.
   */
  choose(env: Environment, fault: string | null, mayFallBack: boolean): Chosen {
    const found = this.parse(env);
    const problems = fault === null ? [] : [fault];
    if ('problems' in found) problems.push(...found.problems.map(formatProblem));
    else if (fault === null) return { parsed: found, env, refused: null };
    if (!mayFallBack || this.#kept === null) return { problems };
    const before = { ...withoutSettings(env), ...this.#kept };
    const parsed = this.parse(before);
    if (!('problems' in parsed)) return { parsed, env: before, refused: problems.join('; ') };
    const words = parsed.problems.map(formatProblem).join('; ');
    return { problems: [...problems, `the last good settings cannot be used either: ${words}`] };
  }

  /** Keeps `env`, with which the daemon runs now. A failure is logged. */
  async keep(env: Environment): Promise<void> {
    if (!this.#options.keeps) return;
    const settings: Record<string, string> = {};
    for (const [key, value] of Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1)))
      if (isSetting(key) && value !== undefined) settings[key] = value;
    // Spare the flash: a start with the same settings writes nothing.
    if (JSON.stringify(settings) === JSON.stringify(this.#kept)) return;
    try {
      const { disk, version } = this.#options;
      await writeSealed(disk, this.#path, { version, settings });
      this.#kept = settings;
    } catch (error) {
      this.#notKept(wordsOf(error));
    }
  }

  async #read(): Promise<void> {
    try {
      this.#kept = await readSealed(this.#options.disk, this.#path, settingsIn, ({ copy }) =>
        this.#notKept(`the file is damaged: see ${copy}`),
      );
    } catch (error) {
      this.#notKept(wordsOf(error));
    }
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

/** The settings in the file's document; null if it has another shape. */
function settingsIn(document: unknown): Readonly<Record<string, string>> | null {
  const { settings } = isJsonObject(document) ? document : {};
  if (!isJsonObject(settings)) return null;
  const entries = Object.entries(settings);
  const isGood = entries.every(([key, value]) => isSetting(key) && typeof value === 'string');
  return isGood ? (settings as Record<string, string>) : null;
}
