/** The servers that are compared, each a process with a state directory of its own; used by every figure. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { get } from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { remembered } from './children.mjs';
import { freePort } from './port.mjs';
import { scaled } from './scale.mjs';

/** The built program, or that of another build in BENCH_PROGRAM. */
export const PROGRAM =
  process.env.BENCH_PROGRAM ?? fileURLToPath(new URL('../../build/dist/main.cjs', import.meta.url));
/** The reference cloud of the same build. */
export const CLOUD = join(dirname(PROGRAM), 'cloud-main.cjs');
/** The setting that has the reference cloud keep its state in etcd. */
export const STORE = 'FIELDPOST_CLOUD_SERVER_STORE';
const WARM_UP_REQUESTS = scaled(5000);
const BENCH = fileURLToPath(new URL('.', import.meta.url));
/** @type {(writeBytes: number) => Starter} */
const busboy = (writeBytes) => (port, stateDir) => ({
  args: [`${BENCH}peers/busboy.mjs`],
  env: { PORT: String(port), STATE_DIR: stateDir, WRITE_BYTES: String(writeBytes) },
});
const INSTALLED = '/usr/lib/fieldpost/build/dist/main.cjs';
const LAUNCHER = readFileSync(new URL('../../build/fieldpost', import.meta.url), 'utf8');
if (!LAUNCHER.includes(INSTALLED)) throw new Error(`build/fieldpost does not start ${INSTALLED}`);

/**
 * How a server is started: the program, that of Node.js by default, its arguments and its environment.
 * @typedef {(port: number, stateDir: string, relayPort?: number) =>
 *   {program?: string, args: string[], env: Record<string, string>}} Starter
 * @typedef {{
 *   port: number,
 *   pid: number,
 *   firstAnswerMs: number,
 *   stdout: import('node:stream').Readable,
 *   end: (signal?: NodeJS.Signals) => Promise<void>,
 * }} Server
 * @typedef {'fieldpost' | 'before' | 'bare' | 'busboy' | 'busboyLarge' | 'sqlite'} Kind
 */

/**
 * The daemon in this file, started by the script of the packages, with its paths replaced; `flags` are those of Node.js.
 * @type {(program: string, flags?: string[]) => Starter}
 */
export const daemonIn =
  (program, flags = []) =>
  (port, stateDir, relayPort) => ({
    program: '/bin/sh',
    args: [
      '-c',
      LAUNCHER.replaceAll(INSTALLED, program).replace('exec node', ['exec node', ...flags].join(' ')),
      'fieldpost',
      'run',
    ],
    env: {
      // The script calls node by its name.
      PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      FIELDPOST_LISTEN: `127.0.0.1:${port}`,
      FIELDPOST_STATE_DIR: stateDir,
      FIELDPOST_FROM: 'bench@example.com',
      // The figures ask for more in the queue than a device is allowed by default.
      FIELDPOST_MAX_QUEUE: '1000000',
      FIELDPOST_MAX_SPOOL: '4GiB',
      FIELDPOST_MAX_MESSAGE: '1GiB',
      ...(relayPort && { FIELDPOST_RELAY: `smtp://127.0.0.1:${relayPort}?tls=never` }),
    },
  });
/**
 * The reference cloud; with `etcd` it keeps its state there. Without a file of keys any key is right on
 * this machine.
 * @type {(etcd: {endpoints: string[]} | null) => Starter}
 */
export const cloudOf = (etcd) => (port, stateDir) => ({
  args: [CLOUD, 'serve'],
  env: {
    FIELDPOST_CLOUD_SERVER_LISTEN: `127.0.0.1:${port}`,
    FIELDPOST_STATE_DIR: stateDir,
    ...(etcd && { [STORE]: `etcd:${etcd.endpoints.join(',')}` }),
  },
});
/** @type {Record<Kind, Starter>} */
const KINDS = {
  fieldpost: daemonIn(PROGRAM),
  before: daemonIn(process.env.BENCH_BEFORE ?? ''),
  bare: (port, stateDir) => ({
    args: [`${BENCH}peers/bare.mjs`],
    env: { PORT: String(port), STATE_DIR: stateDir },
  }),
  busboy: busboy(16 * 1024),
  busboyLarge: busboy(2 ** 20),
  sqlite: (port, stateDir, relayPort) => ({
    args: [`${BENCH}peers/express-sqlite.mjs`],
    env: {
      PORT: String(port),
      STATE_DIR: stateDir,
      NODE_ENV: 'production',
      ...(relayPort && { RELAY_PORT: String(relayPort) }),
    },
  }),
};

/**
 * Starts a server of a kind, or by a starter of its own; resolves at its first answer. `firstAnswerMs` counts from the start
 * of its process.
 * @param {Kind | Starter} kind
 * @param {string} stateDir
 * @param {number} [relayPort]
 * @returns {Promise<Server>}
 */
export async function startServer(kind, stateDir, relayPort) {
  const port = await freePort();
  const {
    program = process.execPath,
    args,
    env,
  } = (typeof kind === 'string' ? KINDS[kind] : kind)(port, stateDir, relayPort);
  const began = performance.now();
  const child = remembered(
    spawn(program, args, {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  );
  child.stdout.resume();
  let complaint = '';
  child.stderr.on('data', (chunk) => {
    complaint = (complaint + chunk).slice(-2000);
  });
  const exited = once(child, 'exit');
  while (!(await answers(port))) {
    if (child.exitCode !== null) throw new Error(`${kind} ended with ${child.exitCode}: ${complaint}`);
  }
  return {
    port,
    pid: child.pid ?? 0,
    stdout: child.stdout,
    firstAnswerMs: performance.now() - began,
    end: async (/** @type {NodeJS.Signals} */ signal = 'SIGTERM') => {
      child.kill(signal);
      await exited;
    },
  };
}

/**
 * Posts to a server from another process; resolves with the number of accepted requests and the ms it took.
 * @param {number} port
 * @param {{connections?: number, batch?: number, warmMs?: number, ms?: number, count?: number}} orders
 * @returns {Promise<{accepted: number, ms: number}>}
 */
export function load(port, orders) {
  const all = { port, connections: 1, plainBytes: 1024, batch: 1, warmMs: scaled(300), ...orders };
  return ordered(`${BENCH}load.mjs`, all);
}

/** Runs a load generator with its orders; resolves with what it prints, as JSON. */
export async function ordered(script, orders) {
  const child = spawn(process.execPath, [script, JSON.stringify(orders)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let told = '';
  child.stdout.on('data', (chunk) => {
    told += chunk;
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error('the load generator failed');
  return JSON.parse(told);
}

/**
 * Has a server take as many requests as V8 needs to compile what they use: after them its rate hardly grows any more. The
 * messages stay queued.
 */
export function warmUp(port) {
  return load(port, { connections: 32, count: WARM_UP_REQUESTS });
}

/** Queues at least so many messages on a server, a hundred a request; ten of a small number. */
export function fill(port, count) {
  const batch = count < 1000 ? 10 : 100;
  return load(port, { batch, count: Math.ceil(count / batch) });
}

/** Asks once for an answer. A refused connection takes less than a millisecond, so the caller tries again at once. */
function answers(port) {
  return new Promise((resolve) => {
    const request = get({ port, host: '127.0.0.1', path: '/healthz', agent: false }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode === 200));
    });
    request.on('error', () => setTimeout(resolve, 1, false));
  });
}
