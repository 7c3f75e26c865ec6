/**
 * Memory limits for requests and their answers. Pure.
 */
import { ANSWERS_BYTES_MAX, BODIES_BYTES_MAX, HTTP_MEMORY_SHARE } from '../limits.js';

/** Told of buffers that are no longer used, so that a garbage collection can free them in time. */
export interface MemoryListeners {
  /** Called with the number of bytes that were passed on, or discarded on arrival. */
  readonly streamed?: ((bytes: number) => void) | undefined;
  /** Called with the number of bytes of bodies and answers that were kept for a while. */
  readonly dropped?: ((bytes: number) => void) | undefined;
}

/** Limits for all bodies, and for all unread answers, in memory at the same time; and the listeners. */
export interface HttpMemory {
  readonly bodiesBytes: number;
  readonly answersBytes: number;
  readonly streamed: (bytes: number) => void;
  readonly dropped: (bytes: number) => void;
}

/** The limits by the memory of the process: together no more than HTTP_MEMORY_SHARE of it. */
export function httpMemory(
  limitBytes: number,
  { streamed = () => undefined, dropped = () => undefined }: MemoryListeners,
): HttpMemory {
  const shareBytes = Math.floor(limitBytes * HTTP_MEMORY_SHARE);
  return {
    bodiesBytes: Math.min(BODIES_BYTES_MAX, shareBytes * 0.75),
    answersBytes: Math.min(ANSWERS_BYTES_MAX, shareBytes * 0.25),
    streamed,
    dropped,
  };
}
