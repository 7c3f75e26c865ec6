/**
 * How much of the memory requests and their answers may take. Used by http.ts and connections.ts. Pure.
 */
import { ANSWERS_BYTES_MAX, BODIES_BYTES_MAX, HTTP_MEMORY_SHARE } from '../limits.js';

/** Who is told of buffers that are no longer used, so that they do not pile up (system/memory.ts). */
export interface MemoryListeners {
  /** Called with the bytes that were passed on, or discarded on arrival. */
  readonly streamed?: ((bytes: number) => void) | undefined;
  /** Called with the bytes of bodies and answers that were kept for a while. */
  readonly dropped?: ((bytes: number) => void) | undefined;
}

/** Bytes of bodies, and of answers that wait to be read, that may be in memory at the same time; and whom to tell of the rest. */
export interface HttpMemory {
  readonly bodiesBytes: number;
  readonly answersBytes: number;
  readonly streamed: (bytes: number) => void;
  readonly dropped: (bytes: number) => void;
}

/** Of the limit, what requests and their answers may take: together no more than HTTP_MEMORY_SHARE. */
export function httpMemory(
  limitBytes: number,
  { streamed = () => undefined, dropped = () => undefined }: MemoryListeners = {},
): HttpMemory {
  const shareBytes = Math.floor(limitBytes * HTTP_MEMORY_SHARE);
  return {
    bodiesBytes: Math.min(BODIES_BYTES_MAX, shareBytes * 0.75),
    answersBytes: Math.min(ANSWERS_BYTES_MAX, shareBytes * 0.25),
    streamed,
    dropped,
  };
}
