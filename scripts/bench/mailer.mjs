/** Hands mails of 1 KiB to an SMTP server over one kept connection; used by postfix.mjs and bytes.mjs. */
import { once } from 'node:events';
import { connect } from 'node:net';

const CONTENT = `From: bench@example.com\r\nTo: john@example.com\r\nSubject: Load\r\n\r\n${'x'.repeat(1024)}\r\n.\r\n`;

/** Opens the connection. `send` resolves when the server has taken one more mail. */
export async function openMailer(port) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  let text = '';
  const reply = async (code) => {
    while (!/^\d{3} .*\r\n/m.test(text)) text += (await once(socket, 'data'))[0].latin1Slice();
    if (!text.startsWith(code)) throw new Error(`answered ${text}`);
    text = '';
  };
  const say = (line, code = '250') => {
    socket.write(line);
    return reply(code);
  };
  await reply('220');
  await say('EHLO bench.example\r\n');
  return {
    send: async () => {
      await say('MAIL FROM:<bench@example.com>\r\n');
      await say('RCPT TO:<john@example.com>\r\n');
      await say('DATA\r\n', '354');
      await say(CONTENT);
    },
    close: () => socket.destroy(),
  };
}
