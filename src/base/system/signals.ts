/**
 * Turns the signals of the process into requests to reload or to end, and answers a reload.
 */
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Gives the requests one after another. SIGHUP: reload, or end if `endsWithTerminal`. The first SIGTERM or SIGINT: end. A
 * second one ends the process at once, as does one before serving(): nothing is promised yet.
 */
export function listenToSignals(
  source: { on(signal: NodeJS.Signals, act: () => void): void; exit(status: number): never },
  endsWithTerminal: boolean,
): { serving(): void; next(): Promise<'reload' | 'end'> } {
  let wanted: 'reload' | 'end' | null = null;
  let isServing = false;
  let wake = () => {};
  const want = (what: 'reload' | 'end') => {
    if (wanted !== 'end') wanted = what;
    wake();
  };
  source.on('SIGHUP', () => want(endsWithTerminal ? 'end' : 'reload'));
  const numbers = { SIGINT: 2, SIGTERM: 15 } as const;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    source.on(signal, () => {
      if (wanted === 'end' || !isServing) source.exit(128 + numbers[signal]);
      want('end');
    });
  }
  return {
    serving() {
      isServing = true;
    },
    async next() {
      const asked = new Promise<void>((resolve) => {
        wake = resolve;
      });
      if (wanted === null) await asked;
      const now = wanted ?? 'end';
      if (now === 'reload') wanted = null;
      return now;
    },
  };
}

/**
 * Tells the script of ExecReload= (systemd/fieldpost-reload) how a reload ended: leaves `words`, `ok` or what is wrong, in
 * the unit's runtime directory, whole or not at all, for the user of the service alone. Throws what node:fs throws.
 */
export function answerReload(directory: string, words: string): void {
  const path = join(directory, 'reload');
  // The mode counts only for a new file.
  rmSync(`${path}.new`, { force: true });
  writeFileSync(`${path}.new`, `${words}\n`, { mode: 0o600, flag: 'wx' });
  renameSync(`${path}.new`, path);
}
