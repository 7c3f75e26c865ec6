/** Many clients of the built daemon read no answers: its memory stays below the limit of the unit. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { MIB } from '../../src/limits.js';
import { MESSAGES, requestText } from '../support/api.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';

/** MemoryMax= of the unit. */
const UNIT_BYTES = 128 * MIB;

const peakBytes = ({ child }: DaemonProcess) =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'latin1'))?.[1]) * 1024;

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
async function patiently({ api }: DaemonProcess, path: string) {
  for (;;) {
    const { status, headers, json } = await api(path);
    if (status !== 503) return json;
    await pause(Number(headers.get('retry-after')) * 1000);
  }
}

t.test('clients that do not read their answers fill no memory', needsProgram, async (t) => {
  const daemon = await startIn(t, {
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_FROM: 'd@example.com',
    // The unit's memory limit makes the program set these; without one V8 sizes its heap by the machine.
    NODE_OPTIONS: '--max-old-space-size=64 --max-semi-space-size=1',
  });
  await fill(daemon);
  const ask = requestText('GET', `${MESSAGES}?limit=1000`);
  const clients = await Promise.all(Array.from({ length: 60 }, () => mute(t, daemon, ask.repeat(16))));
  // Part of an answer has arrived on each.
  await Promise.all(
    clients.map(async (socket) => {
      if (socket.readableLength === 0) await once(socket, 'readable');
    }),
  );
  const { messages } = await patiently(daemon, 'messages?limit=1000');
  t.equal(messages.length, 1000, 'another client gets its answer');
  const peak = peakBytes(daemon);
  t.comment(`peak ${(peak / MIB).toFixed(0)} MiB`);
  t.ok(peak < UNIT_BYTES, 'it stays below the memory limit of the unit');
  t.equal(daemon.child.exitCode, null);
});
