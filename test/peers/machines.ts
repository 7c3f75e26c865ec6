/**
 * Machines for tests of manual pages: a network namespace, a host name, and a file system of which every change is its own,
 * so that commands and configurations run as they are written. Needs root.
 *
 *   const machine = await openMachine(t, bridge.space(10), 'cloud-a');
 *   machine.write('/etc/haproxy/haproxy.cfg', text);
 *   await machine.run('systemctl restart haproxy');
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Test } from 'tap';
import type { Space } from './bridge.js';

export interface Machine {
  readonly name: string;
  /** Its address. */
  readonly host: string;
  /** The command that runs a program on it. */
  readonly through: readonly string[];
  /** The process that holds it. */
  readonly pid: string;
  /** Writes a file, with its directories. */
  write(path: string, content: string | Buffer, mode?: number): void;
  read(path: string): string;
  readBytes(path: string): Buffer;
  /** Runs a script of bash as root; gives what it prints. Rejects if it fails, with all its output. */
  run(script: string, env?: Readonly<Record<string, string>>): Promise<string>;
}

/** What a machine has of its own; the rest of this machine's file system is not to be written. */
const OWN = ['/etc', '/var', '/usr/share', '/usr/local', '/usr/bin', '/usr/lib', '/root'];
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** Overlays each directory, and waits for the end of its input. */
const HOLD = `set -e
hostname "$1"
for path in ${OWN.join(' ')}; do
  at=$2$path
  mkdir -p "$at/own" "$at/work"
  mount -t overlay overlay -o "lowerdir=$path,upperdir=$at/own,workdir=$at/work" "$path"
done
mount -t tmpfs tmpfs /run
echo $$
read -r _`;

/** Starts a machine in this network namespace. It ends with the test, and with it what runs on it. */
export async function openMachine(t: Test, space: Space, name: string): Promise<Machine> {
  const own = mkdtempSync('/dev/shm/fieldpost-machine-');
  chmodSync(own, 0o755);
  const isolated = [
    'unshare',
    '--mount',
    '--uts',
    '--propagation',
    'private',
    '/bin/bash',
    '--norc',
    '-c',
    HOLD,
  ];
  const [program = '', ...args] = [...space.through, ...isolated, 'hold', name, own];
  const holder = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'], env: { PATH } });
  t.teardown(async () => {
    await end(holder);
    rmSync(own, { recursive: true, force: true });
  });
  const [said] = await Promise.race([once(holder.stdout, 'data'), once(holder, 'exit')]);
  const pid = String(said).trim();
  const through = ['nsenter', '--target', pid, '--mount', '--uts', '--net'];
  const at = (path: string) => join(`/proc/${pid}/root`, path);
  return {
    name,
    host: space.host,
    through,
    pid,
    write(path, content, mode = 0o644) {
      mkdirSync(dirname(at(path)), { recursive: true });
      writeFileSync(at(path), content, { mode });
    },
    read: (path) => readFileSync(at(path), 'utf8'),
    readBytes: (path) => readFileSync(at(path)),
    async run(script, env = {}) {
      const words = [...through.slice(1), '/bin/bash', '--norc', '-euo', 'pipefail', '-c', script];
      const child = spawn('nsenter', words, { env: { PATH, HOME: '/root', ...env } });
      child.stdin.end();
      let [printed, all] = ['', ''];
      child.stdout.on('data', (chunk) => {
        printed += chunk;
        all += chunk;
      });
      child.stderr.on('data', (chunk) => {
        all += chunk;
      });
      const [code] = (await once(child, 'close')) as [number | null];
      if (code !== 0) throw new Error(`${name}: exit status ${code} of\n${script}\n${all}`);
      return printed;
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.stdin?.end();
  await once(child, 'close');
}

/** Repeats what fails, for a while: servers of others tell nobody when they are ready. */
export async function patiently<T>(act: () => Promise<T>, patienceMs = 90_000): Promise<T> {
  const patience = AbortSignal.timeout(patienceMs);
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (patience.aborted) throw error;
      await pause(50);
    }
  }
}
