/**
 * The faults of an environment: problems, which stop a start, and warnings, which do not. Neither shows anything that may
 * be a secret.
 */

import { maskPasswords } from './endpoints.js';
import { guessOf } from './nearest.js';
import { SECRET_BY_KEY } from './settings.js';
import type { ConfigProblem, Environment } from './types.js';

/** Collects problems and warnings about one environment. */
export class Findings {
  readonly problems: ConfigProblem[] = [];
  readonly warnings: string[] = [];
  readonly #env: Environment;
  readonly #accepted: ReadonlySet<string>;

  constructor(env: Environment, accepted: ReadonlySet<string>) {
    this.#env = env;
    this.#accepted = accepted;
  }

  /** Records what is wrong with a setting. Only the first problem counts: others may follow from it. */
  problem(key: string, detail: string): void {
    if (this.isBad(key)) return;
    const value = this.#env[key]?.trim() ?? '';
    const shown = SECRET_BY_KEY.get(key) || value === '' ? null : maskPasswords(value);
    this.problems.push({ key, value: shown, detail });
  }

  isBad(key: string): boolean {
    return this.problems.some((problem) => problem.key === key);
  }

  /** Records an unknown key. Its value is never shown: it may be a secret under a mistyped name. */
  unknown(key: string): void {
    if (this.#accepted.has(key)) {
      this.warnings.push(`${key} is not known to this version: a newer one has run with it`);
      return;
    }
    const detail = `there is no such setting${guessOf(key, SECRET_BY_KEY.keys())}`;
    this.problems.push({ key, value: null, detail });
  }
}
