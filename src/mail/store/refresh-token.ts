/**
 * The refresh token that a token endpoint has sent in place of the one in the settings. Many endpoints forget the old token
 * then, so the new one must survive a power cut.
 *
 * `relay-token.json` is a durable file of `{"given", "token"}`. `given` is a hash of the endpoint, the application and the
 * token of the settings. With another hash the file does not count: a person has given a newer token.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { DurableFile, type Low, openLow } from '../../base/durable-file.js';
import { wordsOf } from '../../base/errors.js';
import { isJsonObject } from '../../base/json.js';
import { STORAGE_RETRY_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { Disk } from '../../base/system/disk.js';
import type { Log } from '../../base/system/log.js';
import { Turns } from '../../base/turns.js';

/** The refresh token of the settings, and to whom it belongs. */
export interface GivenToken {
  readonly url: string;
  readonly clientId: string;
  readonly token: string;
}

interface RefreshTokenOptions {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly log: Log;
  readonly directory: string;
}

interface Kept {
  readonly given: string;
  readonly token: string;
}

/** The newest refresh token, in memory and in the state directory. */
export class RefreshToken {
  readonly #options: RefreshTokenOptions;
  readonly #path: string;
  readonly #file: Low<Kept | null>;
  readonly #turns = new Turns();
  readonly #retry: Alarm;
  #isRead = false;
  #isSaved = true;
  /** A failure was logged. */
  #isTold = false;

  constructor(options: RefreshTokenOptions) {
    this.#options = options;
    this.#path = join(options.directory, 'relay-token.json');
    const onDamage = ({ copy }: { copy: string }) => this.#notKept(`the file is damaged: see ${copy}`);
    const file = { disk: options.disk, path: this.#path, parse: keptIn, onDamage };
    this.#file = openLow(new DurableFile<Kept | null>(file), null);
    this.#retry = new Alarm(options.clock, () => void this.save());
  }

  /** The token to use: the newest that followed this one, or this one. Rejects with the disk's error. */
  async newest(given: GivenToken): Promise<string> {
    if (!this.#isRead) await this.#file.read();
    this.#isRead = true;
    const kept = this.#file.data;
    return kept?.given === hashOf(given) ? kept.token : given.token;
  }

  /**
   * `token` follows the newest of `given`. Resolves when it is on the device. If the disk refuses it, it is kept in memory,
   * and written again every STORAGE_RETRY_MS. Never rejects.
   */
  async replaceBy(token: string, given: GivenToken): Promise<void> {
    this.#file.data = { given: hashOf(given), token };
    this.#isRead = true;
    this.#isSaved = false;
    await this.save();
  }

  /** Tries again to write a token that is in memory alone. Never rejects. */
  save(): Promise<void> {
    return this.#turns.do(() => this.#save());
  }

  /** The same, once more and for the last time. */
  async close(): Promise<void> {
    await this.save();
    this.#retry.off();
  }

  async #save(): Promise<void> {
    if (this.#isSaved) return;
    const { log } = this.#options;
    const saving = this.#file.data;
    try {
      await this.#file.write();
      this.#isSaved = saving === this.#file.data;
      if (this.#isTold) log.info('refresh token kept');
      this.#isTold = false;
    } catch (error) {
      if (!this.#isTold) this.#notKept(wordsOf(error));
      this.#isTold = true;
      this.#retry.in(STORAGE_RETRY_MS);
    }
  }

  #notKept(reason: string): void {
    this.#options.log.warn('refresh token not kept', { path: this.#path, reason });
  }
}

function hashOf({ url, clientId, token }: GivenToken): string {
  return createHash('sha256')
    .update(JSON.stringify([url, clientId, token]))
    .digest('hex');
}

/** The token in the file's value; null if it has another shape. */
function keptIn(value: unknown): Kept | null {
  const { given, token } = isJsonObject(value) ? value : {};
  return typeof given === 'string' && typeof token === 'string' ? { given, token } : null;
}
