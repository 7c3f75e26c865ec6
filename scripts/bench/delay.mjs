/**
 * A TCP proxy with a round trip of `roundTripMs`, in a process of its own; senders.mjs forks it. It forwards each chunk to
 * `port` half a round trip after its arrival, in order. It reports its own port.
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { portOf } from './port.mjs';

const { port, roundTripMs } = JSON.parse(process.argv[2] ?? '{}');
// A timer of Node.js is up to 1 ms late.
const TIMER_LATE_MS = 2;

/** Returns a function that has actions run half a round trip later, in order and to the microsecond. */
function line() {
  const waiting = [];
  const pump = () => {
    while (waiting.length > 0 && waiting[0].atMs <= performance.now()) waiting.shift().action();
    if (waiting.length === 0) return;
    const leftMs = waiting[0].atMs - performance.now();
    if (leftMs > TIMER_LATE_MS) setTimeout(pump, leftMs - TIMER_LATE_MS);
    else setImmediate(pump);
  };
  return (action) => {
    waiting.push({ action, atMs: performance.now() + roundTripMs / 2 });
    if (waiting.length === 1) pump();
  };
}

function forward(from, to) {
  const later = line();
  from.on('data', (chunk) => later(() => to.write(chunk)));
  from.on('end', () => later(() => to.end()));
  from.on('error', () => to.destroy());
}

const server = createServer({ noDelay: true, allowHalfOpen: true }, (sender) => {
  // The kernel has taken the connection at once. Over a real link the handshake takes one and a half round trips.
  setTimeout(() => {
    const relay = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    forward(sender, relay);
    forward(relay, sender);
  }, roundTripMs * 1.5);
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.send?.(portOf(server));
