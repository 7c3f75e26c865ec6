/**
 * What the tests against other people's programs share: when they run, processes to be ended, ports, things that
 * appear on the disk, a Maildir, and the daemon as such a test sees it.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, watch } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Test } from 'tap';
import { isBuilt, startDaemon } from '../support/daemon.js';

/** How long a test waits for what should come at once. */
const PATIENCE_MS = 10_000;

/** Why tests that need these programs (absolute paths) cannot run here; false if they can. */
export function skipWithout(...programs: readonly string[]): string | false {
  if (process.env.FIELDPOST_TEST_PEERS !== '1')
    return 'needs FIELDPOST_TEST_PEERS=1 and what scripts/peers installs';
  if (process.getuid?.() !== 0) return 'needs root: mail servers change their user';
  if (!isBuilt) return 'the program is not built';
  const missing = ['/usr/bin/curl', '/usr/bin/python3', ...programs].filter((path) => !existsSync(path));
  return missing.length === 0 ? false : `not on this machine: ${missing.join(', ')}`;
}

/** A fresh directory into which servers of any user may look; removed when the test ends. */
export function sharedDirectory(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'fieldpost-peers-'));
  chmodSync(path, 0o755);
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/**
 * Ports of 127.0.0.1 that nobody uses. Not from the range that the kernel hands out by itself: there another
 * socket may take one while its server is stopped for a while, or a client that calls it be connected to itself.
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

/** Somebody else's server, under a shell that ends it when its input ends: so it ends with the test, however that ends. */
export interface Server {
  /** Resolves when it and all its children have ended. */
  stop(): Promise<void>;
}

const KEEPER = 'exec 3<&0; "$@" & server=$!; { read -r _ <&3; kill "$server"; } & wait "$server"';

/** Starts a server that stays in the foreground; resolves when it can be reached at this port. */
export async function startServer(program: string, args: readonly string[], port: number): Promise<Server> {
  const child = spawn('/bin/bash', ['-c', KEEPER, 'keeper', program, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  const words: Buffer[] = [];
  child.stdout.on('data', (chunk) => words.push(chunk));
  child.stderr.on('data', (chunk) => words.push(chunk));
  // Each of its processes holds the pipes open, so that these are closed when the last has ended.
  const closed = once(child, 'close');
  const stop = async () => {
    child.stdin.end();
    await closed;
  };
  const patience = AbortSignal.timeout(PATIENCE_MS);
  while (!(await isReachable(port))) {
    if (child.exitCode !== null || patience.aborted) {
      await stop();
      throw new Error(`${program} cannot be reached: ${Buffer.concat(words)}`);
    }
    await pause(10);
  }
  return { stop };
}

async function isReachable(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** What `find` finds, at once or when something at the path (a file or a directory) has changed; `what` names it. */
export async function appearing<T>(path: string, what: string, find: () => T | undefined): Promise<T> {
  const watcher = watch(path);
  const patience = AbortSignal.timeout(PATIENCE_MS);
  try {
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      if (patience.aborted) throw new Error(`there is no ${what} in ${path}`);
      await once(watcher, 'change', { signal: patience }).catch(() => undefined);
    }
  } finally {
    watcher.close();
  }
}

/** A mail as a server has delivered it. */
export interface Delivered {
  /** What the servers on its way have added at the top. */
  readonly trace: string;
  /** What the daemon has sent, its line ends CRLF again. */
  readonly bytes: Buffer;
}

/** Where a server delivers mails to. */
export class Maildir {
  readonly #path: string;

  constructor(path: string) {
    this.#path = join(path, 'new');
  }

  /** The mail that was accepted under this id; waits for it. */
  async mail(id: string): Promise<Delivered> {
    const [mail] = await appearing(this.#path, `mail ${id}`, () => {
      const found = this.mails(id);
      return found.length === 0 ? undefined : found;
    });
    if (mail === undefined) throw new Error('what was found is gone');
    return mail;
  }

  /** All that arrived so far for this id. */
  mails(id: string): Delivered[] {
    const mails = readdirSync(this.#path).map((name) => readFileSync(join(this.#path, name)));
    return mails.filter((bytes) => bytes.includes(`\nMessage-ID: <${id}.`)).map(taken);
  }
}

/** Splits what the servers added from what was sent. Mail servers keep lines with a mere LF. */
function taken(stored: Buffer): Delivered {
  const text = stored.toString('latin1');
  const at = text.indexOf('\nFrom: ') + 1;
  return {
    trace: text.slice(0, at),
    bytes: Buffer.from(text.slice(at).replaceAll('\n', '\r\n'), 'latin1'),
  };
}

/** An email to be posted. */
export interface Posted {
  readonly destination: string;
  readonly subject?: string;
  readonly plain?: string;
  readonly html?: string;
}

/** What the API tells of a message. */
export interface Progress {
  readonly status: string;
  readonly attempts: number;
  readonly lastReply: string | null;
}

/** The daemon, used by curl and watched by its log. */
export interface Fieldpost {
  /** Posts emails by one request; gives their ids. */
  post(...mails: readonly Posted[]): Promise<string[]>;
  message(id: string): Promise<Progress>;
  /** Makes it due now. */
  retry(id: string): Promise<void>;
  state(): Promise<{
    relay: { state: string; reason: string | null };
    link: { state: string; reason: string | null };
    clock: { trusted: boolean };
    queue: Record<string, number>;
  }>;
  /** What it logged so far. */
  readonly lines: readonly string[];
  /** The line of its log that matches, at once or when it comes; `from`: the first line that counts. */
  said(pattern: RegExp, from?: number, patienceMs?: number): Promise<string>;
  readonly pid: number | undefined;
  /** Stops it as systemd does. */
  stop(): Promise<number | null>;
}

/** `through` for a device of this host name. */
export function named(hostname: string): readonly string[] {
  return ['/usr/bin/unshare', '--uts', '/bin/sh', '-c', `hostname ${hostname} && exec "$@"`, 'sh'];
}

/** Starts the daemon, by way of `through`, which curl goes as well; it is stopped when the test ends, and its log shown if the test failed. */
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
    lines,
    pid: child.pid,
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
        if (!(await hears(child, patience))) throw new Error(`the daemon does not say ${pattern}`);
      }
    },
  };
}

/** True when the process has said more, false when it will say nothing any more or the patience is at its end. */
function hears({ stdout }: ChildProcess, patience: AbortSignal): Promise<boolean> {
  if (stdout === null || stdout.closed || patience.aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    const settle = (isMore: boolean) => {
      stdout.off('data', more).off('close', over);
      patience.removeEventListener('abort', over);
      resolve(isMore);
    };
    const more = () => settle(true);
    const over = () => settle(false);
    stdout.on('data', more).on('close', over);
    patience.addEventListener('abort', over);
  });
}

/** Gets the URL, or posts the body to it, and gives the JSON that is answered. */
async function curl(through: readonly string[], url: string, body?: string): Promise<unknown> {
  const data = body === undefined ? [] : ['-H', 'Content-Type: application/json', '--data-binary', '@-'];
  const [program = '', ...args] = [...through, '/usr/bin/curl', '-sS', '--fail-with-body', ...data, url];
  return new Promise((resolve, reject) => {
    const child = execFile(program, args, (error, stdout) => {
      if (error) reject(new Error(`${error.message}${stdout}`));
      else resolve(JSON.parse(stdout));
    });
    // A curl that has ended does not read; its exit status has told why.
    child.stdin?.on('error', () => undefined).end(body ?? '');
  });
}
