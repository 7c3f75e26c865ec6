/**
 * Turns the signals of the process into what the service is asked to do. Used by main.ts.
 */

/**
 * What signals ask for, one thing after the other: SIGHUP to read the settings again (or to end, where
 * `endsWithTerminal`), the first SIGTERM or SIGINT to end. A second one ends the process at once, for somebody is in a
 * hurry. So does one that comes while the service still starts: nothing has been promised yet.
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
