/**
 * Attachments in the built daemon: a file far larger than its memory, many clients of which half disconnect, and a relay
 * that takes only small mails.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { SMTPServerOptions } from 'smtp-server';
import t, { type Test } from 'tap';
import { MIB } from '../../src/limits.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';
import { otherRelay } from '../support/other-relay.js';
import { seededRandom, testSeed } from '../support/random.js';
import { fakeRelay } from '../support/relay.js';

const IS_LONG = process.env.FIELDPOST_TEST_LONG === '1';
const LARGE_BYTES = (IS_LONG ? 200 : 64) * MIB;
const GROWTH_MAX_BYTES = 24 * MIB;
const CLIENTS = 64;
const MESSAGES = '/api/internal/messages';

/** A mail as it arrived: its subject, and SHA-256 and size of its only attachment. */
interface Arrival {
  readonly subject: string;
  readonly sum: string;
  readonly size: number;
}

/** A relay by other people; decodes the attachments as they arrive. */
async function startRelay(t: Test, options: SMTPServerOptions = {}) {
  const arrivals: Arrival[] = [];
  const relay = await otherRelay({
    ...options,
    onMail: async (mail) => {
      arrivals.push(await read(mail));
    },
  });
  t.teardown(relay.close);
  return {
    env: { FIELDPOST_RELAY: relay.url },
    arrivals,
    until: relay.arrived,
  };
}

/** Reads a mail with one base64 attachment behind one text, as a stream. */
async function read(stream: AsyncIterable<Buffer>): Promise<Arrival> {
  const hash = createHash('sha256');
  let text = '';
  let subject: string | null = null;
  let size = 0;
  let isInFile = false;
  const decode = (base64: string) => {
    const bytes = Buffer.from(base64, 'base64');
    hash.update(bytes);
    size += bytes.length;
  };
  for await (const chunk of stream) {
    text += chunk.toString('latin1');
    subject ??= /^Subject: (.*)\r$/m.exec(text)?.[1] ?? null;
    if (!isInFile) {
      const head = /\r\nContent-Disposition: attachment;[\s\S]*?\r\n\r\n/.exec(text);
      if (head === null) continue;
      isInFile = true;
      text = text.slice(head.index + head[0].length);
    }
    const end = text.indexOf('\r\n--');
    const lines = end < 0 ? text.slice(0, text.lastIndexOf('\n') + 1) : text.slice(0, end);
    decode(lines.replaceAll('\r\n', ''));
    // Behind the end only the boundary follows.
    text = end < 0 ? text.slice(lines.length) : '\r\n--';
  }
  return { subject: subject ?? '', sum: hash.digest('hex'), size };
}

const BOUNDARY = 'a-boundary-of-this-test';
const part = (name: string, text: string) =>
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${text}\r\n`;

/** Posts a form with one file, in pieces that `next` makes. Disconnects after `stopAt` bytes of it. Gives status and SHA-256. */
async function upload(
  port: number,
  subject: string,
  file: { size: number; next: (length: number) => Buffer },
  stopAt = Number.POSITIVE_INFINITY,
): Promise<{ status: number; sum: string }> {
  const front = `${part('destination', 'john@example.com')}${part('subject', subject)}--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="f.bin"\r\n\r\n`;
  const back = `\r\n--${BOUNDARY}--\r\n`;
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  let answer = '';
  const ended = new Promise<void>((resolve) => {
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
      if (answer.includes('\r\n\r\n')) resolve();
    });
    socket.on('error', () => resolve()).on('close', () => resolve());
  });
  socket.write(
    `POST ${MESSAGES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=${BOUNDARY}\r\nContent-Length: ${front.length + file.size + back.length}\r\n\r\n${front}`,
  );
  const hash = createHash('sha256');
  for (let sent = 0; sent < file.size && sent < stopAt; ) {
    const bytes = file.next(Math.min(2 ** 18, file.size - sent, stopAt - sent));
    hash.update(bytes);
    sent += bytes.length;
    if (!socket.write(bytes)) await Promise.race([once(socket, 'drain').catch(() => undefined), ended]);
  }
  if (stopAt < file.size) socket.destroy();
  else socket.write(back);
  await ended;
  socket.destroy();
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0), sum: hash.digest('hex') };
}

/** Random bytes, made as they are needed. */
function noise(seed: number): (length: number) => Buffer {
  const random = seededRandom(seed);
  const block = Buffer.from(Uint32Array.from({ length: 2 ** 16 }, () => random() * 2 ** 32).buffer);
  return (length) => {
    const start = Math.floor(random() * (block.length - length + 1));
    return block.subarray(Math.max(0, start), Math.max(0, start) + length);
  };
}

const status = (daemon: DaemonProcess) => readFileSync(`/proc/${daemon.child.pid}/status`, 'latin1');
const peakBytes = (daemon: DaemonProcess) => Number(/VmHWM:\s+(\d+)/.exec(status(daemon))?.[1]) * 1024;
/** Counts open descriptors without inotify's: the daemon opens that one a moment after the start. */
function descriptors({ child }: DaemonProcess): number {
  const directory = `/proc/${child.pid}/fd`;
  const isCounted = (name: string) => {
    try {
      return readlinkSync(`${directory}/${name}`) !== 'anon_inode:inotify';
    } catch {
      // It was closed after the listing.
      return false;
    }
  };
  return readdirSync(directory).filter(isCounted).length;
}
const order = ({ api }: DaemonProcess, name: string) => api(`queue/${name}`, {});

t.test('attachments', needsProgram, async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const start = async (t: Test, env: Record<string, string>) => {
    const stateDir = t.testdir();
    const daemon = await startIn(t, {
      FIELDPOST_STATE_DIR: stateDir,
      FIELDPOST_FROM: 'd@example.com',
      ...env,
    });
    return { daemon, spool: () => readdirSync(join(stateDir, 'spool')) };
  };

  t.test(`a file of ${LARGE_BYTES / MIB} MiB`, async (t) => {
    const relay = await startRelay(t);
    const limits = { FIELDPOST_MAX_MESSAGE: '256MiB', FIELDPOST_MAX_SPOOL: '1GiB' };
    const { daemon, spool } = await start(t, { ...relay.env, ...limits });
    // Warm up, so that the growth comes from the size alone.
    t.equal((await upload(daemon.port, 'small', { size: MIB, next: noise(seed) })).status, 202);
    await relay.until(1);
    await order(daemon, 'hold');
    const before = peakBytes(daemon);
    const { status, sum } = await upload(daemon.port, 'large', { size: LARGE_BYTES, next: noise(seed) });
    t.equal(status, 202);
    const uploaded = peakBytes(daemon) - before;
    await order(daemon, 'release');
    await relay.until(2);
    const delivered = peakBytes(daemon) - before;
    t.comment(
      `grew by ${(uploaded / MIB).toFixed(1)} MiB, and ${(delivered / MIB).toFixed(1)} MiB with the delivery`,
    );
    t.ok(delivered < GROWTH_MAX_BYTES, 'memory hardly grows with the size');
    t.same(relay.arrivals[1], { subject: 'large', sum, size: LARGE_BYTES });
    t.equal(await daemon.end('SIGTERM'), 0);
    t.same(spool(), [], 'the file is deleted');
  });

  t.test(`${CLIENTS} clients at once, half of which disconnect`, async (t) => {
    const relay = await startRelay(t);
    const { daemon, spool } = await start(t, relay.env);
    const random = seededRandom(seed);
    // Hold the queue until the count: a session to the relay would hold a descriptor for a while.
    await order(daemon, 'hold');
    t.equal((await upload(daemon.port, 'first', { size: 1000, next: noise(seed) })).status, 202);
    const before = await settledCount(daemon);
    const clients = Array.from({ length: CLIENTS }, (_, index) => {
      // At least one byte, so that a client can disconnect before the end.
      const size = 1 + Math.floor(random() ** 3 * 4 * MIB);
      const stopAt = index % 2 === 0 ? undefined : Math.floor(random() * size);
      return { subject: `client ${index}`, size, stopAt, seed: Math.floor(random() * 2 ** 31) };
    });
    const results = await Promise.all(
      clients.map(({ subject, size, stopAt, seed }) =>
        upload(daemon.port, subject, { size, next: noise(seed) }, stopAt),
      ),
    );
    const expected = clients.flatMap(({ subject, size, stopAt }, index) =>
      stopAt === undefined ? [{ subject, size, sum: results[index]?.sum ?? '' }] : [],
    );
    t.same(
      results.filter((_, index) => clients[index]?.stopAt === undefined).map(({ status }) => status),
      Array(CLIENTS / 2).fill(202),
    );
    const after = await settledCount(daemon);
    t.equal(after, before, 'no descriptor is left open');
    t.equal(spool().length, 1 + expected.length, 'the spool has only files that a message needs');
    await order(daemon, 'release');
    await relay.until(1 + expected.length);
    const bySubject = (a: Arrival, b: Arrival) => (a.subject < b.subject ? -1 : 1);
    const arrived = relay.arrivals.filter(({ subject }) => subject !== 'first');
    t.same(arrived.sort(bySubject), expected.sort(bySubject), 'each accepted file arrives');
    t.equal(await daemon.end('SIGTERM'), 0);
    t.same(spool(), []);
  });

  t.test(
    'files of failed mails make room for a file that arrives, not for one that is announced',
    async (t) => {
      await using relay = await fakeRelay({ rcpt: '550 5.1.1 no such user' });
      const { daemon, spool } = await start(t, {
        FIELDPOST_RELAY: relay.url,
        FIELDPOST_MAX_SPOOL: '16MiB',
        FIELDPOST_MAX_MESSAGE: '12MiB',
        FIELDPOST_LOG: 'debug',
      });
      const linesOf = (event: string) => daemon.lines.filter((line) => line.includes(` ${event} `)).length;
      const until = async (event: string, count: number) => {
        while (linesOf(event) < count) await daemon.nextLine();
      };
      const post = (size: number, stopAt?: number) =>
        upload(daemon.port, 'a file', { size, next: noise(seed) }, stopAt);
      for (const count of [1, 2]) {
        t.equal((await post(4 * MIB)).status, 202);
        await until('failed', count);
      }
      for (const [index, stopAt] of [0, 1024].entries()) {
        await post(10 * MIB, stopAt);
        await until('request refused', index + 1);
      }
      t.equal(linesOf('content dropped'), 0);
      t.equal(spool().length, 2, 'both failed mails keep their files');
      t.equal((await post(10 * MIB)).status, 202);
      t.not(linesOf('content dropped'), 0);
      t.equal(await daemon.end('SIGTERM'), 0);
    },
  );

  t.test('after the first session the limit of the relay is known', async (t) => {
    const relay = await startRelay(t, { size: 100_000 });
    const { daemon } = await start(t, relay.env);
    const post = (size: number) => upload(daemon.port, `size ${size}`, { size, next: noise(seed) });
    t.equal((await post(1000)).status, 202);
    await relay.until(1);
    t.equal((await post(80_000)).status, 413, 'as base64 it is too large');
    t.equal((await post(70_000)).status, 202);
    await relay.until(2);
    t.equal(await daemon.end('SIGTERM'), 0);
  });
});

/** The daemon's open descriptors, once the count is stable. */
async function settledCount(daemon: DaemonProcess): Promise<number> {
  const health = () => fetch(`http://127.0.0.1:${daemon.port}/healthz`, { headers: { Connection: 'close' } });
  let count = -1;
  for (let same = 0; same < 8; ) {
    await (await health()).text();
    await new Promise((resolve) => setTimeout(resolve, 100));
    const now = descriptors(daemon);
    same = now === count ? same + 1 : 0;
    count = now;
  }
  return count;
}
