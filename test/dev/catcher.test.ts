import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { t } from 'tap';
import { type CatcherOptions, type CaughtMail, openCatcher } from '../../src/dev/catcher.js';
import { FakeClock, settled, withoutPauses } from '../support/clock.js';

async function caughtBy(options: Partial<CatcherOptions> = {}) {
  const mails: CaughtMail[] = [];
  const clock = withoutPauses(new FakeClock());
  const quiet = () => undefined;
  const log = { debug: quiet, info: quiet, warn: quiet, error: quiet };
  const onMail = async (mail: CaughtMail) => void mails.push(mail);
  const catcher = await openCatcher({ clock, log, onMail, ...options });
  t.teardown(() => catcher.close());
  return { ...catcher, mails };
}

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
  const ask = async (line: string) => {
    socket.write(`${line}\r\n`);
    return hear();
  };
  t.match(await hear(), /^220 /);
  return { hear, ask, closed };
}

t.test('a mail, and one that cannot be kept', async (t) => {
  let isFull = false;
  const onMail = async () => {
    if (isFull) throw new Error('disk full');
  };
  const { ask, closed } = await dial((await caughtBy({ onMail })).port);
  for (const code of [250, 451]) {
    for (const line of ['EHLO me', 'MAIL FROM:<>', 'RCPT TO:<postmaster>']) t.match(await ask(line), /^250/);
    t.match(await ask('DATA'), /^354 /);
    t.equal(Number((await ask('hi\r\n.')).slice(0, 3)), code);
    isFull = true;
  }
  t.match(await ask('QUIT'), /^221 /);
  await closed;
});

t.test('a mail that is too large is refused, the next one accepted', async (t) => {
  const { port, mails } = await caughtBy({ limitBytes: 100_000 });
  const { ask } = await dial(port);
  t.match(await ask('EHLO me'), /SIZE 100000\r\n/);
  for (const [size, code] of [
    [100_001, 552],
    [100_000, 250],
  ] as const) {
    for (const line of ['MAIL FROM:<a@x>', 'RCPT TO:<b@x>', 'DATA']) await ask(line);
    t.equal(Number((await ask(`${'x'.repeat(size - 2)}\r\n.`)).slice(0, 3)), code);
  }
  t.same(
    mails.map(({ from, to, raw }) => [from, to, raw.length]),
    [['a@x', ['b@x'], 100_000]],
  );
});

t.test('close() waits for a mail that is being kept, ends every session and frees the port', async (t) => {
  const keeping: (() => void)[] = [];
  const onMail = () => new Promise<void>((resolve) => keeping.push(resolve));
  const { port, close } = await caughtBy({ onMail });
  const idle = await dial(port);
  const busy = await dial(port);
  for (const line of ['EHLO me', 'MAIL FROM:<a@x>', 'RCPT TO:<b@x>', 'DATA']) await busy.ask(line);
  const reply = busy.ask('hi\r\n.');
  while (keeping.length === 0) await settled();
  const closing = close();
  t.match(await idle.hear(), /^421 4\.3\.2 /);
  await idle.closed;
  for (const kept of keeping) kept();
  t.match(await reply, /^250 /);
  t.match(await busy.hear(), /^421 4\.3\.2 /);
  await closing;
  await busy.closed;
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
