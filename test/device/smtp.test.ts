/** The SMTP server within the daemon: when there is one, and whom it lets in. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { type Test, test } from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import type { ListenConfig } from '../../src/base/config/types.js';
import { FieldpostError } from '../../src/base/errors.js';
import { RefusedTotals } from '../../src/base/http/problem.js';
import { createDaemon, type Daemon, openSmtp, type SmtpSide } from '../../src/device/daemon.js';
import type { Address } from '../../src/mail/message/address.js';
import { homesOf } from '../../src/mail/names.js';
import { FakeClock, withoutPauses } from '../support/clock.js';
import { configOf, testSystem } from '../support/system.js';

const begin = async () => {
  throw new FieldpostError('queue-full', 'no');
};

async function open(t: Test, env: Record<string, string>, system = {}) {
  const { system: fake } = testSystem();
  const live = { ...configOf({ FIELDPOST_STATE_DIR: t.testdir(), ...env }) };
  const parts = { ...fake, clock: withoutPauses(new FakeClock()), hostname: () => 'pump-3', ...system };
  const given = { live, system: parts, beginMail: begin, refused: new RefusedTotals() };
  const homes = (address: Address) => homesOf(address, live, ['pump-3'], () => []);
  const smtp = await openSmtp({ ...given, homesOf: homes }, () => true);
  t.teardown(async () => {
    const closed = smtp?.close();
    await smtp?.stop(0);
    await closed;
  });
  return { smtp, live };
}

/** What a client hears that says all of this, a line at a time. */
async function talk(smtp: Pick<SmtpSide, 'addresses'> | null, lines: readonly string[]): Promise<string> {
  const [address] = smtp?.addresses ?? [];
  const socket = connect({ host: '127.0.0.1', port: address?.kind === 'tcp' ? address.port : 0 });
  const left = [...lines, 'QUIT'];
  let heard = '';
  socket.setEncoding('utf8').on('data', (text: string) => {
    heard += text;
    if (/(?:^|\n)\d{3} .*\r\n$/.test(text)) socket.write(`${left.shift() ?? ''}\r\n`);
  });
  await once(socket, 'close');
  return heard;
}

const MAIL = ['EHLO me', 'MAIL FROM:<>', 'RCPT TO:<root>', 'DATA'];

test('without an address there is no server', async (t) => {
  t.equal((await open(t, {})).smtp, null);
});

test('the settings reach the clients, some of them without a restart', async (t) => {
  const { smtp, live } = await open(t, {
    FIELDPOST_SMTP_LISTEN: '127.0.0.1:0',
    FIELDPOST_MAX_MESSAGE: '5MiB',
  });
  t.match(await talk(smtp, MAIL), /^220 pump-3 .*250-SIZE 5242880\r\n.*550 5\.1\.1 .*554 5\.5\.1 /s);
  Object.assign(
    live,
    configOf({ FIELDPOST_LOCAL_MAIL: 'admin@example.com', FIELDPOST_HELO_NAME: 'p.example' }),
  );
  t.match(await talk(smtp, MAIL), /^220 p\.example .*250 2\.1\.5 .*452 4\.3\.1 no\r\n221 /s);
});

test('the tokens of the API let in', async (t) => {
  const tokens = { FIELDPOST_API_TOKEN: 'all', FIELDPOST_SEND_TOKEN: 'send' };
  const { smtp } = await open(t, { FIELDPOST_SMTP_LISTEN: '127.0.0.1:0', ...tokens });
  t.match(await talk(smtp, MAIL), /AUTH PLAIN LOGIN.*530 5\.7\.0 /s);
  for (const token of ['all', 'send']) {
    const login = `AUTH PLAIN ${Buffer.from(`\0any\0${token}`).toString('base64')}`;
    t.match(await talk(smtp, ['EHLO me', login, 'MAIL FROM:<>']), /235 2\.7\.0 .*250 2\.1\.0 /s, token);
  }
});

test('sockets of systemd that must not be served', async (t) => {
  for (const [address, words] of [
    [{ kind: 'tcp', host: '0.0.0.0', port: 25 }, /needs a token/],
    [{ kind: 'unix', path: '/run/x' }, /no address with a port/],
  ] as const) {
    const openListeners = async (_: unknown, make: (address: ListenConfig) => unknown) =>
      make(address) as never;
    const handed = [{ fd: 3, use: 'smtp' }];
    await t.rejects(open(t, {}, { openListeners, handed }), { code: 'bad-config', message: words });
    t.equal((await open(t, {}, { openListeners, handed: [{ fd: 3, use: 'api' }] })).smtp, null);
  }
});

/** The metrics, for the token that is needed here. */
async function metricsOf({ addresses }: Daemon): Promise<string> {
  const headers = { Authorization: 'Bearer send' };
  return (await fetch(`http://${addresses.map(addressOf).join()}/metrics`, { headers })).text();
}

test('its mails count as accepted or refused, like those of the API', async (t) => {
  const env = {
    FIELDPOST_STATE_DIR: '/var/lib/fieldpost',
    FIELDPOST_SMTP_LISTEN: '127.0.0.1:0',
    FIELDPOST_API_TOKEN: 'send',
    FIELDPOST_MAX_QUEUE: '3',
  };
  const daemon = await createDaemon(
    configOf(env),
    testSystem({ clock: withoutPauses(new FakeClock()) }).system,
  );
  const smtp = { addresses: daemon.smtpAddresses };
  const login = (token: string) => `AUTH PLAIN ${Buffer.from(`\0any\0${token}`).toString('base64')}`;
  const [john, jane] = ['RCPT TO:<a@x.org>', 'RCPT TO:<b@x.org>'];
  const mail = ['MAIL FROM:<>', john, jane, 'DATA', 'Subject: x\r\n\r\nhi\r\n.'];
  const begin = ['EHLO me', login('send')];
  t.match(await talk(smtp, [...begin, ...mail]), /250 2\.0\.0 queued as \w+,\w+\r\n/);
  t.match(await talk(smtp, [...begin, ...mail]), /452 4\.3\.1 /, 'two more do not fit');
  await talk(smtp, ['EHLO me', 'MAIL FROM:<>', john]);
  await talk(smtp, [...begin, 'MAIL FROM:<> SIZE=99999999999']);
  await talk(smtp, [...begin, 'MAIL FROM:<>', 'RCPT TO:<root>', 'DATA', 'NOOP', 'teapot']);
  const metrics = await metricsOf(daemon);
  t.match(metrics, /^fieldpost_accepted_total 2$/m);
  const counted = [...metrics.matchAll(/^fieldpost_refused_total\{code="(.+)"\} ([1-9].*)$/gm)];
  t.same(Object.fromEntries(counted.map(([, code, count]) => [code, Number(count)])), {
    'queue-full': 1,
    unauthorized: 1,
    'too-large': 1,
    invalid: 1,
  });
  await daemon.stop();
});

test('a client has its share of the queue, and a reload changes it', async (t) => {
  const env = {
    FIELDPOST_STATE_DIR: '/var/lib/fieldpost',
    FIELDPOST_LISTEN: '127.0.0.1:0',
    FIELDPOST_SMTP_LISTEN: '127.0.0.1:0',
    FIELDPOST_MAX_QUEUE: '10',
    FIELDPOST_MAX_SHARE: '20%',
  };
  let uid: number | null = 33;
  const { system } = testSystem({ clock: withoutPauses(new FakeClock()) });
  const daemon = await createDaemon(configOf(env), { ...system, peerUid: async () => uid });
  const smtp = { addresses: daemon.smtpAddresses };
  const mail = ['MAIL FROM:<>', 'RCPT TO:<a@x.org>', 'DATA', 'Subject: x\r\n\r\nhi\r\n.'];
  const heard = await talk(smtp, ['EHLO me', ...mail, ...mail, ...mail]);
  t.match(heard, /452 4\.3\.1 uid 33 has 2 messages in the queue and gets at most 20 % of it, 2\r\n/);
  t.equal(heard.match(/250 2\.0\.0 queued/g)?.length, 2);
  uid = null;
  const other = await talk(smtp, ['EHLO me', ...mail, ...mail, ...mail]);
  t.match(other, /452 4\.3\.1 smtp 127\.0\.0\.1 has 2 messages /);
  const { taken } = await daemon.reload(configOf({ ...env, FIELDPOST_MAX_SHARE: '100%' }));
  t.same(taken, ['FIELDPOST_MAX_SHARE']);
  t.match(await talk(smtp, ['EHLO me', ...mail]), /250 2\.0\.0 queued/);
  await daemon.stop();
});
