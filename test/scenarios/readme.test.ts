/** Runs the README's curl lines, as printed, against `fieldpost dev`. */
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { needsProgram, startIn } from '../support/daemon.js';

const EXAMPLE = /<!-- example: (\d+) -->\n```sh\n(.*?)\n```/gs;

/** Delays the mails about a device that is offline until after this test. */
const PATIENT = { FIELDPOST_CLOUD_SERVER_DELAY: '1h', FIELDPOST_CLOUD_SERVER_STOP_DELAY: '1h' };

t.test('the examples of the README give the answers that it shows', needsProgram, async (t) => {
  const examples = [...readFileSync('README.md', 'utf8').matchAll(EXAMPLE)];
  t.ok(examples.length >= 5, 'the README has examples');
  // curl prints the status after the body.
  const directory = t.testdir({ '.curlrc': 'write-out = "\\n%{http_code}"\n' });
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR: join(directory, 'state'), ...PATIENT }, ['dev']);
  const cloudPort = /cloud ready .*:(\d+)/.exec(daemon.lines.join('\n'))?.[1];
  let accepted = 0;
  for (const [, status = '', lines = ''] of examples) {
    // Only the ports differ, because tests run in parallel.
    const script = lines
      .replaceAll('127.0.0.1:43770', `127.0.0.1:${daemon.port}`)
      .replaceAll('127.0.0.1:43780', `127.0.0.1:${cloudPort}`);
    const options = { encoding: 'utf8', env: { ...process.env, CURL_HOME: directory } } as const;
    const output = execFileSync('bash', ['-euo', 'pipefail', '-c', script], options);
    const [, body = '', told] = /^(.*)\n(\d+)$/s.exec(output) ?? [];
    t.equal(told, status, lines);
    const answer = body === '' ? null : JSON.parse(body);
    if (told === '202') accepted += answer.length;
  }
  const caught = () => daemon.lines.filter((line) => line.startsWith('Subject: '));
  while (caught().length < accepted) await daemon.nextLine();
  t.same(
    caught().sort(),
    [
      'Alarm',
      'Backup',
      'Backup',
      'Fire',
      ...Array(4).fill('Leak'),
      'Pump 3',
      ...Array(4).fill('Report'),
      'The manual',
      'Żółty alarm',
    ].map((subject) => `Subject: ${subject}`),
    'the mail catcher prints the mails, one for each recipient',
  );
  const attached = daemon.lines.filter((line) => line.startsWith('[attached: '));
  const size = (path: string) => statSync(path).size;
  t.same(
    attached,
    [
      `[attached: README.md, application/octet-stream, ${size('README.md')} octets]`,
      `[attached: licence.txt, text/plain, ${size('LICENSE')} octets]`,
    ],
    'it lists their attachments',
  );
  t.equal(await daemon.end('SIGINT'), 0, 'Ctrl-C stops it');
});
