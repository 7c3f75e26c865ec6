/**
 * Reads contents back from the journal. Delivery reads contents in the order of the journal. So after two adjacent
 * reads the next one reads ahead.
 */
import { Buffer } from 'node:buffer';
import { crc32 } from '../../base/crc.js';
import { FieldpostError } from '../../base/errors.js';
import { KIB } from '../../base/limits.js';
import type { Place } from '../message/message.js';
import { asUnreadable } from './disk-error.js';
import type { Segments } from './segments.js';

/** Contents that follow each other are read this many bytes at a time, */
export const READ_AHEAD_BYTES = 64 * KIB;
/** if at most this much (events and outcomes of other messages) lies between them. */
export const READ_AHEAD_GAP_BYTES = 4 * KIB;

/** Bytes of a segment, as they were when they were read. */
interface Chunk {
  readonly segment: number;
  readonly offset: number;
  readonly bytes: Buffer;
}

/** Reads each content from its place. */
export class Contents {
  readonly #readSegment: Segments['read'];
  readonly #keepDamaged: (place: Place, bytes: Buffer | null) => Promise<void>;
  #chunk: Chunk = { segment: 0, offset: 0, bytes: Buffer.alloc(0) };
  /** Where the last content ended. */
  #last = { segment: 0, end: 0 };
  readonly #underWay = new Set<Promise<Buffer>>();

  /** `keepDamaged` gets the bytes in the place of a damaged content, null if its segment is gone, before the read rejects. */
  constructor(
    readSegment: Segments['read'],
    keepDamaged: (place: Place, bytes: Buffer | null) => Promise<void>,
  ) {
    this.#readSegment = readSegment;
    this.#keepDamaged = keepDamaged;
  }

  /** Rejects with `storage-damaged` if the content is lost, and with `storage-failed` if a retry may help. */
  read(place: Place): Promise<Buffer> {
    const reading = this.#read(place);
    const over = () => this.#underWay.delete(reading);
    this.#underWay.add(reading);
    reading.then(over, over);
    return reading;
  }

  /** Resolves once no read is under way, so that the bytes may be overwritten. Never rejects. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  async #read(place: Place): Promise<Buffer> {
    const isNext = this.#isNextTo(place);
    this.#last = { segment: place.segment, end: place.offset + place.length };
    const found = cut(this.#chunk, place) ?? (isNext ? await this.#readAhead(place) : null);
    return found ?? (await this.#readAlone(place));
  }

  /** True if the content lies just behind the one that was read last. */
  #isNextTo({ segment, offset }: Place): boolean {
    const gapBytes = offset - this.#last.end;
    return segment === this.#last.segment && gapBytes >= 0 && gapBytes <= READ_AHEAD_GAP_BYTES;
  }

  /**
   * Null if the read fails. Perhaps only the bytes behind the content are unreadable: the caller then reads it alone.
   */
  async #readAhead(place: Place): Promise<Buffer | null> {
    const { segment, offset, length } = place;
    const bytes = await this.#readSegment(segment, offset, Math.max(length, READ_AHEAD_BYTES)).catch(
      () => null,
    );
    if (bytes === null) return null;
    this.#chunk = { segment, offset, bytes };
    return cut(this.#chunk, place);
  }

  /** Memory and buses can fail for a moment: only content whose checksum is wrong twice is damaged. */
  async #readAlone(place: Place): Promise<Buffer> {
    const { segment, offset, length } = place;
    for (let reading = 1; ; reading++) {
      const bytes = await this.#readSegment(segment, offset, length).catch(async (error) => {
        const rejected = asUnreadable('the stored content', error);
        if (rejected.code === 'storage-damaged') await this.#keepDamaged(place, null);
        throw rejected;
      });
      const content = cut({ segment, offset, bytes }, place);
      if (content !== null) return content;
      if (reading === 1) continue;
      await this.#keepDamaged(place, bytes);
      throw new FieldpostError('storage-damaged', 'the stored content is not what was accepted');
    }
  }
}

/** The content at this place, if it is whole in the chunk. */
function cut({ segment, offset, bytes }: Chunk, place: Place): Buffer | null {
  const start = place.offset - offset;
  if (segment !== place.segment || start < 0 || start + place.length > bytes.length) return null;
  const content = bytes.subarray(start, start + place.length);
  return crc32(content) === place.crc ? content : null;
}
