/**
 * Where the graphs of the page are drawn: the states of the link as bars, from the oldest to the present, and the queue
 * since the page was opened, as a line. The daemon keeps no history of the queue. Pure.
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

/** The queue at one moment. */
export interface Sample {
  readonly atMs: number;
  readonly waiting: number;
  readonly oldestMs: number;
}

/** A sample each 2 s: ten minutes. Beyond that each second one goes, so that the line covers the page's whole life. */
export const SAMPLES_MAX = 300;

/** The samples with one more. Of too many, every second one goes, but not the newest. */
export function withSample(samples: readonly Sample[], next: Sample): readonly Sample[] {
  const all = [...samples, next];
  return all.length <= SAMPLES_MAX ? all : all.filter((_, index) => (all.length - 1 - index) % 2 === 0);
}

/** The points of a line for SVG, in a box of this size: time from left to right, the highest value at the top. */
export function pointsOf(
  samples: readonly Sample[],
  value: (sample: Sample) => number,
  { width, height }: { readonly width: number; readonly height: number },
): string {
  const first = samples[0]?.atMs ?? 0;
  const spanMs = Math.max(1, (samples.at(-1)?.atMs ?? 0) - first);
  const highest = Math.max(1, ...samples.map(value));
  return samples
    .map((sample) => {
      const x = ((sample.atMs - first) / spanMs) * width;
      const y = height - (value(sample) / highest) * height;
      return `${Number(x.toFixed(1))},${Number(y.toFixed(1))}`;
    })
    .join(' ');
}
