/** A mail relay that accepts and drops all mail. It knows as much SMTP as a delivery needs, pipelined or not. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { portOf } from './port.mjs';

/**
 * Listens on a free loopback port; `onMessage` is called after each final dot was answered. It answers commands that arrive
 * together in one packet (RFC 2920 §3.2). With `nagle` each reply is a write of its own, and the kernel holds it back while an
 * earlier one is not acknowledged.
 */
export async function startRelay(onMessage = () => {}, { nagle = false } = {}) {
  const server = createServer({ noDelay: !nagle }, (socket) => serve(socket, onMessage, nagle));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const sockets = new Set();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { port: portOf(server), close };
}

function serve(socket, onMessage, nagle) {
  let text = '';
  let inData = false;
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    if (!nagle) socket.cork();
    read(chunk.latin1Slice());
    socket.uncork();
  });
  const read = (more) => {
    text += more;
    for (;;) {
      const ending = inData ? '\r\n.\r\n' : '\r\n';
      const end = text.indexOf(ending);
      if (end < 0) {
        // Keep only the last bytes of the content: they may begin its end.
        if (inData) text = text.slice(1 - ending.length);
        return;
      }
      const line = text.slice(0, end);
      text = text.slice(end + ending.length);
      if (inData) {
        inData = false;
        socket.write('250 2.0.0 taken\r\n');
        onMessage();
        continue;
      }
      const verb = line.slice(0, 4).toUpperCase();
      inData = verb === 'DATA';
      if (verb === 'EHLO')
        socket.write('250-relay\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SIZE 52428800\r\n');
      else if (verb === 'QUIT') socket.end('221 2.0.0 bye\r\n');
      else socket.write(inData ? '354 go on\r\n' : '250 2.0.0 ok\r\n');
    }
  };
  socket.write('220 relay ESMTP\r\n');
}
