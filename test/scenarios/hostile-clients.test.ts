/** Clients of the built daemon read no answers, or send each octet by itself: its memory stays below the limit of the unit. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { MIB } from '../../src/base/limits.js';
import { MESSAGES, requestText } from '../support/api.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';

/** MemoryMax= of the unit. */
const UNIT_BYTES = 128 * MIB;

/** The unit's memory limit makes the program set these; without one V8 sizes its heap by the machine. */
const UNIT_HEAP = '--max-old-space-size=64 --max-semi-space-size=1';

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
    NODE_OPTIONS: UNIT_HEAP,
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

/** The body with each octet as a chunk of its own. */
function inOctets(body: string): Buffer {
  const chunks = Array.from(Buffer.from(body, 'latin1'), (octet) => `1\r\n${String.fromCharCode(octet)}\r\n`);
  return Buffer.from(`${chunks.join('')}0\r\n\r\n`, 'latin1');
}

/** Posts the body in chunks of one octet, over so many connections at once. Gives the first lines of the answers. */
async function postInOctets(
  { port }: DaemonProcess,
  [type, body, path = MESSAGES]: readonly [type: string, body: string, path?: string],
  connections = 1,
): Promise<readonly string[]> {
  const bytes = inOctets(body);
  const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`;
  return await Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = connect({ port, host: '127.0.0.1' });
      socket.write(head);
      socket.write(bytes);
      let answer = '';
      socket.on('data', (bytes) => (answer += bytes));
      // A daemon without processor time may find that a request came too slowly, and reset the connection.
      await new Promise((resolve) => socket.on('error', () => undefined).on('close', resolve));
      return answer.slice(0, answer.indexOf('\r\n'));
    }),
  );
}

const SMALL_MAIL = { type: 1, destination: 'john@example.com', subject: 'x' };
const part = (head: string, text: string) =>
  `--B\r\nContent-Disposition: form-data; ${head}\r\n\r\n${text}\r\n`;
const FORM = 'multipart/form-data; boundary=B';
const ADDRESSED = part('name="destination"', 'john@example.com') + part('name="subject"', 'x');
const MAIL = `${MESSAGES}?to=john@example.com`;
const OCTETS = {
  'JSON of 900 KB': ['application/json', JSON.stringify([{ ...SMALL_MAIL, plain: 'y'.repeat(900_000) }])],
  'a field of 250 KB': [FORM, `${ADDRESSED}${part('name="plain"', 'y'.repeat(250_000))}--B--\r\n`],
  'a file of 250 KB': [FORM, `${ADDRESSED}${part('name="f"; filename="f"', 'y'.repeat(250_000))}--B--\r\n`],
  'a mail of 250 KB': ['message/rfc822', `Subject: x\r\n\r\n${'yyyyyyyy\r\n'.repeat(25_000)}`, MAIL],
} as const;

for (const [name, body] of Object.entries(OCTETS)) {
  t.test(`${name} in chunks of one octet takes little memory`, needsProgram, async (t) => {
    const daemon = await startIn(t, {
      FIELDPOST_STATE_DIR: t.testdir(),
      FIELDPOST_FROM: 'd@example.com',
      NODE_OPTIONS: UNIT_HEAP,
    });
    const before = peakBytes(daemon);
    t.same(await postInOctets(daemon, body), ['HTTP/1.1 202 Accepted']);
    const grown = peakBytes(daemon) - before;
    t.comment(`grown by ${(grown / MIB).toFixed(0)} MiB`);
    t.ok(grown < 32 * MIB, 'a Buffer for each octet takes 75 MiB and more');
  });
}

t.test(
  'many files in chunks of one octet, which wait for the disk, fit into memory',
  needsProgram,
  async (t) => {
    const daemon = await startIn(t, {
      FIELDPOST_STATE_DIR: t.testdir(),
      FIELDPOST_FROM: 'd@example.com',
      NODE_OPTIONS: UNIT_HEAP,
    });
    const file = `${ADDRESSED}${part('name="f"; filename="f"', 'y'.repeat(25_000))}--B--\r\n`;
    const answers = await postInOctets(daemon, [FORM, file], 50);
    t.ok(answers.includes('HTTP/1.1 202 Accepted'), [...new Set(answers)].join());
    t.equal(daemon.child.exitCode, null);
    const peak = peakBytes(daemon);
    t.comment(`peak ${(peak / MIB).toFixed(0)} MiB`);
    t.ok(peak < UNIT_BYTES, 'it stays below the memory limit of the unit');
  },
);
