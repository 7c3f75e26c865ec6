/**
 * The main job in a control group of 64 MB, everything counted: a program whose pages nobody else has loaded, a backlog
 * of 10,000, and an attachment of nearly 25 MiB. Version 1 or 2 of control groups, whichever this machine has.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { SMTPServer } from 'smtp-server';
import { type Test, test } from 'tap';
import { MIB } from '../../src/limits.js';
import { type DaemonProcess, isBuilt, startDaemon } from '../support/daemon.js';

const LIMIT_BYTES = 64 * MIB;
const BACKLOG = 10_000;
const BATCH = 100;
// The rest of the 25 MiB that a message may have is for its text.
const FILE_BYTES = 25 * MIB - 64 * 1024;

const V1 = '/sys/fs/cgroup/memory';
const V2 = '/sys/fs/cgroup';
const isV1 = existsSync(`${V1}/memory.limit_in_bytes`);
const isV2 = existsSync(`${V2}/cgroup.subtree_control`);

function skip(): string | false {
  if (process.env.FIELDPOST_TEST_SYSTEMD !== '1') return 'needs FIELDPOST_TEST_SYSTEMD=1';
  if (process.getuid?.() !== 0) return 'needs root: it makes a control group';
  if (!isBuilt) return 'the program is not built';
  return isV1 || isV2 ? false : 'this machine has no control groups for memory';
}

interface Group {
  readonly path: string;
  /** The most that it ever held. */
  peakMiB(): number;
  killed(): number;
}

function group(t: Test): Group {
  const path = `${isV1 ? V1 : V2}/fieldpost-test-${process.pid}`;
  if (isV2 && !isV1) writeFileSync(`${V2}/cgroup.subtree_control`, '+memory');
  mkdirSync(path);
  writeFileSync(`${path}/${isV1 ? 'memory.limit_in_bytes' : 'memory.max'}`, String(LIMIT_BYTES));
  t.teardown(() => rmdirSync(path));
  const read = (name: string) => readFileSync(`${path}/${name}`, 'latin1');
  return {
    path,
    peakMiB: () => Number(read(isV1 ? 'memory.max_usage_in_bytes' : 'memory.peak')) / MIB,
    killed: () => Number(/oom_kill (\d+)/.exec(read(isV1 ? 'memory.oom_control' : 'memory.events'))?.[1]),
  };
}

/** A program of its own: the pages of the one that is already running would be counted elsewhere. */
function freshNode(directory: string): string {
  const node = join(directory, 'node');
  copyFileSync(process.execPath, node);
  execFileSync('dd', [`if=${node}`, 'iflag=nocache', 'count=0', 'status=none']);
  execFileSync('dd', [`of=${node}`, 'oflag=nocache', 'conv=notrunc,fdatasync', 'count=0', 'status=none']);
  return node;
}

const held = (port: number) => `http://127.0.0.1:${port}/api/internal`;

async function fill(port: number): Promise<void> {
  const mail = { type: 1, destination: 'john@example.com', subject: 'x', plain: 'x'.repeat(1000) };
  const body = JSON.stringify(Array(BATCH).fill(mail));
  for (let i = 0; i < BACKLOG / BATCH; i++) {
    const headers = { 'Content-Type': 'application/json' };
    const answer = await fetch(`${held(port)}/messages`, { method: 'POST', headers, body });
    if (answer.status !== 202) throw new Error(await answer.text());
  }
}

async function upload(port: number): Promise<number> {
  const form = new FormData();
  form.set('destination', 'john@example.com');
  form.set('subject', 'a file');
  form.set('file', new Blob([Buffer.alloc(FILE_BYTES, 'x')]), 'big.log');
  return (await fetch(`${held(port)}/messages`, { method: 'POST', body: form })).status;
}

test('64 MB are enough', { skip: skip(), timeout: 300_000 }, async (t) => {
  const directory = mkdtempSync('/var/tmp/fieldpost-memory-');
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const { path, peakMiB, killed } = group(t);
  const node = freshNode(directory);
  let arrived = 0;
  let bytes = 0;
  const relay = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    onData(stream, _session, done) {
      stream.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      stream.on('end', () => {
        arrived++;
        done();
      });
    },
  });
  // A daemon that ends in the middle of a mail may reset the connection.
  relay.on('error', () => undefined);
  relay.listen(0, '127.0.0.1');
  await once(relay.server, 'listening');
  t.teardown(() => new Promise<void>((resolve) => relay.close(resolve)));
  const { port } = relay.server.address() as AddressInfo;
  // What tap has every Node.js load is not ours.
  const inside = `echo $$ > ${path}/cgroup.procs; unset NODE_OPTIONS; MALLOC_ARENA_MAX=1 exec ${node} -- "$@"`;
  const start = (env: Record<string, string> = {}): Promise<DaemonProcess> =>
    startDaemon(
      { FIELDPOST_STATE_DIR: join(directory, 'state'), FIELDPOST_MAX_QUEUE: '10001', ...env },
      ['run'],
      ['/bin/sh', '-c', inside, 'sh'],
    );
  const first = await start();
  t.teardown(() => first.child.kill('SIGKILL'));
  await fill(first.port);
  t.equal(await upload(first.port), 202, 'the backlog and the file are taken');
  t.comment(`peak ${peakMiB().toFixed(1)} MiB`);
  t.equal(await first.end('SIGKILL'), null);
  const second = await start({ FIELDPOST_RELAY: `smtp://127.0.0.1:${port}?tls=never` });
  t.teardown(() => second.child.kill('SIGKILL'));
  const began = performance.now();
  while (arrived <= BACKLOG && second.child.exitCode === null) await pause(50);
  t.equal(arrived, BACKLOG + 1, 'all of it is delivered');
  t.ok(bytes > (FILE_BYTES * 4) / 3, 'the file whole');
  t.comment(
    `peak ${peakMiB().toFixed(1)} MiB, delivered in ${((performance.now() - began) / 1000).toFixed(1)} s`,
  );
  t.equal(killed(), 0, 'the kernel had to kill nothing');
  t.equal(await second.end('SIGTERM'), 0);
});
