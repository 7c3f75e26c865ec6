/**
 * How much of the room is used: of messages, of the disk budget, of memory.
 */
import { bytesInWords } from '../../base/sizes.js';
import type { DaemonState } from '../../base/state-lines.js';
import { byId, html, show } from '../dom.js';

/** The part of the page about storage. */
export function createStorage() {
  return {
    show({ queue }: DaemonState) {
      const { used, limits } = queue ?? {};
      show(byId('meters'), [used, limits], () => {
        if (used === undefined || limits === undefined) return [];
        return [
          meter('Messages', used.messages, limits.messages, String),
          meter('Space on disk', used.bytes, limits.bytes, bytesInWords),
          ...(limits.memoryBytes === null
            ? []
            : [meter('Memory', used.memoryBytes, limits.memoryBytes, bytesInWords)]),
        ];
      });
    },
  };
}

function meter(name: string, used: number, limit: number, inWords: (value: number) => string): Element {
  const bar = html('meter', {
    min: 0,
    max: limit,
    value: used,
    low: limit * 0.75,
    high: limit * 0.95,
    optimum: 0,
  });
  return html('label', {}, `${name}: ${inWords(used)} of ${inWords(limit)} used`, bar);
}
