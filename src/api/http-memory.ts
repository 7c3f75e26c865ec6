/**
 * How much of the memory requests and their answers may take. Used by http.ts and connections.ts. Pure.
 */
import { ANSWERS_BYTES_MAX, BODIES_BYTES_MAX, HTTP_MEMORY_SHARE } from '../limits.js';

/** Bytes of bodies, and of answers that wait to be read, that may be in memory at the same time. */
export interface HttpMemory {
  readonly bodiesBytes: number;
  readonly answersBytes: number;
}

/** Of the limit, what requests and their answers may take: together no more than HTTP_MEMORY_SHARE. */
export function httpMemory(limitBytes: number): HttpMemory {
  const shareBytes = Math.floor(limitBytes * HTTP_MEMORY_SHARE);
  return {
    bodiesBytes: Math.min(BODIES_BYTES_MAX, shareBytes * 0.75),
    answersBytes: Math.min(ANSWERS_BYTES_MAX, shareBytes * 0.25),
  };
}
