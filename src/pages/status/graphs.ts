/**
 * Where the timeline of the link is drawn: its states as bars, from the oldest to the present. Pure.
 */
import type { DaemonState } from '../../base/state-lines.js';

type Link = NonNullable<DaemonState['link']>;
type Past = NonNullable<Link['history']>[number];

/** One bar: where it begins, from the left, and its width. */
export interface Bar {
  readonly state: Past;
  readonly left: number;
  readonly width: number;
}

/** At most this part of the width goes to the least widths, so that long states still differ. */
const LEAST_PART = 0.6;
const LEAST_WIDTH = 8;

/**
 * The bars of `history` (the latest first) and the present state, in `width`. Each is wide enough to be seen and pointed
 * at; the rest of the width follows the lengths of time.
 */
export function barsOf(
  present: Pick<Link, 'state' | 'since' | 'reason'>,
  history: readonly Past[],
  nowMs: number,
  width: number,
): Bar[] {
  const durationMs = Math.max(0, nowMs - Date.parse(present.since)) || 0;
  const states = [{ ...present, durationMs }, ...history].reverse();
  const totalMs = states.reduce((sum, state) => sum + state.durationMs, 0);
  const least = Math.min(LEAST_WIDTH, (width * LEAST_PART) / states.length);
  const rest = width - least * states.length;
  let left = 0;
  return states.map((state) => {
    const part = totalMs === 0 ? 1 / states.length : state.durationMs / totalMs;
    const bar = { state, left, width: least + rest * part };
    left += bar.width;
    return bar;
  });
}
