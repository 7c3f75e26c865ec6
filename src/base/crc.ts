/**
 * CRC-32 (ISO 3309, as in zlib and PNG) of the journal's lines, contents and snapshots.
 */
import zlib from 'node:zlib';

type Crc32 = (bytes: Uint8Array, start?: number) => number;

/** The CRC-32 of `bytes`, unsigned. To go on from the CRC of the bytes before, pass it as `start`. */
export const crc32: Crc32 =
  // Node.js has its own from 20.15 and 22.2 on; the last 32-bit ARM builds are older.
  typeof zlib.crc32 === 'function' ? zlib.crc32 : crc32WithTable();

/** Makes the same function without zlib. Exported for the test that compares the two. */
export function crc32WithTable(): Crc32 {
  // Made only if it is needed: with this loop V8 loads its optimizing compiler, which takes 3 MiB.
  const table = new Uint32Array(256).map((_, byte) => {
    let rest = byte;
    for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? 0xedb88320 ^ (rest >>> 1) : rest >>> 1;
    return rest;
  });
  return (bytes, start = 0) => {
    let crc = ~start;
    for (let i = 0; i < bytes.length; i++) {
      crc = (table[(crc ^ (bytes[i] as number)) & 0xff] as number) ^ (crc >>> 8);
    }
    return ~crc >>> 0;
  };
}

/** Eight lower-case hex digits. */
export function hex8(crc: number): string {
  return crc.toString(16).padStart(8, '0');
}
