/**
 * The reference cloud on a port of its own, on a faulty disk and a clock that stands still.
 *
 *   await using cloud = await startCloud();
 *   const answer = await cloud.call('PUT', '/devices/pump-3/heartbeat', { body: { state: 'running' } });
 */
import { type Cloud, createCloud } from '../../src/cloud-server/cloud.js';
import type { SendShort } from '../../src/cloud-server/webhook.js';
import { type Config, type Environment, parseConfig } from '../../src/config.js';
import { nameOf, type System } from '../../src/daemon.js';
import { createConnect } from '../../src/system/connect.js';
import { createLog } from '../../src/system/log.js';
import { FakeClock } from './clock.js';
import { FaultyDisk } from './faulty-disk.js';
import { seededRandom } from './random.js';

export const DEVICE = '/devices/pump-3';
export const DESTINATIONS = `${DEVICE}/destinations`;
export const JAN = {
  uid: '7c9e6679-7425-40de-944b-e07fc1f90ae7',
  type: 1,
  destination: 'jan@example.com',
  lang: 'nl',
  name: 'Jan',
};
export const EWA = {
  ...JAN,
  uid: 'a3bb189e-8bf9-4888-9912-ace4e6543002',
  destination: 'ewa@example.com',
  lang: 'pl',
};

export interface CloudAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks at what it expects to be there
  readonly json: any;
}

export interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON unless it is a string. */
  readonly body?: unknown;
  /** Null: none. */
  readonly key?: string | null;
}

export interface TestCloud extends AsyncDisposable {
  readonly url: string;
  readonly config: Config;
  readonly clock: FakeClock;
  readonly disk: FaultyDisk;
  readonly lines: string[];
  call(method: string, path: string, options?: CallOptions): Promise<CloudAnswer>;
  /** Has the cloud follow another configuration. */
  reload(options: Pick<StartOptions, 'env' | 'keys'>): ReturnType<Cloud['reload']>;
  stop(): Promise<void>;
}

export interface StartOptions {
  readonly env?: Environment;
  /** The text of the file with the keys; without it any key is right. */
  readonly keys?: string;
  /** The texts of other files. */
  readonly files?: Readonly<Record<string, string>>;
  /** Takes SMS, phone and push messages. */
  readonly send?: SendShort;
  readonly clock?: FakeClock;
  readonly disk?: FaultyDisk;
}

export async function startCloud(options: StartOptions = {}): Promise<TestCloud> {
  const { clock = new FakeClock(), disk = new FaultyDisk({ directories: ['/var/lib'] }) } = options;
  const lines: string[] = [];
  const config = configOf(options);
  const random = seededRandom(1);
  const system: System = {
    disk,
    clock,
    log: createLog({ level: 'debug', priorities: true, write: (line) => lines.push(line), wallMs: Date.now }),
    randomBytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(random() * 256)),
    random,
    takeLock: async () => ({ release: async () => undefined }),
    hostname: () => 'cloud.example',
    connect: createConnect({ clock }),
    version: '1.2.3',
  };
  const cloud = await createCloud(config, system, options.send);
  const url = `http://${cloud.addresses.map(nameOf)[0]}`;
  let stopped: Promise<void> | null = null;
  const stop = () => {
    stopped ??= cloud.stop();
    return stopped;
  };
  return {
    url,
    config,
    clock,
    disk,
    lines,
    call: (method, path, more) => call(`${url}${path}`, method, more),
    reload: (next) => cloud.reload(configOf(next)),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function configOf({ env = {}, keys, files = {} }: StartOptions): Config {
  const all = {
    FIELDPOST_CLOUD_SERVER_LISTEN: '127.0.0.1:0',
    FIELDPOST_STATE_DIR: '/var/lib/fieldpost',
    ...(keys !== undefined && { FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/etc/keys' }),
    ...env,
  };
  const parsed = parseConfig(all, (path) => files[path] ?? keys ?? '', { hostname: 'cloud.example' });
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  return parsed.config;
}

async function call(url: string, method: string, options: CallOptions = {}): Promise<CloudAnswer> {
  const { headers, body, key = 'any' } = options;
  const answer = await fetch(url, {
    method,
    headers: {
      ...(key !== null && { Authorization: `Bearer ${key}` }),
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await answer.text();
  const isJson = /json/.test(answer.headers.get('content-type') ?? '') && text !== '';
  return {
    status: answer.status,
    headers: answer.headers,
    text,
    json: isJson ? JSON.parse(text) : undefined,
  };
}
