/**
 * Sizes, lengths of time and counts in words, for people. Pure.
 */
import { DAY_MS, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS } from './limits.js';

const GIB = 1024 * MIB;

/** A size to two digits or so: `512 bytes`, `1.5 KiB`, `117 MiB`. */
export function bytesInWords(count: number): string {
  if (count < KIB) return count === 1 ? '1 byte' : `${count} bytes`;
  const [unit, one] = count >= GIB ? ['GiB', GIB] : count >= MIB ? ['MiB', MIB] : ['KiB', KIB];
  const value = count / one;
  return `${value < 10 ? Number(value.toFixed(1)) : Math.floor(value)} ${unit}`;
}

/** A length of time in its largest unit: `45 s`, `4 min`, `3 h 20 min`, `2 d 5 h`. */
export function span(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.max(0, Math.floor(ms / SECOND_MS))} s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`;
  if (ms < DAY_MS) return withRest(ms, HOUR_MS, 'h', MINUTE_MS, 'min');
  return withRest(ms, DAY_MS, 'd', HOUR_MS, 'h');
}

function withRest(ms: number, unitMs: number, unit: string, restMs: number, rest: string): string {
  const more = Math.floor((ms % unitMs) / restMs);
  return `${Math.floor(ms / unitMs)} ${unit}${more === 0 ? '' : ` ${more} ${rest}`}`;
}

/** `1 message`, `3 messages`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
