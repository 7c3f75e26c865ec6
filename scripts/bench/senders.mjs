/** What sends, and the sink that it sends to, each a process of its own; used by deliver.mjs, latency.mjs and nagle.mjs. */
import { execFile, fork } from 'node:child_process';
import { on, once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { compile } from '../compile.mjs';
import { remembered } from './children.mjs';
import { cpuMs, orderQueue } from './process.mjs';
import { fill, startServer } from './server.mjs';

/** The sender of peers/nodemailer.mjs. */
export const NODEMAILER = pathOf('./peers/nodemailer.mjs');

/**
 * Starts a sink that waits for these `lots` of mails, see sink.mjs. `roundTripMs`: through delay.mjs. Each call of `lot`
 * resolves when the next lot has arrived: {count, ms}.
 */
export async function startSink({ roundTripMs = 0, ...orders }) {
  const sink = await forked('./sink.mjs', orders);
  const told = on(sink.child, 'message');
  const lot = async () => (await told.next()).value[0];
  const lots = orders.lots;
  if (roundTripMs === 0) return { port: sink.port, lot, lots, end: sink.end };
  const link = await forked('./delay.mjs', { port: sink.port, roundTripMs });
  const end = () => {
    link.end();
    sink.end();
  };
  return { port: link.port, lot, lots, end };
}

/** Mails a second of a lot, counted alike for every sender. */
export function rateOf({ count, ms }) {
  return (count / ms) * 1000;
}

/** The daemon is filled on hold, then released. Resolves with {count, ms, cpuMs} of each lot. */
export async function daemonDelivers(kind, stateDir, sink) {
  const server = await startServer(kind, stateDir, sink.port);
  await orderQueue(server.port, 'hold');
  await fill(server.port, sumOf(sink.lots));
  let cpuBefore = await cpuMs(server.pid);
  await orderQueue(server.port, 'release');
  const spent = [];
  for (const _ of sink.lots) {
    const lot = await sink.lot();
    const cpuAfter = await cpuMs(server.pid);
    spent.push({ ...lot, cpuMs: cpuAfter - cpuBefore });
    cpuBefore = cpuAfter;
  }
  await server.end('SIGKILL');
  return spent;
}

/** Express+SQLite+nodemailer is filled without a relay, and delivers from its next start on. Resolves with {count, ms} of each lot. */
export async function sqliteDelivers(stateDir, sink) {
  const filled = await startServer('sqlite', stateDir);
  await fill(filled.port, sumOf(sink.lots));
  await filled.end();
  const server = await startServer('sqlite', stateDir, sink.port);
  const spent = [];
  for (const _ of sink.lots) spent.push(await sink.lot());
  await server.end('SIGKILL');
  return spent;
}

/** A sender of sending.mjs, without a queue. Resolves with {count, ms} of each lot, and what the sender tells of it. */
export async function senderDelivers(sender, sink, orders) {
  const sent = promisify(execFile)(process.execPath, [
    pathOf('./sending.mjs'),
    JSON.stringify({ sender, port: sink.port, lots: sink.lots, ...orders }),
  ]);
  const arrived = (async () => {
    const lots = [];
    for (const _ of sink.lots) lots.push(await sink.lot());
    return lots;
  })();
  // Both at once: of a sender that fails nothing arrives.
  const [{ stdout }, lots] = await Promise.all([sent, arrived]);
  const told = JSON.parse(stdout);
  return lots.map((lot, at) => ({ ...told[at], ...lot }));
}

function sumOf(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0);
}

/** Our session as the daemon's program has it, in one file: a sender of sending.mjs. */
export async function compiledSession(directory) {
  await compile(pathOf('./session.ts'), directory);
  return join(directory, 'session.cjs');
}

/** A script in a process of its own, which first reports its port. */
async function forked(script, orders) {
  const child = remembered(fork(pathOf(script), [JSON.stringify(orders)]));
  const [port] = await once(child, 'message');
  return { child, port, end: () => child.kill() };
}

function pathOf(name) {
  return fileURLToPath(new URL(name, import.meta.url));
}
