/**
 * Sizes in words, for people. Pure.
 */
import { KIB, MIB } from './limits.js';

const GIB = 1024 * MIB;

/** A size to two digits or so: `512 bytes`, `1.5 KiB`, `117 MiB`. */
export function bytesInWords(count: number): string {
  if (count < KIB) return count === 1 ? '1 byte' : `${count} bytes`;
  const [unit, one] = count >= GIB ? ['GiB', GIB] : count >= MIB ? ['MiB', MIB] : ['KiB', KIB];
  const value = count / one;
  return `${value < 10 ? Number(value.toFixed(1)) : Math.floor(value)} ${unit}`;
}
