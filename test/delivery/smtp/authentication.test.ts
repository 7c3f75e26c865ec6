/** The login at a relay with an access token, and what is told of a refusal. Passwords are tried in smtp-session.test.ts. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { createConnect } from '../../../src/base/system/connect.js';
import { type Ending, SessionError } from '../../../src/mail/delivery/smtp/protocol.js';
import { openSession, type Session } from '../../../src/mail/delivery/smtp/session.js';
import { FakeClock } from '../../support/clock.js';
import { type FakeRelay, fakeRelay, type Script } from '../../support/relay.js';

const TOKEN = 'eyJhbGciOi.the-token.of~this_pump=';
/** Of the size that Microsoft's tokens have. */
const LONG = `eyJ${'0123456789abcdef'.repeat(150)}`;

interface Made {
  readonly user?: string;
  readonly mechanisms?: string;
  readonly script?: Script;
}

/** A relay that takes TOKEN and LONG. */
function relayFor({ user = 'pump@x.test', mechanisms = 'XOAUTH2 OAUTHBEARER', script = {} }: Made = {}) {
  return fakeRelay(script, { user, mechanisms, takes: (token) => token === TOKEN || token === LONG });
}

function open(
  { port }: Pick<FakeRelay, 'port'>,
  token: string | null,
  user = 'pump@x.test',
  password = '',
): Promise<Session> {
  const clock = new FakeClock();
  return openSession({
    relay: { host: '127.0.0.1', port, tls: 'never', user },
    password,
    token,
    ca: null,
    helo: 'device.test',
    timeoutMs: 60_000,
    clock,
    connect: createConnect({ clock }),
  });
}

async function failure(opening: Promise<Session>): Promise<Ending> {
  try {
    await (await opening).close();
  } catch (error) {
    if (error instanceof SessionError) return error.ending;
    throw error;
  }
  throw new Error('the session was opened');
}

t.test('a token goes by OAUTHBEARER, or XOAUTH2 if the relay offers nothing else for it', async (t) => {
  for (const [mechanisms, used] of [
    ['PLAIN XOAUTH2 OAUTHBEARER', 'OAUTHBEARER'],
    ['login oauthbearer xoauth2', 'OAUTHBEARER'],
    ['LOGIN XOAUTH2', 'XOAUTH2'],
    ['PLAIN OAUTHBEARER', 'OAUTHBEARER'],
  ] as const) {
    for (const user of ['pump@x.test', 'a,b=c', 'übung@x.test']) {
      await using relay = await relayFor({ user, mechanisms });
      await (await open(relay, TOKEN, user)).close();
      t.match(relay.commands[1], new RegExp(`^AUTH ${used} \\S+$`));
      t.same(relay.commands.slice(2), ['QUIT']);
    }
  }
});

t.test('a response that is too long for a command is sent after it', async (t) => {
  for (const mechanisms of ['XOAUTH2', 'OAUTHBEARER']) {
    await using relay = await relayFor({ mechanisms });
    await (await open(relay, LONG)).close();
    t.equal(relay.commands[1], `AUTH ${mechanisms}`);
    for (const command of relay.commands.filter((command) => command.startsWith('AUTH')))
      t.ok(command.length <= 510);
    t.same(relay.commands.slice(3), ['QUIT']);
  }
});

t.test('the challenge of an error is answered, and the refusal tells its status', async (t) => {
  for (const [mechanisms, dismissal] of [
    ['XOAUTH2', ''],
    ['OAUTHBEARER', 'AQ=='],
  ] as const) {
    for (const token of ['wrong-token', `wrong${LONG}`]) {
      await using relay = await relayFor({ mechanisms });
      t.same(await failure(open(relay, token)), {
        phase: 'token',
        reply: { code: 535, enhanced: '5.7.8', text: '535 5.7.8 token refused (invalid_token)' },
      });
      t.equal(relay.commands.at(-1), dismissal);
    }
  }
  await using microsoft = await relayFor({ script: { auth: '535 5.7.3 Authentication unsuccessful' } });
  t.match(await failure(open(microsoft, TOKEN)), {
    reply: { text: '535 5.7.3 Authentication unsuccessful' },
  });
  await using odd = await relayFor({ script: { auth: '334 bm8ganNvbg==' } });
  t.match(await failure(open(odd, 'wrong')), { reply: { code: 535, text: '535 5.7.8 token refused' } });
});

t.test('a relay without a mechanism, or with one that does not end, has trouble', async (t) => {
  await using old = await relayFor({ mechanisms: 'PLAIN LOGIN CRAM-MD5' });
  t.match(await failure(open(old, TOKEN)), {
    phase: 'token',
    trouble: { kind: 'no-auth', words: /offers neither AUTH OAUTHBEARER nor XOAUTH2/ },
  });
  t.notOk(
    old.commands.some((command) => command.startsWith('AUTH')),
    'the token goes by no other',
  );
  const endless = createServer((socket) => {
    socket.write('220 x\r\n');
    socket.on('data', (chunk) =>
      socket.write(`${/^EHLO/.test(String(chunk)) ? '250-x\r\n250 AUTH XOAUTH2' : '334 e30='}\r\n`),
    );
    socket.on('error', () => undefined);
  });
  await once(endless.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => endless.close());
  const { port } = endless.address() as AddressInfo;
  t.match(await failure(open({ port }, TOKEN)), { phase: 'token', trouble: { kind: 'garbage' } });
});

t.test('the name of the mechanism is no secret', async (t) => {
  for (const [mechanisms, token] of [
    ['LOGIN', null],
    ['PLAIN', null],
    ['XOAUTH2', TOKEN],
    ['OAUTHBEARER', LONG],
  ] as const) {
    const auth = `535 5.7.8 ${mechanisms} is off`;
    await using relay = await relayFor({ mechanisms, script: { auth } });
    t.match(await failure(open(relay, token)), { reply: { text: auth } });
  }
});

t.test('secrets that a relay repeats are told to nobody', async (t) => {
  const secret = /the-token|eyJhbGci|ZXlKaGJHY2lPaT|c2VzYW1l|sesame/;
  for (const token of [TOKEN, null]) {
    for (const auth of [
      ({ command }: { command: string }) => `535 5.7.8 no: ${command}`,
      ({ command }: { command: string }) => `501 5.5.2 "${command.slice(0, 60)}..." is no command`,
      ({ command }: { command: string }) => ({ raw: `what is ${command}?\r\n` }),
      ({ command }: { command: string }) => `354 go on ${command}`,
      () => `535 5.7.8 the token ${TOKEN} has expired`,
    ]) {
      await using relay = await relayFor({ mechanisms: 'PLAIN OAUTHBEARER', script: { auth } });
      const ending = await failure(open(relay, token, 'pump@x.test', 'open sesame'));
      t.match(ending, { phase: token === null ? 'auth' : 'token' });
      if (token !== null || auth.length > 0) t.notMatch(JSON.stringify(ending), secret);
    }
  }
});

for (const mechanism of ['PLAIN', 'LOGIN', 'XOAUTH2', 'OAUTHBEARER'])
  t.test(`what a relay repeats of a login by ${mechanism} is told to nobody, also later`, async (t) => {
    const user = 'pump@x.test';
    const [password, token] = /^[XO]/.test(mechanism) ? ['', TOKEN] : ['open sesame 1', null];
    const secret = token ?? password;
    const sent: string[] = [];
    const texts = () => [
      secret,
      ...sent,
      ...sent.map((text) => Buffer.from(text, 'base64').toString('latin1')),
    ];
    const repeated = (command: string) => {
      const word = command.replace(/^AUTH \S+ ?/, '');
      if (word !== '') sent.push(word);
      return texts()
        .join(' ')
        .replace(/[^ -~]+/g, ' ');
    };
    const hidden = () => [secret, Buffer.from(secret).toString('base64'), ...sent];
    const isClean = (what: unknown, when: string) => {
      for (const text of hidden()) t.notOk(JSON.stringify(what).includes(text), `${when}: ${text}`);
    };
    await using refusing = await relayFor({
      mechanisms: mechanism,
      script: {
        auth: ({ command }) => (/^AUTH LOGIN$/.test(command) ? undefined : `535 5.7.8 ${repeated(command)}`),
      },
    });
    const ending = await failure(open(refusing, token, user, password));
    t.match(ending, { reply: { code: 535 } });
    isClean(ending, 'refused');
    // The port is part of what OAUTHBEARER sends.
    sent.length = 0;
    await using later = await fakeRelay(
      {
        rcpt() {
          const [, word] = /^AUTH \S+ (\S+)$/.exec(later.commands[1] ?? '') ?? [];
          if (word !== undefined) sent.push(word);
          return `550 5.1.1 ${hidden().join(' ')}`;
        },
      },
      { user, mechanisms: mechanism, ...(token === null ? { password } : { takes: () => true }) },
    );
    const session = await open(later, token, user, password);
    const mail = { from: 'a@x.test', to: ['b@x.test'], size: 2, smtpUtf8: false } as never;
    const refusal = await session.send(mail, Buffer.from('x\r\n')).catch((error) => error);
    t.match(JSON.stringify(refusal), /550 5\.1\.1/);
    isClean(refusal, 'later');
    await session.close();
  });

const MAIL = { from: 'a@x.test', to: 'b@x.test', size: 2, smtpUtf8: false } as never;

t.test('a secret that looks like a code spoils no reply', async (t) => {
  for (const password of ['250 ', '235 2', '354 ', '2.0.0', '250-2.1.5', '550 ']) {
    const script: Script = {
      mail: { raw: '250-2.1.0 sender\r\n250 2.1.0 ok\r\n' },
      rcpt: ({ connection }) => (connection === 1 ? '250 2.1.5 ok' : '550 5.1.1 nobody'),
    };
    await using relay = await fakeRelay(script, { user: 'pump', password });
    const sent = await open(relay, null, 'pump', password);
    t.match(await sent.send(MAIL, Buffer.from('x\r\n')), {
      phase: 'dot',
      reply: { code: 250, enhanced: '2.0.0' },
    });
    await sent.close();
    const refused = await open(relay, null, 'pump', password);
    const ending = await refused.send(MAIL, Buffer.from('x\r\n'));
    t.match(ending, { phase: 'rcpt', reply: { code: 550, enhanced: '5.1.1', text: '550 5.1.1 nobody' } });
    await refused.close();
  }
});

t.test('a secret that ends in the next line is told to nobody', async (t) => {
  for (const raw of [
    '535-5.7.8 not by open se\r\n535 5.7.8 same 1!\r\n',
    '535-not by open se\r\n535-same 1!\r\n535 bye\r\n',
  ]) {
    await using relay = await relayFor({ mechanisms: 'PLAIN', script: { auth: { raw } } });
    const ending = await failure(open(relay, null, 'pump', 'open sesame 1'));
    t.match(ending, { reply: { code: 535, text: /^535 (?:5\.7\.8 )?not by \(hidden\)!/ } });
    t.notMatch(JSON.stringify(ending), /open se|same 1/);
  }
});

t.test('a token in the status of a challenge is told to nobody', async (t) => {
  const status = Buffer.from('{"status":"a-token-of-1.pump"}').toString('base64');
  const auth = ({ command }: { command: string }) => (/^AUTH/.test(command) ? `334 ${status}` : undefined);
  await using relay = await relayFor({ script: { auth } });
  const ending = await failure(open(relay, 'a-token-of-1.pump'));
  t.match(ending, { reply: { text: /\(\(hidden\)\)$/ } });
});
