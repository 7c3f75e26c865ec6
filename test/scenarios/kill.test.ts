/**
 * Kills the daemon at random, again and again, while programs post and the relay comes and goes. In the end
 * every message that was acknowledged has arrived, whole; twice only where the process or the connection died
 * while it was being sent. The relay is one that others wrote.
 */
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { Agent, request } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { SMTPServer } from 'smtp-server';
import t from 'tap';
import { type DaemonProcess, isBuilt, startDaemon } from '../support/daemon.js';
import { BOUNDARY, bodyOf } from '../support/form.js';
import { seededRandom, testSeed } from '../support/random.js';

const KILLS = process.env.FIELDPOST_TEST_LONG === '1' ? 80 : 8;
const CLIENTS = 6;
const seed = testSeed();
const random = seededRandom(seed);
const between = (low: number, high: number) => low + Math.floor(random() * (high - low));

/** A request, and the mails that it is about. */
interface Posting {
  readonly names: readonly string[];
  readonly type: string;
  readonly body: string | Buffer;
}

/** A relay that counts what arrives, and can be unplugged. */
class Relay {
  readonly arrivals = new Map<string, number>();
  readonly broken: string[] = [];
  interruptions = 0;
  port = 0;
  #server: SMTPServer | null = null;
  readonly #sockets = new Set<Socket>();

  async plug(): Promise<void> {
    const server = new SMTPServer({
      disabledCommands: ['AUTH', 'STARTTLS'],
      logger: false,
      onData: (stream, _session, done) => {
        const chunks: Buffer[] = [];
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        stream.on('end', () => {
          this.#arrived(Buffer.concat(chunks).toString());
          done();
        });
      },
    });
    server.on('error', () => undefined);
    server.server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    server.listen(this.port, '127.0.0.1');
    await once(server.server, 'listening');
    this.port = (server.server.address() as { port: number }).port;
    this.#server = server;
  }

  async unplug(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    this.interruptions += this.#sockets.size;
    for (const socket of this.#sockets) socket.destroy();
    if (server) await new Promise<void>((resolve) => server.close(() => resolve()));
  }

  #arrived(text: string): void {
    const name = /^Subject: (\S+)\r$/m.exec(text)?.[1] ?? 'nameless';
    if (!text.includes(`this is ${name}, whole`) || !hasItsFile(text, name)) this.broken.push(name);
    this.arrivals.set(name, (this.arrivals.get(name) ?? 0) + 1);
  }
}

/** True unless a mail that tells of a file has another one. The file is made of the name of its mail. */
function hasItsFile(text: string, name: string): boolean {
  const [, bytes, base64] = /filename="(\d+)\.bin"\r\n\r\n([\w+/=\r\n]*)\r\n--=_mixed--/.exec(text) ?? [];
  if (base64 === undefined) return !text.includes('.bin') && !name.endsWith('-file');
  return Buffer.from(base64, 'base64').equals(Buffer.alloc(Number(bytes), name));
}

t.comment(`seed ${seed}`);

t.test('killed under load', { skip: isBuilt ? false : 'the program is not built' }, async (t) => {
  const relay = new Relay();
  await relay.plug();
  const env = {
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never`,
    FIELDPOST_BACKOFF_MIN: '100ms',
    FIELDPOST_BACKOFF_MAX: '1s',
    FIELDPOST_RETRY_MIN: '1s',
    FIELDPOST_RETRY_MAX: '2s',
  };
  let daemon: DaemonProcess | null = null;
  t.teardown(async () => {
    await relay.unplug();
    daemon?.child.kill('SIGKILL');
  });
  daemon = await startDaemon(env);
  const acknowledged = new Set<string>();
  let storming = true;

  /** A batch of mails as JSON. */
  const batch = (number: number, n: number): Posting => {
    const names = Array.from({ length: between(1, 4) }, (_, i) => `c${number}-${n}-${i}`);
    const messages = names.map((name) => ({
      type: 1,
      destination: `${name}@example.com`,
      subject: name,
      plain: `${'x'.repeat(between(0, 3000))}\nthis is ${name}, whole\n`,
    }));
    return { names, type: 'application/json', body: JSON.stringify(messages) };
  };

  /** One mail with a file as a form. */
  const form = (number: number, n: number): Posting => {
    const name = `c${number}-${n}-file`;
    const bytes = between(0, 1_500_000);
    const body = bodyOf([
      { name: 'file', filename: `${bytes}.bin`, content: Buffer.alloc(bytes, name) },
      { name: 'destination', content: `${name}@example.com` },
      { name: 'subject', content: name },
      { name: 'plain', content: `this is ${name}, whole\n` },
    ]);
    return { names: [name], type: `multipart/form-data; boundary=${BOUNDARY}`, body };
  };

  /** Posts, each time under a key, again until it is answered, as a careful program does. */
  const client = async (number: number) => {
    const agent = new Agent({ keepAlive: true });
    for (let n = 0; storming; n++) {
      const posting = number % 3 === 0 ? form(number, n) : batch(number, n);
      const { names } = posting;
      for (let answered = false; !answered && storming; ) {
        const status = daemon ? await post(daemon.port, agent, `key-${number}-${n}`, posting) : 0;
        if (status === 202) for (const name of names) acknowledged.add(name);
        answered = status === 202;
        if (!answered) await pause(20);
      }
    }
    agent.destroy();
  };

  const killer = async () => {
    let kills = 0;
    const isEnough = () =>
      kills >= KILLS && acknowledged.size > 50 && [...acknowledged].some((name) => name.endsWith('-file'));
    while (!isEnough()) {
      await pause(between(100, 900));
      const victim = daemon;
      daemon = null;
      await victim?.end('SIGKILL');
      relay.interruptions++;
      kills++;
      daemon = await startDaemon(env);
    }
    storming = false;
    return kills;
  };

  const plugger = async () => {
    while (storming) {
      await pause(between(200, 1200));
      await relay.unplug();
      await pause(between(50, 400));
      await relay.plug();
    }
  };

  const [kills] = await Promise.all([
    killer(),
    plugger(),
    ...Array.from({ length: CLIENTS }, (_, i) => client(i)),
  ]);
  // What was accepted and could not be answered is to be delivered as well.
  while ((await openIn(daemon as DaemonProcess | null)) > 0) await pause(20);
  const duplicates = [...relay.arrivals.values()].reduce((sum, count) => sum + count - 1, 0);
  t.comment(
    `${kills} kills, ${relay.interruptions} interruptions, ${acknowledged.size} acknowledged, ${duplicates} duplicates`,
  );
  t.same(relay.broken, [], 'each arrived whole');
  t.same([...acknowledged].filter((name) => !relay.arrivals.has(name)).slice(0, 5), [], 'all arrived');
  // One message at a time is under way, so an interruption can double one at the most.
  t.ok(duplicates <= relay.interruptions, 'twice only where it was interrupted');
  t.equal(await (daemon as DaemonProcess | null)?.end('SIGTERM'), 0, 'and it still stops cleanly');
  t.same(readdirSync(join(env.FIELDPOST_STATE_DIR, 'spool')), [], 'no file is left');
  await relay.unplug();
});

/** How many messages are not final. */
async function openIn(daemon: DaemonProcess | null): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${daemon?.port}/api/internal/state`);
  const { queue } = (await answer.json()) as { queue: Record<'queued' | 'sending' | 'deferred', number> };
  return queue.queued + queue.sending + queue.deferred;
}

/** The status of the answer, 0 if there was none. */
function post(port: number, agent: Agent, key: string, { type, body }: Posting): Promise<number> {
  return new Promise((resolve) => {
    const headers = {
      'Content-Type': type,
      'Content-Length': Buffer.byteLength(body),
      'Idempotency-Key': key,
    };
    const call = request(
      { host: '127.0.0.1', port, agent, method: 'POST', path: '/api/internal/messages', headers },
      (answer) => {
        answer.resume();
        answer.on('end', () => resolve(answer.statusCode ?? 0));
        answer.on('error', () => resolve(0));
      },
    );
    call.on('error', () => resolve(0));
    call.end(body);
  });
}
