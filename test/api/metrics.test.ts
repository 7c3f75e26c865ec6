/** What build/monitoring/ reads of `GET /metrics`: the alert rules and the dashboard name only what there is. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { startApi } from '../support/api.js';

const RULES = readFileSync('build/monitoring/fieldpost.rules.yml', 'utf8');
const RULE_TESTS = readFileSync('build/monitoring/fieldpost.rules.test.yml', 'utf8');
const DASHBOARD = readFileSync('build/monitoring/fieldpost-dashboard.json', 'utf8');

/** Metrics that the dashboard leaves out, each with the reason. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  fieldpost_queue_bytes: 'fieldpost_queue_used_bytes is what the limit counts',
};

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

/** A daemon that has every metric. */
async function everyMetric() {
  await using api = await startApi({ memoryBytesMax: 2 ** 23 });
  return (await api.call('GET', '/metrics')).body;
}

const unique = (text: string, pattern: RegExp) => [
  ...new Set([...text.matchAll(pattern)].map(([, one = '']) => one)),
];
const namesIn = (text: string) => unique(text, /\b(fieldpost_[a-z_]+)/g);
/** The metrics of the daemon. */
const metricsIn = (text: string) => unique(text, /^# TYPE (\S+) /gm);

t.test('rules and dashboard name only metrics, labels and values that exist', async (t) => {
  const body = await everyMetric();
  const metrics = metricsIn(body);
  for (const [file, text] of Object.entries({ RULES, RULE_TESTS, DASHBOARD })) {
    const names = namesIn(text);
    t.ok(names.length > 10, file);
    t.same(
      names.filter((name) => !metrics.includes(name)),
      [],
      file,
    );
    // `job` and `instance` are labels of Prometheus.
    const uses = text.replaceAll('\\"', '"').matchAll(/(fieldpost_[a-z_]+)\{([^}]*)\}/g);
    for (const [, name = '', matchers = ''] of uses)
      for (const [, label, values = ''] of matchers.matchAll(/(\w+)[=!]~?"([^"]*)"/g))
        for (const value of ['job', 'instance'].includes(label ?? '') ? [] : values.split('|'))
          t.ok(body.includes(`\n${name}{${label}="${value}"} `), `${file}: ${name} with ${label}="${value}"`);
  }
});

t.test('the dashboard shows each metric, and each panel has an id of its own', async (t) => {
  const { panels } = JSON.parse(DASHBOARD) as { panels: readonly Panel[] };
  const ids = panels.map(({ id }) => id);
  t.equal(new Set(ids).size, ids.length);
  for (const { title, type, targets = [] } of panels)
    if (type !== 'row') t.ok(title !== '' && targets.length > 0, title);
  const shown = namesIn(DASHBOARD);
  const missing = metricsIn(await everyMetric()).filter((name) => !shown.includes(name));
  t.same(missing, Object.keys(LEFT_OUT));
});

t.test('each alert says how urgent it is and what to do, and has a test', async (t) => {
  const alerts = RULES.split('- alert: ').slice(1);
  t.ok(alerts.length > 10);
  for (const alert of alerts) {
    const name = alert.slice(0, alert.indexOf('\n'));
    t.match(alert, /^ +for: [1-9]\d*[mh]$/m, name);
    t.match(alert, /^ +labels: \{ severity: (?:critical|warning) \}$/m, name);
    t.match(alert, /^ +summary: "[^"]*\{\{ \$labels\.instance \}\}[^"]*[^.?! ]\."$/m, name);
    const tests = RULE_TESTS.split(`alertname: ${name}\n`).slice(1);
    const fires = tests.map((one) => /^ +exp_alerts:(?! \[\])/.test(one));
    t.same(fires, [true, false], `${name} fires in one test and not in the other`);
  }
});
