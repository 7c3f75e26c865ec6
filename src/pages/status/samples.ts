/**
 * The depth of the queue and the age of its oldest message since the page was opened: the daemon keeps no history. Pure.
 */

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
