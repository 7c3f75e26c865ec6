/**
 * A control group of little memory for the built daemon, everything counted: on a disk of its own lies a program of its
 * own, whose pages nobody else has loaded. Version 1 or 2 of control groups, whichever this machine has. Needs root.
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
import { MIB } from '../../src/limits.js';
import { type DaemonProcess, isBuilt, startDaemon } from '../support/daemon.js';

const V1 = '/sys/fs/cgroup/memory';
const V2 = '/sys/fs/cgroup';
const isV1 = existsSync(`${V1}/memory.limit_in_bytes`);
const isV2 = existsSync(`${V2}/cgroup.subtree_control`);
/**
 * Of the limit, what the memory that the kernel cannot take back may reach: the pages of the program in use have their place in
 * the rest, and must not be driven out.
 */
export const FIXED_SHARE_MAX = 0.9;
/** The kernel's stack of a thread. */
const STACK_BYTES = 16 * 1024;
/** How often is looked at what the group holds: no file tells the most of what cannot be reclaimed. */
const LOOK_MS = 20;

/** Why tests that need such a group cannot run here; false if they can. */
export function skipWithoutMemoryGroup(): string | false {
  if (process.env.FIELDPOST_TEST_SYSTEMD !== '1') return 'needs FIELDPOST_TEST_SYSTEMD=1';
  if (process.getuid?.() !== 0) return 'needs root: it makes a control group';
  if (!isBuilt) return 'the program is not built';
  return isV1 || isV2 ? false : 'this machine has no control groups for memory';
}

/** Room for the program, and for all that the daemon may store by itself (FIELDPOST_MAX_SPOOL). */
const DISK_BYTES = 600 * MIB;
/**
 * What Linux takes by itself. Where it is some megabytes, as on many a virtual machine, one page of the program that is read
 * again drives out all others of a small group.
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

  /** It is gone when the test ends, as are the daemons that were started in it. */
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

  /** Starts the daemon in the group, on the state that the one before has left. */
  async start(t: Test, env: Readonly<Record<string, string>>): Promise<DaemonProcess> {
    // As build/fieldpost has it. What tap has every Node.js load is not ours.
    const inside = `echo $$ > ${this.#path}/cgroup.procs; unset NODE_OPTIONS; MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072 exec ${this.#node} -- "$@"`;
    const own = { FIELDPOST_STATE_DIR: join(this.#directory, 'state'), FIELDPOST_FROM: 'd@example.com' };
    const daemon = await startDaemon({ ...own, ...env }, ['run'], ['/bin/sh', '-c', inside, 'sh']);
    t.teardown(() => daemon.end('SIGKILL'));
    return daemon;
  }

  /** Bytes that the kernel cannot take back: the memory of processes, and its own for them. */
  get fixedBytes(): number {
    if (isV1) return this.#stat('total_rss') + this.#kernelBytes();
    const kernel = ['kernel_stack', 'pagetables', 'percpu', 'sock', 'slab_unreclaimable'];
    return ['anon', ...kernel].reduce((sum, name) => sum + this.#stat(name), 0);
  }

  /** The most of these since the last call, as far as was seen. */
  takeFixedPeak(): number {
    this.#look();
    const peakBytes = this.#fixedPeakBytes;
    this.#fixedPeakBytes = 0;
    return peakBytes;
  }

  /** How many pages had to be read from the disk: those of the program, where they were taken back. */
  get majorFaults(): number {
    return this.#stat(isV1 ? 'total_pgmajfault' : 'pgmajfault');
  }

  /** How many processes the kernel has killed. */
  get killed(): number {
    const events = this.#read(isV1 ? 'memory.oom_control' : 'memory.events');
    return Number(/oom_kill (\d+)/.exec(events)?.[1]);
  }

  /** In words, for whoever reads the output of a test. */
  get words(): string {
    return `${(this.fixedBytes / MIB).toFixed(1)} MiB fixed, ${this.majorFaults} major faults`;
  }

  /** Version 1 does not tell it from caches of the kernel's, such as that of inodes. */
  #kernelBytes(): number {
    const pids = this.#read('cgroup.procs').split('\n').filter(Boolean);
    return pids.reduce((sum, pid) => sum + kernelBytesOf(pid), 0);
  }

  #look(): void {
    this.#fixedPeakBytes = Math.max(this.#fixedPeakBytes, this.fixedBytes);
  }

  #stat(name: string): number {
    return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(this.#read('memory.stat'))?.[1] ?? Number.NaN);
  }

  #read(name: string): string {
    return readFileSync(`${this.#path}/${name}`, 'latin1');
  }
}

/** Page tables and the stacks of threads; none of a process that has just ended. */
function kernelBytesOf(pid: string): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
    return of('VmPTE') * 1024 + of('Threads') * STACK_BYTES;
  } catch {
    return 0;
  }
}

/** Mounts a disk of its own; gives the directory. */
function mountDisk(t: Test): string {
  const directory = mkdtempSync('/var/tmp/fieldpost-memory-');
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const [image, mounted] = [join(directory, 'image'), join(directory, 'mounted')];
  mkdirSync(mounted);
  execFileSync('truncate', ['-s', String(DISK_BYTES), image]);
  execFileSync('mkfs.ext4', ['-q', '-F', image]);
  // Direct: what is read is not kept in memory twice.
  const device = execFileSync('losetup', ['--direct-io=on', '--show', '-f', image], {
    encoding: 'utf8',
  }).trim();
  t.teardown(() => void execFileSync('losetup', ['-d', device]));
  writeFileSync(`/sys/block/${device.replace('/dev/', '')}/queue/read_ahead_kb`, String(READ_AHEAD_KIB));
  // The power stays on here, so the device below need not be waited for.
  execFileSync('mount', ['-o', 'barrier=0', device, mounted]);
  t.teardown(() => void execFileSync('umount', [mounted]));
  return mounted;
}

/** A program of its own: the pages of the one that is already running would be counted elsewhere. */
function freshNode(directory: string): string {
  const node = join(directory, 'node');
  copyFileSync(process.execPath, node);
  execFileSync('dd', [`if=${node}`, 'iflag=nocache', 'count=0', 'status=none']);
  execFileSync('dd', [`of=${node}`, 'oflag=nocache', 'conv=notrunc,fdatasync', 'count=0', 'status=none']);
  return node;
}
