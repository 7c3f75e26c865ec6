/** The built daemon with relays that are old, wrong, or wrongly configured: each mail is sent once, or told why it waits. */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { makeCertificate } from '../support/certificate.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

const start = (t: Test, env: Readonly<Record<string, string>>) =>
  startIn(t, {
    FIELDPOST_STATE_DIR: env.FIELDPOST_STATE_DIR ?? t.testdir(),
    FIELDPOST_FROM: 'pump@fleet.example',
    FIELDPOST_SMTP_TIMEOUT: '1s',
    ...env,
  });

/** Posts a mail; gives its id. */
const post = async ({ api }: DaemonProcess, subject = 'x'): Promise<string> =>
  (await api('messages', [{ type: 1, destination: 'john@example.com', subject }])).json[0].id;

/** The message once the log has such a line. */
async function after(daemon: DaemonProcess, event: RegExp, id: string) {
  while (!daemon.lines.some((line) => event.test(line))) await daemon.nextLine();
  return (await daemon.api(`messages/${id}`)).json;
}

/** Why the relay counts as failing. */
async function reasonIn(daemon: DaemonProcess): Promise<string> {
  await after(daemon, / relay failing /, await post(daemon));
  return (await daemon.api('state')).json.relay.reason;
}

for (const refusal of ['500 Command unrecognized', '502 5.5.1 Command not implemented'])
  t.test(`a relay that knows only HELO: ${refusal}`, needsProgram, async (t) => {
    await using relay = await fakeRelay({
      ehlo: ({ command }) => (command.startsWith('EHLO') ? refusal : undefined),
    });
    await post(await start(t, { FIELDPOST_RELAY: relay.url, FIELDPOST_HELO_NAME: 'pump.example' }));
    await relay.arrived(1);
    t.same(relay.commands.slice(0, 3), [
      'EHLO pump.example',
      'HELO pump.example',
      'MAIL FROM:<pump@fleet.example>',
    ]);
  });

t.test('a relay that offers PIPELINING and loses the commands behind the first', needsProgram, async (t) => {
  await using relay = await fakeRelay({}, { chokes: true });
  const seconds = { FIELDPOST_BACKOFF_MAX: '1s', FIELDPOST_RETRY_MIN: '1s', FIELDPOST_RETRY_MAX: '1s' };
  const daemon = await start(t, { FIELDPOST_RELAY: relay.url, ...seconds });
  const id = await post(daemon);
  await relay.arrived(1);
  t.equal(relay.packets.filter((packet) => packet.startsWith('MAIL')).length, 3, 'two in vain');
  t.match(await after(daemon, / sent /, id), { status: 'sent' });
});

for (const [what, raw] of [
  ['a line without an end', `250 ${'x'.repeat(100_000)}`],
  ['lines without an end', '250-accepted\r\n'.repeat(10_000)],
  ['a second line that never comes', '250-accepted\r\n'],
] as const)
  t.test(`a reply to the mail that begins with 250, and has ${what}`, needsProgram, async (t) => {
    let count = 0;
    await using relay = await fakeRelay({ dot: () => (count++ === 0 ? { raw, after: 'fin' } : undefined) });
    const daemon = await start(t, { FIELDPOST_RELAY: relay.url });
    const id = await post(daemon, 'first');
    t.match(await after(daemon, / sent | deferred /, id), {
      status: 'sent',
      lastReply: /^250 (?:x|accepted)/,
    });
    await post(daemon, 'second');
    while (count < 2) await daemon.nextLine();
    t.same(relay.commands.filter((line) => line === 'DATA').length, 2, 'the first was offered once');
  });

t.test('a full mailbox after the content is as one at RCPT', needsProgram, async (t) => {
  for (const phase of ['rcpt', 'dot'] as const) {
    for (const words of [
      '552 5.2.2 Mailbox full',
      '552 5.2.2 Message size exceeds fixed limit',
      "552 5.2.2 This message is larger than the current system limit or the recipient's mailbox is full. Try sending it again.",
    ]) {
      await using relay = await fakeRelay({ [phase]: words });
      const daemon = await start(t, { FIELDPOST_RELAY: relay.url });
      const id = await post(daemon);
      const found = await after(daemon, / (?:deferred|failed|refusing) /, id);
      t.match(found, { status: 'deferred', attempts: 1 }, `${phase}: ${words}`);
      t.equal((await daemon.api('state')).json.relay.state, 'ok');
      await daemon.end('SIGTERM');
    }
  }
});

t.test('smtp:// to a port with TLS from the first byte', needsProgram, async (t) => {
  const tls = makeCertificate({ name: 'relay', hosts: ['localhost'] });
  await using relay = await fakeRelay({}, { tls, implicit: true });
  const daemon = await start(t, { FIELDPOST_RELAY: relay.url });
  t.match(await reasonIn(daemon), /no greeting within 1 s; .*use smtps:\/\/$/);
});

t.test('a certificate with a SHA-1 signature', needsProgram, async (t) => {
  const issuer = makeCertificate({ name: 'Old CA' });
  const { key, cert } = makeCertificate({ name: 'relay', hosts: ['localhost'], issuer, digest: 'sha1' });
  await using relay = await fakeRelay(
    {},
    { tls: { key, cert, ciphers: 'DEFAULT@SECLEVEL=0' }, implicit: true },
  );
  const directory = t.testdir({ 'ca.pem': issuer.cert });
  const daemon = await start(t, {
    FIELDPOST_RELAY: `smtps://localhost:${relay.port}`,
    FIELDPOST_RELAY_CA_FILE: join(directory, 'ca.pem'),
    FIELDPOST_STATE_DIR: join(directory, 'state'),
  });
  t.match(
    await reasonIn(daemon),
    /its certificate is not good enough: .*digest algorithm too weak, as SHA-1 is$/,
  );
});
