/** The peer's side of ../sending.mjs: nodemailer's pool with one connection that is kept. */
import { Readable } from 'node:stream';
import nodemailer from 'nodemailer';

/** Makes the pool; each call resolves when its message was taken. */
export async function connect(port) {
  const pool = nodemailer.createTransport({
    host: '127.0.0.1',
    port,
    pool: true,
    maxConnections: 1,
    maxMessages: Number.POSITIVE_INFINITY,
    ignoreTLS: true,
  });
  return {
    sendText: ({ from, to, subject, plain }) => pool.sendMail({ from, to, subject, text: plain }),
    sendFile: ({ from, to, subject, file }) =>
      pool.sendMail({ from, to, subject, attachments: [{ path: file.path, filename: 'file.bin' }] }),
    // Ready-made, as in our turn: nothing is encoded on the way.
    sendStream: ({ from, to, content }) =>
      pool.sendMail({ envelope: { from, to }, raw: Readable.from(content, { objectMode: false }) }),
    close: async () => pool.close(),
  };
}
