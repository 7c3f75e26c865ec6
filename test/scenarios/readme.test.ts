/** Runs the examples of the README and of the manual pages, as printed, against the development program. */
// A process of its own: it takes long.
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { needsProgram, startIn } from '../support/daemon.js';

/** With the status of the answer; a command of the program has none. */
const EXAMPLE = /<!-- (?:example: (\d+)|command) -->\n```sh\n(.*?)\n```/gs;
/** The README is read twice: a person may try things again. */
const READ = [
  'README.md',
  'README.md',
  'build/man/fieldpost-api.7.md',
  ...Array(2).fill('build/man/fieldpost-cloud.8.md'),
];

/** Delays the mails about a device that is offline until after this test. */
const PATIENT = { FIELDPOST_CLOUD_SERVER_DELAY: '1h', FIELDPOST_CLOUD_SERVER_STOP_DELAY: '1h' };

/** The subjects of the mails, one for each recipient. */
const MAILS = [
  ...Array(2).fill(['Pump 3', 'Żółty alarm', 'All is well']),
  ['Żółty alarm', 'Alarm'],
  ...Array(2).fill('Backup'),
  'Fire',
  ...Array(4).fill('Leak'),
  ...Array(4).fill('Report'),
  ...['The manual', 'Values', 'The level', 'Pump 3 leaks'],
].flat();

t.test('the examples of the pages give the answers that they show', needsProgram, async (t) => {
  // curl prints the status after the body.
  const directory = t.testdir({ '.curlrc': 'write-out = "\\n%{http_code}"\n', variables: '' });
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR: join(directory, 'state'), ...PATIENT }, ['dev']);
  const cloudPort = /cloud ready .*:(\d+)/.exec(daemon.lines.join('\n'))?.[1];
  const api = `127.0.0.1:${daemon.port}`;
  const env = { ...process.env, CURL_HOME: directory, FIELDPOST_LISTEN: api };
  for (const page of READ) {
    const examples = [...readFileSync(page, 'utf8').matchAll(EXAMPLE)];
    t.ok(examples.length >= 2, `${page} has examples`);
    for (const [, status, lines = ''] of examples) {
      // Only the ports differ, because tests run in parallel.
      const script = lines
        .replaceAll('127.0.0.1:43770', api)
        .replaceAll('127.0.0.1:43780', `127.0.0.1:${cloudPort}`);
      // A shell keeps ID for the next example.
      const shell = `. ${directory}/variables\n${script}\n[[ ! -v ID ]] || declare -p ID > ${directory}/variables`;
      const output = execFileSync('bash', ['-euo', 'pipefail', '-c', shell], { encoding: 'utf8', env });
      if (status !== undefined) t.equal(/\n(\d+)$/.exec(output)?.[1], status, lines);
    }
  }
  const caught = () => daemon.lines.filter((line) => line.startsWith('Subject: '));
  while (caught().length < MAILS.length) await daemon.nextLine();
  t.same(
    caught().sort(),
    MAILS.map((subject) => `Subject: ${subject}`).sort(),
    'the mail catcher prints the mails, one for each recipient',
  );
  const attached = daemon.lines.filter((line) => line.startsWith('[attached: '));
  const size = (path: string) => statSync(path).size;
  t.same(
    attached,
    [
      `[attached: README.md, application/octet-stream, ${size('README.md')} octets]`,
      `[attached: licence.txt, text/plain, ${size('LICENSE')} octets]`,
      '[attached: values.csv, text/csv, 20 octets]',
      '[attached: level.svg, image/svg+xml, 96 octets]',
    ],
    'it lists their attachments',
  );
  t.equal(await daemon.end('SIGINT'), 0, 'Ctrl-C stops it');
});
