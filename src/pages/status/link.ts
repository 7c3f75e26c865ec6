/**
 * The timeline of the link: a bar for each state, told on hover and with the arrow keys.
 */
import type { DaemonState } from '../../base/state-lines.js';
import { span } from '../../base/text.js';
import { byId, html, show, svg } from '../dom.js';
import { exactTime } from '../words.js';
import { type Bar, barsOf } from './graphs.js';

const WIDTH = 1000;
const HEIGHT = 60;
/** The height of a state's bar: it tells states apart without colour. */
const HEIGHTS: Readonly<Record<string, number>> = { online: 60, unsteady: 42, connecting: 28, offline: 16 };

/** The timeline. */
export function createLink() {
  const told = html(
    'p',
    { class: 'soft', 'aria-live': 'polite' },
    'The states of the cloud link, oldest first. Point at one to read it.',
  );
  const box = html('div');
  byId('timeline').append(box, told);
  return {
    /** Without a cloud there is none. */
    show(link: DaemonState['link'], nowMs: number) {
      const history = link?.history ?? [];
      byId('timeline').hidden = link === undefined || link.state === 'disabled';
      if (link === undefined) return;
      // The present state grows: its bar is drawn again with the next state, and each minute.
      show(box, [link.state, link.since, history, Math.floor(nowMs / 60_000)], () => [
        drawn(barsOf(link, history, nowMs, WIDTH), told),
      ]);
    },
  };
}

function drawn(bars: readonly Bar[], told: HTMLElement): Element {
  const rects = bars.map(({ state, left, width }, index) => {
    const height = HEIGHTS[state.state] ?? HEIGHT;
    const isPresent = index === bars.length - 1;
    const words = wordsOf(state, isPresent);
    const tell = () => {
      told.textContent = words;
    };
    return svg('rect', {
      ...{ x: left, y: HEIGHT - height, width: Math.max(1, width - 1), height, class: state.state },
      // One stop of the tab key for all: the arrow keys go from bar to bar.
      ...{ role: 'img', 'aria-label': words, tabindex: isPresent ? 0 : -1 },
      ...{ mouseenter: tell, focus: tell },
    });
  });
  const move = (event: Event) => {
    const { key } = event as KeyboardEvent;
    const at = rects.indexOf(document.activeElement as SVGRectElement);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: rects.length - 1 }[key];
    const next = to === undefined ? undefined : rects[to];
    if (next === undefined) return;
    event.preventDefault();
    for (const rect of rects) rect.setAttribute('tabindex', rect === next ? '0' : '-1');
    next.focus();
  };
  const label = `States of the cloud link, oldest first: ${bars.length}`;
  return svg(
    'svg',
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: 'none',
      role: 'group',
      'aria-label': label,
      keydown: move,
    },
    ...rects,
  );
}

function wordsOf(state: Bar['state'], isPresent: boolean): string {
  const length = `${isPresent ? 'so far ' : ''}${span(state.durationMs)}`;
  return `${state.state} since ${exactTime(state.since)}, ${length}${state.reason ? `: ${state.reason}` : ''}`;
}
