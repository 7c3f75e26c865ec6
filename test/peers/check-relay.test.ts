/** `fieldpost check --relay` of the built program against Debian's Postfix: a good relay, and three bad ones. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { t } from 'tap';
import { MAIN } from '../support/daemon.js';
import { skipWithout } from './peers.js';
import { POSTFIX_PROGRAMS, startPostfix } from './postfix.js';

/** Runs `fieldpost check --relay` with these settings. */
function check(env: Readonly<Record<string, string>>, ...args: readonly string[]) {
  const child = spawn(MAIN, ['check', '--relay', ...args], {
    env: { PATH: process.env.PATH, FIELDPOST_FROM: 'device@field.example', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  const output = text(child.stdout);
  return { child, ended, output };
}

async function checked(...how: Parameters<typeof check>) {
  const { ended, output } = check(...how);
  const [status] = await ended;
  return { status, out: await output };
}

t.test('Postfix', { skip: skipWithout(...POSTFIX_PROGRAMS) }, async (t) => {
  const postfix = await startPostfix(t);
  const password = 'let me in';

  for (const [door, mechanism] of [
    ['submission', 'PLAIN'],
    ['login', 'LOGIN'],
    ['smtps', 'PLAIN'],
  ] as const) {
    t.test(`a good relay, ${door}: the test mail arrives`, async (t) => {
      const { status, out } = await checked(postfix.settings(door), '--to', `${door}@post.example`);
      t.equal(status, 0, out);
      for (const line of [
        /^ {2}name +localhost has an address$/m,
        /^ {2}connection +open to 127\.0\.0\.1, port \d+$/m,
        /^ {2}greeting +220 relay\.example ESMTP Postfix/m,
        /^ {2}EHLO +it offers PIPELINING, SIZE 10240000, .*; the largest mail has 9\.\d MiB$/m,
        /^ {2}certificate +TLSv1\.3, for localhost, signed by Field CA, until \d{4}-\d\d-\d\d$/m,
        /^ {2}TLS +the certificate is good$/m,
        new RegExp(`^ {2}login +as device by AUTH ${mechanism}$`, 'm'),
        /^ {2}login +accepted \(235\)$/m,
        /^ {2}mail +250 2\.0\.0 Ok: queued as /m,
        new RegExp(`^ {2}good: the relay has taken a test mail to ${door}@post\\.example$`, 'm'),
      ])
        t.match(out, line);
      const queueId = /queued as (\w+)/.exec(out)?.[1];
      await postfix.logged(new RegExp(`${queueId}: to=<${door}@post\\.example>.*status=sent`));
      t.notOk(out.includes(password));
    });
  }

  t.test('a wrong password', async (t) => {
    const wrong = { FIELDPOST_RELAY_PASSWORD_FILE: '', FIELDPOST_RELAY_PASSWORD: 'not that' };
    const { status, out } = await checked({ ...postfix.settings('submission'), ...wrong });
    t.equal(status, 77);
    t.match(out, /^ {2}login +refused: 535 5\.7\.8 .*\n +.*FIELDPOST_RELAY_PASSWORD_FILE.*$/m);
    t.notOk(out.includes('not that'));
  });

  t.test('a certificate of an unknown CA, and one for another host', async (t) => {
    const unknown = await checked({ ...postfix.settings('smtps'), FIELDPOST_RELAY_CA_FILE: '' });
    t.equal(unknown.status, 78);
    t.match(unknown.out, /^ {2}certificate +TLSv1\.3, for localhost, signed by Field CA/m, 'it is shown');
    t.match(unknown.out, /^ {2}TLS +no authority .* its certificate .*; see FIELDPOST_RELAY_CA_FILE$/m);
    const misnamed = await checked(postfix.settings('misnamed'));
    t.equal(misnamed.status, 78);
    t.match(misnamed.out, /^ {2}certificate +TLSv1\.3, for mail\.elsewhere\.example, /m);
    t.match(misnamed.out, /^ {2}TLS +.*ERR_TLS_CERT_ALTNAME_INVALID/m);
  });

  t.test('a recipient that is refused, in JSON', async (t) => {
    postfix.answers.set('gone@post.example', '550 5.1.1 No such user here');
    const { status, out } = await checked(postfix.settings('plain'), '--to', 'gone@post.example', '--json');
    t.equal(status, 65);
    t.match(JSON.parse(out).relays, [
      { fault: { step: 'recipient', blame: 'mail', words: /^refused: 550 5\.1\.1 .*No such user here/ } },
    ]);
  });

  t.test('a relay that says nothing: the time limit ends it, and so does Ctrl-C', async (t) => {
    const mute = createServer().listen(0, '127.0.0.1');
    await once(mute, 'listening');
    t.teardown(() => mute.close());
    const { port } = mute.address() as { port: number };
    const env = { FIELDPOST_RELAY: `smtp://127.0.0.1:${port}?tls=never`, FIELDPOST_SMTP_TIMEOUT: '1s' };
    const late = await checked(env);
    t.equal(late.status, 69);
    t.match(late.out, /^ {2}greeting +no greeting within 1 s; .* use smtps:\/\/$/m);
    const { child, ended } = check({ ...env, FIELDPOST_SMTP_TIMEOUT: '10m' });
    await once(mute, 'connection');
    child.kill('SIGINT');
    t.strictSame(await ended, [null, 'SIGINT']);
  });
});
