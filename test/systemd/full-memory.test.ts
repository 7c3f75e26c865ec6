/**
 * Every limit at once, in little memory. The address book and the cloud's document are full, keys have a hundred ids, and
 * failed and deferred mails have long replies. One mail has a file of nearly 25 MiB; mails with ten long file names fill
 * the queue. Then 62 clients send half a body or read no answer. The daemon is killed twice in that state, and delivers
 * what it has acknowledged.
 */
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import PostalMime from 'postal-mime';
import { type Test, test } from 'tap';
import { MIB } from '../../src/base/limits.js';
import { DESTINATIONS_MAX } from '../../src/device/book/address-book.js';
import { DEVICE, type FakeCloud, fakeCloud, KEY } from '../support/cloud.js';
import type { DaemonProcess } from '../support/daemon.js';
import { BOUNDARY, bodyOf } from '../support/form.js';
import { testSeed } from '../support/random.js';
import { type FakeRelay, fakeRelay } from '../support/relay.js';
import { FIXED_SHARE_MAX, MemoryGroup, skipWithoutMemoryGroup } from './memory-group.js';

/** A program that is evicted takes 1,000 major faults for each answer. In 64 MB up to 44 were seen. */
const ASKED = 50;
const MAJOR_FAULTS_MAX = 200 * ASKED;
const API = '/api/internal';
const MESSAGES = `${API}/messages`;
const JSON_TYPE = { 'Content-Type': 'application/json' };
const FORM_TYPE = { 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` };
const LONG_TYPE = `${'t'.repeat(127)}/${'s'.repeat(127)}`;
const LONG_ADDRESS = `${'a'.repeat(60)}@${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(50)}.example`;
const LONG_REPLY = 'r'.repeat(480);
const BATCH = 100;
const FILES = 10;
// A message may have 25 MiB; the rest is for its text.
const LARGE_BYTES = 25 * MIB - 64 * 1024;
/** Entries of the address book, and entries of the cloud's document of an unknown type. */
const KNOWN = DESTINATIONS_MAX;
const UNKNOWN = 50;
const POSTING_AT_ONCE = 16;

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** One run: the daemon that is up, and what it has acknowledged. */
class Run {
  readonly t: Test;
  readonly group: MemoryGroup;
  readonly relay: FakeRelay;
  readonly cloud: FakeCloud;
  /** The mails that must arrive: `summaryOf` each, by subject. */
  readonly owed = new Map<string, string>();
  readonly #agent = new Agent({ keepAlive: true, maxSockets: POSTING_AT_ONCE });
  #daemon: DaemonProcess | null = null;
  #keys = 0;

  constructor(t: Test, group: MemoryGroup, relay: FakeRelay, cloud: FakeCloud) {
    this.t = t;
    this.group = group;
    this.relay = relay;
    this.cloud = cloud;
  }

  get daemon(): DaemonProcess {
    if (this.#daemon === null) throw new Error('the daemon has not been started');
    return this.#daemon;
  }

  async start(): Promise<void> {
    this.#daemon = await this.group.start(this.t, {
      FIELDPOST_RELAY: this.relay.url,
      FIELDPOST_RELAY_CONNECTIONS: '4',
      // Memory must be the limit that refuses.
      FIELDPOST_MAX_QUEUE: '1000000',
      FIELDPOST_MAX_SPOOL: '300MiB',
      FIELDPOST_CLOUD: this.cloud.url,
      FIELDPOST_DEVICE_ID: DEVICE,
      FIELDPOST_CLOUD_KEY: KEY,
      FIELDPOST_BACKOFF_MIN: '100ms',
      FIELDPOST_BACKOFF_MAX: '1s',
    });
  }

  async kill(): Promise<void> {
    this.#agent.destroy();
    this.t.equal(await this.daemon.end('SIGKILL'), null);
  }

  /** Tests that the peak since the last call stays below the share. */
  check(when: string): void {
    const peakBytes = this.group.takeFixedPeak();
    const { limitBytes, words } = this.group;
    const share = (100 * peakBytes) / limitBytes;
    this.t.ok(peakBytes < FIXED_SHARE_MAX * limitBytes, `${when}: peak ${share.toFixed(0)} %, now ${words}`);
    this.t.equal(this.group.killed, 0, 'the kernel killed no process');
  }

  ask(
    method: string,
    path: string,
    body: string | Buffer = '',
    headers: Record<string, string> = {},
    agent: Agent | false = this.#agent,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const length = { 'Content-Length': String(Buffer.byteLength(body)) };
      const to = { host: '127.0.0.1', port: this.daemon.port, agent, method, path };
      const req = request({ ...to, headers: { ...length, ...headers } }, (res) => {
        const chunks: Buffer[] = [];
        res.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject);
        res.on('end', () => resolve({ status: res.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
      });
      req.on('error', reject).end(body);
    });
  }

  async queue() {
    return JSON.parse((await this.ask('GET', `${API}/state`)).text).queue;
  }

  /** Resolves when every mail was offered. */
  async offered(): Promise<void> {
    for (;;) {
      const { queued, sending } = await this.queue();
      if (queued + sending === 0) return;
      await pause(100);
    }
  }

  /** Posts with a new key. Gives false once the queue is full; throws at any other refusal. */
  async post(body: string | Buffer, type: Record<string, string>): Promise<boolean> {
    const key = `${this.#keys++}`.padStart(255, 'k');
    for (;;) {
      const { status, text } = await this.ask('POST', MESSAGES, body, { ...type, 'Idempotency-Key': key });
      if (status === 202) return true;
      if (status === 429 && text.includes('problem:queue-full')) return false;
      if (status !== 503 || !text.includes('problem:busy')) throw new Error(`${status} ${text}`);
      await pause(100);
    }
  }

  async postBatch(to: string, count = BATCH): Promise<boolean> {
    const subject = (n: number) => `${to} ${this.#keys}-${n}`;
    const mails = Array.from({ length: count }, (_, n) => ({
      type: 1,
      destination: `${to}@example.com`,
      subject: subject(n),
      plain: 'x'.repeat(500),
    }));
    if (!(await this.post(JSON.stringify(mails), JSON_TYPE))) return false;
    if (to === 'later') for (const mail of mails) this.owed.set(mail.subject, summaryOf(mail.plain, []));
    return true;
  }

  /** Posts a mail with these files, each with this content. Gives false once the queue is full. */
  async postForm(to: string, subject: string, files: readonly string[], content: string): Promise<boolean> {
    const parts = [
      { name: 'destination', content: to },
      { name: 'subject', content: subject },
      ...files.map((filename) => ({ name: 'file', filename, type: LONG_TYPE, content })),
    ];
    if (!(await this.post(bodyOf(parts), FORM_TYPE))) return false;
    this.owed.set(subject, summaryOf('', files, content));
    return true;
  }

  /** Posts mails with ten files of one octet under long names until the daemon refuses them; gives their count. */
  async postFiles(): Promise<number> {
    let posted = 0;
    let n = 0;
    const client = async () => {
      for (;;) {
        const me = n++;
        const subject = `files ${me} ${'ż'.repeat(900)}`;
        const files = Array.from({ length: FILES }, (_, i) => `${me}-${i}`.padEnd(255, 'ż'));
        if (!(await this.postForm(LONG_ADDRESS, subject, files, 'x'))) return;
        posted++;
      }
    };
    await Promise.all(Array.from({ length: POSTING_AT_ONCE }, client));
    return posted;
  }

  /** A client that writes these bytes and reads nothing. */
  async mute(bytes: string | Buffer): Promise<Socket> {
    const socket = connect({ port: this.daemon.port, host: '127.0.0.1', allowHalfOpen: true });
    socket.pause().on('error', () => undefined);
    this.t.teardown(() => socket.destroy());
    await once(socket, 'connect');
    socket.write(bytes);
    return socket;
  }
}

/** What the test compares of a mail. A type too long for a header line becomes application/octet-stream. */
function summaryOf(plain: string, files: readonly string[], content = ''): string {
  return JSON.stringify([plain.trimEnd(), files.map((name) => [name, 'application/octet-stream', content])]);
}

/** As many entries as are allowed, and some of an unknown type. */
function fullDocument(): object[] {
  const entry = (n: number) => ({
    uid: `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`,
    type: 1,
    destination: `n${n}${LONG_ADDRESS.slice(1)}`,
    lang: 'pl',
    name: 'ż'.repeat(200),
  });
  const known = Array.from({ length: KNOWN }, (_, n) => entry(n));
  const unknown = Array.from({ length: UNKNOWN }, (_, n) => ({ ...entry(1000 + n), type: 9 }));
  return [...known, ...unknown];
}

async function fill(run: Run): Promise<void> {
  const { t } = run;
  for (;;) {
    const { destinations } = JSON.parse((await run.ask('GET', `${API}/state`)).text);
    if (destinations.count === KNOWN && destinations.hidden === UNKNOWN) break;
    await pause(100);
  }
  for (const [to, batches] of [
    ['sent', 20],
    ['refused', 20],
    ['later', 10],
  ] as const) {
    for (let i = 0; i < batches; i++) {
      if (!(await run.postBatch(to))) throw new Error('the queue is full too soon');
      // In 64 MB there is no room for many queued mails beside a full document.
      if (i % 5 === 4) await run.offered();
    }
  }
  run.check('with failed and deferred mails');
  t.equal((await run.ask('POST', `${API}/queue/hold`)).status, 202);
  t.ok(await run.postForm('large@example.com', 'large', ['large'], 'x'.repeat(LARGE_BYTES)), 'a large file');
  run.check('with a large file');
  const files = await run.postFiles();
  while (await run.postBatch('later'));
  while (await run.postBatch('later', 1));
  run.check(`full, with ${files} mails of ten files`);
  t.ok(files > 100, 'names use most of the memory');
}

/** 62 clients finish nothing, while others ask for the state. */
async function crowd(run: Run): Promise<void> {
  const { t } = run;
  const post = (type: string, bytes: number) =>
    `POST ${MESSAGES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\nContent-Length: ${bytes}\r\n\r\n`;
  const file = '--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n';
  const list = `GET ${MESSAGES}?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(16);
  const json = Buffer.concat([Buffer.from(post('application/json', MIB)), Buffer.alloc(MIB - 1, ' ')]);
  const form = Buffer.concat([
    Buffer.from(post('multipart/form-data; boundary=b', 20 * MIB) + file),
    Buffer.alloc((3 * MIB) / 2, 'x'),
  ]);
  for (const [count, bytes] of [
    [22, list],
    [20, json],
    [20, form],
  ] as const) {
    await Promise.all(Array.from({ length: count }, () => run.mute(bytes)));
    for (const path of [
      `${API}/state`,
      '/metrics',
      `${MESSAGES}?limit=1000`,
      `${API}/offline_notification_destinations`,
    ]) {
      // The daemon answers `busy` while too many clients wait.
      for (;;) {
        const { status, text } = await run.ask('GET', path, '', {}, false);
        if (status === 200) break;
        if (status !== 503 || !text.includes('problem:busy')) throw new Error(`${path}: ${status} ${text}`);
        await pause(200);
      }
    }
  }
  run.check('with clients that finish nothing');
  const before = run.group.majorFaults;
  for (let i = 0; i < ASKED; i++) t.equal((await run.ask('GET', `${API}/state`)).status, 200);
  const faults = run.group.majorFaults - before;
  t.ok(faults < MAJOR_FAULTS_MAX, `${faults} major faults for ${ASKED} answers: the program stays in memory`);
}

async function deliver(run: Run): Promise<void> {
  const { t, relay, owed } = run;
  const before = relay.mails.length;
  for (const verb of ['release', 'flush'])
    t.equal((await run.ask('POST', `${API}/queue/${verb}`)).status, 202);
  await relay.arrived(before + owed.size);
  await run.offered();
  const arrived = relay.mails.slice(before);
  t.equal(arrived.length, owed.size, 'it sends each mail once');
  let wrong = 0;
  for (const { content } of arrived) {
    const { subject = '', text = '', attachments } = await PostalMime.parse(content);
    const files = attachments.map(({ filename, mimeType, content }) => [
      filename,
      mimeType,
      Buffer.from(content as ArrayBuffer).toString(),
    ]);
    if (owed.get(subject) !== JSON.stringify([text.trimEnd(), files])) wrong++;
    owed.delete(subject);
  }
  t.equal(wrong, 0, 'each mail arrives as it was posted');
  t.equal(owed.size, 0, 'no mail is missing');
}

/** The smallest memory and another one, drawn by the seed; all in the long variant. */
const seed = testSeed();
const LIMITS_MIB = process.env.FIELDPOST_TEST_LONG === '1' ? [64, 96, 128] : [64, seed % 2 === 0 ? 96 : 128];

for (const limitMib of LIMITS_MIB) {
  test(`every limit at once, in ${limitMib} MB`, {
    skip: skipWithoutMemoryGroup(),
  }, async (t) => {
    const group = MemoryGroup.create(t, limitMib * MIB);
    let isStrict = true;
    const rcpt = ({ command }: { command: string }) => {
      if (isStrict && command.includes('<later@')) return `450 ${LONG_REPLY}`;
      return command.includes('<refused@') ? `550 5.1.1 no such user ${LONG_REPLY}` : undefined;
    };
    await using relay = await fakeRelay({ rcpt });
    await using cloud = await fakeCloud();
    await cloud.screen.edit(fullDocument);
    const run = new Run(t, group, relay, cloud);
    await run.start();
    await fill(run);
    const { used } = await run.queue();
    await crowd(run);
    for (let restart = 1; restart <= 2; restart++) {
      await run.kill();
      group.takeFixedPeak();
      await run.start();
      const { used: found } = await run.queue();
      t.equal(found.messages, used.messages, 'no message is lost');
      run.check(`restart ${restart}`);
    }
    isStrict = false;
    await deliver(run);
    run.check('after the delivery');
    t.equal(await run.daemon.end('SIGTERM'), 0);
  });
}
