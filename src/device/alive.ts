/**
 * The programs that must give signs, for a daemon that perhaps watches none: alive-watch.ts is loaded with the first.
 */
import { join } from 'node:path';
import type { AliveOptions, AliveWatch } from './alive-watch.js';

/** The watch; it begins with the first `open`. */
export interface Alive {
  open(): Promise<AliveWatch>;
  /** Opens it if an earlier run has left programs. */
  begin(): Promise<void>;
  /** How many programs there are, and the names of those that are late. */
  view(): AliveView;
  stop(): Promise<void>;
}

/** The programs in a few words. */
export interface AliveView {
  readonly count: number;
  readonly late: readonly string[];
}

const NONE: AliveView = { count: 0, late: [] };

/** Makes it for a state directory. */
export function lazyAlive({
  directory,
  ...options
}: Omit<AliveOptions, 'path'> & { readonly directory: string }): Alive {
  const path = join(directory, 'alive.json');
  let opened: Promise<AliveWatch> | null = null;
  let watch: AliveWatch | null = null;
  const open = async () => {
    const { AliveWatch } = await import('./alive-watch.js');
    watch = await AliveWatch.open({ ...options, path });
    return watch;
  };
  const opening = () => (opened ??= open());
  return {
    open: opening,
    async begin() {
      const found = await options.disk.look(path).catch(() => 'unknown');
      if (found !== null) await opening();
    },
    view: () => (watch === null ? NONE : { count: watch.count, late: watch.late }),
    stop: async () => (await opened)?.stop(),
  };
}
