/**
 * Randomness of the kernel's. Read from its device: node:crypto, which gives as good bytes, costs every start 4 ms. By
 * the time that Node.js runs the kernel's pool is filled: it has waited for that itself.
 */
import { Buffer } from 'node:buffer';
import { closeSync, openSync, readSync } from 'node:fs';

const DEVICE = '/dev/urandom';

/**
 * Opens the source for as long as the process runs, so that a process without a free descriptor still has it. Gives a
 * function from a count to as many bytes that nobody can guess. Throws what the system says where there is no such device.
 */
export function openRandom(): (count: number) => Buffer {
  const fd = openSync(DEVICE, 'r');
  return (count) => readFrom(fd, count);
}

/** `count` bytes that nobody can guess, for a single use. Throws what the system says where there is no such device. */
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
  // A signal may end a longer read before its end.
  for (let filled = 0, read = 0; filled < count; filled += read) {
    read = readSync(fd, bytes, filled, count - filled, null);
    if (read === 0) throw new Error(`${DEVICE} gives nothing`);
  }
  return bytes;
}
