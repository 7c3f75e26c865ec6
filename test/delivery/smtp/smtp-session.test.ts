/** What is said to a relay, over which wire; and the same again to an SMTP server that somebody else wrote. */
import { once } from 'node:events';
import { type AddressInfo, connect as connectTo, createServer, Socket } from 'node:net';
import type { SMTPServerOptions } from 'smtp-server';
import { test } from 'tap';
import { KIB } from '../../../src/base/limits.js';
import { type Clock, systemClock } from '../../../src/base/system/clock.js';
import { ADDRESS_STAGGER_MS, type Connect, createConnect } from '../../../src/base/system/connect.js';
import { type Ending, SessionError } from '../../../src/mail/delivery/smtp/protocol.js';
import { openSession, type Session } from '../../../src/mail/delivery/smtp/session.js';
import { type Address, parseAddress } from '../../../src/mail/message/address.js';
import type { RelayConfig } from '../../../src/mail/settings.js';
import { makeCertificate } from '../../support/certificate.js';
import { FakeClock } from '../../support/clock.js';
import { until } from '../../support/delivery.js';
import { contentOf, type OtherRelay, otherRelay } from '../../support/other-relay.js';
import { type Answer, fakeRelay } from '../../support/relay.js';

const DAY_MS = 86_400_000;
const ca = makeCertificate({ name: 'Test CA' });
const tls = makeCertificate({ name: 'relay', hosts: ['localhost', '127.0.0.1'], issuer: ca });
const CONTENT = Buffer.from('Subject: x\r\n\r\nhello\r\n');
const ENVELOPE = {
  from: address('a@b.test'),
  to: address('c@d.test'),
  size: CONTENT.length,
  smtpUtf8: false,
};
const SENT = { phase: 'dot', reply: { code: 250 } };

function address(text: string): Address {
  const parsed = parseAddress(text);
  if (parsed === null) throw new Error(text);
  return parsed;
}

interface Where extends Partial<RelayConfig> {
  port: number;
  password?: string;
  ca?: string | null;
  own?: { readonly cert: string; readonly key: string };
  helo?: string;
  clock?: Clock;
  connect?: Connect;
}

function open(where: Where): Promise<Session> {
  const { host = '127.0.0.1', port, tls = 'never', user = null } = where;
  const { clock = new FakeClock({ wallMs: Date.now() }) } = where;
  return openSession({
    relay: { host, port, tls, user },
    password: where.password ?? null,
    ca: where.ca === undefined ? ca.cert : where.ca,
    ...where.own,
    helo: where.helo ?? 'device.test',
    timeoutMs: 60_000,
    clock,
    connect: where.connect ?? createConnect({ clock }),
  });
}

/** How opening ended, which it must not have done well. */
async function failure(where: Where): Promise<Ending> {
  try {
    await (await open(where)).close();
  } catch (error) {
    if (error instanceof SessionError) return error.ending;
    throw error;
  }
  throw new Error('the session was opened');
}

/** The commands of one message to a relay with these extensions. */
async function commandsOf(extensions: string[], smtpUtf8: boolean): Promise<readonly string[]> {
  await using relay = await fakeRelay({}, { extensions });
  const session = await open({ port: relay.port });
  await session.send({ ...ENVELOPE, size: 1234, smtpUtf8 }, CONTENT);
  await session.close();
  return relay.commands;
}

test('parameters are declared when they are offered and needed', async (t) => {
  t.same(await commandsOf([], false), [
    'EHLO device.test',
    'MAIL FROM:<a@b.test>',
    'RCPT TO:<c@d.test>',
    'DATA',
    'QUIT',
  ]);
  const all = ['SIZE 5000', '8BITMIME', 'SMTPUTF8', 'PIPELINING'];
  t.equal((await commandsOf(all, false))[1], 'MAIL FROM:<a@b.test> SIZE=1234');
  t.equal((await commandsOf(all, true))[1], 'MAIL FROM:<a@b.test> SIZE=1234 BODY=8BITMIME SMTPUTF8');
  t.equal((await commandsOf(['SIZE', 'smtputf8'], true))[1], 'MAIL FROM:<a@b.test> SIZE=1234 SMTPUTF8');
});

test('HELO follows where EHLO is not known, and offers nothing', async (t) => {
  for (const [code, isHelo] of [
    ['500', true],
    ['502', true],
    ['550', false],
    ['421', false],
  ] as const) {
    await using relay = await fakeRelay({
      ehlo: ({ command }) => (command.startsWith('EHLO') ? `${code} no` : '250-relay\r\n250 PIPELINING'),
    });
    if (isHelo) {
      const session = await open({ port: relay.port });
      t.notOk(session.takesAhead, code);
      t.match(await session.send(ENVELOPE, CONTENT), SENT);
      await session.close();
      t.match(await failure({ port: relay.port, tls: 'starttls' }), { trouble: { kind: 'no-starttls' } });
    } else t.match(await failure({ port: relay.port }), { phase: 'ehlo', reply: { code: Number(code) } });
    t.equal(relay.commands.includes('HELO device.test'), isHelo, code);
  }
});

test('without a greeting the port may want TLS', async (t) => {
  for (const [where, isTold] of [
    [{}, true],
    [{ tls: 'implicit', host: 'localhost' }, false],
  ] as const) {
    await using relay = await fakeRelay(
      { greeting: { after: 'fin' } },
      'tls' in where ? { tls, implicit: true } : {},
    );
    const ending = await failure({ port: relay.port, ...where });
    t.match(ending, { trouble: { kind: 'lost' } });
    t.equal('trouble' in ending && ending.trouble.words.endsWith('use smtps://'), isTold);
  }
});

test('commands go together if the relay offers pipelining, else one by one', async (t) => {
  for (const [extensions, packets] of [
    [['PIPELINING'], 1],
    [[], 3],
  ] as const) {
    await using relay = await fakeRelay({}, { extensions });
    const session = await open({ port: relay.port });
    t.match(await session.send(ENVELOPE, CONTENT), SENT);
    const said = relay.packets.filter((packet) => /MAIL|RCPT|DATA/.test(packet));
    t.equal(said.length, packets);
    await session.close();
  }
});

const NEXT = { ...ENVELOPE, to: address('next@d.test') };
const LAST = { ...ENVELOPE, to: address('last@d.test') };
const PIPELINING = { extensions: ['PIPELINING', 'SIZE 1000'] };

test('with pipelining the next message is announced with the end of the one before', async (t) => {
  for (const [extensions, isAhead] of [
    [['PIPELINING'], true],
    [[], false],
  ] as const) {
    await using relay = await fakeRelay({}, { extensions });
    const session = await open({ port: relay.port });
    t.equal(session.takesAhead, isAhead);
    t.match(await session.send(ENVELOPE, CONTENT, NEXT), SENT);
    const introduced = () => relay.commands.filter((line) => line === 'DATA').length;
    if (isAhead) await until(() => introduced() === 2);
    else t.equal(introduced(), 1);
    t.match(await session.send(NEXT, CONTENT), SENT);
    t.same(
      relay.mails.map(({ to }) => to),
      [[ENVELOPE.to], [NEXT.to]],
    );
    t.equal(introduced(), 2, 'said once');
    await session.close();
    t.equal(relay.commands.at(-1), 'QUIT');
  }
});

test('no reply waits for an acknowledgement after the first mails, at a relay with Nagle', async (t) => {
  for (const isAhead of [true, false]) {
    await using relay = await fakeRelay({}, { nagle: true });
    const session = await open({ port: relay.port, clock: systemClock() });
    const next = isAhead ? ENVELOPE : null;
    // Three mails teach it, unless this process is late to read a reply.
    for (let mails = 0; mails < 100 && session.takesAhead; mails++)
      t.match(await session.send(ENVELOPE, CONTENT, next), SENT);
    t.notOk(session.takesAhead);
    t.match(await session.send(ENVELOPE, CONTENT), SENT, 'perhaps announced before');
    const before = relay.packets.length;
    t.match(await session.send(ENVELOPE, CONTENT, next), SENT);
    t.equal(relay.packets.length, before + 3, 'MAIL, RCPT and DATA on their own');
    t.match(relay.packets.at(-1), /^DATA\r\n$/, 'the next is not announced');
    await session.close();
  }
});

test('the reply to one message decides nothing for the next one announced with its end', async (t) => {
  for (const [moment, answer] of [
    ['dot', '554 5.6.0 no'],
    ['dot', '451 4.3.0 later'],
    ['mail', '451 4.3.0 later'],
    ['rcpt', '550 5.1.1 no such user'],
    ['data', '451 4.3.0 later'],
  ] as const) {
    // The first is refused at its end; what comes before that is refused of the second.
    const turn = moment === 'dot' ? 1 : 2;
    let seen = 0;
    await using relay = await fakeRelay(
      { [moment]: () => (++seen === turn ? answer : undefined) },
      PIPELINING,
    );
    const session = await open({ port: relay.port });
    const endings = [];
    for (const [envelope, next] of [
      [ENVELOPE, NEXT],
      [NEXT, LAST],
      [LAST, null],
    ] as const)
      endings.push(await session.send(envelope, CONTENT, next));
    const refused = { phase: moment, reply: { code: Number(answer.slice(0, 3)) } };
    t.match(endings, turn === 1 ? [refused, SENT, SENT] : [SENT, refused, SENT], `${moment} ${answer}`);
    t.equal(relay.mails.length, 2);
    await session.close();
  }
});

test('a relay that is lost at the end of one message counts as not having the next', async (t) => {
  for (const answer of [
    '421 4.3.2 going down',
    { after: 'rst' },
    { after: 'fin' },
    { raw: 'what?\r\n' },
  ] as const) {
    await using relay = await fakeRelay({ dot: answer }, PIPELINING);
    const session = await open({ port: relay.port });
    t.match(await session.send(ENVELOPE, CONTENT, NEXT), { phase: 'dot' });
    t.notOk(session.usable);
    t.match(await session.send(NEXT, CONTENT), { phase: 'mail' });
    await session.close();
  }
  // It takes the one, and is gone before it answers to the other.
  let seen = 0;
  const mail = () => (++seen === 1 ? undefined : ({ after: 'fin' } as const));
  await using relay = await fakeRelay({ mail }, PIPELINING);
  const session = await open({ port: relay.port });
  t.match(await session.send(ENVELOPE, CONTENT, NEXT), SENT);
  t.match(await session.send(NEXT, CONTENT), { phase: 'mail', trouble: { kind: 'lost' } });
  await session.close();
});

test('a session closed after an announcement says nothing that could be taken for content', async (t) => {
  await using relay = await fakeRelay({}, PIPELINING);
  const session = await open({ port: relay.port });
  t.match(await session.send(ENVELOPE, CONTENT, NEXT), SENT);
  await until(() => relay.commands.filter((line) => line === 'DATA').length === 2);
  await session.close();
  await until(() => relay.open === 0);
  t.equal(relay.mails.length, 1);
  t.notOk(relay.commands.includes('QUIT'));
});

test('a message that the relay cannot take is not announced', async (t) => {
  const tooLarge = { ...NEXT, size: 1001 };
  await using relay = await fakeRelay({}, PIPELINING);
  const session = await open({ port: relay.port });
  t.match(await session.send(ENVELOPE, CONTENT, tooLarge), SENT);
  t.match(await session.send(tooLarge, CONTENT), { phase: 'mail', trouble: { kind: 'too-large' } });
  t.match(await session.send(LAST, CONTENT), SENT);
  t.equal(relay.commands.filter((line) => line.startsWith('MAIL')).length, 2);
  await session.close();
});

test('a message that the relay cannot take is not begun, and harms nothing', async (t) => {
  await using relay = await fakeRelay({}, { extensions: ['SIZE 1000'] });
  const session = await open({ port: relay.port });
  t.equal(session.sizeLimit, 1000);
  t.match(await session.send({ ...ENVELOPE, size: 1001 }, CONTENT), {
    phase: 'mail',
    trouble: { kind: 'too-large' },
  });
  t.match(await session.send({ ...ENVELOPE, smtpUtf8: true }, CONTENT), {
    phase: 'mail',
    trouble: { kind: 'no-smtputf8' },
  });
  t.ok(session.usable);
  t.match(await session.send({ ...ENVELOPE, size: 1000 }, CONTENT), SENT);
  t.equal(relay.commands.filter((line) => line.startsWith('MAIL')).length, 1);
  await session.close();
});

test('no dot and no line end in a message reaches the relay as a command', async (t) => {
  const evil = 'a\r\n.\r\nMAIL FROM:<x@y.test>\r\n.\nRCPT TO:<z@y.test>\n.\rDATA\r.x\n..\n.';
  const clean = 'a\r\n.\r\nMAIL FROM:<x@y.test>\r\n.\r\nRCPT TO:<z@y.test>\r\n.\r\nDATA\r\n.x\r\n..\r\n.\r\n';
  async function* pieces() {
    for (const byte of Buffer.from(evil)) yield Buffer.from([byte]);
  }
  const padding = 'x'.repeat(70);
  const long = Buffer.from(`${padding}\n.\n`.repeat(2000));
  await using relay = await fakeRelay();
  const session = await open({ port: relay.port });
  t.match(await session.send(ENVELOPE, Buffer.from(evil)), SENT);
  t.match(await session.send(ENVELOPE, pieces()), SENT);
  t.match(await session.send(ENVELOPE, long), SENT);
  t.match(await session.send(ENVELOPE, Buffer.alloc(0)), SENT);
  t.equal(relay.mails[0]?.content.toString(), clean);
  t.equal(relay.mails[1]?.content.toString(), clean);
  t.equal(relay.mails[2]?.content.toString(), `${padding}\r\n.\r\n`.repeat(2000));
  t.equal(relay.mails[3]?.content.toString(), '');
  t.equal(relay.mails.length, 4);
  await session.close();
});

test('after a refused recipient the transaction is taken back and the next one succeeds', async (t) => {
  for (const extensions of [['PIPELINING'], []]) {
    let refusals = 2;
    const rcpt = () => (refusals-- > 0 ? '550 5.1.1 no such user' : undefined);
    await using relay = await fakeRelay({ rcpt }, { extensions });
    const session = await open({ port: relay.port });
    for (let time = 0; time < 2; time++)
      t.match(await session.send(ENVELOPE, CONTENT), {
        phase: 'rcpt',
        reply: { code: 550, enhanced: '5.1.1' },
      });
    t.match(await session.send(ENVELOPE, CONTENT), SENT);
    t.match(await session.send(ENVELOPE, CONTENT), SENT);
    t.equal(relay.commands.filter((line) => line === 'RSET').length, 2);
    t.equal(relay.mails.length, 2);
    await session.close();
  }
});

test('a 354 after the recipient was refused is answered by a lone dot (RFC 2920)', async (t) => {
  for (const dot of ['554 5.5.1 no valid recipients', '250 2.0.0 well, thanks'] as const) {
    let isFirst = true;
    const once = (answer: Answer) => () => (isFirst ? answer : undefined);
    await using relay = await fakeRelay({
      rcpt: once('550 5.1.1 no such user'),
      data: once('354 go ahead'),
      dot: () => {
        const answer = isFirst ? dot : undefined;
        isFirst = false;
        return answer;
      },
    });
    const session = await open({ port: relay.port });
    t.match(await session.send(ENVELOPE, CONTENT), { phase: 'rcpt', reply: { code: 550 } });
    t.ok(session.usable);
    t.match(await session.send(ENVELOPE, CONTENT), SENT);
    t.equal(relay.mails.at(-1)?.content.toString(), CONTENT.toString());
    await session.close();
  }
});

test('a 354 after only MAIL was refused gets no dot, which would send an empty mail', async (t) => {
  await using relay = await fakeRelay({ mail: '550 5.7.1 not you', rcpt: '250 ok', data: '354 go ahead' });
  const session = await open({ port: relay.port });
  t.match(await session.send(ENVELOPE, CONTENT), { phase: 'mail', reply: { code: 550 } });
  t.notOk(session.usable);
  await session.close();
  t.equal(relay.mails.length, 0);
});

test('a refusal before the hang-up is read, also if our next write fails first', async (t) => {
  for (const door of ['never', 'implicit'] as const) {
    for (const isWhole of [true, false]) {
      const words = `${door}, ${isWhole ? 'whole' : 'streamed'}`;
      let go = () => {};
      const gone = new Promise<void>((done) => {
        go = done;
      });
      // Refusal and reset have arrived before this process looks at the socket again: its next write fails.
      const content = () => {
        go();
        return { raw: '550 5.7.1 no such thing here\r\n', after: 'rst' } as const;
      };
      const shield = door === 'implicit' ? { tls, implicit: true } : {};
      await using relay = await fakeRelay({ content }, { extensions: [], ...shield });
      const clock = new FakeClock({ wallMs: Date.now() });
      const session = await open({ port: relay.port, tls: door, clock });
      async function* pieces() {
        yield Buffer.from('Subject: x\r\n\r\n');
        await gone;
        for (let piece = 0; piece < 100; piece++) yield Buffer.alloc(KIB, 'x\r\n');
      }
      const ending = await session.send(ENVELOPE, isWhole ? Buffer.alloc(60 * KIB, 'x\r\n') : pieces());
      t.match(ending, { phase: isWhole ? 'dot' : 'content', reply: { code: 550 } }, words);
      await session.close();
      t.equal(clock.pending, 0, words);
    }
  }
});

test('an invalid host name is not used', async (t) => {
  for (const helo of ['x\r\nMAIL FROM:<a@b.test>', 'two words', '', 'müller']) {
    await using relay = await fakeRelay();
    await (await open({ port: relay.port, helo })).close();
    t.same(relay.commands, ['EHLO [127.0.0.1]', 'QUIT']);
  }
});

test('AUTH PLAIN, or LOGIN if the relay offers nothing else, in any case', async (t) => {
  const user = 'übung@x.test';
  const password = 'p\u00e4ss\0wörd';
  for (const mechanisms of ['PLAIN LOGIN', 'login plain', 'CRAM-MD5 LOGIN', 'login', 'PLAIN']) {
    const secret = mechanisms.includes('PLAIN') || mechanisms.includes('plain') ? 'simple' : password;
    await using relay = await fakeRelay({}, { user, password: secret, mechanisms });
    const session = await open({ port: relay.port, user, password: secret });
    t.match(await session.send(ENVELOPE, CONTENT), SENT, mechanisms);
    t.equal(relay.mails[0]?.user, user);
    await session.close();
  }
});

test('credentials are refused, asked for in an unknown way, or asked for without end', async (t) => {
  await using strict = await fakeRelay({}, { user: 'u', password: 'right' });
  const ending = await failure({ port: strict.port, user: 'u', password: 'wrong-secret' });
  t.match(ending, { phase: 'auth', reply: { code: 535, enhanced: '5.7.8' } });
  t.notMatch(JSON.stringify(ending), /wrong-secret|d3Jvbmc/);

  await using odd = await fakeRelay({}, { user: 'u', password: 'p', mechanisms: 'CRAM-MD5 XOAUTH2' });
  t.match(await failure({ port: odd.port, user: 'u', password: 'p' }), {
    phase: 'auth',
    trouble: { kind: 'no-auth' },
  });

  // The prompt of LOGIN may be in any words.
  await using endless = await fakeRelay(
    { auth: '334 UGFzcw==' },
    { user: 'u', password: 'p', mechanisms: 'PLAIN' },
  );
  t.match(await failure({ port: endless.port, user: 'u', password: 'p' }), { trouble: { kind: 'garbage' } });
});

test('the prompts of LOGIN may be anything', async (t) => {
  const said: string[] = [];
  const server = createServer((socket) => {
    const answers = ['250-x\r\n250 AUTH LOGIN', '334 Z3Vlc3M=', '334', '235 in', '221 bye'];
    socket.write('220 x\r\n');
    socket.on('data', (chunk) => {
      said.push(chunk.toString());
      socket.write(`${answers.shift()}\r\n`);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = await open({
    port: (server.address() as AddressInfo).port,
    user: 'me',
    password: 'secret',
  });
  await session.close();
  server.close();
  t.same(said.slice(1, 4), ['AUTH LOGIN\r\n', 'bWU=\r\n', 'c2VjcmV0\r\n']);
});

test('STARTTLS and implicit TLS: verified, with the server name, over IPv4 and by name', async (t) => {
  for (const implicit of [false, true]) {
    for (const host of ['127.0.0.1', 'localhost']) {
      await using relay = await fakeRelay({}, { tls, implicit, user: 'u', password: 'p' });
      const where: Where = {
        port: relay.port,
        host,
        tls: implicit ? 'implicit' : 'starttls',
        user: 'u',
        password: 'p',
      };
      const session = await open(where);
      t.match(await session.send(ENVELOPE, CONTENT), SENT);
      t.match(relay.mails[0], { secure: true, user: 'u' });
      t.equal(relay.servername, host === 'localhost' ? 'localhost' : null);
      t.equal(relay.commands.filter((line) => line.startsWith('EHLO')).length, implicit ? 1 : 2);
      await session.close();
    }
  }
});

test('STARTTLS is used when offered, demanded when required, and not with tls=never', async (t) => {
  await using plain = await fakeRelay();
  t.match(await failure({ port: plain.port, tls: 'starttls' }), {
    phase: 'starttls',
    trouble: { kind: 'no-starttls' },
  });
  const clear = await open({ port: plain.port, tls: 'offered' });
  t.match(await clear.send(ENVELOPE, CONTENT), SENT);
  await clear.close();

  await using able = await fakeRelay({}, { tls });
  for (const [how, secure] of [
    ['offered', true],
    ['never', false],
  ] as const) {
    const session = await open({ port: able.port, tls: how });
    t.match(await session.send(ENVELOPE, CONTENT), SENT);
    t.equal(able.mails.at(-1)?.secure, secure, how);
    await session.close();
  }
  await using refusing = await fakeRelay({ starttls: '454 4.7.0 not now' }, { tls });
  t.match(await failure({ port: refusing.port, tls: 'offered' }), {
    phase: 'starttls',
    reply: { code: 454 },
  });
});

test('clear text behind the answer to STARTTLS ends the session', async (t) => {
  for (const tail of ['250 ok\r\n', '250-relay.test\r\n250 AUTH PLAIN\r\n', '250 o', '\r', '250-x\r\n']) {
    await using relay = await fakeRelay({ starttls: { raw: `220 go ahead\r\n${tail}` } }, { tls });
    const ending = await failure({ port: relay.port, tls: 'starttls' });
    t.match(ending, { trouble: { kind: 'garbage' } }, JSON.stringify(tail));
    t.same(relay.commands.slice(1), ['STARTTLS'], 'nothing was said after it');
  }
});

test('certificates that do not fit are refused, each in its own words', async (t) => {
  const now = Date.now();
  const cases = [
    [
      'another CA',
      makeCertificate({ name: 'r', hosts: ['127.0.0.1'], issuer: makeCertificate({ name: 'Other' }) }),
      'certificate-unknown-authority',
    ],
    ['its own CA', makeCertificate({ name: 'r', hosts: ['127.0.0.1'] }), 'certificate-unknown-authority'],
    ['another host', makeCertificate({ name: 'r', hosts: ['other.test'], issuer: ca }), 'certificate'],
    [
      'expired',
      makeCertificate({
        name: 'r',
        hosts: ['127.0.0.1'],
        issuer: ca,
        fromMs: now - 9 * DAY_MS,
        untilMs: now - DAY_MS,
      }),
      'certificate',
    ],
    [
      'not yet',
      makeCertificate({
        name: 'r',
        hosts: ['127.0.0.1'],
        issuer: ca,
        fromMs: now + DAY_MS,
        untilMs: now + 9 * DAY_MS,
      }),
      'certificate-not-yet-valid',
    ],
  ] as const;
  for (const [name, certificate, kind] of cases) {
    for (const implicit of [true, false]) {
      await using relay = await fakeRelay({}, { tls: certificate, implicit });
      const ending = await failure({ port: relay.port, tls: implicit ? 'implicit' : 'starttls' });
      t.match(ending, { phase: 'tls', trouble: { kind, words: /certificate/ } }, name);
      t.notOk(relay.commands.some((line) => line.startsWith('MAIL')));
    }
  }
  await using relay = await fakeRelay({}, { tls, implicit: true });
  t.match(
    await failure({ port: relay.port, tls: 'implicit', ca: null }),
    { trouble: { kind: 'certificate-unknown-authority' } },
    'without our CA',
  );
});

test('a relay that asks for a certificate gets that of the device', async (t) => {
  const own = makeCertificate({ name: 'pump-3', issuer: ca });
  for (const [implicit, mode] of [
    [true, 'implicit'],
    [false, 'starttls'],
  ] as const) {
    await using relay = await fakeRelay({}, { tls: { ...tls, ca: ca.cert }, implicit });
    const where = { port: relay.port, tls: mode };
    for (const given of [{}, { own }]) await (await open({ ...where, ...given })).close();
    t.same(relay.clients, [null, 'pump-3'], mode);
  }
});

test('a handshake that meets clear text, an end, a reset or silence', async (t) => {
  await using clear = await fakeRelay();
  t.match(await failure({ port: clear.port, tls: 'implicit' }), {
    phase: 'tls',
    trouble: { kind: 'tls', words: /does not speak TLS on this port/ },
  });
  for (const after of ['fin', 'rst'] as const) {
    await using gone = await fakeRelay({ greeting: { after } });
    t.match(await failure({ port: gone.port, tls: 'implicit' }), { trouble: { kind: 'lost' } }, after);
    await using later = await fakeRelay({ starttls: { raw: '220 go\r\n', after } }, { tls });
    t.match(
      await failure({ port: later.port, tls: 'starttls' }),
      { trouble: { kind: 'lost' } },
      `starttls ${after}`,
    );
  }
  const clock = new FakeClock();
  let accepted = () => {};
  const silent = new Promise<void>((done) => {
    accepted = done;
  });
  const greeting = () => {
    accepted();
    return {};
  };
  await using mute = await fakeRelay({ greeting });
  const failing = failure({ port: mute.port, tls: 'implicit', clock });
  await silent;
  await clock.advance(60_000);
  t.match(await failing, {
    phase: 'tls',
    trouble: { kind: 'deadline', words: 'no TLS handshake within 60 s' },
  });
  t.equal(clock.pending, 0);
});

test('no relay there: refused, unknown, or refused at every address', async (t) => {
  const relay = await fakeRelay();
  await relay.close();
  for (const host of ['127.0.0.1', 'localhost']) {
    for (const tls of ['never', 'implicit'] as const)
      t.match(await failure({ port: relay.port, host, tls }), {
        phase: 'connect',
        trouble: { kind: 'refused', words: /refused/ },
      });
  }
  t.match(await failure({ port: 25, host: 'relay.invalid' }), {
    phase: 'resolve',
    trouble: { kind: 'dns', words: /its name cannot be resolved/ },
  });
});

/**
 * A relay whose name has these addresses. The last leads to a port of this machine, where there is one; the others
 * swallow whatever is sent to them, or refuse it.
 */
function nameWith(addresses: readonly string[], port: number | null, dead: 'swallow' | 'refuse' = 'swallow') {
  const clock = new FakeClock({ wallMs: Date.now() });
  const opened: string[] = [];
  const sockets: Socket[] = [];
  const name = { addresses };
  const connect = createConnect({
    clock,
    lookup: async () => name.addresses.map((one) => ({ address: one, family: 4 })),
    open(one) {
      const isGood = port !== null && one === name.addresses.at(-1);
      const socket = isGood ? connectTo(port, '127.0.0.1') : new Socket();
      const refused = Object.assign(new Error(''), { code: 'ECONNREFUSED', address: one });
      if (dead === 'refuse' && !isGood) setImmediate(() => socket.destroy(refused));
      opened.push(one);
      sockets.push(socket);
      return socket;
    },
  });
  /** Lets one address after another have its turn. */
  const tryAll = async () => {
    for (const _ of name.addresses) await clock.advance(ADDRESS_STAGGER_MS);
  };
  return { name, clock, connect, opened, sockets, tryAll };
}

const DEAD = ['192.0.2.1', '192.0.2.2', '192.0.2.3'];

test('behind dead addresses the relay is found, and found at once the next time', async (t) => {
  const hosts = ['relay.example'];
  const certificate = makeCertificate({ name: 'relay', hosts, issuer: ca });
  for (const how of ['never', 'starttls', 'implicit'] as const) {
    const implicit = how === 'implicit';
    await using relay = await fakeRelay({}, { tls: certificate, implicit });
    const { clock, connect, opened, sockets, tryAll } = nameWith([...DEAD, '192.0.2.4'], relay.port);
    const where = { port: relay.port, host: 'relay.example', tls: how, clock, connect };
    const opening = open(where);
    await tryAll();
    const session = await opening;
    t.match(await session.send(ENVELOPE, CONTENT), SENT, how);
    await session.close();
    t.same(opened.splice(0), [...DEAD, '192.0.2.4']);
    t.ok(
      sockets.every(({ destroyed }) => destroyed),
      'nothing stays open',
    );
    const again = await open(where);
    t.match(await again.send(ENVELOPE, CONTENT), SENT, how);
    await again.close();
    t.same(opened.splice(0), ['192.0.2.4'], 'the address that worked is the first');
    t.equal(relay.connections, 2);
    t.equal(relay.servername, how === 'never' ? null : 'relay.example');
    t.equal(clock.pending, 0);
  }
});

test('an address that sends nothing is not the first the next time', async (t) => {
  for (const how of ['never', 'implicit'] as const) {
    const certificate = makeCertificate({ name: 'relay', hosts: ['relay.example'], issuer: ca });
    await using relay = await fakeRelay({}, { tls: certificate, implicit: how === 'implicit' });
    await using mute = await fakeRelay({ greeting: {} });
    const clock = new FakeClock({ wallMs: Date.now() });
    const ports = [mute.port, relay.port];
    const addresses = ['192.0.2.1', '192.0.2.2'];
    const connect = createConnect({
      clock,
      lookup: async () => addresses.map((address) => ({ address, family: 4 })),
      open: (address) => connectTo(ports[addresses.indexOf(address)] ?? 0, '127.0.0.1'),
    });
    const where = { port: 25, host: 'relay.example', tls: how, clock, connect };
    const failing = failure(where);
    await until(() => mute.connections === 1 && clock.pending === 1);
    await clock.advance(60_000);
    t.match(await failing, { trouble: { kind: 'deadline' } });
    const session = await open(where);
    t.match(await session.send(ENVELOPE, CONTENT), SENT, how);
    await session.close();
    t.equal(mute.connections, 1);
  }
});

test('the certificate must be for the name, whichever address is reached', async (t) => {
  for (const implicit of [true, false]) {
    await using relay = await fakeRelay({}, { tls, implicit });
    const { clock, connect, tryAll } = nameWith([...DEAD, '127.0.0.1'], relay.port);
    const host = 'relay.example';
    const failing = failure({
      port: relay.port,
      host,
      tls: implicit ? 'implicit' : 'starttls',
      clock,
      connect,
    });
    await tryAll();
    t.match(await failing, { phase: 'tls', trouble: { kind: 'certificate', words: /relay\.example/ } });
    t.equal(relay.servername, host);
    t.notOk(relay.commands.some((line) => line.startsWith('MAIL')));
  }
});

test('a name with other addresses than before leads there', async (t) => {
  await using before = await fakeRelay();
  const { name, clock, connect, opened } = nameWith(['192.0.2.1'], before.port);
  const where = { port: before.port, host: 'relay.example', clock, connect };
  await (await open(where)).close();
  name.addresses = ['192.0.2.8', '192.0.2.9'];
  const opening = open(where);
  await clock.advance(ADDRESS_STAGGER_MS);
  await (await opening).close();
  t.same(opened, ['192.0.2.1', '192.0.2.8', '192.0.2.9']);
});

test('one deadline ends all attempts at dead addresses; addresses that refuse are all named', async (t) => {
  for (const how of ['never', 'implicit'] as const) {
    const silent = nameWith(DEAD, null);
    const where = { port: 25, host: 'relay.example', tls: how };
    const late = failure({ ...where, ...silent });
    await silent.clock.advance(60_000);
    t.match(await late, {
      phase: 'connect',
      trouble: { kind: 'deadline', words: 'no connection within 60 s' },
    });
    t.ok(silent.sockets.every(({ destroyed }) => destroyed));
    t.equal(silent.clock.pending, 0);
    const refusing = nameWith(DEAD, null, 'refuse');
    t.match(await failure({ ...where, ...refusing }), {
      phase: 'connect',
      trouble: {
        kind: 'refused',
        words: /^the connection was refused: .* \(ECONNREFUSED 192\.0\.2\.1, .* 192\.0\.2\.3\)$/,
      },
    });
    t.equal(refusing.clock.pending, 0);
  }
});

test('an IPv6 address may stand in brackets', async (t) => {
  const relay = await fakeRelay({}, { host: '::1' }).catch(() => null);
  if (relay === null) {
    t.comment('skipped: no IPv6 on this machine');
    return;
  }
  for (const host of ['[::1]', '::1']) {
    const session = await open({ port: relay.port, host });
    t.match(await session.send(ENVELOPE, CONTENT), SENT, host);
    await session.close();
  }
  await relay.close();
});

interface Received {
  readonly from: unknown;
  readonly args: unknown;
  readonly to: string[];
  readonly text: string;
  readonly secure: boolean;
  readonly user: unknown;
}

/** nodemailer's SMTP server, and what it received. */
async function otherServer(
  options: SMTPServerOptions,
): Promise<{ server: OtherRelay; port: number; received: Received[] }> {
  const received: Received[] = [];
  const server = await otherRelay({
    disabledCommands: [],
    ...options,
    key: tls.key,
    cert: tls.cert,
    onAuth: ({ username, password }, _session, done) =>
      password === 'geheim' ? done(null, { user: username }) : done(new Error('no')),
    async onMail(mail, { envelope: { mailFrom, rcptTo }, secure, user }) {
      received.push({
        from: mailFrom === false ? null : mailFrom.address,
        args: mailFrom === false ? null : mailFrom.args,
        to: rcptTo.map((one) => one.address),
        text: (await contentOf(mail)).toString(),
        secure,
        user,
      });
    },
  });
  return { server, port: server.port, received };
}

test('a server that somebody else wrote takes our mails: plain, STARTTLS, implicit TLS, PLAIN, LOGIN', async (t) => {
  const content = Buffer.from(`Subject: x\r\n\r\n.\r\n..\r\n${'line of text\r\n'.repeat(20 * KIB)}`);
  const utf8 = {
    from: address('gerät@b.test'),
    to: address('用户@d.test'),
    size: content.length,
    smtpUtf8: true,
  };
  const cases: [string, SMTPServerOptions, Omit<Where, 'port'>][] = [
    ['plain', { authOptional: true, disabledCommands: ['STARTTLS'] }, { tls: 'never' }],
    ['starttls', { authOptional: true }, { tls: 'starttls', host: 'localhost' }],
    ['implicit', { authOptional: true, secure: true }, { tls: 'implicit' }],
    ['PLAIN', { authMethods: ['PLAIN'] }, { tls: 'starttls', user: 'me', password: 'geheim' }],
    ['LOGIN', { authMethods: ['LOGIN'], secure: true }, { tls: 'implicit', user: 'me', password: 'geheim' }],
  ];
  for (const [name, options, where] of cases) {
    const { server, port, received } = await otherServer({ ...options, size: 1_000_000 });
    const session = await open({ ...where, port });
    t.equal(session.sizeLimit, 1_000_000, name);
    t.match(await session.send(ENVELOPE, CONTENT), SENT, name);
    t.match(await session.send({ ...ENVELOPE, size: content.length }, content), SENT, name);
    t.match(await session.send(utf8, CONTENT), SENT, name);
    t.match(
      await session.send({ ...ENVELOPE, size: 1_000_001 }, CONTENT),
      { trouble: { kind: 'too-large' } },
      name,
    );
    await session.close();
    t.match(
      received[0],
      { from: 'a@b.test', to: ['c@d.test'], text: CONTENT.toString(), secure: where.tls !== 'never' },
      name,
    );
    t.equal(received[0]?.user || undefined, where.user, name);
    t.equal(received[1]?.text, content.toString(), name);
    t.match(received[1]?.args, { SIZE: String(content.length) }, name);
    t.match(
      received[2],
      { from: 'gerät@b.test', to: ['用户@d.test'], args: { SMTPUTF8: true, BODY: '8BITMIME' } },
      name,
    );
    await server.close();
  }
  const { server, port } = await otherServer({ secure: true });
  const ending = await failure({ port, tls: 'implicit', user: 'me', password: 'wrong' });
  t.match(ending, { phase: 'auth', reply: { code: 535 } });
  await server.close();
});
