import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { t } from 'tap';
import { type CatcherOptions, type CaughtMail, openCatcher } from '../../src/dev/catcher.js';
import { FakeClock } from '../support/clock.js';

async function caughtBy(options: Partial<CatcherOptions> = {}) {
  const mails: CaughtMail[] = [];
  const clock = new FakeClock();
  const onMail = async (mail: CaughtMail) => void mails.push(mail);
  const catcher = await openCatcher({ clock, onMail, ...options });
  t.teardown(() => catcher.close());
  return { ...catcher, mails, clock };
}

const HELLO = 'EHLO me\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nDATA\r\n';

/** A client that sends given commands and reads one reply at a time. */
async function dial(port: number) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.once('close', resolve));
  let heard = '';
  const more: (() => void)[] = [];
  const wakeAll = () => {
    for (const wake of more.splice(0)) wake();
  };
  socket.setEncoding('utf8').on('data', (text) => {
    heard += text;
    wakeAll();
  });
  socket.on('close', wakeAll);
  /** The next whole reply, or the part of one that came before the server closed the connection. */
  const hear = async (): Promise<string> => {
    for (;;) {
      const reply = /^(?:\d{3}-.*\r\n)*\d{3} .*\r\n/.exec(heard)?.[0];
      if (reply !== undefined) {
        heard = heard.slice(reply.length);
        return reply;
      }
      if (socket.closed) return heard;
      await new Promise<void>((resolve) => more.push(resolve));
    }
  };
  const codes = async (count: number) => {
    const found = [];
    for (let at = 0; at < count; at++) found.push(Number((await hear()).slice(0, 3)));
    return found;
  };
  const ask = async (line: string) => {
    socket.write(`${line}\r\n`);
    return hear();
  };
  t.match(await hear(), /^220 /);
  return { socket, hear, codes, ask, closed };
}

t.test('the commands of one mail', async (t) => {
  const { port, mails } = await caughtBy();
  const { ask, closed } = await dial(port);
  const hello = (await ask('EHLO me')).trimEnd().split('\r\n');
  t.same(
    hello.slice(1).map((line) => line.slice(4)),
    ['SIZE 67108864', 'PIPELINING', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES'],
  );
  t.equal(await ask('MAIL FROM:<a@x.org> SIZE=20 BODY=8BITMIME'), '250 2.1.0 OK\r\n');
  t.equal(await ask('rcpt to:<b@y.org>'), '250 2.1.5 OK\r\n');
  t.equal(await ask('RCPT TO:<@relay.org:"c d"@y.org>'), '250 2.1.5 OK\r\n');
  t.match(await ask('DATA'), /^354 /);
  t.match(await ask('Subject: s\r\n\r\n..dot\r\n.'), /^250 2\.0\.0 /);
  t.match(await ask('QUIT'), /^221 /);
  await closed;
  t.same(mails, [
    { from: 'a@x.org', to: ['b@y.org', '"c d"@y.org'], raw: Buffer.from('Subject: s\r\n\r\n.dot\r\n') },
  ]);
});

t.test('wrong commands get the replies of RFC 5321', async (t) => {
  const { port } = await caughtBy({ limitBytes: 1000 });
  const tables = [
    [
      ['MAIL FROM:<a@x>', 503],
      ['RCPT TO:<a@x>', 503],
      ['DATA', 503],
      ['EHLO', 501],
      ['HELO me', 250],
      ['RCPT TO:<a@x>', 503],
      ['MAIL FROM:a@x', 501],
      ['MAIL TO:<a@x>', 501],
      ['MAIL FROM:<a>', 501],
      ['MAIL FROM:<a@x> FOO=1', 555],
      ['MAIL FROM:<a@x> SIZE=x', 555],
      ['MAIL FROM:<a@x> SIZE=1001', 552],
      ['MAIL FROM:<ż@x>', 553],
      ['MAIL FROM:<>', 250],
      ['MAIL FROM:<a@x>', 503],
      ['DATA', 503],
    ],
    [
      ['ehlo me', 250],
      ['MAIL FROM: <ż@x> SMTPUTF8', 250],
      ['RCPT TO:<>', 501],
      ['RCPT TO:<b@x> FOO', 555],
      ['RCPT TO:<Postmaster>', 250],
      ['DATA now', 501],
      ['RSET', 250],
      ['DATA', 503],
      ['MAIL FROM:<a@x>', 250],
      ['RCPT TO:<ż@x>', 553],
      ['EHLO again', 250],
      ['RCPT TO:<b@x>', 503],
      ['NOOP anything', 250],
      ['VRFY a', 252],
      ['VRFY', 501],
      ['STARTTLS', 502],
      ['AUTH PLAIN x', 502],
      ['HELP', 502],
      ['', 500],
      ['GET / HTTP/1.1', 500],
      ['\0\xff\x1b', 500],
      ['x'.repeat(5000), 500],
    ],
  ] as const;
  for (const table of tables) {
    const { ask } = await dial(port);
    for (const [line, code] of table) t.equal(Number((await ask(line)).slice(0, 3)), code, line.slice(0, 40));
  }
});

t.test('pipelined commands, two mails and a goodbye in one packet', async (t) => {
  const { port, mails } = await caughtBy();
  const { socket, codes, closed } = await dial(port);
  const one = (text: string) => `MAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nDATA\r\n${text}\r\n.\r\n`;
  socket.end(`EHLO me\r\n${one('first')}${one('second')}QUIT\r\n`);
  t.same(await codes(10), [250, 250, 250, 354, 250, 250, 250, 354, 250, 221]);
  await closed;
  t.same(
    mails.map(({ raw }) => String(raw)),
    ['first\r\n', 'second\r\n'],
  );
});

t.test('the 250 and the next command wait until the mail is kept', async (t) => {
  const keeping: ((error: Error) => void)[] = [];
  const onMail = () => new Promise<void>((_, reject) => keeping.push(reject));
  const { port } = await caughtBy({ onMail });
  const { socket, codes, hear } = await dial(port);
  socket.write(`${HELLO}.\r\nNOOP\r\n`);
  t.same(await codes(4), [250, 250, 250, 354]);
  while (keeping.length === 0) await new Promise(setImmediate);
  const reply = hear();
  const turn = new Promise<string>((resolve) => setImmediate(resolve, 'no reply yet'));
  t.equal(await Promise.race([reply, turn]), 'no reply yet');
  for (const refuse of keeping) refuse(new Error('disk full'));
  t.match(await reply, /^451 4\.3\.0 /);
  t.same(await codes(1), [250]);
});

t.test('a mail that is too large is refused, the next one accepted', async (t) => {
  const { port, mails } = await caughtBy({ limitBytes: 100_000 });
  const { socket, codes } = await dial(port);
  const mail = (size: number) =>
    `MAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nDATA\r\n${'x'.repeat(size - 2)}\r\n.\r\n`;
  socket.write(`EHLO me\r\n${mail(100_001)}${mail(100_000)}`);
  t.same(await codes(9), [250, 250, 250, 354, 552, 250, 250, 354, 250]);
  t.same(
    mails.map(({ raw }) => raw.length),
    [100_000],
  );
});

t.test('more than 1000 recipients are deferred', async (t) => {
  const { port } = await caughtBy();
  const { socket, codes } = await dial(port);
  socket.write(`EHLO me\r\nMAIL FROM:<a@x>\r\n${'RCPT TO:<b@x>\r\n'.repeat(1001)}`);
  t.same((await codes(1003)).slice(-2), [250, 452]);
});

t.test('after 21 mistakes the client is disconnected', async (t) => {
  const { port, mails } = await caughtBy();
  const { socket, codes, hear, closed } = await dial(port);
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n'.repeat(1000));
  t.same(await codes(22), [...Array(21).fill(500), 421]);
  t.equal(await hear(), '', 'nothing more is answered');
  await closed;
  t.same(mails, []);
});

t.test('an idle client is disconnected after 5 minutes', async (t) => {
  const { port, clock, mails } = await caughtBy();
  for (const said of ['', `${HELLO}half`]) {
    const { socket, codes, hear, closed } = await dial(port);
    socket.write(said);
    await codes(said.split('\r\n').length - 1);
    await clock.advance(299_999);
    t.equal(clock.nextInMs, 1, 'not before five minutes');
    await clock.advance(1);
    t.match(await hear(), /^421 4\.4\.2 /);
    await closed;
  }
  t.same(mails, []);
});

t.test('a slow client is not idle', async (t) => {
  const { port, clock } = await caughtBy();
  const { ask } = await dial(port);
  for (let count = 0; count < 3; count++) {
    await clock.advance(200_000);
    t.match(await ask('NOOP'), /^250 /);
  }
});

t.test('a client that has half-closed the connection still gets the reply', async (t) => {
  const clients: (() => void)[] = [];
  const { port } = await caughtBy({ onMail: () => new Promise((resolve) => clients.push(resolve)) });
  const { socket, codes, closed } = await dial(port);
  socket.write(`${HELLO}.\r\n`);
  t.same(await codes(4), [250, 250, 250, 354]);
  socket.end();
  // The catcher answers later clients after it has seen the end of this one.
  for (let count = 0; count < 3; count++) await (await dial(port)).ask('NOOP');
  for (const taken of clients) taken();
  t.same(await codes(1), [250]);
  await closed;
});

t.test('a client that still sends after QUIT gets the reply', async (t) => {
  const { port } = await caughtBy();
  const { socket, codes, closed } = await dial(port);
  socket.end(`QUIT\r\n${'x'.repeat(5_000_000)}`);
  t.same(await codes(1), [221]);
  await closed;
});

t.test('a client that does not close after QUIT is disconnected', async (t) => {
  const { port, clock } = await caughtBy();
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  socket.on('error', () => {});
  socket.write('QUIT\r\n');
  await once(socket.resume(), 'end');
  await clock.advance(2000);
  while (!socket.closed) {
    // A socket sees a reset only when it writes.
    socket.write('still here');
    await new Promise(setImmediate);
  }
  t.ok(socket.errored);
});

t.test('a client that reads no replies is disconnected', async (t) => {
  const { port } = await caughtBy();
  const { socket, closed } = await dial(port);
  socket.pause();
  // More than all buffers on the way hold: a socket sees a reset only while it writes.
  socket.write('EHLO me\r\n'.repeat(2_000_000));
  await closed;
  t.ok(socket.errored);
});

t.test('a broken connection leaves no mail, and the catcher still answers', async (t) => {
  const { port, mails } = await caughtBy();
  for (const said of ['EHLO', `${HELLO}half\r\n`]) {
    const { socket, codes, closed } = await dial(port);
    socket.write(said);
    await codes(said.split('\r\n').length - 2);
    socket.resetAndDestroy();
    await closed;
  }
  const { ask } = await dial(port);
  t.match(await ask('NOOP'), /^250 /);
  t.same(mails, []);
});

t.test('close() ends every session and frees the port', async (t) => {
  const { port, close } = await caughtBy();
  const { hear, closed } = await dial(port);
  await close();
  t.match(await hear(), /^421 4\.3\.2 /);
  await closed;
  const late = connect({ port, host: '127.0.0.1' });
  await t.rejects(once(late, 'connect'), { code: 'ECONNREFUSED' });
});

t.test('curl sends a mail', async (t) => {
  const { port, mails } = await caughtBy();
  const lines = ['Subject: from curl', '', '.', '..x', 'ż', '', ''].join('\r\n');
  const path = join(t.testdir(), 'mail');
  writeFileSync(path, lines);
  const run = promisify(execFile);
  const args = ['-sS', `smtp://127.0.0.1:${port}/me`, '--mail-from', 'a@x.org', '--mail-rcpt', 'b@y.org'];
  try {
    await run('curl', [...args, '--mail-rcpt', 'c@y.org', '-T', path]);
  } catch (error) {
    if ((error as { code: unknown }).code !== 'ENOENT') throw error;
    t.pass('skipped: there is no curl here');
    return;
  }
  t.same(mails, [{ from: 'a@x.org', to: ['b@y.org', 'c@y.org'], raw: Buffer.from(lines) }]);
});
