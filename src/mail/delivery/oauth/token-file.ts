/**
 * Access tokens from a file that another program renews.
 */
import { wordsOf } from '../../../base/errors.js';
import type { Disk } from '../../../base/system/disk.js';
import { TOKEN_CHARS_MAX } from '../../mail-limits.js';
import { isToken, TokenError, type TokenSource } from './token-source.js';

/** The file is read for each session. */
export class TokenFile implements TokenSource {
  readonly #path: string;
  readonly #disk: Disk;

  constructor(path: string, disk: Disk) {
    this.#path = path;
    this.#disk = disk;
  }

  async token(): Promise<string> {
    const text = (await this.#read()).trim();
    if (text === '') throw new TokenError(`the token file ${this.#path} is empty`);
    if (isToken(text)) return text;
    throw new TokenError(
      `the token file ${this.#path} holds something else than a token: blanks within, characters beyond ASCII, or more than ${TOKEN_CHARS_MAX} characters`,
    );
  }

  /** The next session reads the file anyway. */
  refused(): void {}

  async close(): Promise<void> {}

  async #read(): Promise<string> {
    try {
      const file = await this.#disk.open(this.#path, 'read');
      try {
        // Blanks around the token, and one character too many.
        return (await file.read(0, 2 * TOKEN_CHARS_MAX)).toString('latin1');
      } finally {
        await file.close();
      }
    } catch (error) {
      throw new TokenError(`the token file ${this.#path} cannot be read: ${wordsOf(error)}`);
    }
  }
}
