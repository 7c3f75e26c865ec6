/**
 * Our side of sending.mjs: the session and the rendering of the daemon, without its queue. senders.mjs bundles
 * this from src.
 */
import { basename, dirname } from 'node:path';
import { systemClock } from '../../src/base/system/clock.js';
import { createConnect } from '../../src/base/system/connect.js';
import { systemDisk } from '../../src/base/system/disk.js';
import { openSession } from '../../src/mail/delivery/smtp/session.js';
import { type Address, parseAddress } from '../../src/mail/message/address.js';
import { type LetterFile, render } from '../../src/mail/mime/letter.js';
import { Spool } from '../../src/mail/store/spool.js';

/** What sending.mjs sends, and the envelope of it. */
interface Text {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly plain?: string;
  /** Different for each message. */
  readonly n: string;
}

/** A file as the spool knows it. */
interface SpoolFile {
  readonly path: string;
  readonly size: number;
  readonly crc: number;
}

/** Content that is ready-made. */
interface Stream {
  readonly from: string;
  readonly to: string;
  readonly size: number;
  readonly content: AsyncIterable<Buffer>;
}

/** Opens a session; each call resolves when its message was taken. */
export async function connect(port: number) {
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
  const send = async (from: Address, to: Address, size: number, content: Buffer | AsyncIterable<Buffer>) => {
    const ending = await session.send({ from, to, size, smtpUtf8: false }, content);
    if (!('reply' in ending) || ending.reply.code !== 250)
      throw new Error(`not taken: ${JSON.stringify(ending)}`);
  };
  const sendText = (text: Text, attachments: readonly LetterFile[] = []) => {
    const [from, to] = [addressOf(text.from), addressOf(text.to)];
    const { size, bytes } = render({
      from: { name: '', address: from },
      to: [{ name: '', address: to }],
      content: { subject: text.subject, plain: text.plain ?? '', html: '' },
      messageId: `${text.n}@example.com`,
      dateMs: Date.now(),
      attachments,
    });
    return send(from, to, size, bytes);
  };
  return {
    sendText: (text: Text) => sendText(text),
    sendFile: ({ file: { path, ...file }, ...text }: Text & { readonly file: SpoolFile }) => {
      const spool = new Spool(systemDisk(), dirname(path), () => new Uint8Array());
      const kept = { ...file, id: basename(path), name: 'file.bin', type: 'application/octet-stream' };
      return sendText(text, [{ ...kept, open: () => spool.read(kept) }]);
    },
    sendStream: ({ from, to, size, content }: Stream) => send(addressOf(from), addressOf(to), size, content),
    close: () => session.close(),
  };
}

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address === null) throw new Error(`not an address: ${text}`);
  return address;
}
