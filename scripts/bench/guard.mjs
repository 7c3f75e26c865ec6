/**
 * `node scripts/bench/guard.mjs`: fails if the built program costs more than budget.json allows. Some 75 s, with fixed
 * counts; our daemon and the bare server of peers/bare.mjs take turns, and the medians of five rounds are judged. Ratios of
 * CPU time, bytes and system calls hold on a busy machine. Wall times do not, so the rates are only printed.
 * In the environment: BENCH_PROGRAM (the main.cjs of another build), BENCH_DIR (where state is kept; a real disk).
 * A higher budget is a line in the diff of budget.json. Its commit says why.
 */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { checkpointCosts, QUEUED as FEW_QUEUED, MANY_QUEUED } from './checkpoint.mjs';
import { inDirectory } from './directory.mjs';
import { judge } from './judge.mjs';
import { freePort } from './port.mjs';
import { cpuMs, ioOf, residentMiB } from './process.mjs';
import { interleave, median, tableOf } from './rounds.mjs';
import { startSink } from './senders.mjs';
import { daemonIn, fill, load, PROGRAM, startServer } from './server.mjs';

const ROUNDS = 5;
/** After so many V8 has compiled what they use. */
const WARM_UP = 4000;
const MANY = 5800;
const ONE_BY_ONE = 200;
const DELIVERED = 3000;
const QUEUED = 10_000;
const STARTS = 3;
const SETTLE_MS = 1000;
const POLL_MS = 20;
/** The bench's only device, and its key. */
const DEVICE = 'pump-1';
const KEY = '0123456789abcdef0123456789abcdef';

/** Has V8 say at each garbage collection how many bytes were allocated since the one before. */
const traced = daemonIn(PROGRAM, ['--trace-gc-nvp']);

/** @import {Kind, Server, Starter} from './server.mjs' */

/**
 * What a process takes for each of `count` messages while `work` runs.
 * @param {Server} server
 * @param {number} count
 * @param {() => Promise<unknown>} work
 */
async function costOf({ pid }, count, work) {
  const read = async () => ({ ...(await ioOf(pid)), cpuMs: await cpuMs(pid), ms: performance.now() });
  const before = await read();
  await work();
  const after = await read();
  return {
    rate: (count / (after.ms - before.ms)) * 1000,
    cpuUs: ((after.cpuMs - before.cpuMs) / count) * 1000,
    calls: (after.calls - before.calls) / count,
    handedBytes: (after.handedBytes - before.handedBytes) / count,
  };
}

/**
 * Sums what a traced process allocates; a function that gives the bytes so far.
 * @param {Server} server
 */
function allocations({ stdout }) {
  let [text, bytes] = ['', 0];
  stdout.setEncoding('latin1').on('data', (chunk) => {
    const lines = (text + chunk).split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) bytes += Number(/ allocated=(\d+) /.exec(line)?.[1] ?? 0);
  });
  return () => bytes;
}

/**
 * Requests of 1 KiB from 32 clients, then from one.
 * @param {Kind | Starter} kind
 * @param {string} stateDir
 */
async function accepts(kind, stateDir) {
  const server = await startServer(kind, stateDir);
  const allocatedBytes = allocations(server);
  const from = (/** @type {number} */ connections, /** @type {number} */ count) =>
    costOf(server, count, () => load(server.port, { connections, count }));
  await from(32, WARM_UP);
  const many = await from(32, MANY);
  const one = await from(1, ONE_BY_ONE);
  const found = {
    ...many,
    rateOfOne: one.rate,
    allocatedKiB: allocatedBytes() / (WARM_UP + MANY + ONE_BY_ONE) / 1024,
    residentMiB: await residentMiB(server.pid),
  };
  await server.end('SIGKILL');
  return found;
}

/**
 * Requests of 1 KiB from 32 clients, which are delivered meanwhile to a relay in another process.
 * @param {string} stateDir
 */
async function delivers(stateDir) {
  const sink = await startSink({ lots: [WARM_UP, DELIVERED] });
  const server = await startServer(traced, stateDir, sink.port);
  const allocatedBytes = allocations(server);
  const lot = (/** @type {number} */ count) =>
    costOf(server, count, () => Promise.all([sink.lot(), load(server.port, { connections: 32, count })]));
  await lot(WARM_UP);
  const cost = await lot(DELIVERED);
  await server.end('SIGKILL');
  sink.end();
  return { ...cost, allocatedKiB: allocatedBytes() / (WARM_UP + DELIVERED) / 1024 };
}

/**
 * Requests of 1 KiB from 32 clients to a daemon whose cloud is online, while mails wait for a relay that does not answer. The
 * queues of SMS, calls and pushes could send at once, and have nothing to send.
 * @param {string} stateDir
 */
async function acceptsBesideWaiting(stateDir) {
  const keys = join(stateDir, 'keys');
  writeFileSync(keys, `${DEVICE} ${KEY}\n`);
  const cloud = await startServer(cloudWith(keys), join(stateDir, 'cloud'));
  const server = await startServer(deviceOf(cloud.port), join(stateDir, 'device'), await freePort());
  await isOnline(server.port);
  await fill(server.port, QUEUED);
  await load(server.port, { connections: 32, count: WARM_UP });
  const found = await costOf(server, DELIVERED, () =>
    load(server.port, { connections: 32, count: DELIVERED }),
  );
  await server.end('SIGKILL');
  await cloud.end('SIGKILL');
  return found;
}

/** The reference cloud of the same program. @type {(keys: string) => Starter} */
const cloudWith = (keys) => (port, stateDir) => ({
  args: [PROGRAM, 'cloud'],
  env: {
    FIELDPOST_CLOUD_SERVER_LISTEN: `127.0.0.1:${port}`,
    FIELDPOST_CLOUD_SERVER_KEYS_FILE: keys,
    FIELDPOST_STATE_DIR: stateDir,
  },
});

/** @type {(cloudPort: number) => Starter} */
const deviceOf = (cloudPort) => (port, stateDir, relayPort) => {
  const { env, ...started } = daemonIn(PROGRAM)(port, stateDir, relayPort);
  const cloud = {
    FIELDPOST_CLOUD: `http://127.0.0.1:${cloudPort}`,
    FIELDPOST_DEVICE_ID: DEVICE,
    FIELDPOST_CLOUD_KEY: KEY,
  };
  return { ...started, env: { ...env, ...cloud } };
};

/** Resolves when the daemon's link to its cloud is online. @param {number} port */
async function isOnline(port) {
  for (;;) {
    const response = await fetch(`http://127.0.0.1:${port}/api/internal/state`);
    if (/** @type {any} */ (await response.json()).link.state === 'online') return;
    await pause(POLL_MS);
  }
}

/**
 * CPU of a few starts to the first answer, and memory a while after the last one.
 * @param {Kind} kind
 * @param {string | null} template
 * @param {string} stateDir
 */
async function starts(kind, template, stateDir) {
  let spentMs = 0;
  let miB = 0;
  for (let n = 1; n <= STARTS; n++) {
    const own = join(stateDir, String(n));
    if (template) await cp(template, own, { recursive: true, filter: (path) => !path.endsWith('/lock') });
    const server = await startServer(kind, own);
    spentMs += await cpuMs(server.pid);
    if (n === STARTS && template) {
      await pause(SETTLE_MS);
      miB = await residentMiB(server.pid);
    }
    await server.end();
  }
  return { cpuMs: spentMs / STARTS, residentMiB: miB };
}

/**
 * A state directory of a daemon that was stopped with so many queued.
 * @param {string} stateDir
 * @param {number} queued
 */
async function stopped(stateDir, queued) {
  const server = await startServer('fieldpost', stateDir);
  if (queued > 0) await fill(server.port, queued);
  await server.end();
  return stateDir;
}

/**
 * What the guard judges, and what it only tells.
 * @param {string} base
 */
async function measure(base) {
  const full = await stopped(join(base, 'full'), QUEUED);
  const empty = await stopped(join(base, 'empty'), 0);
  const found = await interleave(
    { rounds: ROUNDS, base },
    {
      accept: (directory) => accepts(traced, directory),
      bare: (directory) => accepts('bare', directory),
      deliver: delivers,
      waiting: acceptsBesideWaiting,
      bareStart: (directory) => starts('bare', null, directory),
      emptyStart: (directory) => starts('fieldpost', empty, directory),
      fullStart: (directory) => starts('fieldpost', full, directory),
    },
  );
  const { few, many } = await checkpointCosts(base, ROUNDS);
  const accept = mediansOf(found.accept);
  const bare = mediansOf(found.bare);
  const deliver = mediansOf(found.deliver);
  const waiting = mediansOf(found.waiting);
  const start = {
    bare: mediansOf(found.bareStart),
    empty: mediansOf(found.emptyStart),
    full: mediansOf(found.fullStart),
  };
  return {
    judged: {
      'accept: CPU': accept.cpuUs / bare.cpuUs,
      'accept: allocated': accept.allocatedKiB,
      'accept: calls': accept.calls,
      'accept: bytes': accept.handedBytes,
      'accept, 10,000 waiting, cloud online: CPU': waiting.cpuUs / accept.cpuUs,
      'accept and deliver: CPU': deliver.cpuUs / bare.cpuUs,
      'accept and deliver: allocated': deliver.allocatedKiB,
      'accept and deliver: calls': deliver.calls,
      'accept and deliver: bytes': deliver.handedBytes,
      'start, empty: CPU': start.empty.cpuMs / start.bare.cpuMs,
      'start, 10,000 queued: CPU': start.full.cpuMs / start.empty.cpuMs,
      'start, 10,000 queued: resident': start.full.residentMiB - start.empty.residentMiB,
      '10,000 accepted: resident': accept.residentMiB - start.empty.residentMiB,
      'checkpoint, 15,000 queued: CPU': few.cpuMs / few.peerMs,
      'checkpoint, 15,000 queued: longest piece': few.longestMs / few.peerMs,
      'checkpoint, 100,000 queued: each message': (many.cpuMs / few.cpuMs) * (FEW_QUEUED / MANY_QUEUED),
      'size of the program': sizeOf(dirname(PROGRAM)) / 1000,
    },
    told: [
      `accept: ${told(accept)}; bare: ${told(bare)}; with 10,000 waiting and the cloud online: ${told(waiting)}; accept and deliver: ${told(deliver)}`,
      `checkpoint: ${few.cpuMs.toFixed(1)} ms of CPU with 15,000 queued, the longest piece ${few.longestMs.toFixed(1)} ms; ${many.cpuMs.toFixed(1)} and ${many.longestMs.toFixed(1)} ms with 100,000`,
      `accepts of 32 clients over those of one: ${gain(accept)}; bare: ${gain(bare)}; ratio: ${(gain(accept) / gain(bare)).toFixed(2)}`,
    ],
  };
}

/**
 * @template {Record<string, number>} T
 * @param {T[]} rounds
 * @returns {T}
 */
function mediansOf(rounds) {
  const names = Object.keys(rounds[0] ?? {});
  return /** @type {T} */ (
    Object.fromEntries(names.map((name) => [name, median(rounds.map((one) => one[name] ?? Number.NaN))]))
  );
}

/** @type {(cost: {rate: number, cpuUs: number}) => string} */
const told = ({ rate, cpuUs }) => `${rate.toFixed(0)}/s, ${cpuUs.toFixed(0)} µs of CPU each`;

/** @type {(rates: {rate: number, rateOfOne: number}) => number} */
const gain = ({ rate, rateOfOne }) => rate / rateOfOne;

/**
 * Bytes of all files of a directory.
 * @param {string} directory
 */
function sizeOf(directory) {
  return readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);
}

await inDirectory('guard', async (base) => {
  const began = performance.now();
  const { judged, told } = await measure(base);
  const verdicts = judge(judged, JSON.parse(readFileSync(new URL('./budget.json', import.meta.url), 'utf8')));
  console.log(tableOf(verdicts.map(({ passes, ...row }) => row)));
  for (const line of told) console.log(line);
  console.log(`took ${Math.round((performance.now() - began) / 1000)} s`);
  const failed = verdicts.filter(({ passes }) => !passes).length;
  console.log(`${verdicts.length - failed} passed, ${failed} failed`);
  if (failed > 0) process.exitCode = 1;
});
