/**
 * Uploads one file, in a separate process. A raw socket and prepared bytes keep its own cost low. It reads
 * `{port, bytes}` as JSON from its argument, and prints `{ms}`.
 */
import { randomFillSync } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';

const { port, bytes } = JSON.parse(process.argv[2] ?? '{}');
const PIECE = randomFillSync(Buffer.alloc(2 ** 20));
const BOUNDARY = '----WebKitFormBoundary7MA4YWxkTrZu0gW';
const part = (name, more) => `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n`;
const front = `${part('destination', '')}john@example.com\r\n${part('subject', '')}Load\r\n${part('file', '; filename="load.bin"')}`;
const back = `\r\n--${BOUNDARY}--\r\n`;

const socket = connect({ port, host: '127.0.0.1' });
await once(socket, 'connect');
const answered = once(socket, 'data');
const began = performance.now();
socket.write(
  `POST /api/internal/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=${BOUNDARY}\r\nContent-Length: ${front.length + bytes + back.length}\r\n\r\n${front}`,
);
for (let left = bytes; left > 0; left -= PIECE.length) {
  if (!socket.write(left < PIECE.length ? PIECE.subarray(0, left) : PIECE)) await once(socket, 'drain');
}
socket.write(back);
const [answer] = await answered;
if (!answer.latin1Slice().startsWith('HTTP/1.1 202')) throw new Error(`refused: ${answer}`);
console.log(JSON.stringify({ ms: performance.now() - began }));
socket.destroy();
