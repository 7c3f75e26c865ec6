/** Prometheus' own tool reads the metrics of the daemon and the alert rules. scripts/peers installs it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { startIn } from '../support/daemon.js';
import { startCloud } from '../support/reference-cloud.js';
import { skipWithout } from './peers.js';

const PROMTOOL = '/usr/bin/promtool';
const MONITORING = 'build/monitoring';
const skip = skipWithout(PROMTOOL);

/** Runs promtool; `status` is 0 if it has nothing to say against what it reads. */
async function promtool(args: readonly string[], input = '') {
  const child = spawn(PROMTOOL, args);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      output += chunk;
    });
  child.stdin.on('error', () => undefined).end(input);
  const [status] = (await once(child, 'close')) as [number | null];
  return { status, output };
}

t.test('the metrics of a daemon have the form and the names that Prometheus wants', { skip }, async (t) => {
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR: t.testdir() });
  const metrics = await (await fetch(`http://127.0.0.1:${daemon.port}/metrics`)).text();
  t.strictSame(await promtool(['check', 'metrics'], metrics), { status: 0, output: '' });
  const wrong = metrics.replace(
    '# TYPE fieldpost_accepted_total counter',
    '# TYPE fieldpost_accepted_total gauge',
  );
  t.match(await promtool(['check', 'metrics'], wrong), { status: 3, output: /fieldpost_accepted_total/ });
  t.equal(await daemon.end('SIGTERM'), 0);
});

t.test('so have those of the reference cloud', { skip }, async (t) => {
  await using cloud = await startCloud();
  const { text } = await cloud.call('GET', '/metrics');
  t.strictSame(await promtool(['check', 'metrics'], text), { status: 0, output: '' });
});

for (const name of ['fieldpost', 'fieldpost-cloud'])
  t.test(`the alert rules of ${name} are valid, and fire and are silent as tested`, { skip }, async (t) => {
    const directory = t.testdir();
    cpSync(MONITORING, directory, { recursive: true });
    const [rules, tests] = [`${directory}/${name}.rules.yml`, `${directory}/${name}.rules.test.yml`];
    t.match(await promtool(['check', 'rules', rules]), { status: 0 });
    t.match(await promtool(['test', 'rules', tests]), { status: 0 });
    const text = readFileSync(rules, 'utf8');
    writeFileSync(rules, text.replace(`expr: up{job="${name}"} == 0`, `expr: up{job="${name}"} == 1`));
    t.match(await promtool(['test', 'rules', tests]), {
      status: 1,
      output: /FieldpostDown|FieldpostCloudInst/,
    });
  });
