/**
 * Logs settings that work but should be changed: each warning when it is new, at the start or with a reload.
 */
import { allWarnings } from '../base/config/advice.js';
import type { Config } from '../base/config/settings.js';
import type { Log } from '../base/system/log.js';
import type { System } from '../mail/system.js';

/** The warnings of one service. */
export class Warnings {
  readonly #log: Log;
  readonly #hostname: () => string;
  readonly #sendsMail: boolean;
  #told: ReadonlySet<string> = new Set();

  /** `sendsMail`: the service uses the relays of its configuration. */
  constructor({ log, hostname }: Pick<System, 'log' | 'hostname'>, { sendsMail }: { sendsMail: boolean }) {
    this.#log = log;
    this.#hostname = hostname;
    this.#sendsMail = sendsMail;
  }

  /** Logs the new warnings about the settings. `sizeBytes`: the size of the file system with the state directory. */
  tell(parsed: { config: Config; warnings: readonly string[] }, sizeBytes: number): void {
    const all = allWarnings(parsed, this.#sendsMail ? this.#hostname() : null, sizeBytes);
    for (const warning of all) if (!this.#told.has(warning)) this.#log.warn('configuration', { warning });
    this.#told = new Set(all);
  }
}
