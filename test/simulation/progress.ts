/** Tells how a run goes on: one line that changes on a terminal, or else a line now and then. */
import { SECOND_MS, YEAR_MS } from '../../src/base/limits.js';

/** What a run has done so far. */
export interface Count {
  readonly worlds: number;
  readonly livedMs: number;
  readonly events: number;
}

const EVERY_MS = { terminal: 250, other: 10 * SECOND_MS };

/** A count in words. */
export function wordsOf({ worlds, livedMs, events }: Count, tookMs: number): string {
  const rate = Math.round(events / Math.max(0.001, tookMs / SECOND_MS));
  const years = (livedMs / YEAR_MS).toFixed(livedMs < YEAR_MS ? 4 : 1);
  return `${worlds} worlds, ${years} simulated years, ${rate} events/s, ${Math.round(tookMs / SECOND_MS)} s`;
}

/** Tells it until it is stopped. */
export function tellProgress(count: () => Count): { stop(): void } {
  const { stdout } = process;
  const begunMs = performance.now();
  const tell = () => {
    const words = wordsOf(count(), performance.now() - begunMs);
    stdout.write(stdout.isTTY ? `\r\x1b[K${words}` : `… ${words}\n`);
  };
  const timer = setInterval(tell, stdout.isTTY ? EVERY_MS.terminal : EVERY_MS.other);
  return {
    stop: () => {
      clearInterval(timer);
      if (stdout.isTTY) stdout.write('\r\x1b[K');
    },
  };
}
