/**
 * Attachments in the built daemon: a file far larger than its memory, many clients of which half disconnect, and a relay
 * that takes only small mails.
 */
// A process of its own: it takes long.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { SMTPServerOptions } from 'smtp-server';
import t, { type Test } from 'tap';
import { MIB } from '../../src/base/limits.js';
import { MESSAGES, requestText } from '../support/api.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';
import { BOUNDARY, bodyOf } from '../support/form.js';
import { contentOf, otherRelay } from '../support/other-relay.js';
import { seededRandom, testSeed } from '../support/random.js';

const IS_LONG = process.env.FIELDPOST_TEST_LONG === '1';
const LARGE_BYTES = (IS_LONG ? 200 : 64) * MIB;
const GROWTH_MAX_BYTES = 24 * MIB;
const CLIENTS = 64;

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

/** Reads a mail with one base64 attachment behind one text. */
async function read(stream: AsyncIterable<Buffer>): Promise<Arrival> {
  const mail = (await contentOf(stream)).toString('latin1');
  const head = /\r\nContent-Disposition: attachment;[\s\S]*?\r\n\r\n/.exec(mail);
  const start = (head?.index ?? 0) + (head?.[0].length ?? 0);
  const bytes = Buffer.from(mail.slice(start, mail.indexOf('\r\n--', start)), 'base64');
  return { subject: /^Subject: (.*)\r$/m.exec(mail)?.[1] ?? '', sum: sumOf(bytes), size: bytes.length };
}

const sumOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

const FORM_TYPE = { 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` };
const formOf = (subject: string, content: Buffer) =>
  bodyOf([
    { name: 'destination', content: 'john@example.com' },
    { name: 'subject', content: subject },
    { name: 'file', filename: 'f.bin', content },
  ]);

/** Posts a form with this file; gives the status. */
async function upload(port: number, subject: string, file: Buffer): Promise<number> {
  const body = formOf(subject, file);
  const headers = { ...FORM_TYPE, Connection: 'close' };
  const origin = `http://127.0.0.1:${port}`;
  try {
    return (await fetch(`${origin}${MESSAGES}`, { method: 'POST', headers, body })).status;
  } catch (cause) {
    // The answer to a body that is not wanted is lost while the rest of it is sent.
    const metrics = await (await fetch(`${origin}/metrics`)).text();
    const refused = metrics.match(/^fieldpost_\w*refused_total\{.*[1-9]\d*$/gm);
    throw new Error(`the upload broke off; refused: ${refused}`, { cause });
  }
}

/** Begins to post a form with this file, and disconnects before its end. */
async function abandon(port: number, file: Buffer, share: number): Promise<void> {
  const body = formOf('abandoned', file);
  const socket = connect(port, '127.0.0.1');
  socket.write(requestText('POST', MESSAGES, FORM_TYPE, body.length));
  socket.write(body.subarray(0, share * body.length), () => socket.destroy());
  await once(socket, 'close');
}

/** Random bytes. */
function noise(random: () => number, bytes: number): Buffer {
  const words = Uint32Array.from({ length: Math.ceil(bytes / 4) }, () => random() * 2 ** 32);
  return Buffer.from(words.buffer, 0, bytes);
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
  const random = seededRandom(seed);
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
    t.equal(await upload(daemon.port, 'small', noise(random, MIB)), 202);
    await relay.until(1);
    await order(daemon, 'hold');
    const before = peakBytes(daemon);
    const large = noise(random, LARGE_BYTES);
    t.equal(await upload(daemon.port, 'large', large), 202);
    const uploaded = peakBytes(daemon) - before;
    await order(daemon, 'release');
    await relay.until(2);
    const delivered = peakBytes(daemon) - before;
    t.comment(
      `grew by ${(uploaded / MIB).toFixed(1)} MiB, and ${(delivered / MIB).toFixed(1)} MiB with the delivery`,
    );
    t.ok(delivered < GROWTH_MAX_BYTES, 'memory hardly grows with the size');
    t.same(relay.arrivals[1], { subject: 'large', sum: sumOf(large), size: LARGE_BYTES });
    t.equal(await daemon.end('SIGTERM'), 0);
    t.same(spool(), [], 'the file is deleted');
  });

  t.test(`${CLIENTS} clients at once, half of which disconnect`, async (t) => {
    const relay = await startRelay(t);
    const { daemon, spool } = await start(t, relay.env);
    // Hold the queue until the count: a session to the relay would hold a descriptor for a while.
    await order(daemon, 'hold');
    t.equal(await upload(daemon.port, 'first', noise(random, 1000)), 202);
    const before = await settledCount(daemon);
    const files = Array.from({ length: CLIENTS }, () => noise(random, Math.floor(random() ** 3 * 4 * MIB)));
    const statuses = await Promise.all(
      files.map(async (file, index) => {
        if (index % 2 === 0) return await upload(daemon.port, `client ${index}`, file);
        return await abandon(daemon.port, file, random());
      }),
    );
    t.same(
      statuses,
      Array(CLIENTS / 2)
        .fill([202, undefined])
        .flat(),
    );
    const expected = files
      .map((file, index) => ({ subject: `client ${index}`, sum: sumOf(file), size: file.length }))
      .filter((_, index) => index % 2 === 0);
    let after = await settledCount(daemon);
    // On a busy machine the last clients go late.
    for (let tries = 0; after > before && tries < 60; tries++) after = await settledCount(daemon);
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

  t.test('after the first session the limit of the relay is known', async (t) => {
    const relay = await startRelay(t, { size: 100_000 });
    const { daemon } = await start(t, relay.env);
    const post = (size: number) => upload(daemon.port, `size ${size}`, noise(random, size));
    t.equal(await post(1000), 202);
    await relay.until(1);
    t.equal(await post(80_000), 413, 'as base64 it is too large');
    t.equal(await post(70_000), 202);
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
