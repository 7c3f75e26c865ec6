/**
 * Cuts a log of block-recorder.mjs as a power cut does. A device keeps all flushed writes. Of each later write it may have
 * kept all, some sectors or nothing.
 */
import type { Chance } from '../simulation/chance.js';

/** Type, length and offset. */
export const HEAD_BYTES = 16;
export const WRITE = 1;
export const FLUSH = 2;
/** The first block is never torn: it holds the only superblock of a small ext4, written while that is mounted. */
const FIRST_BYTES = 4096;

export interface Write {
  readonly offset: number;
  readonly bytes: Buffer;
}

/** The fates of the writes since the last flush. */
export interface Left {
  readonly kept: number;
  readonly torn: number;
  readonly lost: number;
}

/** A write, or without bytes a flush. */
interface Entry {
  readonly offset: number;
  readonly bytes: Buffer | null;
  /** Where it ends in the log. */
  readonly endBytes: number;
}

/**
 * The power goes after the first `reliedBytes` of the log, at once or after a later write. The device writes at least
 * one of `sectorsBytes` whole. Gives what is on the device then, to be written in this order.
 */
export function cutLog(
  log: Buffer,
  reliedBytes: number,
  sectorsBytes: readonly number[],
  chance: Chance,
): { readonly writes: Write[]; readonly left: Left } {
  const all = readLog(log);
  const relied = all.filter(({ endBytes }) => endBytes <= reliedBytes).length;
  const later = Array.from(all.keys()).filter((i) => i >= relied && all[i]?.bytes !== null);
  // Prefer early writes, while the program still runs, to those of the unmount.
  const next = later[Math.floor(later.length * chance.random() ** 3)] ?? relied - 1;
  const last = chance.is(0.5) ? relied - 1 : next;
  const before = all.slice(0, last + 1);
  const lastFlush = before.findLastIndex(({ bytes }) => bytes === null);
  const writes = writesOf(before.slice(0, lastFlush + 1));
  // Devices differ: some lose all, some hardly anything.
  const odds = chance.one([0, 0.1, 0.5, 0.9]);
  const sectorBytes = chance.one(sectorsBytes);
  const left = { kept: 0, torn: 0, lost: 0 };
  for (const write of writesOf(before.slice(lastFlush + 1))) {
    const fate = chance.is(0.1) ? 'torn' : chance.is(odds) ? 'kept' : 'lost';
    left[fate]++;
    if (fate === 'kept') writes.push(write);
    if (fate === 'torn') writes.push(...sectorsOf(write, sectorBytes).filter(() => chance.is(0.5)));
  }
  return { writes, left };
}

/** What is in the log, in order; the last write may be there in part. */
function readLog(log: Buffer): Entry[] {
  const entries: Entry[] = [];
  for (let at = 0; at + HEAD_BYTES <= log.length; ) {
    const [type, length] = [log.readUInt32LE(at), log.readUInt32LE(at + 4)];
    const offset = Number(log.readBigUInt64LE(at + 8));
    at += HEAD_BYTES;
    const bytes = type === WRITE ? log.subarray(at, at + length) : null;
    at += length;
    entries.push({ offset, bytes, endBytes: at });
  }
  return entries;
}

function writesOf(entries: readonly Entry[]): Write[] {
  return entries.flatMap(({ offset, bytes }) => (bytes === null ? [] : { offset, bytes }));
}

function sectorsOf({ offset, bytes }: Write, sectorBytes: number): Write[] {
  const step = offset === 0 ? FIRST_BYTES : sectorBytes;
  return Array.from({ length: Math.ceil(bytes.length / step) }, (_, i) => ({
    offset: offset + i * step,
    bytes: bytes.subarray(i * step, (i + 1) * step),
  }));
}
