/**
 * A device in `presence.json`, in today's form and in the one before. Pure; used by watch.ts.
 */
import type { Moment } from './moment.js';
import type { Said } from './presence.js';
import type { News } from './watch.js';

/** One device in the file. */
export interface Written {
  readonly state: 'online' | 'offline';
  readonly said: Said;
  readonly everyMs: number;
  readonly heard: Moment;
  readonly news: readonly News[];
}

/** A boot that no clock has: only the wall clock can tell a moment of it. */
const NO_BOOT = '';

/**
 * The device as it was written; null for a shape that no version has written. The form before had `stopping` and `heardMs`
 * (wall time); its news had no names of their own, and people were told of them at most once more: they are dropped.
 */
export function writtenOf(value: unknown): Written | null {
  const { state, said, everyMs, heard, news, stopping, heardMs } = (value ?? {}) as Partial<Written> & {
    stopping?: unknown;
    heardMs?: unknown;
  };
  if ((state !== 'online' && state !== 'offline') || !Array.isArray(news)) return null;
  if (typeof heardMs === 'number') {
    const moment = { boot: NO_BOOT, bootMs: 0, wallMs: heardMs, confirmed: false };
    return { state, said: stopping === true ? 'stopping' : 'running', everyMs: 0, heard: moment, news: [] };
  }
  if (said === undefined || everyMs === undefined || typeof heard?.boot !== 'string') return null;
  return { state, said, everyMs, heard, news };
}
