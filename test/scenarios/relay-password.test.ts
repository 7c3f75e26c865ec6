/** The built program at a relay that repeats the login: its password stands nowhere that people or callers read. */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { MAIN, needsProgram, startIn } from '../support/daemon.js';
import { fakeRelay, type Script } from '../support/relay.js';

const USER = 'pump@fleet.example';
const PASSWORD = 'open sesame 1';
const base64 = (words: string) => Buffer.from(words).toString('base64');
/** As it is, and each form in which AUTH PLAIN or LOGIN sends it. */
const FORMS = [PASSWORD, base64(PASSWORD), base64(`\0${USER}\0${PASSWORD}`)];
const REPEATED = FORMS.join(' ');

/** Of a debugging log every line, of `check` also what it warns of. */
async function checked(env: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<string> {
  const child = spawn(MAIN, ['check', '--relay', ...args], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return (await Promise.all([text(child.stdout), text(child.stderr)])).join('');
}

const SCRIPTS: Readonly<Record<string, Script>> = {
  'the refusal of AUTH': { auth: `535 5.7.8 no login by ${REPEATED}` },
  'a refusal of AUTH that has several lines': {
    auth: { raw: `535-5.7.8 no login by ${REPEATED}\r\n535-5.7.8 ${PASSWORD}\r\n535 5.7.8 open ses\r\n` },
  },
  'an answer that is none': { auth: `what is ${REPEATED}?` },
  'a refusal of the sender': { mail: `550 5.7.1 not you, ${REPEATED}` },
  'a later refusal of the recipient': { rcpt: `550 5.1.1 no login by ${REPEATED}` },
  'a later deferral of the recipient': { rcpt: `450 4.2.1 no login by ${REPEATED}` },
  'the refusal of the content': { dot: `554 5.7.1 no login by ${REPEATED}` },
  'the acceptance of the mail': { dot: `250 2.0.0 queued by ${REPEATED}` },
};

for (const mechanisms of ['PLAIN', 'LOGIN']) {
  for (const [where, script] of Object.entries(SCRIPTS)) {
    // After the login they do the same.
    if (mechanisms === 'LOGIN' && !script.auth && !script.rcpt) continue;
    t.test(`AUTH ${mechanisms}: ${where} repeats the login`, needsProgram, async (t) => {
      // Else a relay that is asked for LOGIN would refuse before it has heard the password.
      const auth: Script =
        script.auth === undefined
          ? {}
          : { auth: ({ command }) => (command === 'AUTH LOGIN' ? undefined : (script.auth as never)) };
      await using relay = await fakeRelay(
        { ...script, ...auth },
        { user: USER, password: mechanisms === 'LOGIN' && script.auth ? 'another' : PASSWORD, mechanisms },
      );
      const env = {
        FIELDPOST_RELAY: `smtp://${encodeURIComponent(USER)}@127.0.0.1:${relay.port}?tls=never`,
        FIELDPOST_RELAY_PASSWORD: PASSWORD,
        FIELDPOST_FROM: USER,
        FIELDPOST_LOG: 'debug',
      };
      const daemon = await startIn(t, { FIELDPOST_STATE_DIR: t.testdir(), ...env });
      const { json } = await daemon.api('messages', [{ type: 1, destination: 'a@x.example', subject: 'x' }]);
      const isTold = (line: string) => /(?:relay failing|relay refusing| deferred| failed| sent) /.test(line);
      while (!daemon.lines.some(isTold)) await daemon.nextLine();
      const page = await fetch(`http://127.0.0.1:${daemon.port}/`);
      const shown = {
        message: (await daemon.api(`messages/${json[0].id}`)).text,
        list: (await daemon.api('messages')).text,
        state: (await daemon.api('state')).text,
        page: await page.text(),
        metrics: await (await fetch(`http://127.0.0.1:${daemon.port}/metrics`)).text(),
        status: JSON.stringify(daemon.run('status')),
        queue: JSON.stringify(daemon.run('queue')),
        check: await checked(env, '--to', 'a@x.example'),
        'check --json': await checked(env, '--to', 'a@x.example', '--json'),
        log: daemon.lines.join('\n'),
      };
      t.match(Object.values(shown).join(), '(hidden)', 'the reply is told');
      for (const [name, words] of Object.entries(shown))
        for (const form of FORMS) t.notOk(words.includes(form), `${form} in ${name}`);
    });
  }
}
