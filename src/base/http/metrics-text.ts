/**
 * Metrics in Prometheus' text format 0.0.4.
 */

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

/** A number, or several with labels. A null or infinite number gives no sample. */
type Measured = number | null | readonly Sample[];

/** The text of one metric. */
type Metric = (name: string, help: string, measured: Measured) => string;

/** How a service writes its metrics. */
export interface MetricsText {
  readonly gauge: Metric;
  readonly counter: Metric;
}

/** The names of all metrics begin with `prefix`. */
export function metricsText(prefix: string): MetricsText {
  const metric =
    (kind: string): Metric =>
    (name, help, measured) => {
      const lines = samplesOf(measured).map(([labels, value]) => {
        const text = Object.entries(labels).map(([label, words]) => `${label}=${JSON.stringify(words)}`);
        return `${prefix}${name}${text.length === 0 ? '' : `{${text.join(',')}}`} ${value}\n`;
      });
      return `# HELP ${prefix}${name} ${help}\n# TYPE ${prefix}${name} ${kind}\n${lines.join('')}`;
    };
  return { gauge: metric('gauge'), counter: metric('counter') };
}

function samplesOf(measured: Measured): readonly Sample[] {
  if (measured === null) return [];
  if (typeof measured !== 'number') return measured;
  return Number.isFinite(measured) ? [[{}, measured]] : [];
}

/** A sample for each value, which the label names. */
export function by(label: string, values: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(values).map(([words, value]) => [{ [label]: words }, value]);
}

/** 1 for the present state, 0 for the others. */
export function oneOf(states: readonly string[], present: string): Sample[] {
  return states.map((state) => [{ state }, Number(state === present)]);
}
