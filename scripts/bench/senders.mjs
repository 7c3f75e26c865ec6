/** What sends, and the sink that it sends to, each a process of its own; used by deliver.mjs, latency.mjs and nagle.mjs. */
import { execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { compile } from '../compile.mjs';
import { cpuMs, orderQueue } from './process.mjs';
import { fill, startServer } from './server.mjs';

/** The sender of peers/nodemailer.mjs. */
export const NODEMAILER = pathOf('./peers/nodemailer.mjs');

/**
 * Starts a sink that waits for `count` mails, or for `limitMs` after the first. `nagle`: with Nagle's algorithm.
 * `roundTripMs`: through delay.mjs. `arrivals` resolves with {count, ms}: ms from the first mail's arrival to the last one's.
 */
export async function startSink({ roundTripMs = 0, ...orders }) {
  const sink = await forked('./sink.mjs', orders);
  const arrivals = once(sink.child, 'message').then(([told]) => told);
  if (roundTripMs === 0) return { port: sink.port, arrivals, end: sink.end };
  const link = await forked('./delay.mjs', { port: sink.port, roundTripMs });
  const end = () => {
    link.end();
    sink.end();
  };
  return { port: link.port, arrivals, end };
}

/** Mails a second, counted alike for every sender: from the first arrival to the last. */
export function rateOf({ count, ms }) {
  return ((count - 1) / ms) * 1000;
}

/** The daemon is filled on hold, then released. Resolves with {arrivals, cpuMs}: its CPU from the release to the last arrival. */
export async function daemonDelivers(kind, stateDir, sink, count) {
  const server = await startServer(kind, stateDir, sink.port);
  await orderQueue(server.port, 'hold');
  await fill(server.port, count);
  const cpuBefore = await cpuMs(server.pid);
  await orderQueue(server.port, 'release');
  const arrivals = await sink.arrivals;
  const spent = { arrivals, cpuMs: (await cpuMs(server.pid)) - cpuBefore };
  await server.end('SIGKILL');
  return spent;
}

/** Express+SQLite+nodemailer is filled without a relay, and delivers from its next start on. Resolves with {arrivals}. */
export async function sqliteDelivers(stateDir, sink, count) {
  const filled = await startServer('sqlite', stateDir);
  await fill(filled.port, count);
  await filled.end();
  const server = await startServer('sqlite', stateDir, sink.port);
  const arrivals = await sink.arrivals;
  await server.end('SIGKILL');
  return { arrivals };
}

/** A sender of sending.mjs, without a queue. Resolves with {arrivals} and what it tells: {ms, cpuMs, grownBytes}. */
export async function senderDelivers(sender, sink, orders) {
  const told = promisify(execFile)(process.execPath, [
    pathOf('./sending.mjs'),
    JSON.stringify({ sender, port: sink.port, ...orders }),
  ]);
  return { arrivals: await sink.arrivals, ...JSON.parse((await told).stdout) };
}

/** Our session as the daemon's program has it, in one file: a sender of sending.mjs. */
export async function compiledSession(directory) {
  await compile(pathOf('./session.mjs'), directory);
  return join(directory, 'session.cjs');
}

/** A script in a process of its own, which first reports its port. */
async function forked(script, orders) {
  const child = fork(pathOf(script), [JSON.stringify(orders)]);
  const [port] = await once(child, 'message');
  return { child, port, end: () => child.kill() };
}

function pathOf(name) {
  return fileURLToPath(new URL(name, import.meta.url));
}
