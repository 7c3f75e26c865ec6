/** The programs in build/examples do what they say, against the built daemon and a relay. */
import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import t, { type Test } from 'tap';
import { type DaemonProcess, MAIN, needsProgram, startIn } from '../support/daemon.js';
import { type FakeRelay, fakeRelay } from '../support/relay.js';

const EXAMPLES = new URL('../../build/examples/', import.meta.url).pathname;
/** A picture of one pixel. */
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
  'base64',
);

/** The options of a test that needs this program. */
const needs = (program: string, ...args: readonly string[]) =>
  needsProgram.skip || spawnSync(program, args).status === 0
    ? needsProgram
    : { skip: `${program} is missing` };

interface Run {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program; a relay in this process goes on meanwhile. */
const run = (program: string, args: readonly string[], env: Readonly<Record<string, string>>): Promise<Run> =>
  new Promise((resolve) => {
    execFile(program, args, { env: { PATH: process.env.PATH, ...env } }, (error, stdout, stderr) =>
      resolve({ status: error === null ? 0 : Number(error.code ?? -1), stdout, stderr }),
    );
  });

async function start(t: Test, relay: FakeRelay, home = t.testdir()): Promise<DaemonProcess> {
  return await startIn(t, {
    FIELDPOST_STATE_DIR: join(home, 'state'),
    FIELDPOST_RELAY: relay.url,
    FIELDPOST_FROM: 'pump@fleet.example',
    FIELDPOST_SMTP_LISTEN: '127.0.0.1:0',
  });
}

const urlOf = ({ port }: DaemonProcess) => ({ FIELDPOST_URL: `http://127.0.0.1:${port}` });

t.test(
  'picture.py mails a picture that the HTML shows, and tells the outcome',
  needs('python3', '-c', ''),
  async (t) => {
    await using relay = await fakeRelay();
    const home = t.testdir();
    const daemon = await start(t, relay, home);
    const picture = join(home, 'gate.png');
    writeFileSync(picture, PNG);
    const { status, stdout, stderr } = await run(
      'python3',
      [`${EXAMPLES}picture.py`, 'a@x.example', picture],
      urlOf(daemon),
    );
    t.equal(status, 0, stderr);
    t.match(stdout, /^queued as \S+\nsent: 250 /);
    const { attachments, html } = await PostalMime.parse(relay.mails[0]?.content ?? '');
    t.match(attachments, [{ filename: 'gate.png', mimeType: 'image/png', contentId: '<picture>' }]);
    t.same(Buffer.from(attachments[0]?.content as ArrayBuffer), PNG);
    t.match(html, /cid:picture/);
    const refused = await run('python3', [`${EXAMPLES}picture.py`, 'nobody', picture], urlOf(daemon));
    t.match(refused, { status: 1, stderr: /^refused: / });
    const gone = await run('python3', [`${EXAMPLES}picture.py`, 'a@x.example', picture], {
      FIELDPOST_URL: 'http://127.0.0.1:9',
    });
    t.match(gone, { status: 1, stderr: /^no answer: / });
    t.equal(await daemon.end('SIGTERM'), 0);
  },
);

t.test('alarm.c is compiled without a warning, and speaks HTTP', needs('cc', '--version'), async (t) => {
  await using relay = await fakeRelay();
  const home = t.testdir();
  const daemon = await start(t, relay, home);
  const program = join(home, 'alarm');
  const compiled = await run('cc', ['-Wall', '-Wextra', '-Werror', '-o', program, `${EXAMPLES}alarm.c`], {});
  t.equal(compiled.status, 0, compiled.stderr);
  const env = { FIELDPOST_PORT: String(daemon.port) };
  const subject = 'Żółty "alarm" \\ 3';
  const { status, stdout } = await run(program, ['a@x.example', subject, 'line 1\nline 2'], env);
  t.equal(status, 0);
  const [{ id }] = JSON.parse(stdout);
  t.match((await daemon.api(`messages/${id}?wait=30`)).json, { status: 'sent', subject });
  t.equal((await run(program, ['nobody', 'x', 'x'], env)).status, 1);
  t.equal((await run(program, ['a@x.example', 'x', 'x'.repeat(20_000)], env)).status, 64);
  t.equal((await run(program, ['a@x.example', 'x', 'x'], { FIELDPOST_PORT: '9' })).status, 75);
  t.equal(await daemon.end('SIGTERM'), 0);
});

t.test('nodemailer.mjs sends by SMTP', needsProgram, async (t) => {
  await using relay = await fakeRelay();
  const daemon = await start(t, relay);
  const port = daemon.lines.map((line) => /started .*smtp=[^ ]*?:(\d+)/.exec(line)?.[1]).find(Boolean);
  const env = { FIELDPOST_SMTP_PORT: String(port) };
  const { status, stdout, stderr } = await run(
    process.execPath,
    [`${EXAMPLES}nodemailer.mjs`, 'a@x.example'],
    env,
  );
  t.equal(status, 0, stderr);
  const [, id] = /^250 2\.0\.0 queued as (\S+)\n$/.exec(stdout) ?? [];
  t.match((await daemon.api(`messages/${id}?wait=30`)).json, { status: 'sent', subject: 'Tank 2 is full' });
  t.notMatch(relay.mails[0]?.content.toString(), /X-Fieldpost-Collapse/i);
  t.equal(await daemon.end('SIGTERM'), 0);
});

t.test('alarm.sh tries again until there is an answer', needs('curl', '--version'), async (t) => {
  await using relay = await fakeRelay();
  const daemon = await start(t, relay);
  const { status, stdout, stderr } = await run(
    'sh',
    [`${EXAMPLES}alarm.sh`, 'a@x.example', '<Pump> "3"', '@text'],
    urlOf(daemon),
  );
  t.equal(status, 0, stderr);
  const [{ id }] = JSON.parse(stdout);
  t.match((await daemon.api(`messages/${id}?wait=30`)).json, {
    status: 'sent',
    subject: '<Pump> "3"',
    priority: 'high',
  });
  t.match(await run('sh', [`${EXAMPLES}alarm.sh`, 'nobody', 'x'], urlOf(daemon)), {
    status: 1,
    stderr: /422/,
  });
  const gone = { FIELDPOST_URL: 'http://127.0.0.1:9', TRIES: '2' };
  t.match(await run('sh', [`${EXAMPLES}alarm.sh`, 'a@x.example', 'x'], gone), { status: 75 });
  t.equal(await daemon.end('SIGTERM'), 0);
});

t.test('the jobs of cron mail by sendmail', needsProgram, async (t) => {
  await using relay = await fakeRelay();
  const home = t.testdir({ bin: {} });
  const daemon = await start(t, relay, home);
  const sendmail = join(home, 'bin', 'sendmail');
  writeFileSync(sendmail, `#!/bin/sh\nexec ${MAIN} sendmail "$@"\n`);
  chmodSync(sendmail, 0o755);
  const jobs = readFileSync(`${EXAMPLES}cron`, 'utf8')
    .split('\n')
    .filter((line) => /^[\d*]/.test(line));
  t.equal(jobs.length, 2);
  for (const job of jobs) {
    const [, command = ''] = /^(?:\S+ +){5}root (.*)$/.exec(job) ?? [];
    t.notMatch(command, /(?<!\\)%/, 'cron takes % for the end of the line');
    const env = {
      PATH: `${join(home, 'bin')}:${process.env.PATH}`,
      FIELDPOST_LISTEN: `127.0.0.1:${daemon.port}`,
    };
    const { status, stderr } = await run('sh', ['-c', command], env);
    t.equal(status, 0, stderr);
  }
  const [message] = (await daemon.api('messages?limit=1')).json.messages;
  t.match((await daemon.api(`messages/${message.id}?wait=30`)).json, {
    status: 'sent',
    subject: /: daily report$/,
  });
  t.equal(await daemon.end('SIGTERM'), 0);
});
