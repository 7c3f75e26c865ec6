/**
 * Turns the signals of the process into what the service is asked to do. Used by main.ts.
 */

/**
 * Gives what signals ask for, one after the other. SIGHUP: read the settings again, or end if `endsWithTerminal`. The first
 * SIGTERM or SIGINT: end. A second one ends the process at once, and so does one during the start: nothing is promised
 * yet.
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
