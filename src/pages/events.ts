/**
 * Reads a stream of events (text/event-stream). Not by EventSource, which cannot send a token.
 */
import { EventParser, type StreamEvent } from '../base/event-stream.js';

/** Calls `heard` with each event of an answer. Resolves at its end; rejects when the connection is lost. */
export async function readEvents(body: ReadableStream<Uint8Array>, heard: (event: StreamEvent) => void) {
  const parser = new EventParser();
  const reader = body
    .pipeThrough(new TextDecoderStream() as never)
    .getReader() as ReadableStreamDefaultReader<string>;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const event of parser.push(value)) heard(event);
  }
}

/** The stream of events of a service. */
export interface EventSource {
  readonly path: string;
  /** Hears each event before the page is read again. */
  heard(event: StreamEvent): void;
}

/** After an event others come: one call of `changed` for all of them. */
const GATHER_MS = 500;
/** A lost stream is opened again after this long; meanwhile the page asks. */
const REOPEN_MS = 10_000;

/** Keeps the stream of a service open. An older service has none. */
export function createStream(
  { path, heard }: EventSource,
  headers: () => Record<string, string>,
  changed: () => void,
) {
  let open: AbortController | null = null;
  let isThere = true;
  let isHeard = false;
  let triedMs = Number.NEGATIVE_INFINITY;
  let isGathering = false;

  function take(event: StreamEvent): void {
    heard(event);
    if (isGathering) return;
    isGathering = true;
    setTimeout(() => {
      isGathering = false;
      changed();
    }, GATHER_MS);
  }

  async function run({ signal }: AbortController): Promise<void> {
    const response = await fetch(path, {
      credentials: 'omit',
      signal,
      headers: headers(),
    });
    isThere = response.status !== 404;
    if (!response.ok || response.body === null) return;
    isHeard = true;
    await readEvents(response.body, take);
  }

  function close(): void {
    open?.abort();
    open = null;
    isHeard = false;
  }

  return {
    isOpen: () => isHeard,
    /** Opens it, unless it is open, was just tried, or does not exist. */
    open(): void {
      if (open !== null || !isThere || performance.now() - triedMs < REOPEN_MS) return;
      triedMs = performance.now();
      const mine = new AbortController();
      open = mine;
      void run(mine)
        .catch(() => undefined)
        .finally(() => open === mine && close());
    },
    /** Nobody sees the page: the next open() opens it at once. */
    close(): void {
      close();
      triedMs = Number.NEGATIVE_INFINITY;
    },
  };
}
