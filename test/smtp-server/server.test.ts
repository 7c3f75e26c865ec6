/** The SMTP server as its clients meet it: the dialogue, limits, time, and the stop. */
import { connect, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { test } from 'tap';
import { FieldpostError, LOOP_POINTER } from '../../src/base/errors.js';
import { SMTP_CONNECTIONS_MAX } from '../../src/base/http/connections.js';
import { SMTP_COMMANDS_MAX } from '../../src/mail/smtp-server/session.js';
import { SMTP_LINES_A_TURN, SMTP_UNREAD_BYTES_MAX, Wire } from '../../src/mail/smtp-server/wire.js';
import { FakeClock, settled, withoutPauses } from '../support/clock.js';
import { Client, ENVELOPE, openDoor } from './door.js';

/** A connection that has sent this, and takes nothing: one of the kernel takes megabytes first. */
function socketWith(sent: string): Socket {
  const stream = new Duplex({ read: () => undefined, write: () => undefined });
  if (sent !== '') stream.push(sent);
  return Object.assign(stream, { setNoDelay: () => stream }) as unknown as Socket;
}

test('the commands of one mail', async (t) => {
  const door = await openDoor(t);
  const client = await door.dial();
  t.equal(await client.hear(), '220 pump-3.example.com ESMTP Fieldpost');
  const hello = (await client.ask('EHLO me')).split('\r\n');
  t.same(
    hello.map((line) => line.slice(4)),
    ['pump-3.example.com', 'SIZE 1000000', 'PIPELINING', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES'],
  );
  t.equal(await client.ask('MAIL FROM:<a@x.org> SIZE=20 BODY=8BITMIME'), '250 2.1.0 OK');
  t.equal(await client.ask('rcpt to:<b@y.org>'), '250 2.1.5 OK');
  t.equal(await client.ask('RCPT TO:<@relay.org,@other.org:c@y.org>'), '250 2.1.5 OK', 'no source route');
  t.match(await client.ask('RCPT TO:<b@y.org>'), /^250 2\.1\.5 /, 'twice is once');
  t.equal(await client.ask('RCPT TO:<root>'), '250 2.1.5 OK', 'a user of this device');
  t.match(await client.ask('DATA'), /^354 /);
  t.equal(await client.ask('Subject: s\r\n\r\n..dot\r\n.'), '250 2.0.0 queued as id1-0,id1-1,id1-2');
  t.match(await client.ask('QUIT'), /^221 /);
  await client.closed;
  t.same(door.mails, [
    {
      from: 'a@x.org',
      to: ['b@y.org', 'c@y.org', 'root@localhost'],
      expectedBytes: 20,
      isUrgent: false,
      isRepaired: true,
      onlySends: false,
      octets: Buffer.from('Subject: s\r\n\r\n.dot\r\n'),
    },
  ]);
  t.equal(door.open, 0);
});

const DIALOGUES: readonly (readonly (readonly [line: string, code: number])[])[] = [
  [
    ['MAIL FROM:<a@x>', 503],
    ['RCPT TO:<a@x>', 503],
    ['DATA', 503],
    ['EHLO', 250],
    ['HELO me', 250],
    ['RCPT TO:<a@x>', 503],
    ['MAIL FROM:', 501],
    ['MAIL FROM: a@x b', 555],
    ['MAIL FROM:a<@x', 501],
    ['MAIL FROM <a@x>', 501],
    ['MAIL FROM::<a@x>', 501],
    ['MAIL FROM:a@x>', 501],
    ['MAIL TO:<a@x>', 501],
    ['MAIL', 501],
    ['MAIL FROM:<a@x> FOO=1', 555],
    ['MAIL FROM:<a@x> AUTH=<>', 555],
    ['MAIL FROM:<a@x> SIZE=x', 501],
    ['MAIL FROM:<a@x> SIZE=1 SIZE=2', 501],
    ['MAIL FROM:<a@x> BODY=BINARYMIME', 501],
    ['MAIL FROM:<a@x> SMTPUTF8=1', 501],
    ['MAIL FROM:<a@x> SIZE=1000001', 552],
    ['MAIL FROM:<ż@x>', 553],
  ],
  [
    ['helo me', 250],
    ['MAIL FROM:<> SIZE=1000000', 250],
    ['MAIL FROM:<a@x>', 503],
    ['DATA', 503],
    ['RCPT TO:<a@-x>', 553],
    ['DATA', 554],
    ['RSET now', 501],
    ['RSET', 250],
    ['DATA', 503],
  ],
  [
    ['ehlo me', 250],
    ['MAIL FROM : ż@x SMTPUTF8', 250],
    ['RCPT TO : "b c"@x', 553],
    ['RCPT TO:<>', 501],
    ['RCPT TO: ', 501],
    ['RCPT FROM:<b@x>', 501],
    ['RCPT TO:<b@x> FOO', 555],
    ['RCPT TO:<Postmaster>', 250],
    ['DATA now', 501],
    ['RSET', 250],
    ['DATA', 503],
    ['MAIL FROM:<a@x>', 250],
    ['RCPT TO:<ż@x>', 553],
    ['RCPT TO:<b@x>', 250],
    ['EHLO again', 250],
    ['RCPT TO:<b@x>', 503],
  ],
  [
    ['NOOP anything', 250],
    ['VRFY a', 252],
    ['VRFY', 501],
    ['HELP', 214],
    ['STARTTLS', 502],
    ['AUTH PLAIN x', 502],
    ['EXPN a', 502],
    ['BDAT 1 LAST', 502],
    ['QUIT now', 501],
    ['', 500],
    ['\0', 500],
    ['N\0OP', 500],
    ['FOO', 500],
    ['x'.repeat(5000), 500],
    [`NOOP ${'x'.repeat(2043)}`, 250],
    [`NOOP ${'x'.repeat(2044)}`, 500],
    ['QUIT', 221],
  ],
];

test('every command in every order gets the reply of RFC 5321', async (t) => {
  const door = await openDoor(t);
  for (const dialogue of DIALOGUES) {
    const client = await door.dial();
    await client.hear();
    for (const [line, code] of dialogue) {
      const reply = await client.ask(line);
      t.equal(Number(reply.slice(0, 3)), code, `${line.slice(0, 40)} → ${reply}`);
      if (!/^(?:250.pump|220|354|503 5.5.1)/.test(reply)) t.match(reply, /^\d{3}[ -]\d\.\d\.\d+ \S/, reply);
    }
  }
  const client = await door.greeted();
  client.send(Buffer.from('RSET \xff\r\n', 'latin1'));
  t.match(await client.hear(), /^500 /, 'not UTF-8');
});

test('a sender that is no address is the device itself; a user of this device may be nobody', async (t) => {
  const door = await openDoor(t, { homesOf: (address) => (/localhost/i.test(address) ? [] : [address]) });
  const client = await door.greeted();
  for (const from of ['root', '"john smith"@x.org', 'root@my_host']) {
    t.match(await client.ask(`MAIL FROM:<${from}>`), /^250 /);
    for (const user of ['root', 'root@localhost', 'root@LOCALHOST.localdomain'])
      t.match(await client.ask(`RCPT TO:<${user}>`), /^550 5\.1\.1 .*FIELDPOST_LOCAL_MAIL/);
    t.match(await client.ask('DATA'), /^554 5\.5\.1 /, 'nobody to send it to');
    t.match(await client.ask('RCPT TO:<b@x.org>'), /^250 /);
    await client.ask('DATA');
    await client.ask('hi\r\n.');
  }
  t.same(
    door.mails.map(({ from, to }) => [from, to]),
    Array(3).fill([null, ['b@x.org']]),
  );
});

test('commands in groups, and the next mail with the end of the one before', async (t) => {
  const door = await openDoor(t);
  const client = await door.greeted();
  t.same(await client.codes(ENVELOPE, 3), [250, 250, 354]);
  t.same(await client.codes(`first\r\n.\r\n${ENVELOPE}`, 4), [250, 250, 250, 354]);
  t.same(await client.codes('second\r\n.\r\nRSET\r\nNOOP\r\nQUIT\r\n', 4), [250, 250, 250, 221]);
  await client.closed;
  t.same(
    door.mails.map(({ octets }) => String(octets)),
    ['first\r\n', 'second\r\n'],
  );
});

test('a client that sends ahead where it must wait is disconnected', async (t) => {
  const door = await openDoor(t, {
    tls: { identity: () => ({ cert: '', key: '' }), secure: async () => t.fail('no TLS') as never },
    tokens: ['secret'],
  });
  const early = new Client(connect({ port: door.port, host: '127.0.0.1' }));
  early.send('EHLO me\r\n');
  t.match(await early.hear(), /^554 5\.5\.0 .*before the greeting/);
  t.equal(await early.rest(), '');
  for (const said of ['EHLO me\r\nMAIL FROM:<a@x>\r\n', 'HELO me\r\nNOOP\r\n', 'STARTTLS\r\nNOOP\r\n']) {
    const client = await door.dial();
    await client.hear();
    client.send(said);
    t.match(await client.hear(), /^554 5\.5\.0 /, said);
    t.equal(await client.rest(), '', 'nothing more is answered');
  }
  const plain = await openDoor(t);
  const client = await plain.greeted();
  client.send(`${ENVELOPE}Subject: too early\r\n\r\n.\r\n`);
  t.match(await client.rest(), /554 5\.5\.0 [^\n]*$/);
  t.same(plain.mails, []);
  t.equal(plain.open, 0);
});

test('a bare CR or LF in the dialogue ends the connection', async (t) => {
  const door = await openDoor(t);
  const said = [
    'NOOP\n',
    '\n',
    'NOOP\r',
    'NOOP\rNOOP\r\n',
    '\rNOOP\r\n',
    'NOOP\r\r\n',
    'RSET\r\nNOOP\nRSET\r\n',
  ];
  said.push(`${'x'.repeat(3000)}\n`, `${'x'.repeat(3000)}\rx\r\n`);
  for (const line of said) {
    const client = await door.greeted();
    client.send(`${line}NOOP\r\n`);
    t.match(
      await client.rest(),
      /^(?:250 [^\n]*\r\n)?500 5\.5\.2 [^\n]*bare[^\n]*$/,
      JSON.stringify(line.slice(-20)),
    );
  }
  // In whichever packets it comes.
  for (const parts of [
    ['NOOP\r', '\n'],
    ['N', 'OOP', '\r\n'],
    ['NOOP', '\r', '\nNOOP\r\n'],
  ]) {
    const client = await door.greeted();
    for (const part of parts) {
      client.send(part);
      await settled();
    }
    t.match(await client.hear(), /^250 /, JSON.stringify(parts));
  }
});

test('a web page that speaks to the port is not heard', async (t) => {
  const door = await openDoor(t);
  for (const line of ['POST / HTTP/1.1', 'GET /x', 'Host: pump', 'X-A: RCPT TO:<a@x>']) {
    const client = await door.dial();
    await client.hear();
    client.send(`${line}\r\n${ENVELOPE}hi\r\n.\r\n`);
    t.match(await client.hear(), /^554 5\.5\.0 /);
    t.equal(await client.rest(), '');
  }
  t.same(door.mails, []);
});

test('the 250 and the next command wait until the mail is kept', async (t) => {
  let kept: () => void = () => undefined;
  const door = await openDoor(t, {
    at: (step) => (step === 'finish' ? new Promise<void>((resolve) => (kept = resolve)) : undefined),
  });
  const client = await door.greeted();
  await client.data();
  client.send('hi\r\n.\r\nNOOP\r\n');
  const reply = client.hear();
  t.equal(await Promise.race([reply, settled().then(() => 'no reply yet')]), 'no reply yet');
  kept();
  t.match(await reply, /^250 2\.0\.0 queued/);
  t.match(await client.hear(), /^250 2\.0\.0 Nothing/);
});

test('what the queue says is told, at each step, and the next mail goes its way', async (t) => {
  const table = [
    ['queue-full', '452 4.3.1 '],
    ['storage-full', '452 4.3.1 '],
    ['too-large', '552 5.3.4 '],
    ['storage-failed', '451 4.3.0 '],
    ['invalid', '554 5.6.0 '],
    ['busy', '451 4.3.0 '],
  ] as const;
  for (const step of ['begin', 'write', 'finish'] as const) {
    for (const [code, words] of table) {
      let isAngry = true;
      const door = await openDoor(t, {
        at(now) {
          if (now !== step || !isAngry) return;
          throw new FieldpostError(code, 'Why not', {
            faults: [{ pointer: 'line 3', detail: 'ż is\r\nwrong' }],
          });
        },
      });
      const client = await door.greeted();
      await client.ask('MAIL FROM:<a@x.org>');
      await client.ask('RCPT TO:<b@y.org>');
      let reply = await client.ask('DATA');
      // What comes after the failure is read, and is no command.
      if (step !== 'begin') reply = await client.ask(`${'one\r\nQUIT\r\n'.repeat(20_000)}.`);
      t.equal(reply, `${words}Why not; ? is wrong`, `${step}: ${code}`);
      t.equal(door.open, 0, 'nothing is left');
      isAngry = false;
      t.match(await client.codes(ENVELOPE, 3), [250, 250, 354]);
      t.match(await client.ask('two\r\n.'), /^250 /);
      t.same(
        door.mails.map(({ octets }) => String(octets)),
        ['two\r\n'],
      );
      t.same(
        door.logged.filter(([event]) => event === 'smtp refused').map(([, { reply: logged }]) => logged),
        [reply],
      );
    }
  }
});

test('a mail that goes round in a loop, and words that say the same twice', async (t) => {
  const detail = 'has 31 Received headers';
  const door = await openDoor(t, {
    at(step) {
      const faults = [{ pointer: LOOP_POINTER, detail }];
      if (step === 'finish') throw new FieldpostError('invalid', `The mail ${detail}`, { faults });
    },
  });
  const client = await door.greeted();
  await client.data();
  t.equal(await client.ask('.'), '554 5.4.6 The mail has 31 Received headers');
});

test('a rejected write, and a bug', async (t) => {
  const door = await openDoor(t, {
    async at(step) {
      if (step === 'write') throw new FieldpostError('storage-full', 'No space');
      if (step === 'finish') throw new TypeError('a bug');
    },
  });
  const client = await door.greeted();
  await client.data();
  t.match(await client.ask('one\r\n.'), /^452 4\.3\.1 No space/);
  await client.data();
  t.match(await client.ask('.'), /^451 4\.3\.0 /);
  const [failed] = door.logged.filter(([event]) => event === 'smtp failed');
  t.match(failed?.[1].error, /TypeError: a bug\n +at /);
  t.equal(door.open, 0);
});

test('100 recipients, and the ids in a line of at most 512 octets', async (t) => {
  const door = await openDoor(t);
  const client = await door.greeted();
  await client.ask('MAIL FROM:<a@x.org>');
  for (let n = 0; n < 100; n++) t.match(await client.ask(`RCPT TO:<b${n}@y.org>`), /^250 /);
  t.match(await client.ask('RCPT TO:<more@y.org>'), /^452 4\.5\.3 /);
  t.match(await client.ask('RCPT TO:<b99@y.org>'), /^250 /, 'one that is there');
  await client.ask('DATA');
  const reply = await client.ask('hi\r\n.');
  const [, listed = '', more] = /^250 2\.0\.0 queued as (\S+) and (\d+) more$/.exec(reply) ?? [];
  t.ok(reply.length <= 510 && reply.length > 450, `${reply.length}`);
  t.equal(listed.split(',').length + Number(more), 100);
  t.equal(door.mails[0]?.to.length, 100);
});

test('after 21 mistakes the client is disconnected', async (t) => {
  const door = await openDoor(t);
  const client = await door.greeted();
  t.same(await client.codes('FOO\r\n'.repeat(1000), 22), [...Array(21).fill(500), 421]);
  t.equal(await client.rest(), '', 'nothing more is answered');
  await client.closed;
});

test('21 mails, each with a wrong recipient and a wrong command, are 21 mails', async (t) => {
  const door = await openDoor(t);
  const client = await door.greeted();
  const group = 'MAIL FROM:<a@x.org>\r\nRCPT TO:<no address>\r\nRCPT TO:<b@y.org>\r\nFOO\r\nDATA\r\n';
  for (let n = 0; n < 21; n++) {
    t.same(await client.codes(group, 5), [250, 501, 250, 500, 354]);
    t.match(await client.ask('hi\r\n.'), /^250 2\.0\.0 queued/);
  }
  t.equal(door.mails.length, 21);
  t.same(await client.codes('FOO\r\n'.repeat(100), 22), [...Array(21).fill(500), 421], 'counted anew');
});

for (const line of ['NOOP', 'RSET', 'HELP', 'VRFY root'])
  test(`a stream of ${line.slice(0, 4)} ends the session`, async (t) => {
    const door = await openDoor(t);
    const client = await door.greeted();
    client.send(`${line}\r\n`.repeat(10_000));
    const replies = (await client.rest()).split('\r\n').filter((text) => /^\d{3} /.test(text));
    t.equal(replies.length, SMTP_COMMANDS_MAX, 'EHLO counts, too; the last is the refusal');
    t.equal(replies.at(-1), '421 4.7.0 Too many commands without a mail');
    await client.closed;
    t.match(await (await door.greeted()).ask('NOOP'), /^250 /);
  });

test('among lines that are here already the others have their turns', async (t) => {
  const socket = socketWith('NOOP\r\n'.repeat(10 * SMTP_LINES_A_TURN));
  const wire = new Wire(socket, { clock: withoutPauses(new FakeClock()), streamed: () => undefined });
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  for (let n = 0; n < 10 * SMTP_LINES_A_TURN; n++) t.same(await wire.line(), { text: 'NOOP' });
  isOver = true;
  t.ok(turns >= 10, `${turns} turns of the event loop`);
});

test('each mail begins a new count of commands', async (t) => {
  const door = await openDoor(t);
  const client = await door.greeted();
  for (let n = 0; n < 3; n++) {
    t.same(await client.codes('NOOP\r\n'.repeat(SMTP_COMMANDS_MAX - 20), SMTP_COMMANDS_MAX - 20), [
      ...Array(SMTP_COMMANDS_MAX - 20).fill(250),
    ]);
    t.same(await client.codes(ENVELOPE, 3), [250, 250, 354]);
    t.match(await client.ask('hi\r\n.'), /^250 2\.0\.0 queued/);
  }
});

test('a client is never faster than the disk', async (t) => {
  let go: (() => void) | null = null;
  const seen: number[] = [];
  const door = await openDoor(t, {
    at(step, bytes) {
      if (step !== 'write') return;
      seen.push(bytes);
      return new Promise<void>((resolve) => (go = resolve));
    },
  });
  const client = await door.greeted();
  await client.data();
  const sent = 20_000_000;
  client.send(Buffer.concat([Buffer.alloc(sent, 'x'), Buffer.from('\r\n.\r\n')]));
  for (let turn = 0; turn < 50; turn++) await settled();
  t.equal(seen.length, 1, 'it waits for the first write');
  t.ok(client.socket.writableLength > sent / 2, 'the rest is with the client');
  const reply = client.hear();
  let isDone = false;
  void reply.then(() => (isDone = true));
  while (!isDone) {
    (go as (() => void) | null)?.();
    await settled();
  }
  t.match(await reply, /^250 /);
  t.equal(door.mails[0]?.octets.length, sent + 2);
});

test('time: 5 minutes for a line, 30 s for the next bytes of a mail, 5 minutes for all of it', async (t) => {
  const door = await openDoor(t);
  const { clock } = door;
  const idle = await door.greeted();
  await clock.advance(299_999);
  idle.send('NO');
  await clock.advance(1);
  t.match(await idle.hear(), /^421 4\.4\.2 /, 'a line that does not end');
  t.equal(await idle.rest(), '');

  const slow = await door.greeted();
  await clock.advance(299_000);
  t.match(await slow.ask('NOOP'), /^250 /);
  await slow.data();
  await clock.advance(29_999);
  slow.send('x');
  await settled();
  await clock.advance(29_999);
  t.equal(door.open, 1);
  await clock.advance(1);
  t.match(await slow.hear(), /^421 4\.4\.2 .*slowly/);
  await slow.rest();

  const loris = await door.greeted();
  await loris.data();
  for (let ms = 0; ms < 300_000; ms += 10_000) {
    loris.send('x');
    await settled();
    await clock.advance(10_000);
  }
  t.match(await loris.hear(), /^421 4\.4\.2 .*slowly/);
  await loris.rest();
  t.equal(door.open, 0);
  t.same(door.mails, []);
});

test("time in which the disk catches up is not the client's", async (t) => {
  let go: () => void = () => undefined;
  const door = await openDoor(t, {
    at: (step) => (step === 'write' ? new Promise<void>((resolve) => (go = resolve)) : undefined),
  });
  const client = await door.greeted();
  await client.data();
  client.send('hi\r\n');
  await settled();
  await door.clock.advance(200_000);
  go();
  t.match(await client.ask('.'), /^250 /);
});

test('32 connections; the longest idle one gives way, but none that was just used', async (t) => {
  const door = await openDoor(t);
  const clients: Client[] = [];
  for (let n = 0; n < SMTP_CONNECTIONS_MAX; n++) clients.push(await door.greeted());
  const refused = await door.dial();
  t.match(await refused.hear(), /^421 4\.3\.2 /);
  t.equal(await refused.rest(), '');
  const [first, second, third] = clients as [Client, Client, Client];
  await first.data();
  await door.clock.advance(9_999);
  t.match(await third.ask('NOOP'), /^250 /);
  await door.clock.advance(1);
  const next = await door.dial();
  t.match(await next.hear(), /^220 /, 'there is a place again');
  t.match(await second.hear(), /^421 4\.4\.2 .*others wait/, 'the longest idle one outside a mail');
  t.match(await first.ask('hi\r\n.'), /^250 /, 'a mail that is coming is not cut');
  t.match(await third.ask('NOOP'), /^250 /);
  await next.ask('QUIT');
  await next.closed;
  const later = await door.dial();
  t.match(await later.hear(), /^220 /, 'the place of one that has left');
});

test('a broken connection leaves no mail, and the server still answers', async (t) => {
  const door = await openDoor(t);
  for (const said of ['', 'EHLO', `${ENVELOPE}`]) {
    const client = await door.greeted();
    client.send(said);
    if (said === ENVELOPE) await client.codes('', 3);
    if (said === ENVELOPE) client.send('half\r\n');
    await settled();
    client.socket.resetAndDestroy();
    await client.closed;
  }
  const half = await door.greeted();
  await half.data();
  half.socket.end('half of a mail\r\n');
  t.equal(await half.rest(), '', 'the end of the connection is no end of the mail');
  const client = await door.greeted();
  t.match(await client.ask('NOOP'), /^250 /);
  t.same(door.mails, []);
  t.equal(door.open, 0);
  t.equal(door.discarded, 2);
});

test('a client that has half-closed the connection still gets the reply', async (t) => {
  let kept: () => void = () => undefined;
  const door = await openDoor(t, {
    at: (step) => (step === 'finish' ? new Promise<void>((resolve) => (kept = resolve)) : undefined),
  });
  const client = await door.greeted();
  await client.data();
  client.socket.end('hi\r\n.\r\n');
  for (let turn = 0; turn < 5; turn++) await settled();
  kept();
  t.match(await client.hear(), /^250 /);
  await client.closed;
  t.equal(door.mails.length, 1);
});

test('a client that still sends gets the last reply; one that does not close is cut', async (t) => {
  const door = await openDoor(t);
  const talker = await door.greeted();
  talker.send(`QUIT\r\n${'x'.repeat(500_000)}`);
  t.match(await talker.hear(), /^221 /);
  talker.socket.end();
  await talker.closed;
  const stayer = await door.dial(true);
  await stayer.hear();
  t.match(await stayer.ask('QUIT'), /^221 /);
  t.equal(await stayer.rest(), '');
  await door.clock.advance(2000);
  while (!stayer.socket.closed) {
    // A socket sees a reset only when it writes.
    stayer.send('still here');
    await settled();
  }
  t.ok(stayer.socket.errored);
});

test('a client that reads no replies is disconnected', async (t) => {
  const socket = socketWith('');
  const wire = new Wire(socket, { clock: new FakeClock(), streamed: () => undefined });
  const reply = `250 ${'x'.repeat(500)}`;
  let replies = 0;
  while (!wire.isOver && replies < 1000) {
    wire.say(reply);
    replies++;
  }
  t.equal(replies, Math.floor(SMTP_UNREAD_BYTES_MAX / (reply.length + 2)) + 1);
  t.ok(socket.destroyed);
});

test('a stop: idle ones at once, the others after their mail, all of them in time', async (t) => {
  const door = await openDoor(t);
  const idle = await door.greeted();
  const busy = await door.greeted();
  await busy.data();
  const stuck = await door.greeted();
  await stuck.data();
  stuck.send('half');
  await settled();
  const stopped = door.server.stop(10_000);
  t.match(await idle.hear(), /^421 4\.3\.2 /);
  t.equal(await idle.rest(), '');
  const late = await door.dial();
  t.match(await late.hear(), /^421 4\.3\.2 /);
  t.match(await busy.ask('hi\r\n.'), /^250 2\.0\.0 queued/);
  t.match(await busy.hear(), /^421 4\.3\.2 /);
  t.equal(await busy.rest(), '');
  let isOver = false;
  void stopped.then(() => (isOver = true));
  await door.clock.advance(9_999);
  t.notOk(isOver);
  await door.clock.advance(1);
  await stopped;
  await stuck.closed;
  t.equal(door.mails.length, 1);
  t.equal(door.open, 0);
});

test('a mail that comes while the store stops', async (t) => {
  const door = await openDoor(t, {
    at(step) {
      if (step === 'finish') throw new FieldpostError('stopping', 'Stopping');
    },
  });
  const client = await door.greeted();
  await client.data();
  t.match(await client.ask('hi\r\n.'), /^421 4\.3\.2 /);
  t.equal(await client.rest(), '');
});
