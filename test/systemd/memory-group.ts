/**
 * A control group with little memory for the built daemon. A private disk holds a private copy of node, so the group is
 * charged for the program's pages too. Works with version 1 and 2 of control groups. Needs root.
 */
import { execFileSync } from 'node:child_process';
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
import { join } from 'node:path';
import type { Test } from 'tap';
import { MIB } from '../../src/base/limits.js';
import { type DaemonProcess, isBuilt, startDaemon } from '../support/daemon.js';

const V1 = '/sys/fs/cgroup/memory';
const V2 = '/sys/fs/cgroup';
const isV1 = existsSync(`${V1}/memory.limit_in_bytes`);
const isV2 = existsSync(`${V2}/cgroup.subtree_control`);
/** The share of the limit that unreclaimable memory may reach. The program's pages must stay loaded in the rest. */
export const FIXED_SHARE_MAX = 0.9;
/** A thread's stack in the kernel. */
const STACK_BYTES = 16 * 1024;
/** The interval between two looks: the kernel counts no peak of unreclaimable memory. */
const LOOK_MS = 20;

/** Why tests that need such a group cannot run here; false if they can. */
export function skipWithoutMemoryGroup(): string | false {
  if (process.env.FIELDPOST_TEST_SYSTEMD !== '1') return 'needs FIELDPOST_TEST_SYSTEMD=1';
  if (process.getuid?.() !== 0) return 'needs root: it makes a control group';
  if (!isBuilt) return 'the program is not built';
  return isV1 || isV2 ? false : 'this machine has no control groups for memory';
}

/** Room for the program, and for the default FIELDPOST_MAX_SPOOL. */
const DISK_BYTES = 600 * MIB;
/**
 * The default of Linux. Many virtual machines read some megabytes ahead: then one page of the program evicts all others of
 * a small group.
 */
const READ_AHEAD_KIB = 128;

let made = 0;

/** One group, and the daemons in it. */
export class MemoryGroup {
  readonly limitBytes: number;
  readonly #path: string;
  readonly #directory: string;
  readonly #node: string;
  #fixedPeakBytes = 0;

  /** Makes one; it is removed when the test ends, after the daemons in it. */
  static create(t: Test, limitBytes: number): MemoryGroup {
    const directory = mountDisk(t);
    const path = `${isV1 ? V1 : V2}/fieldpost-test-${process.pid}-${++made}`;
    if (!isV1) writeFileSync(`${V2}/cgroup.subtree_control`, '+memory');
    mkdirSync(path);
    const group = new MemoryGroup(limitBytes, path, directory);
    const timer = setInterval(() => group.#look(), LOOK_MS);
    t.teardown(() => {
      clearInterval(timer);
      rmdirSync(path);
    });
    writeFileSync(`${path}/${isV1 ? 'memory.limit_in_bytes' : 'memory.max'}`, String(limitBytes));
    return group;
  }

  private constructor(limitBytes: number, path: string, directory: string) {
    this.limitBytes = limitBytes;
    this.#path = path;
    this.#directory = directory;
    this.#node = freshNode(directory);
  }

  /** Starts the daemon in the group, on the state of the one before. */
  async start(t: Test, env: Readonly<Record<string, string>>): Promise<DaemonProcess> {
    // The malloc settings of build/fieldpost, and not tap's NODE_OPTIONS.
    const inside = `echo $$ > ${this.#path}/cgroup.procs; unset NODE_OPTIONS; MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072 exec ${this.#node} -- "$@"`;
    const own = { FIELDPOST_STATE_DIR: join(this.#directory, 'state'), FIELDPOST_FROM: 'd@example.com' };
    const daemon = await startDaemon({ ...own, ...env }, ['run'], ['/bin/sh', '-c', inside, 'sh']);
    t.teardown(() => daemon.end('SIGKILL'));
    return daemon;
  }

  /** Bytes that the kernel cannot reclaim: the memory of processes, and its own for them. */
  get #fixedBytes(): number {
    if (isV1) return this.#stat('total_rss') + this.#kernelBytes();
    const kernel = ['kernel_stack', 'pagetables', 'percpu', 'sock', 'slab_unreclaimable'];
    return ['anon', ...kernel].reduce((sum, name) => sum + this.#stat(name), 0);
  }

  /** The highest count of unreclaimable bytes that a look found since the last call. */
  takeFixedPeak(): number {
    this.#look();
    const peakBytes = this.#fixedPeakBytes;
    this.#fixedPeakBytes = 0;
    return peakBytes;
  }

  /** Pages read from the disk, such as the program's after the kernel reclaimed them. */
  get majorFaults(): number {
    return this.#stat(isV1 ? 'total_pgmajfault' : 'pgmajfault');
  }

  /** Processes that the kernel killed. */
  get killed(): number {
    const events = this.#read(isV1 ? 'memory.oom_control' : 'memory.events');
    return Number(/oom_kill (\d+)/.exec(events)?.[1]);
  }

  /** The present state, for the output of a test. */
  get words(): string {
    return `${(this.#fixedBytes / MIB).toFixed(1)} MiB fixed, ${this.majorFaults} major faults`;
  }

  /** Version 1 counts it together with caches of the kernel, such as that of inodes. */
  #kernelBytes(): number {
    const pids = this.#read('cgroup.procs').split('\n').filter(Boolean);
    return pids.reduce((sum, pid) => sum + kernelBytesOf(pid), 0);
  }

  #look(): void {
    this.#fixedPeakBytes = Math.max(this.#fixedPeakBytes, this.#fixedBytes);
  }

  #stat(name: string): number {
    return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(this.#read('memory.stat'))?.[1] ?? Number.NaN);
  }

  #read(name: string): string {
    return readFileSync(`${this.#path}/${name}`, 'latin1');
  }
}

/** Page tables and the stacks of threads; 0 for a process that has ended. */
function kernelBytesOf(pid: string): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
    return of('VmPTE') * 1024 + of('Threads') * STACK_BYTES;
  } catch {
    return 0;
  }
}

/** Mounts a private disk; gives the directory. */
function mountDisk(t: Test): string {
  const directory = mkdtempSync('/var/tmp/fieldpost-memory-');
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const [image, mounted] = [join(directory, 'image'), join(directory, 'mounted')];
  mkdirSync(mounted);
  execFileSync('truncate', ['-s', String(DISK_BYTES), image]);
  execFileSync('mkfs.ext4', ['-q', '-F', image]);
  // Direct I/O, so that memory does not hold the same pages twice.
  const device = execFileSync('losetup', ['--direct-io=on', '--show', '-f', image], {
    encoding: 'utf8',
  }).trim();
  t.teardown(() => void execFileSync('losetup', ['-d', device]));
  writeFileSync(`/sys/block/${device.replace('/dev/', '')}/queue/read_ahead_kb`, String(READ_AHEAD_KIB));
  // No power cut happens here, so writes need not wait for the device below.
  execFileSync('mount', ['-o', 'barrier=0', device, mounted]);
  t.teardown(() => void execFileSync('umount', [mounted]));
  return mounted;
}

/** A copy of node: the kernel counts the pages of the running one in another group. */
function freshNode(directory: string): string {
  const node = join(directory, 'node');
  copyFileSync(process.execPath, node);
  execFileSync('dd', [`if=${node}`, 'iflag=nocache', 'count=0', 'status=none']);
  execFileSync('dd', [`of=${node}`, 'oflag=nocache', 'conv=notrunc,fdatasync', 'count=0', 'status=none']);
  return node;
}
