/**
 * The queue: how deep it was since the page was opened, and the buttons that stop and start delivery.
 */
import { counted, span } from '../../base/sizes.js';
import type { DaemonState } from '../../base/state-lines.js';
import { byId, html, show, svg } from '../dom.js';
import type { Live } from '../live.js';
import { pointsOf, type Sample, withSample } from './samples.js';

const BOX = { width: 300, height: 40 };

/** The part of the page about the queue. */
export function createQueue({ call, act }: Live) {
  let samples: readonly Sample[] = [];
  const control = (verb: string, done: string) => () =>
    void act(() => call('POST', `/api/internal/queue/${verb}`), done);
  const button = (words: string, verb: string, done: string) =>
    html('button', { type: 'button', click: control(verb, done) }, words);
  return {
    show(queue: DaemonState['queue'], nowMs: number) {
      if (queue === undefined) return;
      const waiting = queue.queued + queue.sending + queue.deferred;
      samples = withSample(samples, { atMs: nowMs, waiting, oldestMs: queue.oldestAgeMs });
      byId('graph').replaceChildren(
        graph(
          samples,
          'Waiting',
          (one) => one.waiting,
          (value) => counted(value, 'message'),
        ),
        graph(samples, 'Age of the oldest', (one) => one.oldestMs, span),
      );
      show(byId('queue-buttons'), queue.held, () => [
        button('Send all now', 'flush', 'Everything is due now.'),
        queue.held
          ? button('Release delivery', 'release', 'Delivery goes on.')
          : button('Hold delivery', 'hold', 'Delivery is on hold, also after a restart.'),
      ]);
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
