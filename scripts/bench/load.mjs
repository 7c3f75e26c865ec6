/**
 * The load generator, a separate process: each keep-alive connection posts the next message after the last answer. Raw
 * sockets and prepared bytes keep its own cost low. It reads its orders as JSON from its argument, and prints its counts
 * as JSON.
 */
import { connect } from 'node:net';

/** @type {{port: number, connections: number, plainBytes: number, batch: number, warmMs: number, ms?: number, count?: number}} */
const orders = JSON.parse(process.argv[2] ?? '{}');
const request = requestOf(orders.batch, orders.plainBytes);
let sent = 0;
let accepted = 0;
let counting = false;
let over = false;

function requestOf(batch, plainBytes) {
  const message = {
    type: 1,
    destination: 'john@example.com',
    subject: 'Load',
    plain: 'x'.repeat(plainBytes),
  };
  const body = JSON.stringify(Array(batch).fill(message));
  const head = `POST /api/internal/messages HTTP/1.1\r\nHost: 127.0.0.1:${orders.port}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  return Buffer.from(head + body);
}

/** Answers the length of a whole response at the start of `text`, or 0 while there is more to come. */
function lengthOf(text) {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return 0;
  if (!text.startsWith('HTTP/1.1 202')) throw new Error(`refused: ${text}`);
  const length = end + 4 + Number(/content-length: *(\d+)/i.exec(text)?.[1]);
  return text.length >= length ? length : 0;
}

function client() {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: orders.port, host: '127.0.0.1', noDelay: true });
    let text = '';
    const next = () => {
      if (over || sent === orders.count) {
        socket.end();
        return;
      }
      sent += 1;
      socket.write(request);
    };
    socket.on('connect', next);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      const length = lengthOf(text);
      if (length === 0) return;
      text = text.slice(length);
      if (counting) accepted += 1;
      next();
    });
    socket.on('error', reject);
    socket.on('close', resolve);
  });
}

let began = performance.now();
if (orders.ms === undefined) counting = true;
else {
  setTimeout(() => {
    counting = true;
    began = performance.now();
    setTimeout(() => {
      over = true;
      report();
    }, orders.ms);
  }, orders.warmMs);
}
await Promise.all(Array.from({ length: orders.connections }, client));
if (orders.ms === undefined) report();

function report() {
  console.log(JSON.stringify({ accepted, ms: performance.now() - began }));
}
