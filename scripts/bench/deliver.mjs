/**
 * Delivery over one connection to a relay in a process of its own: 2,000 messages of 1 KiB by the whole daemon,
 * which also records each on the disk, and by its session alone; 20 messages of 20 MB by the session, streamed,
 * and 20 with a file of 20 MB, read from the disk and encoded on the way.
 * Against nodemailer, which keeps no queue.
 */
import { execFile, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { compile } from '../compile.mjs';
import { cpuMs, orderQueue } from './process.mjs';
import { againstBefore, before, compare, interleave } from './rounds.mjs';
import { fill, startServer } from './server.mjs';

const SMALL = { count: 2000 };
const LARGE = { count: 20, streamedBytes: 20_000_000 };
const FILE_BYTES = 20_000_000;
const NODEMAILER = pathOf('./peers/nodemailer.mjs');

/** Resolves with the rows. */
export async function deliver(plan) {
  const session = await compiledSession(plan.base);
  const path = await attachmentIn(plan.base);
  return [
    ...(await small(plan, session)),
    ...(await large(plan, session, '20 MB', LARGE, LARGE.streamedBytes)),
    ...(await large(plan, session, 'a file of 20 MB', { count: LARGE.count, path }, FILE_BYTES)),
  ];
}

async function small(plan, session) {
  const cpuUs = { daemon: [], session: [], nodemailer: [], before: [] };
  const turn = (name, work) => async (stateDir) => {
    const spent = await work(stateDir);
    cpuUs[name].push((spent.cpuMs / SMALL.count) * 1000);
    return (SMALL.count / spent.ms) * 1000;
  };
  const rate = await interleave(plan, {
    daemon: turn('daemon', (stateDir) => daemonDelivers('fieldpost', stateDir)),
    ...before((kind) => turn(kind, (stateDir) => daemonDelivers(kind, stateDir))),
    session: turn('session', () => sends(session, SMALL)),
    nodemailer: turn('nodemailer', () => sends(NODEMAILER, SMALL)),
  });
  const row = (figure, unit, name, found, target) =>
    compare(figure, unit, found[name], { name: 'nodemailer', numbers: found.nodemailer }, target);
  return [
    row('deliver 1 KiB, daemon', '/s', 'daemon', rate, { atLeast: 2 }),
    row('deliver 1 KiB, session', '/s', 'session', rate, { atLeast: 2 }),
    row('CPU each, daemon', 'µs', 'daemon', cpuUs, { ownAtMost: 400 }),
    row('CPU each, session', 'µs', 'session', cpuUs, { ownAtMost: 400 }),
    ...againstBefore('deliver 1 KiB, daemon', '/s', rate.daemon, rate.before),
    ...againstBefore('CPU each, daemon', 'µs', cpuUs.daemon, rate.before && cpuUs.before),
  ];
}

async function large(plan, session, what, orders, bytes) {
  const cpu = { session: [], nodemailer: [] };
  const grownMB = { session: [], nodemailer: [] };
  const turn = (name, sender) => async () => {
    const spent = await sends(sender, orders);
    cpu[name].push(spent.cpuMs / orders.count);
    grownMB[name].push(spent.grownBytes / 1e6);
    return (orders.count * bytes) / 1000 / spent.ms;
  };
  const rate = await interleave(plan, {
    session: turn('session', session),
    nodemailer: turn('nodemailer', NODEMAILER),
  });
  const row = (figure, unit, { session: ours, nodemailer: numbers }, target) =>
    compare(figure, unit, ours, { name: 'nodemailer', numbers }, target);
  return [
    row(`deliver ${what}, session`, 'MB/s', rate, { atLeast: 1.1 }),
    row(`CPU each, ${what}`, 'ms', cpu, { atMost: 1 }),
    row('peak resident above start', 'MB', grownMB, { ownAtMost: 24 }),
  ];
}

/** From the release of a held queue to the arrival of its last message; resolves with {ms, cpuMs}. */
async function daemonDelivers(kind, stateDir) {
  const sink = await startSink(SMALL.count);
  const server = await startServer(kind, stateDir, sink.port);
  await orderQueue(server.port, 'hold');
  await fill(server.port, SMALL.count);
  const cpuBefore = await cpuMs(server.pid);
  const began = performance.now();
  await orderQueue(server.port, 'release');
  await sink.allArrived;
  const ms = performance.now() - began;
  const spent = { ms, cpuMs: (await cpuMs(server.pid)) - cpuBefore };
  await server.end('SIGKILL');
  sink.end();
  return spent;
}

/** Has a sender send; resolves with what it tells: {ms, cpuMs, grownBytes}. */
async function sends(sender, what) {
  const sink = await startSink(what.count);
  const orders = JSON.stringify({ sender, port: sink.port, ...what });
  const { stdout } = await promisify(execFile)(process.execPath, [pathOf('./sending.mjs'), orders]);
  await sink.allArrived;
  sink.end();
  return JSON.parse(stdout);
}

async function startSink(count) {
  const child = fork(pathOf('./sink.mjs'), [String(count)]);
  const [port] = await once(child, 'message');
  return { port, allArrived: once(child, 'message'), end: () => child.kill() };
}

/** A file as the spool has it; its path. */
async function attachmentIn(directory) {
  const path = join(directory, 'spool', '0'.repeat(20));
  await mkdir(join(directory, 'spool'), { recursive: true });
  await writeFile(path, randomBytes(FILE_BYTES));
  return path;
}

/** The session as the daemon's program has it, in one file. */
async function compiledSession(directory) {
  await compile(pathOf('./session.mjs'), directory);
  return join(directory, 'session.cjs');
}

function pathOf(name) {
  return fileURLToPath(new URL(name, import.meta.url));
}
