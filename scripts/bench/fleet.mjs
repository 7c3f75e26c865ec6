/**
 * The reference cloud under the heartbeats of a fleet: with its state in files, and with one or three instances whose state
 * is in three members of etcd on the same machine. One third of the rounds.
 */
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compile } from '../compile.mjs';
import { etcdVersion, startEtcd } from './etcd.mjs';
import { cpuMs, residentMiB } from './process.mjs';
import { aThird, compare, interleave, unmeasured } from './rounds.mjs';
import { isSmoke, scaled } from './scale.mjs';
import { CLOUD, cloudOf, ordered, STORE, startServer } from './server.mjs';

/** As many as the files take. With them the usual rate is that of a heartbeat every 30 s. */
const DEVICES = Number(process.env.BENCH_FLEET_DEVICES ?? scaled(10_000));
const USUAL_RATE = Math.round(DEVICES / 30);
/** Not scaled: a few heartbeats must be due in it. */
const USUAL_MS = isSmoke ? 3000 : 15_000;
const P99_MS_MAX = 100;
/** The rates that are tried: each is this much higher than the one before. */
const FIRST_RATE = 500;
const STEP = 1.2;
const STRIDE = 4;
const CONNECTIONS = 32;

/** Resolves with the rows; the plan is that of rounds.mjs. */
export async function fleet(plan) {
  const directory = await mkdtemp(join(tmpdir(), 'fieldpost-fleet-'));
  try {
    await compile(fileURLToPath(new URL('../../test/support/open-load.ts', import.meta.url)), directory);
    const turn = (instances, withEtcd) => (base) => measure({ directory, base, instances, withEtcd });
    const why = etcdMissing();
    const found = await interleave(aThird(plan), {
      files: turn(1, false),
      ...(!why && { one: turn(1, true), three: turn(3, true) }),
    });
    return rowsOf(found, why);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Why the cloud cannot be measured with etcd; null: it can. */
function etcdMissing() {
  if (etcdVersion() === null) return 'etcd is not installed';
  return readFileSync(CLOUD, 'latin1').includes(STORE) ? null : 'this build has no store in etcd';
}

function rowsOf(found, why) {
  const many = DEVICES.toLocaleString('en');
  const peers = /** @type {const} */ ([
    ['one', 'one instance with etcd'],
    ['three', 'three instances with etcd'],
  ]);
  /** @type {[figure: string, unit: string, name: string][]} */
  const figures = [
    [`heartbeats with a p99 below ${P99_MS_MAX} ms`, '/s', 'rate'],
    [`p50 at ${USUAL_RATE}/s`, 'ms', 'p50Ms'],
    [`p99 at ${USUAL_RATE}/s`, 'ms', 'p99Ms'],
    [`the slowest at ${USUAL_RATE}/s`, 'ms', 'maxMs'],
    [`CPU a heartbeat at ${USUAL_RATE}/s, all instances`, 'µs', 'cpuUs'],
    [`resident with ${many} devices, all instances`, 'MiB', 'residentMiB'],
  ];
  /** @type {typeof figures} */
  const own = [
    ['etcd: bytes a device', 'B', 'etcdBytes'],
    [`etcd: keys written at ${USUAL_RATE} heartbeats/s`, '/s', 'putRate'],
    ['etcd: CPU a heartbeat, three members', 'µs', 'etcdCpuUs'],
    ['etcd: resident, three members', 'MiB', 'etcdMiB'],
  ];
  const of = (kind, name) => found[kind].map((figures) => figures[name]);
  const rows = figures.flatMap(([figure, unit, name]) => {
    const ours = of('files', name);
    if (why) return [unmeasured(figure, unit, ours, 'etcd', why)];
    return peers.map(([kind, words]) =>
      compare(figure, unit, ours, { name: words, numbers: of(kind, name) }),
    );
  });
  if (why) return rows;
  const beside = (figure, unit, name) =>
    compare(`${figure}; one instance`, unit, of('one', name), {
      name: 'three instances',
      numbers: of('three', name),
    });
  return [...rows, ...own.map((one) => beside(...one))];
}

/** All figures of one kind of cloud. */
async function measure({ directory, base, instances, withEtcd }) {
  const etcd = withEtcd ? await startEtcd(base) : null;
  const servers = [];
  try {
    for (let at = 0; at < instances; at++) {
      await mkdir(`${base}/${at}`);
      servers.push(await startServer(cloudOf(etcd), `${base}/${at}`));
    }
    const urls = servers.map(({ port }) => `http://127.0.0.1:${port}`);
    const load = (rate, warmMs, ms) => run({ directory, urls, devices: DEVICES, rate, warmMs, ms });
    const emptyBytes = (await etcd?.usedBytes()) ?? 0;
    // Every device is heard once. That also warms V8 up.
    const first = await load(1000, 0, (DEVICES / 1000) * 1100);
    if (!isGood(first)) throw new Error(`first heartbeats failed: ${JSON.stringify(first)}`);
    const pids = servers.map(({ pid }) => pid);
    const cpuOf = async () => ({ own: await sum(pids, cpuMs), etcd: await sum(etcd?.pids ?? [], cpuMs) });
    const before = await cpuOf();
    const putsBefore = (await etcd?.puts()) ?? 0;
    const usual = await load(USUAL_RATE, 0, USUAL_MS);
    const after = await cpuOf();
    const puts = ((await etcd?.puts()) ?? 0) - putsBefore;
    if (!isGood(usual)) throw new Error(`the usual rate is too much: ${JSON.stringify(usual)}`);
    const memory = {
      residentMiB: await sum(pids, residentMiB),
      etcdMiB: await sum(etcd?.pids ?? [], residentMiB),
    };
    const usedBytes = (await etcd?.usedBytes()) ?? 0;
    const perBeatUs = (kind) => ((after[kind] - before[kind]) * 1000) / usual.due;
    return {
      ...usual,
      ...memory,
      rate: await highestRate((rate) => load(rate, scaled(1000), scaled(3000))),
      cpuUs: perBeatUs('own'),
      putRate: (puts * USUAL_RATE) / usual.due,
      etcdCpuUs: perBeatUs('etcd'),
      etcdBytes: (usedBytes - emptyBytes) / DEVICES,
    };
  } finally {
    for (const server of servers) await server.end('SIGKILL');
    await etcd?.end();
  }
}

async function sum(pids, figure) {
  const numbers = await Promise.all(pids.map((pid) => figure(pid)));
  return numbers.reduce((total, one) => total + one, 0);
}

/** The highest of the rates that are tried: first in large steps, then in small ones. */
async function highestRate(load) {
  const rateAt = (step) => Math.round(FIRST_RATE * STEP ** step);
  const holds = async (step) => {
    const figures = await load(rateAt(step));
    return isGood(figures) && figures.p99Ms < P99_MS_MAX;
  };
  let step = 0;
  if (!(await holds(step))) return 0;
  while (await holds(step + STRIDE)) step += STRIDE;
  for (let tries = 1; tries < STRIDE && (await holds(step + 1)); tries++) step++;
  return rateAt(step);
}

/** All were answered, and rightly. */
function isGood({ due, counts }) {
  return due > 0 && counts['200'] === due;
}

/** Has another process send heartbeats; resolves with the figures of open-load.ts. */
function run(orders) {
  const script = fileURLToPath(new URL('./fleet-load.mjs', import.meta.url));
  return ordered(script, { connections: CONNECTIONS, ...orders });
}
