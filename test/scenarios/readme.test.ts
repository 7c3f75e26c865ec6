/** The README's curl lines, run as they are printed, against the daemon that `npm start` runs. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { isBuilt, startDaemon } from '../support/daemon.js';

const EXAMPLE = /<!-- example: (\d+) -->\n```sh\n(.*?)\n```/gs;

t.test('the examples of the README', { skip: isBuilt ? false : 'the program is not built' }, async (t) => {
  const examples = [...readFileSync('README.md', 'utf8').matchAll(EXAMPLE)];
  t.ok(examples.length >= 5, 'there are some');
  const daemon = await startDaemon({ FIELDPOST_STATE_DIR: t.testdir() }, ['dev']);
  t.teardown(() => daemon.child.kill('SIGKILL'));
  let accepted = 0;
  for (const [, status = '', lines = ''] of examples) {
    // Only the port is another, as tests run side by side.
    const script = lines.replaceAll('127.0.0.1:43770', `127.0.0.1:${daemon.port}`);
    const body = JSON.parse(execFileSync('bash', ['-euo', 'pipefail', '-c', script], { encoding: 'utf8' }));
    const told = Array.isArray(body) ? 202 : (body.status ?? 200);
    t.equal(told, Number(status), lines);
    if (Array.isArray(body)) accepted += body.length;
  }
  const caught = () => daemon.lines.filter((line) => line.startsWith('Subject: '));
  while (caught().length < accepted) await daemon.nextLine();
  t.same(caught().sort(), ['Subject: Alarm', 'Subject: Pump 3', 'Subject: Żółty alarm'], 'the mails show up');
  t.equal(await daemon.end('SIGINT'), 0, 'Ctrl-C stops it');
});
