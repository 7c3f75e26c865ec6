/**
 * The queue: how much of its room is used, and the buttons that stop and start delivery, and try again what has failed.
 */
import type { DaemonState } from '../../base/state-lines.js';
import { bytesInWords } from '../../base/text.js';
import { button, byId, html, show } from '../dom.js';
import type { Live } from '../live.js';

/** The part of the page about the queue. */
export function createQueue({ call, act }: Live) {
  const control = (verb: string, done: string) => () =>
    void act(() => call('POST', `/api/internal/queue/${verb}`), done);
  return {
    show(queue: DaemonState['queue']) {
      if (queue === undefined) return;
      const { held, failed } = queue;
      show(byId('queue-buttons'), [held, failed], () => [
        button('Send all now', control('flush', 'Everything is due now.')),
        held
          ? button('Release delivery', control('release', 'Delivery goes on.'))
          : button('Hold delivery', control('hold', 'Delivery is on hold, also after a restart.')),
        ...(failed > 0
          ? [button('Retry all failed', control('retry?status=failed', 'All that failed are due now.'))]
          : []),
      ]);
      showMeters(queue);
    },
  };
}

/** Shows how much is used: of messages, of the disk budget, of memory. */
function showMeters({ used, limits }: NonNullable<DaemonState['queue']>): void {
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
