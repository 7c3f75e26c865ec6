/** The built daemon and hostile clients: they read no answers, announce bodies and send none, or are many. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { MIB } from '../../src/limits.js';
import { EMAIL, MESSAGES, requestText } from '../support/api.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';

/** MemoryMax= of the unit. */
const UNIT_BYTES = 128 * MIB;

const peakBytes = ({ child }: DaemonProcess) =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'latin1'))?.[1]) * 1024;
const url = ({ port }: DaemonProcess, path: string) => `http://127.0.0.1:${port}${path}`;
/** A request whose body never comes. */
const SILENT = requestText('POST', MESSAGES, { 'Content-Type': 'application/json' }, 9);

const start = (t: Test) =>
  startIn(t, {
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_FROM: 'd@example.com',
    // The unit's memory limit makes the program set these; without one V8 sizes its heap by the machine.
    NODE_OPTIONS: '--max-old-space-size=64 --max-semi-space-size=1',
  });

/** Queues 1,000 messages with long addresses, so that a page of the listing is large. */
async function fill({ api }: DaemonProcess): Promise<void> {
  const destination = `${'a'.repeat(64)}@${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(50)}.example`;
  for (let i = 0; i < 10; i++) {
    const { status, text } = await api('messages', Array(100).fill({ type: 1, destination, subject: 'x' }));
    if (status !== 202) throw new Error(text);
  }
}

/** A connection that reads no answer. */
async function mute(t: Test, daemon: DaemonProcess, bytes: string): Promise<Socket> {
  const socket = connect({ port: daemon.port, host: '127.0.0.1', allowHalfOpen: true });
  socket.pause().on('error', () => undefined);
  t.teardown(() => socket.destroy());
  await once(socket, 'connect');
  socket.write(bytes);
  return socket;
}

/** Asks until the daemon is no longer busy, and waits as Retry-After says. */
async function patiently(daemon: DaemonProcess, path: string): Promise<Response> {
  for (;;) {
    const answer = await fetch(url(daemon, path), { headers: { Connection: 'close' } });
    if (answer.status !== 503) return answer;
    await answer.text();
    await pause(Number(answer.headers.get('retry-after')) * 1000);
  }
}

t.test('hostile clients', needsProgram, async (t) => {
  t.test('clients that do not read their answers fill no memory', async (t) => {
    const daemon = await start(t);
    await fill(daemon);
    const ask = requestText('GET', `${MESSAGES}?limit=1000`);
    const clients = await Promise.all(Array.from({ length: 60 }, () => mute(t, daemon, ask.repeat(16))));
    // Part of an answer has arrived on each.
    await Promise.all(
      clients.map(async (socket) => {
        if (socket.readableLength === 0) await once(socket, 'readable');
      }),
    );
    const page = await patiently(daemon, `${MESSAGES}?limit=1000`);
    t.equal(
      ((await page.json()) as { messages: unknown[] }).messages.length,
      1000,
      'another client gets its answer',
    );
    const peak = peakBytes(daemon);
    t.comment(`peak ${(peak / MIB).toFixed(0)} MiB`);
    t.ok(peak < UNIT_BYTES, 'it stays below the memory limit of the unit');
    t.equal(daemon.child.exitCode, null);
  });

  t.test('200 clients at once all get an answer', async (t) => {
    const daemon = await start(t);
    const body = JSON.stringify([EMAIL]);
    const head = requestText('POST', MESSAGES, { 'Content-Type': 'application/json' }, body.length);
    const ask = `${head}${body}`;
    const firstLines = await Promise.all(Array.from({ length: 200 }, () => firstLine(daemon, ask)));
    t.same([...new Set(firstLines)], ['HTTP/1.1 202 Accepted']);
  });

  t.test('clients beyond the limit are told to try later', async (t) => {
    const daemon = await start(t);
    const firstLines = await Promise.all(Array.from({ length: 400 }, () => firstLine(daemon, SILENT)));
    // 503: try later. 408: the body did not come.
    const known = ['HTTP/1.1 408 Request Timeout', 'HTTP/1.1 503 Service Unavailable'];
    t.same([...new Set(firstLines)].sort(), known);
  });

  t.test('clients that announce a body and send none shut nobody out', async (t) => {
    const daemon = await start(t);
    await Promise.all(Array.from({ length: 64 }, () => mute(t, daemon, SILENT)));
    const headers = { Connection: 'close' };
    for (let i = 0; i < 3; i++) {
      t.equal((await fetch(url(daemon, '/healthz'), { headers })).status, 200);
      // The next silent client takes the free place.
      await mute(t, daemon, SILENT);
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
