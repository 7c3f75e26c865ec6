/**
 * Our side of sending.mjs: the session and the rendering of the daemon, without its queue. senders.mjs bundles
 * this from src.
 */
import { basename, dirname } from 'node:path';
import { openSession } from '../../src/delivery/smtp/smtp-session.ts';
import { render } from '../../src/mime/letter.ts';
import { Spool } from '../../src/store/spool.ts';
import { systemClock } from '../../src/system/clock.ts';
import { createConnect } from '../../src/system/connect.ts';
import { systemDisk } from '../../src/system/disk.ts';

/** Opens a session; each call resolves when its message was taken. */
export async function connect(port) {
  const clock = systemClock();
  const session = await openSession({
    relay: { host: '127.0.0.1', port, tls: 'never', user: null },
    password: null,
    ca: null,
    helo: 'bench',
    timeoutMs: 60_000,
    clock,
    connect: createConnect({ clock }),
  });
  const send = async (envelope, content) => {
    const ending = await session.send({ ...envelope, smtpUtf8: false }, content);
    if (ending.reply?.code !== 250) throw new Error(`not taken: ${JSON.stringify(ending)}`);
  };
  const sendText = ({ from, to, subject, plain = '', n, attachments = [] }) => {
    const { size, bytes } = render({
      from,
      to,
      content: { subject, plain, html: '' },
      messageId: `${n}@example.com`,
      dateMs: Date.now(),
      attachments,
    });
    return send({ from, to, size }, bytes);
  };
  return {
    sendText,
    sendFile: ({ file: { path, ...file }, ...letter }) => {
      const spool = new Spool(systemDisk(), dirname(path), () => []);
      const kept = { ...file, id: basename(path), name: 'file.bin', type: 'application/octet-stream' };
      return sendText({ ...letter, attachments: [{ ...kept, open: () => spool.read(kept) }] });
    },
    sendStream: ({ from, to, size, content }) => send({ from, to, size }, content),
    close: () => session.close(),
  };
}
