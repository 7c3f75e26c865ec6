/** The SMTP server of the built daemon: clients that keep it busy, and those that make mistakes. */
import { once } from 'node:events';
import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { SMTP_COMMANDS_MAX, SMTP_STRANGER_COMMANDS_MAX } from '../../src/mail/smtp-server/session.js';
import { Client } from '../smtp-server/door.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';

/** As many as the server takes, but for a few. */
const STREAMS = 28;
const COMMANDS = ['NOOP', 'RSET', 'HELP', 'VRFY root'];

async function start(t: Test, env: Readonly<Record<string, string>> = {}) {
  const daemon = await startIn(t, {
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_FROM: 'pump@example.com',
    FIELDPOST_SMTP_LISTEN: '127.0.0.1:0',
    ...env,
  });
  const port = daemon.lines.map((line) => /started .*smtp=[^ ]*?:(\d+)/.exec(line)?.[1]).find(Boolean);
  return { daemon, port: Number(port) };
}

/** A client that never stops to send a command, and counts the lines of the replies. */
async function stream(t: Test, port: number, command: string) {
  const socket = connect({ port, host: '127.0.0.1' }).on('error', () => undefined);
  t.teardown(() => socket.destroy());
  let heard = '';
  socket.setEncoding('latin1').on('data', (text) => {
    heard += text;
  });
  const ended = once(socket, 'end');
  await once(socket, 'data');
  const lines = Buffer.from(`${command}\r\n`.repeat(5000));
  const send = () => {
    while (!socket.destroyed && socket.write(lines));
  };
  socket.on('drain', send);
  send();
  return { ended, replies: () => heard.match(/^\d{3} .*$/gm) ?? [] };
}

async function health({ port }: DaemonProcess) {
  return (await fetch(`http://127.0.0.1:${port}/healthz`)).status;
}

for (const [who, env, commandsMax] of [
  ['clients', {}, SMTP_COMMANDS_MAX],
  ['strangers', { FIELDPOST_API_TOKEN: 'a-token-of-16-chars' }, SMTP_STRANGER_COMMANDS_MAX],
] as const) {
  t.test(`${STREAMS} ${who} that stream commands keep nobody waiting`, needsProgram, async (t) => {
    const { daemon, port } = await start(t, env);
    const streams = await Promise.all(
      Array.from({ length: STREAMS }, (_, n) => stream(t, port, COMMANDS[n % COMMANDS.length] ?? '')),
    );
    t.equal(await health(daemon), 200);
    const answered = streams.reduce((sum, { replies }) => sum + replies().length, 0);
    t.comment(`${answered} commands were answered before /healthz was`);
    t.ok(answered <= STREAMS * (commandsMax + 2));
    await Promise.all(streams.map(({ ended }) => ended));
    for (const { replies } of streams) {
      t.equal(replies().length, commandsMax + 2, 'the greeting, and the refusal');
      t.equal(replies().at(-1), '421 4.7.0 Too many commands without a mail');
    }
  });
}

t.test('21 mails over one connection, each with a wrong recipient', needsProgram, async (t) => {
  const { daemon, port } = await start(t);
  const client = new Client(connect({ port, host: '127.0.0.1' }));
  t.teardown(() => client.socket.destroy());
  await client.hear();
  await client.ask('EHLO logger');
  for (let n = 0; n < 21; n++) {
    const group = `MAIL FROM:<pump@example.com>\r\nRCPT TO:<x@y@z>\r\nRCPT TO:<ops${n}@example.com>\r\nDATA\r\n`;
    t.same(await client.codes(group, 4), [250, 553, 250, 354]);
    t.match(await client.ask('Subject: s\r\n\r\nhi\r\n.'), /^250 2\.0\.0 queued as /);
  }
  const { messages } = (await daemon.api('messages')).json;
  t.same(
    messages.map(({ destination }: { destination: string }) => destination).sort(),
    Array.from({ length: 21 }, (_, n) => `ops${n}@example.com`).sort(),
  );
});
