/**
 * Randomness of the kernel's. Read from its device: Node's own way to the same bytes loads all of node:crypto, which
 * costs every start 4 ms and the memory of it.
 */
import { Buffer } from 'node:buffer';
import { closeSync, openSync, readSync } from 'node:fs';

const DEVICE = '/dev/urandom';

/** `count` bytes that nobody can guess. Throws what the system says where there is no such device. */
export function randomBytes(count: number): Buffer {
  const bytes = Buffer.alloc(count);
  const fd = openSync(DEVICE, 'r');
  try {
    // The kernel gives fewer than were asked for only beyond 32 MiB.
    readSync(fd, bytes, 0, count, null);
    return bytes;
  } finally {
    closeSync(fd);
  }
}
