/**
 * Reads the readable pages of a segment.
 */
import { isUnreadable } from '../../base/errors.js';
import { type Piece, type Stretch, scan } from './recovery.js';
import type { Segments } from './segments.js';

/** If a read fails, it is repeated in pieces of this size. */
const PAGE_BYTES = 4096;

/** Bytes that are wrong in so many readings are damaged. */
export const READINGS_MAX = 3;

/** The bytes, with zeros in place of unreadable ones. */
export interface Pieces {
  readonly bytes: Buffer;
  readonly unreadable: { offset: number; end: number }[];
}

/** Reads `size` bytes with `read`; after EIO page by page. Rejects with other errors of `read`. */
export async function readInPieces(
  size: number,
  read: (offset: number, length: number) => Promise<Buffer>,
): Promise<Pieces> {
  const unreadable: { offset: number; end: number }[] = [];
  const piece = async (offset: number, length: number): Promise<Buffer> => {
    try {
      return await read(offset, length);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      if (length > PAGE_BYTES) return Buffer.concat(await pagesOf(offset, length));
      unreadable.push({ offset, end: offset + length });
      return Buffer.alloc(length);
    }
  };
  const pagesOf = async (from: number, length: number): Promise<Buffer[]> => {
    const pages: Buffer[] = [];
    for (let offset = from; offset < from + length; offset += PAGE_BYTES) {
      pages.push(await piece(offset, Math.min(PAGE_BYTES, from + length - offset)));
    }
    return pages;
  };
  return { bytes: await piece(0, size), unreadable };
}

/**
 * Memory and buses can fail for a moment: bytes that are no record count only if two readings agree, or all three fail.
 */
export async function readStretch(
  segments: Segments,
  stretch: Stretch,
): Promise<Pieces & { pieces: Piece[] }> {
  let found = await segments.readAll(stretch.segment);
  for (let reading = 1; ; reading++) {
    const pieces = scan(found.bytes, stretch);
    const isWhole = pieces.every(({ record }) => record !== null);
    if (isWhole || found.unreadable.length > 0 || reading === READINGS_MAX) return { ...found, pieces };
    const again = await segments.readAll(stretch.segment);
    if (again.bytes.equals(found.bytes)) return { ...found, pieces };
    found = again;
  }
}
