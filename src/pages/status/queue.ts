/**
 * The queue: how deep it was since the page was opened, how much of its room is used, and the buttons that stop and start
 * delivery.
 */
import type { DaemonState } from '../../base/state-lines.js';
import { bytesInWords, counted, span } from '../../base/text.js';
import { button, byId, html, show, svg } from '../dom.js';
import type { Live } from '../live.js';
import { pointsOf, type Sample, withSample } from './graphs.js';

const BOX = { width: 300, height: 40 };

/** The part of the page about the queue. */
export function createQueue({ call, act }: Live) {
  let samples: readonly Sample[] = [];
  const control = (verb: string, done: string) => () =>
    void act(() => call('POST', `/api/internal/queue/${verb}`), done);
  return {
    show(queue: DaemonState['queue'], nowMs: number) {
      if (queue === undefined) return;
      const waiting = queue.queued + queue.sending + queue.deferred;
      samples = withSample(samples, { atMs: nowMs, waiting, oldestMs: queue.oldestAgeMs });
      const inMessages = (value: number) => counted(value, 'message');
      byId('graph').replaceChildren(
        graph(samples, 'Waiting', (one) => one.waiting, inMessages),
        graph(samples, 'Age of the oldest', (one) => one.oldestMs, span),
      );
      show(byId('queue-buttons'), queue.held, () => [
        button('Send all now', control('flush', 'Everything is due now.')),
        queue.held
          ? button('Release delivery', control('release', 'Delivery goes on.'))
          : button('Hold delivery', control('hold', 'Delivery is on hold, also after a restart.')),
      ]);
      showMeters(queue);
    },
  };
}

function graph(
  samples: readonly Sample[],
  name: string,
  value: (sample: Sample) => number,
  inWords: (value: number) => string,
): Element {
  const now = inWords(value(samples.at(-1) as Sample));
  const most = inWords(Math.max(...samples.map(value)));
  const words = `${name}: ${now} now, at most ${most} since this page was opened`;
  const { width, height } = BOX;
  return html(
    'figure',
    {},
    svg(
      'svg',
      {
        viewBox: `0 -2 ${width} ${height + 4}`,
        preserveAspectRatio: 'none',
        role: 'img',
        'aria-label': words,
      },
      svg('polyline', { class: 'depth', points: pointsOf(samples, value, BOX) }),
    ),
    html('figcaption', { class: 'soft' }, words),
  );
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
