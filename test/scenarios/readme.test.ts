/** The README's curl lines, run as they are printed, against the daemon that `npm start` runs. */
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { isBuilt, startIn } from '../support/daemon.js';

const EXAMPLE = /<!-- example: (\d+) -->\n```sh\n(.*?)\n```/gs;

/** The example that pulls a plug brings mails only after this test. */
const PATIENT = { FIELDPOST_CLOUD_SERVER_DELAY: '1h', FIELDPOST_CLOUD_SERVER_STOP_DELAY: '1h' };

t.test('the examples of the README', { skip: isBuilt ? false : 'the program is not built' }, async (t) => {
  const examples = [...readFileSync('README.md', 'utf8').matchAll(EXAMPLE)];
  t.ok(examples.length >= 5, 'there are some');
  // Behind what the line prints curl tells the status.
  const directory = t.testdir({ '.curlrc': 'write-out = "\\n%{http_code}"\n' });
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR: join(directory, 'state'), ...PATIENT }, ['dev']);
  const cloudPort = /cloud ready .*:(\d+)/.exec(daemon.lines.join('\n'))?.[1];
  let accepted = 0;
  for (const [, status = '', lines = ''] of examples) {
    // Only the ports are others, as tests run side by side.
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
    ['Subject: Alarm', 'Subject: Pump 3', 'Subject: The manual', 'Subject: Żółty alarm'],
    'the mails show up',
  );
  const attached = daemon.lines.filter((line) => line.startsWith('[attached: '));
  const size = (path: string) => statSync(path).size;
  t.same(
    attached,
    [
      `[attached: README.md, application/octet-stream, ${size('README.md')} octets]`,
      `[attached: licence.txt, text/plain, ${size('LICENSE')} octets]`,
    ],
    'with their files',
  );
  t.equal(await daemon.end('SIGINT'), 0, 'Ctrl-C stops it');
});
