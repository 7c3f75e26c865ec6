/**
 * What build/monitoring/ reads of `GET /metrics` of a device and of the cloud: the alert rules and the dashboards name only
 * what there is.
 */
import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { startApi } from '../support/api.js';
import { startCloud } from '../support/reference-cloud.js';

interface Program {
  readonly name: string;
  /** What it answers if it has every metric. */
  readonly everyMetric: () => Promise<string>;
  /** Metrics that the dashboard leaves out, each with the reason. */
  readonly leftOut: Readonly<Record<string, string>>;
}

const PROGRAMS: readonly Program[] = [
  {
    name: 'fieldpost',
    async everyMetric() {
      await using api = await startApi({ memoryBytesMax: 2 ** 23 });
      return (await api.call('GET', '/metrics')).body;
    },
    leftOut: { fieldpost_queue_bytes: 'fieldpost_queue_used_bytes is what the limit counts' },
  },
  {
    name: 'fieldpost-cloud',
    async everyMetric() {
      await using cloud = await startCloud();
      await cloud.call('GET', '/devices', { key: null });
      return (await cloud.call('GET', '/metrics')).text;
    },
    leftOut: {
      fieldpost_cloud_queue_bytes: 'fieldpost_cloud_queue_used_bytes is what the limit counts',
      fieldpost_cloud_queue_held: 'nothing holds the outbox of a cloud',
    },
  },
];

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

const unique = (text: string, pattern: RegExp) => [
  ...new Set([...text.matchAll(pattern)].map(([, one = '']) => one)),
];
const namesIn = (text: string) => unique(text, /\b(fieldpost_[a-z_]+)/g);
/** The metrics of the program. */
const metricsIn = (text: string) => unique(text, /^# TYPE (\S+) /gm);

for (const { name: program, everyMetric, leftOut } of PROGRAMS) {
  const fileOf = (end: string) => readFileSync(`build/monitoring/${program}${end}`, 'utf8');
  const [RULES, RULE_TESTS] = [fileOf('.rules.yml'), fileOf('.rules.test.yml')];
  const DASHBOARD = fileOf('-dashboard.json');

  t.test(`${program}: rules and dashboard name only metrics, labels and values that exist`, async (t) => {
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
      const uses = text.replaceAll('\\"', '"').matchAll(/((?:fieldpost_[a-z_]+|up))\{([^}]*)\}/g);
      for (const [, name = '', matchers = ''] of uses)
        for (const [, label, values = ''] of matchers.matchAll(/(\w+)[=!]~?"([^"]*)"/g)) {
          if (label === 'job' && file !== 'RULE_TESTS') t.equal(values, program, `${file}: ${name}`);
          if (label === 'job' || label === 'instance') continue;
          for (const value of values.split('|'))
            t.ok(
              body.includes(`\n${name}{${label}="${value}"} `),
              `${file}: ${name} with ${label}="${value}"`,
            );
        }
    }
  });

  t.test(`${program}: the dashboard shows each metric, and each panel has an id of its own`, async (t) => {
    const { panels, uid } = JSON.parse(DASHBOARD) as { panels: readonly Panel[]; uid: string };
    t.equal(uid, program);
    const ids = panels.map(({ id }) => id);
    t.equal(new Set(ids).size, ids.length);
    for (const { title, type, targets = [] } of panels)
      if (type !== 'row') t.ok(title !== '' && targets.length > 0, title);
    const shown = namesIn(DASHBOARD);
    const missing = metricsIn(await everyMetric()).filter((name) => !shown.includes(name));
    t.same(missing, Object.keys(leftOut));
  });

  t.test(`${program}: each alert says how urgent it is and what to do, and has a test`, async (t) => {
    const alerts = RULES.split('- alert: ').slice(1);
    t.ok(alerts.length > 10);
    for (const alert of alerts) {
      const name = alert.slice(0, alert.indexOf('\n'));
      t.match(alert, /^ +for: [1-9]\d*[mh]$/m, name);
      t.match(alert, /^ +labels: \{ severity: (?:critical|warning) \}$/m, name);
      t.match(alert, /^ +summary: "[^"]*\{\{ \$labels\.(?:instance|job) \}\}[^"]*[^.?! ]\."$/m, name);
      const tests = RULE_TESTS.split(`alertname: ${name}\n`).slice(1);
      const fires = tests.map((one) => /^ +exp_alerts:(?! \[\])/.test(one));
      t.same(fires, [true, false], `${name} fires in one test and not in the other`);
    }
  });
}

t.test('the manual of the cloud has each of its alerts, as urgent as it is', async (t) => {
  const rules = readFileSync('build/monitoring/fieldpost-cloud.rules.yml', 'utf8');
  const alerts = [...rules.matchAll(/- alert: (\w+)$.*?severity: (\w+)/gms)];
  const page = readdirSync('build/man').find((name) => /^fieldpost-cloud\.\d\.md$/.test(name));
  const rows = readFileSync(`build/man/${page}`, 'utf8').matchAll(/^\| `(FieldpostCloud\w+)` \| (\w+): /gm);
  const named = (found: Iterable<RegExpMatchArray>) => [...found].map(([, name, urgency]) => [name, urgency]);
  t.same(named(rows), named(alerts));
});
