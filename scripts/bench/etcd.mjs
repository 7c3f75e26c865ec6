/** Three members of etcd on this machine, for the cloud whose state is in etcd; used by fleet.mjs. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { remembered } from './children.mjs';
import { freePort } from './port.mjs';

const MEMBERS = 3;
const START_MS = 30_000;

/** The version; null: it is not installed. */
export function etcdVersion() {
  const { stdout } = spawnSync('etcd', ['--version'], { encoding: 'latin1' });
  return /^etcd Version: (\S+)/m.exec(stdout ?? '')?.[1] ?? null;
}

/** Starts them, each with a directory in `base`; resolves when all have a leader. */
export async function startEtcd(base) {
  const places = [];
  for (let at = 0; at < MEMBERS; at++) places.push({ port: await freePort(), peerPort: await freePort() });
  const urlOf = (port) => `http://127.0.0.1:${port}`;
  const cluster = places.map(({ peerPort }, at) => `m${at}=${urlOf(peerPort)}`).join(',');
  const children = [];
  for (const [at, { port, peerPort }] of places.entries()) {
    const directory = `${base}/etcd-${at}`;
    await mkdir(directory, { mode: 0o700 });
    const args = [
      `--name=m${at}`,
      `--data-dir=${directory}`,
      `--listen-client-urls=${urlOf(port)}`,
      `--advertise-client-urls=${urlOf(port)}`,
      `--listen-peer-urls=${urlOf(peerPort)}`,
      `--initial-advertise-peer-urls=${urlOf(peerPort)}`,
      `--initial-cluster=${cluster}`,
      '--log-level=error',
    ];
    children.push(remembered(spawn('etcd', args, { stdio: 'ignore' })));
  }
  const endpoints = places.map(({ port }) => urlOf(port));
  const giveUpMs = performance.now() + START_MS;
  const haveLeader = async () => {
    const all = await Promise.all(endpoints.map((url) => statusOf(url).catch(() => null)));
    return all.every((status) => (status?.leader ?? '0') !== '0');
  };
  while (!(await haveLeader())) {
    if (performance.now() > giveUpMs) throw new Error('etcd has not started');
    await pause(100);
  }
  return {
    endpoints,
    pids: children.map(({ pid }) => pid),
    /** The bytes of the database that are in use, of one member. */
    usedBytes: async () => Number((await statusOf(endpoints[0])).dbSizeInUse ?? 0),
    /** The keys that were written since the start. */
    puts: async () => {
      const metrics = await (await fetch(`${endpoints[0]}/metrics`)).text();
      return Number(/^etcd_mvcc_put_total (\S+)/m.exec(metrics)?.[1] ?? 0);
    },
    async end() {
      const exits = children.map((child) => child.exitCode ?? once(child, 'exit'));
      for (const child of children) child.kill('SIGKILL');
      await Promise.all(exits);
    },
  };
}

/** @type {(url: string | undefined) => Promise<{leader?: string, dbSizeInUse?: string}>} */
async function statusOf(url) {
  const response = await fetch(`${url}/v3/maintenance/status`, { method: 'POST', body: '{}' });
  return /** @type {any} */ (await response.json());
}
