/**
 * Three instances of the built cloud over three real members of etcd, their faults, and the sink of their messages. Each
 * instance and each member is in a network namespace of its own. Needs root.
 *
 *   const fleet = await startFleet(t);
 *   await fleet.instances[0].kill();
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Test } from 'tap';
import { systemClock } from '../../src/base/system/clock.js';
import { makeCertificate } from '../support/certificate.js';
import { type DaemonProcess, startDaemon } from '../support/daemon.js';
import type { Bridge } from './bridge.js';
import { type Cluster, startEtcd } from './etcd.js';
import { sharedDirectory, stopThreads } from './peers.js';

/** The operator's key, which opens all calls. */
export const KEY = 'the-key-of-the-operator';
const NAMES = ['a', 'b', 'c'];
const FIRST_INSTANCE = 32;
const START_MS = 120_000;
const PORT = 43780;

/** The clock of the tests, also that of the load generator. */
export const clock = systemClock();
/** Milliseconds that never leap. */
export const nowMs = () => clock.bootMs();

/** A line of a log, and when it came. */
interface Line {
  readonly atMs: number;
  readonly text: string;
}

/** One instance of the cloud. It keeps its state directory. */
export interface Instance {
  readonly name: string;
  readonly url: string;
  readonly lines: readonly Line[];
  /** Resolves when it answers; tries again while etcd is not ready. */
  start(): Promise<void>;
  kill(): Promise<void>;
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
  /** SIGSTOP; resolves when it answers nothing more. */
  pause(): Promise<void>;
  continue(): void;
  /** Cuts it off etcd. Devices and the sink still reach it. */
  cut(): void;
  heal(): void;
}

/** A message that an instance has sent to somebody. */
export interface SunkMessage {
  readonly instance: string;
  /** Of the instance's journal: a repeated request has the same. */
  readonly id: string;
  readonly destination: string;
  readonly device: string | null;
  readonly text: string;
  readonly atMs: number;
}

/** The service behind the webhook. */
export interface Sink {
  /** Without repeated requests. */
  readonly messages: readonly SunkMessage[];
  /** Requests with the id of an earlier one. */
  readonly repeated: number;
  /** Resolves when it holds; looks again at each message. Rejects after `patienceMs` without a message. */
  until(what: string, holds: () => boolean, patienceMs?: number): Promise<void>;
}

export interface Fleet {
  readonly cluster: Cluster;
  readonly instances: readonly Instance[];
  readonly urls: readonly string[];
  readonly sink: Sink;
}

/**
 * Starts everything; silence counts at once. `devices` have the operator's key as their own; `env`: further settings of the
 * instances. It ends with the test.
 */
export async function startFleet(
  t: Test,
  devices: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Fleet> {
  const cluster = await startEtcd(t, { networked: true });
  const bridge = cluster.bridge as Bridge;
  const directory = sharedDirectory(t);
  const ca = makeCertificate({ name: 'CA of the sink' });
  writeFileSync(join(directory, 'sink.pem'), ca.cert);
  const keys = ['*', ...devices].map((name) => `${name} ${KEY}\n`);
  writeFileSync(join(directory, 'keys'), keys.join(''), { mode: 0o600 });
  const { sink, port } = await openSink(t, bridge.address, ca);
  const { files } = cluster;
  const settings = {
    NODE_EXTRA_CA_CERTS: join(directory, 'sink.pem'),
    FIELDPOST_CLOUD_SERVER_KEYS_FILE: join(directory, 'keys'),
    FIELDPOST_CLOUD_SERVER_STORE: `etcd:${cluster.endpoints.join(',')}`,
    FIELDPOST_CLOUD_SERVER_STORE_CA_FILE: files?.ca ?? '',
    FIELDPOST_CLOUD_SERVER_STORE_CERT_FILE: files?.cert ?? '',
    FIELDPOST_CLOUD_SERVER_STORE_KEY_FILE: files?.key ?? '',
    ...env,
  };
  const instances = NAMES.map((name, n) =>
    openInstance(t, name, cluster, bridge.space(FIRST_INSTANCE + n), {
      ...settings,
      FIELDPOST_CLOUD_SERVER_WEBHOOK: `https://${bridge.address}:${port}/${name}`,
    }),
  );
  await Promise.all(instances.map((instance) => instance.start()));
  return { cluster, instances, sink, urls: instances.map(({ url }) => url) };
}

function openInstance(
  t: Test,
  name: string,
  { membersAt }: Cluster,
  space: ReturnType<Bridge['space']>,
  settings: Readonly<Record<string, string>>,
): Instance {
  // The journal is synced at each message; in memory that costs nothing.
  const state = mkdtempSync('/dev/shm/fieldpost-cloud-');
  const env = {
    ...settings,
    FIELDPOST_STATE_DIR: state,
    FIELDPOST_CLOUD_SERVER_LISTEN: `${space.host}:${PORT}`,
  };
  const lines: Line[] = [];
  let daemon: DaemonProcess | null = null;
  const end = async (signal: NodeJS.Signals) => {
    const ending = daemon;
    daemon = null;
    return (await ending?.end(signal)) ?? null;
  };
  t.teardown(async () => {
    await end('SIGKILL');
    rmSync(state, { recursive: true, force: true });
    if (t.passing()) return;
    const shown = lines.filter(({ text }) => !/ (?:notified|sent|device o\w+line) /.test(text)).slice(-40);
    t.comment(`${name}:\n${shown.map(({ atMs, text }) => `${Math.round(atMs)} ${text}`).join('\n')}`);
  });
  const follow = (running: DaemonProcess) => {
    let taken = 0;
    const take = () => {
      const atMs = nowMs();
      lines.push(...running.lines.slice(taken).map((text) => ({ atMs, text })));
      taken = running.lines.length;
    };
    take();
    running.child.stdout?.on('data', take).on('end', take);
  };
  return {
    name,
    url: `http://${space.host}:${PORT}`,
    lines,
    async start() {
      for (const endMs = nowMs() + START_MS; daemon === null; ) {
        try {
          daemon = await startDaemon(env, ['cloud'], space.through);
          follow(daemon);
        } catch (error) {
          lines.push({ atMs: nowMs(), text: String(error) });
          if (nowMs() > endMs) throw error;
          await pause(500);
        }
      }
    },
    kill: async () => void (await end('SIGKILL')),
    stop: () => end('SIGTERM'),
    async pause() {
      if (daemon?.child.pid !== undefined) await stopThreads(daemon.child.pid);
    },
    continue: () => void daemon?.child.kill('SIGCONT'),
    cut: () => space.filter('drop', membersAt ?? ''),
    heal: () => space.filter('pass'),
  };
}

type Authority = ReturnType<typeof makeCertificate>;

async function openSink(t: Test, host: string, issuer: Authority): Promise<{ sink: Sink; port: number }> {
  const { cert, key } = makeCertificate({ name: 'sink', hosts: [host], issuer });
  const byId = new Map<string, SunkMessage>();
  const messages: SunkMessage[] = [];
  let repeated = 0;
  let wake = () => {};
  const server = createServer({ cert, key }, async (req, res) => {
    let body = '';
    for await (const chunk of req) body += chunk;
    const instance = req.url?.slice(1) ?? '';
    const id = `${instance} ${req.headers['idempotency-key']}`;
    const { destination, device = null, message: text } = JSON.parse(body);
    const message = { instance, id, destination, device, text, atMs: nowMs() };
    if (byId.has(id)) repeated++;
    else messages.push(message);
    byId.set(id, message);
    res.writeHead(200).end();
    wake();
  });
  server.listen(0, host);
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const sink: Sink = {
    messages,
    get repeated() {
      return repeated;
    },
    async until(what, holds, patienceMs = START_MS) {
      while (!holds()) {
        const came = new Promise<true>((resolve) => {
          wake = () => resolve(true);
        });
        const late = new AbortController();
        const patience = pause(patienceMs, false, { signal: late.signal }).catch(() => false);
        const isMore = await Promise.race([came, patience]);
        late.abort();
        if (!isMore) throw new Error(`the sink waits in vain for ${what}`);
      }
    },
  };
  return { sink, port: (server.address() as AddressInfo).port };
}

/** A call with the operator's key. Gives null instead of an answer if there is none within `timeoutMs`. */
export async function callAs(
  url: string,
  method: string,
  { body, headers = {}, key = KEY, timeoutMs = START_MS }: CallAs = {},
): Promise<{ status: number; etag: string | null; text: string } | null> {
  try {
    const answer = await fetch(url, {
      method,
      headers: {
        Authorization: `Bearer ${key}`,
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    return { status: answer.status, etag: answer.headers.get('etag'), text: await answer.text() };
  } catch {
    return null;
  }
}

interface CallAs {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly key?: string;
  readonly timeoutMs?: number;
}
