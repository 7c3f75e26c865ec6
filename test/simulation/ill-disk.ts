/** Faults of a simulated device's disk. */
import { MIB, SECOND_MS } from '../../src/base/limits.js';
import type { FaultyDisk, Operation } from '../support/faulty-disk.js';
import type { Chance } from './chance.js';
import type { Timeline } from './timeline.js';

/**
 * `refusing`: many writes and syncs fail, some half done. `crowded`: no new name fits. `full`: few more bytes fit.
 * `read-only`: nothing can be changed. `slow`: each write and sync takes seconds.
 */
export const AILMENTS = ['refusing', 'crowded', 'full', 'read-only', 'slow'] as const;
export type Ailment = 'none' | (typeof AILMENTS)[number];

const UNLIMITED = 2 ** 40;
/** A full disk has less than this left. */
const LEFT_BYTES_MAX = 8 * MIB;
const SLOW_MS_MAX = 5 * SECOND_MS;

/** Gives the disk this fault. A sync always takes up to `syncMs`. */
export function afflict(
  disk: FaultyDisk,
  ailment: Ailment,
  { chance, timeline, syncMs }: { chance: Chance; timeline: Timeline; syncMs: number },
): void {
  disk.capacityBytes = UNLIMITED;
  if (ailment === 'full') disk.capacityBytes = disk.usedBytes + chance.below(LEFT_BYTES_MAX);
  disk.pace = ({ kind }) => {
    const isSync = kind === 'sync' || kind === 'syncDirectory';
    const longestMs = ailment === 'slow' ? SLOW_MS_MAX : isSync ? syncMs : 0;
    if (longestMs === 0) return null;
    return new Promise((resolve) => void timeline.after(chance.below(longestMs), resolve));
  };
  disk.onOperation = (_, operation) => faultOf(ailment, operation, chance);
}

function faultOf(ailment: Ailment, { kind }: Operation, chance: Chance) {
  switch (ailment) {
    case 'refusing':
      if (!chance.is(0.5)) return 'ok';
      return chance.is(0.5) ? 'error:EIO' : 'error-half:EIO';
    case 'crowded':
      return kind === 'create' || kind === 'makeDirectory' ? 'error:ENOSPC' : 'ok';
    case 'read-only':
      // A read-only disk has nothing to sync.
      return kind === 'sync' || kind === 'syncDirectory' ? 'ok' : 'error:EROFS';
    default:
      return 'ok';
  }
}
