/**
 * Three real members of etcd, as one cluster, and their faults. They listen on loopback, or each in a network namespace of
 * its own so that it can be cut off. Needs root for namespaces only.
 *
 *   const cluster = await startEtcd(t);
 *   createEtcd({ endpoints: cluster.endpoints, … });
 *   await cluster.members[0].stop();   // SIGSTOP: it accepts connections, and answers nothing
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { makeCertificate } from '../support/certificate.js';
import { type Bridge, openBridge } from './bridge.js';
import { patiently } from './machines.js';
import { freePorts, sharedDirectory, stopThreads } from './peers.js';

/** The programs that this needs. */
export const ETCD = '/usr/bin/etcd';
const ETCDCTL = '/usr/bin/etcdctl';

const PATIENCE_MS = 30_000;
const COUNT = 3;
/** The addresses of the members end in this number and the next ones. */
const FIRST_MEMBER = 8;

/** One member. */
export interface Member {
  /** The URL for clients. */
  readonly endpoint: string;
  /** The id of its process; null while it does not run. */
  readonly pid: number | null;
  start(): void;
  /** SIGKILL; resolves when it has ended. */
  kill(): Promise<void>;
  /** SIGSTOP; resolves when it answers nothing more. */
  stop(): Promise<void>;
  /** SIGCONT. */
  continue(): void;
  /** Drops every packet from and to it. Needs `networked`. */
  cut(): void;
  heal(): void;
}

/** The cluster. */
export interface Cluster {
  readonly members: readonly Member[];
  readonly endpoints: readonly string[];
  /** With `tls`: what a client needs, in PEM, also as files. */
  readonly tls: {
    readonly ca: string;
    readonly client: { readonly cert: string; readonly key: string };
  } | null;
  readonly files: { readonly ca: string; readonly cert: string; readonly key: string } | null;
  /** With `networked`: where the members are; `membersAt` is their part of it. */
  readonly bridge: Bridge | null;
  readonly membersAt: string | null;
  /** Calls etcdctl; gives what it prints. */
  etcdctl(...args: readonly string[]): Promise<string>;
  /** The member that leads; waits for it. */
  leader(): Promise<Member>;
  /** Waits until every member that runs answers and has a leader. */
  ready(): Promise<void>;
}

/** How it is made. */
export interface ClusterOptions {
  /** TLS for clients, with a private CA and client certificates. */
  readonly tls?: boolean;
  /** Each member in a network namespace, so that it can be cut off; implies `tls`. */
  readonly networked?: boolean;
  /** More arguments for etcd. */
  readonly args?: readonly string[];
}

/** Starts a cluster; resolves when it is ready. It ends with the test. */
export async function startEtcd(t: Test, options: ClusterOptions = {}): Promise<Cluster> {
  const { networked = false, tls = networked, args = [] } = options;
  // Every write of etcd is synced; in memory that costs nothing.
  const data = mkdtempSync('/dev/shm/fieldpost-etcd-');
  t.teardown(() => rmSync(data, { recursive: true, force: true }));
  const bridge = networked ? openBridge(t) : null;
  const places = bridge === null ? await loopback() : networks(bridge);
  const files = tls
    ? certificates(
        t,
        places.map(({ host }) => host),
      )
    : null;
  const scheme = tls ? 'https' : 'http';
  const names = places.map((_, n) => `m${n}`);
  const initial = places.map(({ host, peerPort }, n) => `m${n}=http://${host}:${peerPort}`).join(',');
  const members = places.map((place, n) => {
    const [client, peer] = [
      `${scheme}://${place.host}:${place.port}`,
      `http://${place.host}:${place.peerPort}`,
    ];
    const command = [
      ...place.through,
      ...[ETCD, '--name', names[n] ?? '', '--data-dir', join(data, String(n))],
      ...['--listen-client-urls', client, '--advertise-client-urls', client],
      ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
      ...['--initial-cluster', initial, '--initial-cluster-token', data, '--log-level', 'error'],
      ...(files === null ? [] : serverArguments(files)),
      ...args,
    ];
    return openMember(t, client, command, place.filter);
  });
  const endpoints = members.map(({ endpoint }) => endpoint);
  const etcdctl = async (...given: readonly string[]) => {
    const keys = files === null ? [] : ['--cacert', files.ca, '--cert', files.cert, '--key', files.key];
    const all = ['--endpoints', endpoints.join(','), ...keys, ...given];
    const env = { ETCDCTL_API: '3', PATH: '/usr/bin:/bin' };
    return (await promisify(execFile)(ETCDCTL, all, { env })).stdout;
  };
  const eachAnswers = async () => {
    const running = members.filter(({ pid }) => pid !== null);
    const list = running.map(({ endpoint }) => endpoint).join(',');
    await etcdctl('--endpoints', list, '--command-timeout', '2s', 'endpoint', 'health');
  };
  const leader = async () => {
    const output = await etcdctl('--command-timeout', '2s', 'endpoint', 'status', '-w', 'json').catch(
      (e) => e.stdout,
    );
    const found = JSON.parse(output || '[]') as readonly StatusOfMember[];
    const leading = found.find(({ Status: { header, leader } }) => header.member_id === leader);
    const member = members.find(({ endpoint }) => endpoint === leading?.Endpoint);
    if (member === undefined) throw new Error('there is no leader');
    return member;
  };
  for (const member of members) member.start();
  const cluster = {
    members,
    endpoints,
    files,
    bridge,
    membersAt: bridge?.network(FIRST_MEMBER) ?? null,
    tls:
      files === null
        ? null
        : { ca: textOf(files.ca), client: { cert: textOf(files.cert), key: textOf(files.key) } },
    etcdctl,
    leader: () => patiently(leader, PATIENCE_MS),
    ready: () => patiently(eachAnswers, PATIENCE_MS),
  };
  await cluster.ready();
  return cluster;
}

interface StatusOfMember {
  readonly Endpoint: string;
  readonly Status: { readonly header: { readonly member_id: number }; readonly leader: number };
}

/** Where a member listens. */
interface Place {
  readonly host: string;
  readonly port: number;
  readonly peerPort: number;
  readonly through: readonly string[];
  filter(state: 'drop' | 'pass'): void;
}

const textOf = (path: string) => readFileSync(path, 'utf8');

async function loopback(): Promise<Place[]> {
  const ports = await freePorts(2 * COUNT);
  const filter = () => {
    throw new Error('only a member in a namespace can be cut off');
  };
  return Array.from({ length: COUNT }, (_, n) => ({
    ...{ host: '127.0.0.1', port: ports[2 * n] ?? 0, peerPort: ports[2 * n + 1] ?? 0 },
    ...{ through: [], filter },
  }));
}

/** One namespace for each member, on one bridge with this machine. */
function networks(bridge: Bridge): Place[] {
  return Array.from({ length: COUNT }, (_, n) => {
    const { host, through, filter } = bridge.space(FIRST_MEMBER + n);
    return { host, through, port: 2379, peerPort: 2380, filter: (state) => filter(state) };
  });
}

/** Writes the certificates of the members and of a client. */
function certificates(t: Test, hosts: readonly string[]) {
  const directory = sharedDirectory(t);
  const ca = makeCertificate({ name: 'Test CA' });
  // The gateway calls its own member with the member's certificate, so it serves as a client's too.
  const server = makeCertificate({ name: 'etcd', hosts: [...hosts, '127.0.0.1', 'localhost'], issuer: ca });
  // Without a name: the gateway answers 400 to a certificate with one once users are enabled.
  const client = makeCertificate({ name: '', hosts: ['client.test'], issuer: ca });
  const write = (name: string, text: string) => {
    writeFileSync(join(directory, name), text);
    return join(directory, name);
  };
  return {
    ca: write('ca.pem', ca.cert),
    serverCert: write('server.pem', server.cert),
    serverKey: write('server.key', server.key),
    cert: write('client.pem', client.cert),
    key: write('client.key', client.key),
  };
}

function serverArguments({ ca, serverCert, serverKey }: ReturnType<typeof certificates>): readonly string[] {
  const pair = ['--cert-file', serverCert, '--key-file', serverKey];
  return ['--client-cert-auth', '--trusted-ca-file', ca, ...pair];
}

// It ends with the test, also when that is killed: then the shell's input ends.
const KEEPER =
  'exec 3<&0; "$@" 3<&- & server=$!; echo $server; { read -r _ <&3; kill -9 "$server"; } & wait "$server"';

function openMember(t: Test, endpoint: string, command: readonly string[], filter: Place['filter']): Member {
  let keeper: ChildProcess | null = null;
  let pid: number | null = null;
  const output: string[] = [];
  const member: Member = {
    endpoint,
    get pid() {
      return pid;
    },
    start() {
      if (keeper !== null) throw new Error('it runs');
      const child = spawn('/bin/bash', ['--norc', '-c', KEEPER, 'keeper', ...command], {
        stdio: ['pipe', 'pipe', 'pipe'],
        env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
      });
      keeper = child;
      child.stdin.on('error', () => undefined);
      child.stdout.once('data', (chunk) => {
        pid = Number(String(chunk).split('\n')[0]);
      });
      child.stderr.on('data', (chunk) => output.push(String(chunk)));
    },
    async kill() {
      const child = keeper;
      if (child === null) return;
      keeper = null;
      pid = null;
      // It may have ended by itself.
      const closed = child.exitCode === null && child.signalCode === null ? once(child, 'close') : null;
      child.stdin?.end();
      await closed;
    },
    async stop() {
      if (pid !== null) await stopThreads(pid);
    },
    continue() {
      if (pid !== null) process.kill(pid, 'SIGCONT');
    },
    cut: () => filter('drop'),
    heal: () => filter('pass'),
  };
  t.teardown(async () => {
    await member.kill();
    if (!t.passing()) t.comment(output.join('').slice(-4000));
  });
  return member;
}
