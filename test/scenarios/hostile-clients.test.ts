/** The built daemon and hostile clients: they read no answers, do not send what they announced, or are many. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { MIB } from '../../src/limits.js';
import { type DaemonProcess, isBuilt, startIn } from '../support/daemon.js';

const MESSAGES = '/api/internal/messages';
/** MemoryMax= of the unit. */
const UNIT_BYTES = 128 * MIB;

const peakBytes = ({ child }: DaemonProcess) =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'latin1'))?.[1]) * 1024;
const url = ({ port }: DaemonProcess, path: string) => `http://127.0.0.1:${port}${path}`;

async function start(t: Test): Promise<DaemonProcess> {
  const daemon = await startIn(t, {
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_FROM: 'd@example.com',
    // As in the unit, where the program keeps its heap short by itself: else V8 has the machine's memory to fill.
    NODE_OPTIONS: '--max-old-space-size=64 --max-semi-space-size=1',
  });
  return daemon;
}

/** Fills the queue, so that a page of the listing is large. */
async function fill(daemon: DaemonProcess, count: number): Promise<void> {
  const destination = `${'a'.repeat(64)}@${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(50)}.example`;
  const body = JSON.stringify(Array(100).fill({ type: 1, destination, subject: 'x' }));
  for (let i = 0; i < count / 100; i++) {
    const headers = { 'Content-Type': 'application/json' };
    const answer = await fetch(url(daemon, MESSAGES), { method: 'POST', headers, body });
    if (answer.status !== 202) throw new Error(await answer.text());
    await answer.text();
  }
}

/** A connection that reads nothing of what it is answered. */
async function mute(t: Test, daemon: DaemonProcess, bytes: string): Promise<Socket> {
  const socket = connect({ port: daemon.port, host: '127.0.0.1', allowHalfOpen: true });
  socket.pause().on('error', () => undefined);
  t.teardown(() => socket.destroy());
  await once(socket, 'connect');
  socket.write(bytes);
  return socket;
}

/** Asks until the daemon is no longer too busy, as it says one should. */
async function patiently(daemon: DaemonProcess, path: string): Promise<Response> {
  for (;;) {
    const answer = await fetch(url(daemon, path), { headers: { Connection: 'close' } });
    if (answer.status !== 503) return answer;
    await answer.text();
    await pause(Number(answer.headers.get('retry-after')) * 1000);
  }
}

const options = { skip: isBuilt ? false : 'the program is not built' };
t.test('hostile clients', options, async (t) => {
  t.test('who does not read fills no memory', async (t) => {
    const daemon = await start(t);
    await fill(daemon, 1000);
    const ask = `GET ${MESSAGES}?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n`;
    const clients = await Promise.all(Array.from({ length: 60 }, () => mute(t, daemon, ask.repeat(16))));
    // Something has come on each, though nobody takes it.
    await Promise.all(
      clients.map(async (socket) => {
        if (socket.readableLength === 0) await once(socket, 'readable');
      }),
    );
    const page = await patiently(daemon, `${MESSAGES}?limit=1000`);
    t.equal(((await page.json()) as { messages: unknown[] }).messages.length, 1000, 'others are answered');
    const peak = peakBytes(daemon);
    t.comment(`peak ${(peak / MIB).toFixed(0)} MiB`);
    t.ok(peak < UNIT_BYTES, 'in the memory that the unit gives it');
    t.equal(daemon.child.exitCode, null);
  });

  t.test('200 at the same time are all answered', async (t) => {
    const daemon = await start(t);
    const body = JSON.stringify([{ type: 1, destination: 'john@example.com', subject: 'x' }]);
    const head = `POST ${MESSAGES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n`;
    const ask = `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
    const firstLines = await Promise.all(Array.from({ length: 200 }, () => firstLine(daemon, ask)));
    t.same([...new Set(firstLines)], ['HTTP/1.1 202 Accepted']);
  });

  t.test('more than can be served, or wait, are told so', async (t) => {
    const daemon = await start(t);
    const silent = `POST ${MESSAGES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n`;
    const firstLines = await Promise.all(Array.from({ length: 400 }, () => firstLine(daemon, silent)));
    // Each has been told something: to try later, or that its body did not come.
    const known = ['HTTP/1.1 408 Request Timeout', 'HTTP/1.1 503 Service Unavailable'];
    t.same([...new Set(firstLines)].sort(), known);
  });

  t.test('those who announce a body and send none keep nobody out', async (t) => {
    const daemon = await start(t);
    const silent = `POST ${MESSAGES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n`;
    await Promise.all(Array.from({ length: 64 }, () => mute(t, daemon, silent)));
    const headers = { Connection: 'close' };
    for (let i = 0; i < 3; i++) {
      t.equal((await fetch(url(daemon, '/healthz'), { headers })).status, 200);
      // Its place is taken at once.
      await mute(t, daemon, silent);
    }
  });
});

/** The first line of the answer to these bytes; empty if there was none. */
async function firstLine({ port }: DaemonProcess, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  const ended = Promise.race([once(socket, 'data'), once(socket, 'close')]).catch(() => undefined);
  socket.write(bytes);
  await ended;
  socket.destroy();
  return Buffer.concat(chunks).toString().split('\r\n', 1)[0] ?? '';
}
