/**
 * Random bytes from the kernel's device. node:crypto gives as good ones but adds 4 ms to every start. Node.js waits at its
 * own start until the kernel's pool is filled.
 */
import { Buffer } from 'node:buffer';
import { closeSync, openSync, readSync } from 'node:fs';

const DEVICE = '/dev/urandom';

/**
 * Opens the device once and keeps it open, because later there may be no free descriptor. Returns a function that gives
 * so many random bytes as it is asked for. Throws what node:fs throws.
 */
export function openRandom(): (count: number) => Buffer {
  const fd = openSync(DEVICE, 'r');
  return (count) => readFrom(fd, count);
}

/** `count` bytes, for a single use. Throws what node:fs throws. */
export function randomBytes(count: number): Buffer {
  const fd = openSync(DEVICE, 'r');
  try {
    return readFrom(fd, count);
  } finally {
    closeSync(fd);
  }
}

function readFrom(fd: number, count: number): Buffer {
  const bytes = Buffer.alloc(count);
  // A signal may interrupt a longer read.
  for (let filled = 0, read = 0; filled < count; filled += read) {
    read = readSync(fd, bytes, filled, count - filled, null);
    if (read === 0) throw new Error(`${DEVICE} gives nothing`);
  }
  return bytes;
}
