/**
 * The reference cloud on a port of its own, on a faulty disk and a clock that stands still.
 *
 *   await using cloud = await startCloud();
 *   const { status } = await cloud.beat();
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { addressOf } from '../../src/base/config/endpoints.js';
import type { Environment } from '../../src/base/config/types.js';
import { HOUR_MS, SECOND_MS } from '../../src/base/limits.js';
import { type Cloud, createCloud } from '../../src/cloud/cloud.js';
import type { CloudConfig } from '../../src/cloud/settings.js';
import type { System } from '../../src/mail/engine.js';
import type { SendShort } from '../../src/mail/message/message.js';
import { type Answer, ask, type Question } from './ask.js';
import { FakeClock } from './clock.js';
import { assertCloudDescribed } from './described.js';
import { FaultyDisk } from './faulty-disk.js';
import type { FakeRelay } from './relay.js';
import { configOf, testSystem } from './system.js';

export const DEVICE = '/devices/pump-3';
export const DESTINATIONS = `${DEVICE}/destinations`;
export const JAN = {
  uid: '7c9e6679-7425-40de-944b-e07fc1f90ae7',
  type: 1,
  destination: 'jan@example.com',
  lang: 'nl',
  name: 'Jan',
};
/** Another entry for each number. */
export const entry = (n: number, more: object = {}) => ({
  ...{ ...JAN, uid: `${JAN.uid.slice(0, -3)}${String(n).padStart(3, '0')}` },
  ...more,
});
export const EWA = {
  ...JAN,
  uid: 'a3bb189e-8bf9-4888-9912-ace4e6543002',
  destination: 'ewa@example.com',
  lang: 'pl',
};

/** The setting of this relay. */
export const through = ({ port }: Pick<FakeRelay, 'port'>) => ({
  FIELDPOST_RELAY: `smtp://127.0.0.1:${port}?tls=never`,
});

interface CallOptions extends Question {
  /** Null: none. */
  readonly key?: string | null;
}

export interface TestCloud extends AsyncDisposable {
  readonly url: string;
  readonly clock: FakeClock;
  readonly disk: FaultyDisk;
  readonly lines: string[];
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** As the operator, with the key `boss`. */
  boss(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** Sends a heartbeat of a device that runs, unless it reports `more`. */
  beat(device?: string, key?: string | null, more?: object): Promise<Answer>;
  /** Stores the first document of a device. */
  putFirst(document: object, device?: string, key?: string): Promise<Answer>;
  /** Lets at most an hour pass until it holds; resolves with whether it does. */
  passUntil(holds: () => boolean): Promise<boolean>;
  /** Has the cloud follow another configuration. */
  reload(options: Pick<StartOptions, 'env' | 'keys'>): ReturnType<Cloud['reload']>;
  status(): Promise<string>;
  stop(): Promise<void>;
}

interface StartOptions {
  readonly env?: Environment;
  /** The text of the file with the keys; without it any key is right. */
  readonly keys?: string;
  /** The texts of other files. */
  readonly files?: Readonly<Record<string, string>>;
  /** Takes SMS, phone and push messages. */
  readonly send?: SendShort;
  readonly disk?: FaultyDisk;
  readonly clock?: FakeClock;
  /** What else of the outside is another. */
  readonly system?: Partial<System>;
}

export async function startCloud(options: StartOptions = {}): Promise<TestCloud> {
  const { disk = new FaultyDisk({ directories: ['/var/lib'] }), clock = new FakeClock() } = options;
  const { system, lines } = testSystem({ ...options.system, disk, clock, hostname: () => 'cloud.example' });
  const cloud = await createCloud(readConfig(options), system, options.send);
  const url = `http://${cloud.addresses.map(addressOf)[0]}`;
  let stopped: Promise<void> | null = null;
  const stop = () => {
    stopped ??= cloud.stop();
    return stopped;
  };
  const ask = (method: string, path: string, more?: CallOptions) =>
    call(new URL(`${url}${path}`), method, more);
  return {
    ...{ url, clock, disk, lines },
    call: ask,
    boss: (method, path, more) => ask(method, path, { key: 'boss', ...more }),
    beat: (device = 'pump-3', key = 'any', more = {}) =>
      ask('PUT', `/devices/${device}/heartbeat`, { key, body: { state: 'running', ...more } }),
    putFirst: (body, device = 'pump-3', key = 'any') =>
      ask('PUT', `/devices/${device}/destinations`, { key, body, headers: { 'If-None-Match': '*' } }),
    async passUntil(holds) {
      for (let passedMs = 0; !holds() && passedMs < HOUR_MS; passedMs += SECOND_MS) {
        await clock.advance(SECOND_MS);
        await nextTurn();
      }
      return holds();
    },
    reload: (next) => cloud.reload(readConfig(next)),
    status: cloud.status,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function readConfig({ env = {}, keys, files = {} }: StartOptions): CloudConfig {
  const all = {
    FIELDPOST_STATE_DIR: '/var/lib/fieldpost',
    ...(keys !== undefined && { FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/etc/keys' }),
    ...env,
  };
  return configOf(all, (path) => files[path] ?? keys ?? '');
}

/** Each answer must be as the cloud describes it, and each request that it takes. */
async function call(url: URL, method: string, options: CallOptions = {}): Promise<Answer> {
  const { key = 'any', headers, body } = options;
  const bearer = key !== null && { Authorization: `Bearer ${key}` };
  const answer = await ask(url.href, method, { headers: { ...bearer, ...headers }, body });
  const sent = { ...(body !== undefined && { 'Content-Type': 'application/json' }), ...headers };
  assertCloudDescribed({
    method,
    path: url.pathname + url.search,
    headers: Object.fromEntries(Object.entries(sent).map(([name, value]) => [name.toLowerCase(), value])),
    body: typeof body === 'string' ? body : JSON.stringify(body ?? ''),
    status: answer.status,
    answerHeaders: Object.fromEntries(answer.headers),
    answerBody: answer.text,
  });
  return answer;
}
