/**
 * Calls that wait until a message is final. It costs an outcome nothing if nobody waits.
 */

import { isFinal } from '../../base/views.js';
import type { Message } from '../message/message.js';
import type { StoreEvent } from './event.js';

/** Finds a message by its id. */
type Find = (id: string) => Message | undefined;

/** The calls that wait, by the ids of their messages. */
export class OutcomeWatch {
  readonly #find: Find;
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(find: Find) {
    this.#find = find;
  }

  /** Resolves when the message is final or forgotten, or when the signal aborts. */
  whenFinal(id: string, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted || this.#isOver(id)) return Promise.resolve();
    return new Promise((resolve) => {
      const calls = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, calls);
      const end = () => {
        signal?.removeEventListener('abort', end);
        calls.delete(end);
        if (calls.size === 0) this.#waiting.delete(id);
        resolve();
      };
      calls.add(end);
      signal?.addEventListener('abort', end);
    });
  }

  /** Resolves the calls for messages that these events, which are applied, have made final. */
  noticed(events: readonly StoreEvent[]): void {
    if (this.#waiting.size === 0) return;
    for (const event of events) {
      const id = 'id' in event && typeof event.id === 'string' ? event.id : '';
      const calls = this.#waiting.get(id);
      if (calls !== undefined && this.#isOver(id)) for (const end of calls) end();
    }
  }

  #isOver(id: string): boolean {
    const message = this.#find(id);
    return message === undefined || isFinal(message.status);
  }
}
