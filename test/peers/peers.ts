/**
 * What the tests against other people's programs share: when they run, servers, free ports, logs and Maildirs to wait
 * for, and the daemon as such a test sees it.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, watch } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { Test } from 'tap';
import { type DaemonProcess, isBuilt, startDaemon } from '../support/daemon.js';

/** How long a test waits for something that should come at once. */
const PATIENCE_MS = 30_000;

/** Why tests that need these programs (absolute paths) cannot run here; false if they can. */
export function skipWithout(...programs: readonly string[]): string | false {
  if (process.env.FIELDPOST_TEST_PEERS !== '1')
    return 'needs FIELDPOST_TEST_PEERS=1 and what scripts/peers installs';
  if (process.getuid?.() !== 0) return 'needs root: mail servers change their user';
  if (!isBuilt) return 'the program is not built';
  const missing = ['/usr/bin/curl', '/usr/bin/python3', ...programs].filter((path) => !existsSync(path));
  return missing.length === 0 ? false : `not on this machine: ${missing.join(', ')}`;
}

/** A new directory that servers of any user may read; removed when the test ends. */
export function sharedDirectory(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'fieldpost-peers-'));
  chmodSync(path, 0o755);
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/**
 * Free ports of 127.0.0.1, outside the range that the kernel assigns. In that range another socket may take the port of
 * a stopped server, and a client that calls the port may connect to itself.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (isFree) ports.add(port);
    server.close();
  }
  return [...ports];
}

/**
 * SIGSTOP; resolves when each thread has stopped. The signal reaches one thread, and until that one has run, the others
 * still answer.
 */
export async function stopThreads(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  const stateOf = (thread: string) => {
    try {
      // The name may have spaces and brackets.
      return /.*\) (\S)/s.exec(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1'))?.[1];
    } catch {
      return 'gone';
    }
  };
  const runs = (thread: string) => !['T', 'Z', 'gone'].includes(stateOf(thread) ?? '');
  while (readdirSync(`/proc/${pid}/task`).some(runs)) await pause(1);
}

/** A server under a shell that ends it at the end of its input: it ends with the test, also when that is killed. */
export interface Server {
  /** Resolves when it and all its children have ended. */
  stop(): Promise<void>;
}

const KEEPER = 'exec 3<&0; "$@" & server=$!; { read -r _ <&3; kill "$server"; } & wait "$server"';

/** Starts a server that stays in the foreground; resolves when it accepts connections at this port. */
export async function startServer(
  program: string,
  args: readonly string[],
  port: number,
  host = '127.0.0.1',
): Promise<Server> {
  const child = spawn('/bin/bash', ['--norc', '-c', KEEPER, 'keeper', program, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  const output: Buffer[] = [];
  child.stdout.on('data', (chunk) => output.push(chunk));
  child.stderr.on('data', (chunk) => output.push(chunk));
  // Each of its processes holds the pipes open: they close when the last has ended.
  const closed = once(child, 'close');
  const stop = async () => {
    child.stdin.end();
    await closed;
  };
  const patience = AbortSignal.timeout(PATIENCE_MS);
  while (!(await isReachable(port, host))) {
    if (child.exitCode !== null || patience.aborted) {
      await stop();
      throw new Error(`${program} does not answer: ${Buffer.concat(output)}`);
    }
    await pause(10);
  }
  return { stop };
}

async function isReachable(port: number, host: string): Promise<boolean> {
  const socket = connect(port, host);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/**
 * Waits until `find` finds something, at each change of the file or directory `path`; `what` names it. Gives up after
 * PATIENCE_MS without a change.
 */
async function appearing<T>(path: string, what: string, find: () => T | undefined): Promise<T> {
  const watcher = watch(path);
  try {
    for (let isOver = false; ; ) {
      const found = find();
      if (found !== undefined) return found;
      if (isOver) throw new Error(`there is no ${what} in ${path}`);
      const signal = AbortSignal.timeout(PATIENCE_MS);
      isOver = await once(watcher, 'change', { signal }).then(
        () => false,
        () => true,
      );
    }
  } finally {
    watcher.close();
  }
}

/** Gives the first line of a log file that matches; waits for it. */
export function logged(path: string, pattern: RegExp): Promise<string> {
  const find = () =>
    readFileSync(path, 'utf8')
      .split('\n')
      .find((line) => pattern.test(line));
  return appearing(path, `line ${pattern}`, find);
}

/** A mail as a server has delivered it. */
interface Delivered {
  /** The header lines that the servers added at the top. */
  readonly trace: string;
  /** The mail as the daemon sent it, its line ends CRLF again. */
  readonly bytes: Buffer;
}

/** The directory into which a server delivers mails. */
export class Maildir {
  readonly #path: string;

  constructor(path: string) {
    this.#path = join(path, 'new');
  }

  /** Waits for the mail that was accepted under this id. */
  async mail(id: string): Promise<Delivered> {
    return await appearing(this.#path, `mail ${id}`, () => this.mails(id)[0]);
  }

  /** Waits until so many mails have these words in them; gives them as they were stored. */
  async with(words: string, count = 1): Promise<string[]> {
    return await appearing(this.#path, `${count} mails with ${words}`, () => {
      const found = this.having(words);
      return found.length >= count ? found : undefined;
    });
  }

  /** The mails with these words so far. */
  having(words: string): string[] {
    const mails = readdirSync(this.#path).map((name) => readFileSync(join(this.#path, name), 'latin1'));
    return mails.filter((text) => text.includes(words));
  }

  /** All mails of this id so far. */
  mails(id: string): Delivered[] {
    const mails = readdirSync(this.#path).map((name) => readFileSync(join(this.#path, name)));
    return mails.filter((bytes) => bytes.includes(`\nMessage-ID: <${id}.`)).map(split);
  }
}

/** Splits the servers' header lines from the mail. Mail servers store lines with LF alone. */
function split(stored: Buffer): Delivered {
  const text = stored.toString('latin1');
  const at = text.indexOf('\nFrom: ') + 1;
  return {
    trace: text.slice(0, at),
    bytes: Buffer.from(text.slice(at).replaceAll('\n', '\r\n'), 'latin1'),
  };
}

/** An email to post. */
export interface Posted {
  readonly destination: string;
  readonly subject?: string;
  readonly plain?: string;
  readonly html?: string;
}

/** A mail for tests that need any. */
export const MAIL: Posted = {
  destination: 'john@example.com',
  subject: 'Pump 3',
  plain: 'The pressure is low.',
};

/** The members of a message that tests compare. */
interface Progress {
  readonly status: string;
  readonly attempts: number;
  readonly lastReply: string | null;
}

/** The daemon; curl calls its API, and the test reads its log. */
export interface Fieldpost extends DaemonProcess {
  /** Posts emails in one request; gives their ids. */
  post(...mails: readonly Posted[]): Promise<string[]>;
  message(id: string): Promise<Progress>;
  /** Makes a message due now. */
  retry(id: string): Promise<void>;
  state(): Promise<{
    relay: { state: string; reason: string | null };
    link: { state: string; reason: string | null };
    clock: { trusted: boolean };
    queue: Record<string, number>;
  }>;
  /** Gives the first line of its log that matches, from line `from` on; waits for it. */
  said(pattern: RegExp, from?: number, patienceMs?: number): Promise<string>;
  /** Stops it as systemd does. */
  stop(): Promise<number | null>;
}

/** `through` for a device with this host name. */
export function named(hostname: string): readonly string[] {
  return ['/usr/bin/unshare', '--uts', '/bin/sh', '-c', `hostname ${hostname} && exec "$@"`, 'sh'];
}

/** Starts the daemon; `through` starts it, and each curl. It stops when the test ends, and its log is shown if that failed. */
export async function startFieldpost(
  t: Test,
  env: Readonly<Record<string, string>>,
  through: readonly string[] = [],
): Promise<Fieldpost> {
  const daemon = await startDaemon(
    {
      FIELDPOST_STATE_DIR: env.FIELDPOST_STATE_DIR ?? t.testdir(),
      FIELDPOST_FROM: 'device@field.example',
      FIELDPOST_BACKOFF_MIN: '100ms',
      FIELDPOST_BACKOFF_MAX: '1s',
      ...env,
    },
    ['run'],
    through,
  );
  const { child, lines, port } = daemon;
  const stop = async () => (child.exitCode === null ? daemon.end('SIGTERM') : child.exitCode);
  t.teardown(async () => {
    await stop();
    if (!t.passing()) t.comment(lines.join('\n'));
  });
  const api = `http://127.0.0.1:${port}/api/internal`;
  const call = (path: string, body?: string) => curl(through, `${api}${path}`, body);
  return {
    ...daemon,
    stop,
    async post(...mails) {
      const body = JSON.stringify(mails.map((mail) => ({ type: 1, ...mail })));
      const answer = await call('/messages', body);
      return (answer as { id: string }[]).map(({ id }) => id);
    },
    message: async (id) => (await call(`/messages/${id}`)) as Progress,
    retry: async (id) => void (await call(`/messages/${id}/retry`, '')),
    state: async () => (await call('/state')) as Awaited<ReturnType<Fieldpost['state']>>,
    async said(pattern, from = 0, patienceMs = PATIENCE_MS) {
      const patience = AbortSignal.timeout(patienceMs);
      for (;;) {
        const line = lines.slice(from).find((one) => pattern.test(one));
        if (line !== undefined) return line;
        await once(child.stdout as Readable, 'data', { signal: patience }).catch(() => {
          throw new Error(`the daemon does not log ${pattern}`);
        });
      }
    },
  };
}

/** How a relay refuses this device: with which settings, and what the state then is. */
interface Refusal {
  readonly wrong: object;
  readonly right?: object;
  readonly state?: 'failing' | 'refusing';
  readonly reason: RegExp;
}

/**
 * Tests a relay that refuses this device with the `wrong` settings: the state gives the reason, and the refusal counts
 * against no mail. With the `right` ones all are sent. Gives their ids.
 */
export async function refusedThenSent(
  t: Test,
  settings: Readonly<Record<string, string>>,
  { wrong, right = {}, state = 'refusing', reason }: Refusal,
  through: readonly string[] = [],
): Promise<string[]> {
  const env = { ...settings, FIELDPOST_STATE_DIR: t.testdir() };
  const refused = await startFieldpost(t, { ...env, ...wrong }, through);
  const ids = await refused.post(...Array<Posted>(3).fill({ destination: 'john@post.example', plain: 'x' }));
  await refused.said(new RegExp(`relay ${state}`));
  const { relay } = await refused.state();
  t.equal(relay.state, state);
  t.match(relay.reason, reason);
  const untouched = { status: /^(?:queued|sending)$/, attempts: 0, lastReply: null };
  for (const id of ids) t.match(await refused.message(id), untouched);
  t.equal(await refused.stop(), 0);

  const admitted = await startFieldpost(t, { ...env, ...right }, through);
  for (const id of ids) await admitted.said(new RegExp(` sent id=${id} `));
  return ids;
}

/** Gets the URL, or posts the body to it; gives the JSON of the answer. */
async function curl(through: readonly string[], url: string, body?: string): Promise<unknown> {
  const data = body === undefined ? [] : ['-H', 'Content-Type: application/json', '--data-binary', '@-'];
  const [program = '', ...args] = [...through, '/usr/bin/curl', '-sS', '--fail-with-body', ...data, url];
  return new Promise((resolve, reject) => {
    const child = execFile(program, args, (error, stdout) => {
      if (error) reject(new Error(`${error.message}${stdout}`));
      else resolve(JSON.parse(stdout));
    });
    // A curl that has failed does not read its input; its exit status says why it failed.
    child.stdin?.on('error', () => undefined).end(body ?? '');
  });
}
