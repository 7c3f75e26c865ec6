/**
 * An SMTP server by other people, the package smtp-server, on a free port: for tests that must not trust our own relay.
 */
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server';

export interface OtherRelay extends AsyncDisposable {
  readonly port: number;
  /** FIELDPOST_RELAY for it, without TLS. */
  readonly url: string;
  /** Resolves when that many mails have been taken. */
  arrived(count: number): Promise<void>;
  /** Ends every connection. */
  drop(): void;
  close(): Promise<void>;
}

interface OtherRelayOptions extends SMTPServerOptions {
  /** Reads a mail; it is taken when this resolves. Without it, mails are read and not kept. */
  readonly onMail?: (mail: AsyncIterable<Buffer>, session: SMTPServerSession) => Promise<void> | void;
  /** Whether a new connection is kept. */
  readonly isHeard?: () => boolean;
}

/** Starts one that offers neither TLS nor a login unless the options say so. */
export async function otherRelay(options: OtherRelayOptions = {}): Promise<OtherRelay> {
  const { onMail = ignore, isHeard = () => true, ...more } = options;
  let taken = 0;
  const sockets = new Set<Socket>();
  const server = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    logger: false,
    ...more,
    async onData(stream, session, done) {
      try {
        await onMail(stream as AsyncIterable<Buffer>, session);
        done();
        taken++;
        server.emit('taken');
      } catch (error) {
        done(error as Error);
      }
    },
  });
  // A daemon that stops in the middle of a mail may reset the connection.
  server.on('error', () => undefined);
  server.server.on('connection', (socket: Socket) => {
    if (!isHeard()) socket.destroy();
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  const drop = () => {
    for (const socket of sockets) socket.destroy();
  };
  const close = async () => {
    drop();
    if (server.server.listening) await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  const { port } = server.server.address() as AddressInfo;
  return {
    port,
    url: `smtp://127.0.0.1:${port}?tls=never`,
    async arrived(count) {
      while (taken < count) await once(server, 'taken');
    },
    drop,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** The whole of a mail. */
export async function contentOf(mail: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of mail) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function ignore(mail: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of mail);
}
