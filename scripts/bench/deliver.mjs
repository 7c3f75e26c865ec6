/**
 * Delivery over one connection to a relay in a process of its own: 2,000 messages of 1 KiB by the whole daemon,
 * which also records each on the disk, and by its session alone; 20 messages of 20 MB by the session, streamed,
 * and 20 with a file of 20 MB, read from the disk and encoded on the way.
 * Against nodemailer, which keeps no queue, and for 1 KiB against Express+SQLite+nodemailer, which does the same job.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { againstBefore, before, compare, interleave } from './rounds.mjs';
import {
  compiledSession,
  daemonDelivers,
  NODEMAILER,
  rateOf,
  senderDelivers,
  sqliteDelivers,
  startSink,
} from './senders.mjs';

const SMALL = { count: 2000 };
const LARGE = { count: 20, streamedBytes: 20_000_000 };
const FILE_BYTES = 20_000_000;

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
  const cpuUs = { daemon: [], session: [], nodemailer: [], before: [], sqlite: [] };
  const turn = (name, deliver) => async (stateDir) => {
    const sink = await startSink(SMALL);
    const { arrivals, cpuMs } = await deliver(sink, stateDir);
    sink.end();
    cpuUs[name].push((cpuMs / SMALL.count) * 1000);
    return rateOf(arrivals);
  };
  const daemon = (kind) => (sink, stateDir) => daemonDelivers(kind, stateDir, sink, SMALL.count);
  const rate = await interleave(plan, {
    daemon: turn('daemon', daemon('fieldpost')),
    ...before((kind) => turn(kind, daemon(kind))),
    session: turn('session', (sink) => senderDelivers(session, sink, SMALL)),
    nodemailer: turn('nodemailer', (sink) => senderDelivers(NODEMAILER, sink, SMALL)),
    sqlite: turn('sqlite', (sink, stateDir) => sqliteDelivers(stateDir, sink, SMALL.count)),
  });
  const row = (figure, unit, name, found, target) =>
    compare(figure, unit, found[name], { name: 'nodemailer', numbers: found.nodemailer }, target);
  const sqlite = { name: 'Express+SQLite+nodemailer', numbers: rate.sqlite };
  return [
    row('deliver 1 KiB, daemon', '/s', 'daemon', rate, { atLeast: 2 }),
    compare('deliver 1 KiB, daemon', '/s', rate.daemon, sqlite, { atLeast: 3 }),
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
    const sink = await startSink({ count: orders.count });
    const spent = await senderDelivers(sender, sink, orders);
    sink.end();
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

/** A file as the spool has it; its path. */
async function attachmentIn(directory) {
  const path = join(directory, 'spool', '0'.repeat(20));
  await mkdir(join(directory, 'spool'), { recursive: true });
  await writeFile(path, randomBytes(FILE_BYTES));
  return path;
}
