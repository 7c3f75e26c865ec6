/**
 * Delivery over one connection to a relay in a process of its own: 4,000 messages of 1 KiB by the whole daemon, which also
 * records each on the disk, and by its session alone, of which the last 2,000 have the targets, because every sender has warmed
 * up by then; 20 messages of 20 MB by the session, streamed,
 * and 20 with a file of 20 MB, read from the disk and encoded on the way.
 * Against nodemailer, which keeps no queue, and for 1 KiB against Express+SQLite+nodemailer, which does the same job; also
 * while they accept what they deliver.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cpuMs } from './process.mjs';
import { againstBefore, before, compare, interleave } from './rounds.mjs';
import { scaled } from './scale.mjs';
import {
  compiledSession,
  daemonDelivers,
  NODEMAILER,
  rateOf,
  senderDelivers,
  sqliteDelivers,
  startSink,
} from './senders.mjs';
import { load, startServer } from './server.mjs';

const SMALL = scaled(2000);
const LARGE = scaled(20);
const STREAMED_BYTES = scaled(20_000_000);
const FILE_BYTES = scaled(20_000_000);

/** Resolves with the rows. */
export async function deliver(plan) {
  const session = await compiledSession(plan.base);
  const path = await attachmentIn(plan.base);
  return [
    ...(await small(plan, session)),
    ...(await meanwhile(plan)),
    ...(await large(plan, session, '20 MB', { streamedBytes: STREAMED_BYTES }, STREAMED_BYTES)),
    ...(await large(plan, session, 'a file of 20 MB', { path }, FILE_BYTES)),
  ];
}

async function small(plan, session) {
  /** @type {() => Record<'daemon' | 'session' | 'nodemailer' | 'before' | 'sqlite', number[]>} */
  const noted = () => ({ daemon: [], session: [], nodemailer: [], before: [], sqlite: [] });
  const [cpuUs, coldRate, coldCpuUs] = [noted(), noted(), noted()];
  const turn = (name, deliver) => async (stateDir) => {
    const sink = await startSink({ lots: [SMALL, SMALL] });
    const [cold, warm] = await deliver(sink, stateDir);
    sink.end();
    coldRate[name].push(rateOf(cold));
    coldCpuUs[name].push((cold.cpuMs / SMALL) * 1000);
    cpuUs[name].push((warm.cpuMs / SMALL) * 1000);
    return rateOf(warm);
  };
  const daemon = (kind) => (sink, stateDir) => daemonDelivers(kind, stateDir, sink);
  const rate = await interleave(plan, {
    daemon: turn('daemon', daemon('fieldpost')),
    ...before((kind) => turn(kind, daemon(kind))),
    session: turn('session', (sink) => senderDelivers(session, sink)),
    nodemailer: turn('nodemailer', (sink) => senderDelivers(NODEMAILER, sink)),
    sqlite: turn('sqlite', (sink, stateDir) => sqliteDelivers(stateDir, sink)),
  });
  const row = (figure, unit, name, found, target) =>
    compare(figure, unit, found[name], { name: 'nodemailer', numbers: found.nodemailer }, target);
  const sqlite = (numbers) => ({ name: 'Express+SQLite+nodemailer', numbers });
  return [
    row('deliver 1 KiB, daemon', '/s', 'daemon', rate, { atLeast: 2 }),
    compare('deliver 1 KiB, daemon', '/s', rate.daemon, sqlite(rate.sqlite), { atLeast: 3 }),
    row('deliver 1 KiB, session', '/s', 'session', rate, { atLeast: 2 }),
    row('CPU each, daemon', 'µs', 'daemon', cpuUs, { ownAtMost: 400 }),
    row('CPU each, session', 'µs', 'session', cpuUs, { ownAtMost: 400 }),
    row('the first 2,000, daemon', '/s', 'daemon', coldRate),
    compare('the first 2,000, daemon', '/s', coldRate.daemon, sqlite(coldRate.sqlite)),
    row('CPU each of the first 2,000, daemon', 'µs', 'daemon', coldCpuUs),
    ...againstBefore('deliver 1 KiB, daemon', '/s', rate.daemon, rate.before),
    ...againstBefore('CPU each, daemon', 'µs', cpuUs.daemon, rate.before && cpuUs.before),
    ...againstBefore('the first 2,000, daemon', '/s', coldRate.daemon, rate.before && coldRate.before),
    ...againstBefore('CPU each of the first 2,000', 'µs', coldCpuUs.daemon, rate.before && coldCpuUs.before),
  ];
}

/** CPU of a server for each message that it accepts from 32 clients, and meanwhile delivers. */
async function meanwhile(plan) {
  const turn = (kind) => async (stateDir) => {
    const sink = await startSink({ lots: [SMALL, SMALL] });
    const server = await startServer(kind, stateDir, sink.port);
    let ms = 0;
    for (const count of sink.lots) {
      const beforeMs = await cpuMs(server.pid);
      await Promise.all([sink.lot(), load(server.port, { connections: 32, count })]);
      ms = (await cpuMs(server.pid)) - beforeMs;
    }
    await server.end('SIGKILL');
    sink.end();
    return (ms / SMALL) * 1000;
  };
  const found = await interleave(plan, {
    fieldpost: turn('fieldpost'),
    ...before(turn),
    sqlite: turn('sqlite'),
  });
  const sqlite = { name: 'Express+SQLite+nodemailer', numbers: found.sqlite };
  const figure = 'accept and deliver 1 KiB, CPU each';
  return [
    compare(figure, 'µs', found.fieldpost, sqlite, { atMost: 0.45 }),
    ...againstBefore(figure, 'µs', found.fieldpost, found.before),
  ];
}

async function large(plan, session, what, orders, bytes) {
  /** @typedef {{session: number[], nodemailer: number[]}} Both */
  /** @type {Both} */
  const cpu = { session: [], nodemailer: [] };
  /** @type {Both} */
  const grownMB = { session: [], nodemailer: [] };
  const turn = (name, sender) => async () => {
    const sink = await startSink({ lots: [LARGE] });
    const [spent] = await senderDelivers(sender, sink, orders);
    sink.end();
    cpu[name].push(spent.cpuMs / LARGE);
    grownMB[name].push(spent.grownBytes / 1e6);
    return (LARGE * bytes) / 1000 / spent.sentMs;
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
