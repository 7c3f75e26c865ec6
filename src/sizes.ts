/**
 * Sizes in words, for people. Used by the command line, by the settings' advice, and by what refuses for want of room.
 */
import { KIB, MIB } from './limits.js';

/** A size to two digits or so: `512 bytes`, `1.5 KiB`, `117 MiB`. */
export function bytesInWords(count: number): string {
  if (count < KIB) return count === 1 ? '1 byte' : `${count} bytes`;
  for (const [unit, one] of [
    ['GiB', 1024 * MIB],
    ['MiB', MIB],
  ] as const)
    if (count >= one) return scaled(count / one, unit);
  return scaled(count / KIB, 'KiB');
}

function scaled(value: number, unit: string): string {
  return `${value < 10 ? Number(value.toFixed(1)) : Math.floor(value)} ${unit}`;
}
