/**
 * `node scripts/bench/guard.mjs`: fails if the built program costs more than budget.json allows. About a minute, with fixed
 * counts. What is compared takes turns of some tenths of a second, so that a machine that is slow for a while is slow for all.
 * Ratios of CPU time, bytes and system calls then hold on a busy machine. Wall times do not, so the rates are only printed.
 * In the environment: BENCH_PROGRAM (the main.cjs of another build), BENCH_DIR (where state is kept; a real disk).
 * A higher budget is a line in the diff of budget.json. Its commit says why.
 */
import { readFileSync, statSync } from 'node:fs';
import { cp, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { checkpointCosts, QUEUED as FEW_QUEUED, MANY_QUEUED } from './checkpoint.mjs';
import { inDirectory } from './directory.mjs';
import { judge } from './judge.mjs';
import { freePort } from './port.mjs';
import { cpuMs, ioOf, peakMiB, residentMiB } from './process.mjs';
import { median, tableOf } from './rounds.mjs';
import { startSink } from './senders.mjs';
import { cloudOf, daemonIn, fill, load, PROGRAM, startServer } from './server.mjs';
import { send } from './upload.mjs';

const BUDGET = JSON.parse(readFileSync(new URL('./budget.json', import.meta.url), 'utf8'));
/** Each with processes of its own: V8 does not compile twice alike. */
const ROUNDS = 3;
/** While the CPU of messages is over its budget: a neighbour on the machine makes it more for minutes, and never less. */
const ROUNDS_MAX = 9;
const TURNS = 6;
/** Messages of a turn. */
const LOT = 960;
const ONE_BY_ONE = 200;
const QUEUED = 10_000;
/** After so many V8 has compiled what they use. With what follows QUEUED are accepted. */
const WARM_UP = QUEUED - TURNS * LOT - ONE_BY_ONE;
const STARTS = 12;
/** After this many starts memory is read, too. */
const RESIDENT_EACH = 4;
const UPLOADED_BYTES = 100_000_000;
const SETTLE_MS = 1000;
const POLL_MS = 20;

/** Has V8 say at each garbage collection how many bytes were allocated since the one before. */
const traced = daemonIn(PROGRAM, ['--trace-gc-nvp']);

/** @import {Server, Starter} from './server.mjs' */

/** What a process has taken so far. @typedef {{cpuMs: number, calls: number, handedBytes: number}} Cost */

/** A process under load. `turn` has it take so many messages from 32 clients. */
class Contestant {
  #cpuMs = 0;
  #handedBytes = 0;
  /** Of its best turn: while V8 marks, it wakes its own loop again and again, two calls each time. */
  #calls = Number.POSITIVE_INFINITY;
  #messages = 0;
  /** The time in which its messages were accepted. */
  #ms = 0;
  #server;
  #until;

  /**
   * @param {Server} server
   * @param {() => Promise<unknown>} [until] begins with a turn, and resolves when the messages of the turn have gone their way
   */
  constructor(server, until = async () => undefined) {
    this.#server = server;
    this.#until = until;
  }

  async warmUp() {
    await this.#take(WARM_UP);
  }

  async turn() {
    const before = await this.#read();
    const [, { ms }] = await this.#take(LOT);
    const after = await this.#read();
    this.#cpuMs += after.cpuMs - before.cpuMs;
    this.#handedBytes += after.handedBytes - before.handedBytes;
    this.#calls = Math.min(this.#calls, (after.calls - before.calls) / LOT);
    this.#messages += LOT;
    this.#ms += ms;
  }

  /** Of each message. */
  get each() {
    const count = this.#messages;
    return {
      rate: (count / this.#ms) * 1000,
      cpuUs: (this.#cpuMs / count) * 1000,
      calls: this.#calls,
      handedBytes: this.#handedBytes / count,
    };
  }

  /** @param {number} count */
  async #take(count) {
    return await Promise.all([this.#until(), load(this.#server.port, { connections: 32, count })]);
  }

  /** @returns {Promise<Cost>} */
  async #read() {
    const { pid } = this.#server;
    const { calls, handedBytes } = await ioOf(pid);
    return { calls, handedBytes, cpuMs: await cpuMs(pid) };
  }
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
 * One round. `accept` and `bare` take requests of 1 KiB; `deliver` also delivers them meanwhile to a relay in another process.
 * `waiting` has its cloud online, and 10,000 mails that wait for a relay that does not answer: the queues of SMS, calls and
 * pushes could send at once, and have nothing to send.
 * @param {string} base
 */
async function round(base) {
  await mkdir(base);
  const sink = await startSink({ lots: [WARM_UP, ...Array(TURNS).fill(LOT)] });
  const cloud = await startServer(cloudOf(null), join(base, 'cloud'));
  const servers = {
    accept: await startServer(traced, join(base, 'accept')),
    bare: await startServer('bare', join(base, 'bare')),
    deliver: await startServer(traced, join(base, 'deliver'), sink.port),
    waiting: await startServer(deviceOf(cloud.port), join(base, 'waiting'), await freePort()),
  };
  const allocatedBytes = allocations(servers.accept);
  const deliverAllocatedBytes = allocations(servers.deliver);
  await isOnline(servers.waiting.port);
  await fill(servers.waiting.port, QUEUED);
  const contestants = {
    accept: new Contestant(servers.accept),
    bare: new Contestant(servers.bare),
    deliver: new Contestant(servers.deliver, () => sink.lot()),
    waiting: new Contestant(servers.waiting),
  };
  const all = Object.values(contestants);
  for (const one of all) await one.warmUp();
  for (let turn = 0; turn < TURNS; turn++) {
    for (let n = 0; n < all.length; n++) await all[(turn + n) % all.length]?.turn();
  }
  const { accept, bare, deliver, waiting } = contestants;
  const found = {
    accept: {
      ...accept.each,
      rateOfOne: await rateOfOne(servers.accept),
      allocatedKiB: allocatedBytes() / QUEUED / 1024,
      residentMiB: await residentMiB(servers.accept.pid),
    },
    bare: { ...bare.each, rateOfOne: await rateOfOne(servers.bare) },
    deliver: { ...deliver.each, allocatedKiB: deliverAllocatedBytes() / (WARM_UP + TURNS * LOT) / 1024 },
    waiting: waiting.each,
  };
  for (const server of [...Object.values(servers), cloud]) await server.end('SIGKILL');
  sink.end();
  await rm(base, { recursive: true });
  return found;
}

/** Requests each second from one client. @param {Server} server */
async function rateOfOne({ port }) {
  const { accepted, ms } = await load(port, { connections: 1, count: ONE_BY_ONE });
  return (accepted / ms) * 1000;
}

/**
 * CPU of an upload, and the growth of memory in it, by the daemon and by busboy piped into a file.
 * @param {string} base
 * @param {'fieldpost' | 'busboy'} kind
 */
async function uploadBy(base, kind) {
  const directory = join(base, 'upload');
  const server = await startServer(kind, directory);
  await send(server.port, UPLOADED_BYTES / 10);
  const [startMs, startMiB] = [await cpuMs(server.pid), await peakMiB(server.pid)];
  await send(server.port, UPLOADED_BYTES);
  const spent = {
    cpuMs: (await cpuMs(server.pid)) - startMs,
    grownMiB: (await peakMiB(server.pid)) - startMiB,
  };
  await server.end('SIGKILL');
  await rm(directory, { recursive: true });
  return spent;
}

/** @type {(cloudPort: number) => Starter} */
const deviceOf = (cloudPort) => (port, stateDir, relayPort) => {
  const { env, ...started } = traced(port, stateDir, relayPort);
  const cloud = {
    FIELDPOST_CLOUD: `http://127.0.0.1:${cloudPort}`,
    FIELDPOST_DEVICE_ID: 'pump-1',
    FIELDPOST_CLOUD_KEY: 'any-key-is-right',
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
 * CPU of a start to the first answer, and memory a while after it: of the bare server, and of the daemon with the state of
 * these directories.
 * @param {string} base
 * @param {{empty: string, full: string}} templates
 */
async function starts(base, templates) {
  const own = join(base, 'start');
  const kinds = /** @type {const} */ (['bare', 'empty', 'full']);
  const spentMs = { bare: 0, empty: 0, full: 0 };
  /** @type {{empty: number[], full: number[]}} */
  const miB = { empty: [], full: [] };
  for (let n = 0; n < STARTS; n++) {
    for (const kind of kinds) {
      if (kind !== 'bare')
        await cp(templates[kind], own, { recursive: true, filter: (path) => !path.endsWith('/lock') });
      const server = await startServer(kind === 'bare' ? 'bare' : 'fieldpost', own);
      spentMs[kind] += await cpuMs(server.pid);
      if (kind !== 'bare' && n % RESIDENT_EACH === 0) {
        await pause(SETTLE_MS);
        miB[kind].push(await residentMiB(server.pid));
      }
      await server.end();
      await rm(own, { recursive: true });
    }
  }
  return { spentMs, residentMiB: { empty: median(miB.empty), full: median(miB.full) } };
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
  const rounds = [];
  /** @type {(of: 'accept' | 'deliver' | 'waiting', peer: 'accept' | 'bare') => number} */
  const cpuOf = (of, peer) => Math.min(...rounds.map((one) => one[of].cpuUs / one[peer].cpuUs));
  const cpuOfMessages = () => ({
    'accept: CPU': cpuOf('accept', 'bare'),
    'accept, 10,000 waiting, cloud online: CPU': cpuOf('waiting', 'accept'),
    'accept and deliver: CPU': cpuOf('deliver', 'bare'),
  });
  const isOver = () => {
    const figures = cpuOfMessages();
    return judge(figures, BUDGET).some(({ name, passes }) => name in figures && !passes);
  };
  while (rounds.length < ROUNDS || (rounds.length < ROUNDS_MAX && isOver()))
    rounds.push(await round(join(base, `round${rounds.length}`)));
  const uploads = [];
  for (let n = 0; n < ROUNDS; n++)
    uploads.push({ own: await uploadBy(base, 'fieldpost'), busboy: await uploadBy(base, 'busboy') });
  const { spentMs, residentMiB: idleMiB } = await starts(base, { empty, full });
  const { few, many } = await checkpointCosts(base, 5);
  const accept = mediansOf(rounds.map((one) => one.accept));
  const bare = mediansOf(rounds.map((one) => one.bare));
  const deliver = mediansOf(rounds.map((one) => one.deliver));
  const waiting = mediansOf(rounds.map((one) => one.waiting));
  /** @type {(of: 'accept' | 'deliver') => number} */
  const callsOf = (of) => Math.min(...rounds.map((one) => one[of].calls));
  return {
    judged: {
      ...cpuOfMessages(),
      'accept: allocated': accept.allocatedKiB,
      'accept: calls': callsOf('accept'),
      'accept: bytes': accept.handedBytes,
      'accept and deliver: allocated': deliver.allocatedKiB,
      'accept and deliver: calls': callsOf('deliver'),
      'accept and deliver: bytes': deliver.handedBytes,
      'upload: CPU': median(uploads.map(({ own, busboy }) => own.cpuMs / busboy.cpuMs)),
      'upload: resident growth': median(uploads.map(({ own }) => own.grownMiB)),
      'start, empty: CPU': spentMs.empty / spentMs.bare,
      'start, 10,000 queued: CPU': spentMs.full / spentMs.empty,
      'start, 10,000 queued: resident': idleMiB.full - idleMiB.empty,
      '10,000 accepted: resident': accept.residentMiB - idleMiB.empty,
      'checkpoint, 15,000 queued: CPU': few.cpuMs / few.peerMs,
      'checkpoint, 15,000 queued: longest piece': few.longestMs / few.peerMs,
      'checkpoint, 100,000 queued: each message': (many.cpuMs / few.cpuMs) * (FEW_QUEUED / MANY_QUEUED),
      'size of the program': statSync(PROGRAM).size / 1000,
    },
    told: [
      `accept: ${told(accept)}; bare: ${told(bare)}; with 10,000 waiting and the cloud online: ${told(waiting)}; accept and deliver: ${deliver.cpuUs.toFixed(0)} µs`,
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

await inDirectory('guard', async (base) => {
  const began = performance.now();
  const { judged, told } = await measure(base);
  const verdicts = judge(judged, BUDGET);
  console.log(tableOf(verdicts.map(({ passes, ...row }) => row)));
  for (const line of told) console.log(line);
  console.log(`took ${Math.round((performance.now() - began) / 1000)} s`);
  const failed = verdicts.filter(({ passes }) => !passes).length;
  console.log(`${verdicts.length - failed} passed, ${failed} failed`);
  if (failed > 0) process.exitCode = 1;
});
