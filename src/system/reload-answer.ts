/**
 * How a reload ended, for the script of ExecReload= (systemd/fieldpost-reload): one line in the unit's runtime directory,
 * `ok` or what is wrong.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Leaves `words` in `directory`, whole or not at all. Throws what node:fs throws. */
export function answerReload(directory: string, words: string): void {
  const path = join(directory, 'reload');
  writeFileSync(`${path}.new`, `${words}\n`);
  renameSync(`${path}.new`, path);
}
