/** The trial of a relay: each step in words, each fault with what to do, and no secret in either. */
import t from 'tap';
import type { Clock } from '../../../src/base/system/clock.js';
import { createConnect } from '../../../src/base/system/connect.js';
import type { TrialStep } from '../../../src/base/views.js';
import { RelayTokens } from '../../../src/mail/delivery/oauth/access-tokens.js';
import { tryRelay } from '../../../src/mail/delivery/smtp/trial.js';
import { type Address, parseAddress } from '../../../src/mail/message/address.js';
import type { RelayConfig } from '../../../src/mail/settings.js';
import { makeCertificate } from '../../support/certificate.js';
import { FakeClock } from '../../support/clock.js';
import { until } from '../../support/delivery.js';
import { type FakeRelay, fakeRelay, type Script } from '../../support/relay.js';
import { configOf } from '../../support/system.js';

const PASSWORD = 'hunter2';
const UNTIL_MS = Date.now() + 86_400_000;
const ca = makeCertificate({ name: 'Test CA' });
const tls = makeCertificate({
  name: 'relay',
  hosts: ['localhost', '127.0.0.1'],
  issuer: ca,
  untilMs: UNTIL_MS,
});
const TO = parseAddress('john@example.com') as Address;
const EXTENSIONS = { extensions: ['PIPELINING', 'SIZE 10485760', '8BITMIME'] };

interface Where extends Partial<RelayConfig> {
  readonly ca?: string | null;
  readonly password?: string;
  readonly to?: Address;
  readonly clock?: Clock;
}

/** Tries the relay at this port; gives the steps as `step: words`, and the fault. */
async function trial(port: number, where: Where = {}) {
  const {
    host = 'localhost',
    tls = 'starttls',
    user = null,
    clock = new FakeClock({ wallMs: Date.now() }),
  } = where;
  const steps: string[] = [];
  const config = configOf({
    FIELDPOST_FROM: 'device@field.example',
    ...(user !== null && {
      FIELDPOST_RELAY: 'smtp://u@h',
      FIELDPOST_RELAY_PASSWORD: where.password ?? PASSWORD,
    }),
  });
  const fault = await tryRelay(
    { host, port, tls, user },
    {
      config: { ...config, relayCa: where.ca === undefined ? ca.cert : where.ca },
      to: where.to ?? null,
      tell: ({ step, words }: TrialStep) => void steps.push(`${step}: ${words}`),
      clock,
      connect: createConnect({ clock }),
      tokens: new RelayTokens(config, undefined),
      hostname: () => 'pump-3.example',
      version: '1.2.3',
      id: 'c0ffee',
    },
  );
  return { steps, fault };
}

t.test('a good relay: every step, and a test mail to the end', async (t) => {
  await using relay = await fakeRelay(
    { dot: '250 2.0.0 queued as 4711' },
    { tls, user: 'u', password: PASSWORD, ...EXTENSIONS },
  );
  const { steps, fault } = await trial(relay.port, { user: 'u', to: TO });
  t.equal(fault, null);
  const date = new Date(UNTIL_MS).toISOString().slice(0, 10);
  const offers = 'PIPELINING, SIZE 10485760, 8BITMIME';
  t.strictSame(steps, [
    'name: localhost has an address',
    `connection: open to 127.0.0.1, port ${relay.port}`,
    'greeting: 220 relay.test ESMTP',
    `EHLO: it offers ${offers}, STARTTLS, AUTH PLAIN LOGIN; the largest mail has 10 MiB`,
    'STARTTLS: 220 2.0.0 go ahead',
    `certificate: TLSv1.3, for localhost, 127.0.0.1, signed by Test CA, until ${date}`,
    'TLS: the certificate is good',
    `EHLO: it offers ${offers}, AUTH PLAIN LOGIN; the largest mail has 10 MiB`,
    'login: as u by AUTH PLAIN',
    'login: accepted (235)',
    'sender: 250 2.1.0 ok',
    'recipient: 250 2.1.5 ok',
    'DATA: 354 go ahead',
    'mail: 250 2.0.0 queued as 4711',
    'mail of cron: with a From that is fixed',
    'sender: 250 2.1.0 ok',
    'recipient: 250 2.1.5 ok',
    'DATA: 354 go ahead',
    'mail: 250 2.0.0 queued as 4711',
  ]);
  const sent = { from: 'device@field.example', to: [TO], secure: true, user: 'u' };
  t.match(relay.mails, [sent, sent]);
  t.match(String(relay.mails[1]?.content), /^From: "root on pump-3\.example" <device@field\.example>\r$/m);
  const text = String(relay.mails[0]?.content);
  t.match(text, /^Subject: Test mail from pump-3\.example\r$/m);
  t.match(text, /^Message-ID: <check-c0ffee-0@field\.example>\r$/m);
  t.match(text, /^Date: /m);
  t.match(text, 'Fieldpost 1.2.3 on pump-3.example has sent this mail');
  t.equal(relay.commands.at(-1), 'QUIT');
  await until(() => relay.open === 0);
});

t.test('without --to no mail is begun; implicit TLS, LOGIN, and no TLS at all', async (t) => {
  await using smtps = await fakeRelay(
    {},
    { tls, implicit: true, user: 'u', password: PASSWORD, mechanisms: 'LOGIN' },
  );
  const secure = await trial(smtps.port, { host: '127.0.0.1', tls: 'implicit', user: 'u' });
  t.equal(secure.fault, null);
  t.match(secure.steps, [
    /^connection: /,
    /^certificate: /,
    'TLS: the certificate is good',
    /^greeting: /,
    /^EHLO: .*; the largest mail has 50 MiB$/,
    'login: as u by AUTH LOGIN',
    'login: accepted (235)',
  ]);
  t.equal(secure.steps.length, 7, 'the two answers of LOGIN in between are not told');
  await using plain = await fakeRelay({}, { extensions: [] });
  const { steps, fault } = await trial(plain.port, { tls: 'never' });
  t.equal(fault, null);
  t.strictSame(steps.slice(2), [
    'greeting: 220 relay.test ESMTP',
    'EHLO: it offers nothing',
    'TLS: none: everything goes in clear text',
    'login: none is configured',
  ]);
  t.notOk([...smtps.commands, ...plain.commands].some((line) => line.startsWith('MAIL')));
});

/** The last step before the fault, and the fault. */
async function faultOf(where: Where, script: Script = {}, options: Parameters<typeof fakeRelay>[1] = {}) {
  await using relay: FakeRelay = await fakeRelay(script, { tls, user: 'u', password: PASSWORD, ...options });
  return await trial(relay.port, { user: 'u', to: TO, ...where });
}

t.test('each fault says in which step, whose it is, and what to do', async (t) => {
  const login = { step: 'login', blame: 'login' };
  for (const [where, script, options, fault] of [
    [
      { password: 'not-that-one' },
      {},
      {},
      { ...login, words: 'refused: 535 5.7.8 wrong credentials', hint: /FIELDPOST_RELAY_PASSWORD_FILE/ },
    ],
    [{}, { auth: '535 no' }, {}, { ...login, hint: /FIELDPOST_RELAY_PASSWORD_FILE/ }],
    [{}, { auth: '454 4.7.0 later' }, {}, { ...login, blame: 'relay' }],
    [{}, {}, { mechanisms: 'CRAM-MD5' }, { ...login, words: /offers neither/, hint: /take the user out/ }],
    [
      { ca: null },
      {},
      {},
      {
        step: 'TLS',
        blame: 'settings',
        words: /no authority .* its certificate .*; see FIELDPOST_RELAY_CA_FILE/,
      },
    ],
    [
      {},
      {},
      { tls: makeCertificate({ name: 'x', hosts: ['mail.elsewhere.example'], issuer: ca }) },
      {
        step: 'TLS',
        blame: 'settings',
        words: /mail\.elsewhere\.example/,
        hint: /must be a name in the certificate/,
      },
    ],
    [
      {},
      { ehlo: '250 relay.test' },
      {},
      { step: 'STARTTLS', blame: 'settings', words: /offers no STARTTLS/, hint: /\?tls=never/ },
    ],
    [{ tls: 'implicit' }, {}, {}, { step: 'TLS', blame: 'relay', words: /does not speak TLS/, hint: /587/ }],
    [
      {},
      { greeting: '554 no service' },
      {},
      { step: 'greeting', blame: 'relay', words: 'refused: 554 no service' },
    ],
    [
      {},
      { greeting: { after: 'fin' } },
      {},
      { step: 'greeting', blame: 'relay', words: /the connection was lost/ },
    ],
    [
      {},
      { mail: '550 5.7.1 <a>: Sender address rejected: not owned by user u' },
      {},
      { step: 'sender', blame: 'login' },
    ],
    [
      {},
      { mail: '553 5.1.8 no such domain' },
      {},
      { step: 'sender', blame: 'settings', hint: /FIELDPOST_FROM/ },
    ],
    [
      {},
      { rcpt: '504 5.5.2 <x>: Helo command rejected: need fully-qualified hostname' },
      {},
      { step: 'recipient', blame: 'settings', hint: /FIELDPOST_HELO_NAME/ },
    ],
    [{}, { rcpt: '550 5.1.1 no such user' }, {}, { step: 'recipient', blame: 'mail', hint: '' }],
    [{}, { dot: '554 5.6.0 spam' }, {}, { step: 'mail', blame: 'mail', words: 'refused: 554 5.6.0 spam' }],
    [{}, { dot: '452 4.3.1 disk full' }, {}, { step: 'mail', blame: 'relay' }],
    [{}, {}, { extensions: ['SIZE 10'] }, { step: 'sender', blame: 'mail', words: /takes at most 10 bytes/ }],
    [
      { to: 'zażółć@post.example' as Address },
      {},
      { extensions: [] },
      { step: 'sender', blame: 'mail', words: /no SMTPUTF8/ },
    ],
  ] as const) {
    const found = await faultOf(where as Where, script as Script, options);
    t.match(found.fault, fault, JSON.stringify([where, script]));
    const told = JSON.stringify(found);
    const secrets = [
      'hunter2',
      'not-that-one',
      Buffer.from('\0u\0hunter2').toString('base64'),
      Buffer.from('hunter2').toString('base64'),
    ];
    for (const secret of secrets) t.notOk(told.includes(secret), `${secret} is not told`);
  }
});

t.test('the certificate is shown also if it cannot be verified, and nothing is sent', async (t) => {
  await using relay = await fakeRelay({}, { tls, user: 'u', password: PASSWORD });
  const { steps, fault } = await trial(relay.port, { user: 'u', ca: null });
  t.match(steps.at(-1), /^certificate: TLSv1\.3, for localhost, 127\.0\.0\.1, signed by Test CA, until /);
  t.match(fault, { step: 'TLS' });
  t.strictSame(relay.commands, ['EHLO pump-3.example', 'STARTTLS'], 'no login without a good certificate');
});

t.test('a relay that repeats the password is not believed', async (t) => {
  const base64 = Buffer.from(`\0u\0${PASSWORD}`).toString('base64');
  const { steps } = await faultOf({}, { auth: `235 2.7.0 welcome ${base64}` });
  t.notOk(steps.join().includes(base64));
});

t.test('a dead network is told when the time limit has passed', async (t) => {
  const clock = new FakeClock();
  await using mute = await fakeRelay({ greeting: {} }, { tls });
  const late = trial(mute.port, { clock });
  await until(() => mute.connections === 1);
  await clock.advance(60_000);
  t.match((await late).fault, {
    step: 'greeting',
    blame: 'relay',
    words: 'no greeting within 60 s',
    hint: /FIELDPOST_RELAY/,
  });
  t.equal(clock.pending, 0);
  const gone = await fakeRelay();
  await gone.close();
  t.match((await trial(gone.port)).fault, {
    step: 'connection',
    blame: 'relay',
    words: /the connection was refused/,
  });
  t.match((await trial(25, { host: 'relay.invalid' })).fault, { step: 'name', blame: 'relay' });
});
