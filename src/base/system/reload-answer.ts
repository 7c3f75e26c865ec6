/**
 * How a reload ended, for the script of ExecReload= (systemd/fieldpost-reload): one line in the unit's runtime directory,
 * `ok` or what is wrong.
 */
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Leaves `words` in `directory`, whole or not at all, for the user of the service alone. Throws what node:fs throws. */
export function answerReload(directory: string, words: string): void {
  const path = join(directory, 'reload');
  // The mode counts only for a new file.
  rmSync(`${path}.new`, { force: true });
  writeFileSync(`${path}.new`, `${words}\n`, { mode: 0o600, flag: 'wx' });
  renameSync(`${path}.new`, path);
}
