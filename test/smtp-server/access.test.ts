/** Who may send: tokens, TLS, and what an attacker between client and server can do. */
import { type TLSSocket, connect as tlsConnect } from 'node:tls';
import { type Test, test } from 'tap';
import { HOUR_MS } from '../../src/base/limits.js';
import type { Ends } from '../../src/base/system/peer.js';
import { secureSocket } from '../../src/base/system/tls-door.js';
import { SMTP_STRANGER_COMMANDS_MAX } from '../../src/mail/smtp-server/session.js';
import { makeCertificate } from '../support/certificate.js';
import { settled } from '../support/clock.js';
import { type Client, ENVELOPE, openDoor } from './door.js';

const CA = makeCertificate({ name: 'Test CA' });
const IDENTITY = makeCertificate({ name: 'pump', hosts: ['localhost', '127.0.0.1'], issuer: CA });
const TLS = { identity: () => IDENTITY, secure: secureSocket };
const TOKENS = ['good-token', 'send-token'];
const base64 = (text: string) => Buffer.from(text).toString('base64');
const plain = (password: string, user = 'grafana') => `AUTH PLAIN ${base64(`\0${user}\0${password}`)}`;
/** The extensions in a reply to EHLO. */
const offered = (reply: string) => reply.split('\r\n').map((line) => line.slice(4));

/** Upgrades a client whose STARTTLS was answered. */
async function secured(client: Client): Promise<TLSSocket> {
  client.socket.removeAllListeners('data');
  const socket = tlsConnect({ socket: client.socket, ca: CA.cert, host: '127.0.0.1' });
  socket.on('error', () => undefined);
  await new Promise((resolve) => socket.once('secureConnect', resolve));
  client.listenTo(socket);
  return socket;
}

test('without a token nobody needs to log in', async (t) => {
  const client = await (await openDoor(t)).greeted();
  t.notOk(offered(await client.ask('EHLO me')).some((line) => line.startsWith('AUTH')));
  t.match(await client.ask(plain('good-token')), /^502 /);
});

test('with a token everybody must, over loopback too: as the API asks', async (t) => {
  const door = await openDoor(t, { tokens: TOKENS });
  const client = await door.dial();
  await client.hear();
  t.match(await client.ask(plain('good-token')), /^503 /, 'EHLO first');
  t.ok(offered(await client.ask('EHLO me')).includes('AUTH PLAIN LOGIN'));
  t.match(await client.ask('MAIL FROM:<a@x.org>'), /^530 5\.7\.0 .*AUTH/);
  t.match(await client.ask('RCPT TO:<a@x.org>'), /^503 /);
  t.match(await client.ask('DATA'), /^503 /);
  for (const [line, reply] of [
    ['AUTH', /^504 /],
    ['AUTH CRAM-MD5', /^504 5\.5\.4 /],
    ['AUTH PLAIN x y', /^501 /],
    ['AUTH PLAIN !!!', /^501 5\.5\.2 /],
    ['AUTH PLAIN =', /^501 5\.5\.2 /],
    [`AUTH PLAIN ${base64('no zeros')}`, /^501 5\.5\.2 /],
    ['AUTH PLAIN', /^334 $/],
    ['*', /^501 5\.7\.0 /],
    ['AUTH LOGIN', /^334 VXNlcm5hbWU6$/],
    [base64('any'), /^334 UGFzc3dvcmQ6$/],
    ['*', /^501 /],
    [`auth login ${base64('any')}`, /^334 UGFzc3dvcmQ6$/],
    [base64('send-token'), /^235 2\.7\.0 /],
    [plain('good-token'), /^503 /],
    ['MAIL FROM:<a@x.org> AUTH=<>', /^250 /],
    ['RCPT TO:<b@y.org>', /^250 /],
    ['DATA', /^354 /],
    ['hi\r\n.', /^250 /],
  ] as const) {
    const heard = await client.ask(line);
    // A reply with nothing behind its blank is trimmed.
    t.match(/^334$/.test(heard) ? '334 ' : heard, reply, line);
  }
  for (const password of TOKENS) {
    for (const user of ['', 'grafana', 'ż']) {
      const other = await door.greeted();
      t.match(await other.ask(plain(password, user)), /^235 /);
    }
  }
  t.equal(door.mails.length, 1);
});

test('a mail tells whether its client may only send', async (t) => {
  const door = await openDoor(t, { tokens: TOKENS, sendTokens: ['send-token'] });
  const open = await openDoor(t);
  const alone = await openDoor(t, { strangersOnlySend: () => true });
  for (const [at, password] of [
    [door, 'good-token'],
    [door, 'send-token'],
    [open, null],
    [alone, null],
  ] as const) {
    const client = await at.greeted();
    if (password !== null) t.match(await client.ask(plain(password)), /^235 /);
    t.same(await client.codes(ENVELOPE, 3), [250, 250, 354]);
    t.match(await client.ask('hi\r\n.'), /^250 /);
  }
  const told = [door, open, alone].map(({ mails }) => mails.map(({ onlySends }) => onlySends));
  t.same(told, [[false, true], [false], [true]]);
});

test('a mail tells whose share of the queue it takes, asked once a session', async (t) => {
  let asked = 0;
  const ends: unknown[] = [];
  const sharerOf = async ({ remoteAddress, remotePort, localPort }: Ends) => {
    ends.push(remoteAddress, typeof remotePort, typeof localPort);
    return `uid ${++asked}`;
  };
  const door = await openDoor(t, { sharerOf });
  for (const mails of [2, 1]) {
    const client = await door.greeted();
    for (let i = 0; i < mails; i++) {
      t.same(await client.codes(ENVELOPE, 3), [250, 250, 354]);
      t.match(await client.ask('hi\r\n.'), /^250 /);
    }
  }
  t.same(
    door.mails.map(({ caller }) => caller),
    ['uid 1', 'uid 1', 'uid 2'],
  );
  t.match(ends, [/127\.0\.0\.1$/, 'number', 'number', /127\.0\.0\.1$/, 'number', 'number']);
});

test('few commands before the login, and more after it', async (t) => {
  const door = await openDoor(t, { tokens: TOKENS });
  const stranger = await door.greeted();
  const codes = await stranger.codes('NOOP\r\n'.repeat(100), SMTP_STRANGER_COMMANDS_MAX);
  t.same(codes, [...Array(SMTP_STRANGER_COMMANDS_MAX - 1).fill(250), 421], 'EHLO counts, too');
  t.equal(await stranger.rest(), '');
  const known = await door.greeted();
  await known.ask(plain('good-token'));
  t.same(await known.codes('NOOP\r\n'.repeat(100), 100), Array(100).fill(250));
});

test('three wrong passwords, each answered later than the one before', async (t) => {
  const door = await openDoor(t, { tokens: TOKENS });
  const client = await door.greeted();
  for (const [password, pauseMs] of [
    ['wrong', 1000],
    ['good-token ', 2000],
    ['', 4000],
  ] as const) {
    client.send(`${plain(password)}\r\n`);
    const reply = client.hear();
    for (let turn = 0; turn < 3; turn++) await settled();
    await door.clock.advance(pauseMs - 1);
    t.equal(await Promise.race([reply, settled().then(() => 'later')]), 'later');
    await door.clock.advance(1);
    t.match(await reply, /^535 5\.7\.8 /);
  }
  t.match(await client.hear(), /^421 4\.7\.0 /);
  t.equal(await client.rest(), '');
  const { peer } = door.logged[0]?.[1] ?? {};
  t.match(peer, /^127\.0\.0\.1/);
  t.strictSame(door.logged, [['wrong tokens', { count: 1, peer }]], 'the first at once');
  await door.clock.advance(HOUR_MS);
  t.match(
    door.logged.slice(1),
    [['wrong tokens', { count: 2 }]],
    'the others once an hour, also of other connections',
  );
  await door.clock.advance(2 * HOUR_MS);
  t.equal(door.logged.length, 2);
  t.notOk(JSON.stringify(door.logged).includes('good-token'));
  t.same(door.refused, Array(3).fill('unauthorized'), 'each counts as refused');
});

test('beyond loopback, with a certificate: STARTTLS, then AUTH, then mail', async (t) => {
  const door = await openDoor(t, { tokens: TOKENS, tls: TLS, isExposed: true });
  const client = await door.dial();
  await client.hear();
  const before = offered(await client.ask('EHLO me'));
  t.ok(before.includes('STARTTLS'));
  t.notOk(before.some((line) => line.startsWith('AUTH')));
  t.match(await client.ask(plain('good-token')), /^538 5\.7\.11 /);
  t.match(await client.ask('MAIL FROM:<a@x.org>'), /^530 5\.7\.0 .*STARTTLS/);
  t.match(await client.ask('STARTTLS now'), /^501 /);
  t.match(await client.ask('STARTTLS'), /^220 /);
  const socket = await secured(client);
  t.ok(socket.authorized);
  t.match(await client.ask('MAIL FROM:<a@x.org>'), /^503 /, 'what was said before is forgotten');
  const after = offered(await client.ask('EHLO me'));
  t.ok(after.includes('AUTH PLAIN LOGIN'));
  t.notOk(after.includes('STARTTLS'));
  t.match(await client.ask('STARTTLS'), /^503 /);
  t.match(await client.ask('MAIL FROM:<a@x.org>'), /^530 5\.7\.0 .*AUTH/);
  t.match(await client.ask(plain('good-token')), /^235 /);
  const mail = `${'x'.repeat(998)}\r\n`.repeat(3000);
  t.same(await client.codes(ENVELOPE, 3), [250, 250, 354]);
  t.match(await client.ask(`${mail}.`), /^250 /);
  t.equal(String(door.mails[0]?.octets), mail);
  t.match(await client.ask('QUIT'), /^221 /);
  await client.closed;
});

test('on loopback TLS is offered, and nobody needs it', async (t) => {
  const door = await openDoor(t, { tokens: TOKENS, tls: TLS });
  const client = await door.dial();
  await client.hear();
  const lines = offered(await client.ask('EHLO me'));
  t.ok(lines.includes('STARTTLS') && lines.includes('AUTH PLAIN LOGIN'));
  t.match(await client.ask(plain('good-token')), /^235 /);
  t.match(await client.ask('MAIL FROM:<a@x.org>'), /^250 /);
  t.match(await client.ask('STARTTLS'), /^220 /);
  await secured(client);
  await client.ask('EHLO me');
  t.match(await client.ask('MAIL FROM:<a@x.org>'), /^530 /, 'the login is forgotten too');
});

test('a certificate that comes or goes with a reload', async (t) => {
  let identity: typeof IDENTITY | null = null;
  const door = await openDoor(t, { tls: { identity: () => identity, secure: secureSocket } });
  const client = await door.greeted();
  t.match(await client.ask('STARTTLS'), /^502 /);
  identity = IDENTITY;
  t.ok(offered(await client.ask('EHLO me')).includes('STARTTLS'));
  t.match(await client.ask('STARTTLS'), /^220 /);
  await secured(client);
  t.match(await client.ask('EHLO me'), /^250/);
});

test('commands before the handshake never count as said within TLS', async (t) => {
  const door = await openDoor(t, { tls: TLS });
  // In the packet of STARTTLS, and in one behind it.
  const first = await door.greeted();
  first.send(`STARTTLS\r\n${ENVELOPE}`);
  t.match(await first.rest(), /^554 5\.5\.0 /);
  const second = await door.greeted();
  t.match(await second.ask('STARTTLS'), /^220 /);
  second.send(`EHLO evil\r\n${ENVELOPE}hi\r\n.\r\n`);
  await second.closed;
  t.same(
    door.logged.map(([event]) => event),
    ['smtp refused', 'smtp tls failed'],
  );
  t.same(door.mails, []);
});

test('a handshake that does not end', async (t) => {
  const door = await openDoor(t, { tls: TLS });
  const client = await door.greeted();
  t.match(await client.ask('STARTTLS'), /^220 /);
  for (let turn = 0; turn < 5; turn++) await settled();
  await door.clock.advance(10_000);
  await client.closed;
  const next = await door.greeted();
  t.match(await next.ask('NOOP'), /^250 /);
});

test('a stop does not wait for a handshake', async (t) => {
  const door = await openDoor(t, { tls: TLS });
  const client = await door.greeted();
  t.match(await client.ask('STARTTLS'), /^220 /);
  for (let turn = 0; turn < 5; turn++) await settled();
  const stopped = door.server.stop(10_000);
  await client.closed;
  await stopped;
});

test('the limits hold within TLS', async (t: Test) => {
  const door = await openDoor(t, { tls: TLS });
  const client = await door.greeted();
  await client.ask('STARTTLS');
  await secured(client);
  await client.ask('EHLO me');
  await client.data();
  client.send('half');
  for (let turn = 0; turn < 5; turn++) await settled();
  await door.clock.advance(30_000);
  t.match(await client.hear(), /^421 4\.4\.2 /);
  t.equal(await client.rest(), '');
  t.equal(door.open, 0);
});
