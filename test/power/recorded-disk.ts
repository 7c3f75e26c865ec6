/**
 * A disk whose power can be cut. Its file system is on a loop device, over a file that records writes and flushes in order
 * (block-recorder.mjs). After a cut it holds all flushed writes, and any part of the others.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Chance } from '../simulation/chance.js';
import type { Cut, PowerDisk } from './device.js';
import { cutLog, type Left } from './write-log.js';

/** How often to try to mount the disk. */
const MOUNTS_MAX = 600;
const RECORDER = fileURLToPath(new URL('block-recorder.mjs', import.meta.url));
const MIB = 2 ** 20;

export interface FileSystem {
  readonly name: string;
  readonly type: 'ext4' | 'xfs';
  /** Options of mount. */
  readonly options: string;
  readonly bytes: number;
  /** Sizes of the sectors that the device may write as a whole. */
  readonly sectorsBytes: readonly number[];
}

const EXT4 = { type: 'ext4', bytes: 64 * MIB, sectorsBytes: [512, 4096] } as const;

export const FILE_SYSTEMS: readonly FileSystem[] = [
  { ...EXT4, name: 'ext4, data=ordered', options: 'data=ordered' },
  { ...EXT4, name: 'ext4, data=journal', options: 'data=journal' },
  { ...EXT4, name: 'ext4, data=writeback', options: 'data=writeback' },
  // mkfs.xfs makes no smaller one. Its log replay reads each block before it repairs it, and refuses a torn block.
  { name: 'xfs', type: 'xfs', options: 'defaults', bytes: 300 * MIB, sectorsBytes: [4096] },
];

const MAKE = {
  ext4: ['mkfs.ext4', '-q', '-F', '-b', '4096', '-E', 'lazy_itable_init=0,lazy_journal_init=0,nodiscard'],
  xfs: ['mkfs.xfs', '-q', '-K'],
} as const;

export class RecordedDisk implements PowerDisk {
  /** Where a command started through `plugIn` finds the disk. */
  readonly mounted: string;
  readonly #directory: string;
  readonly #fileSystem: FileSystem;
  #recorder: ChildProcess | null = null;
  /** Bytes of the log that are certainly written before the power fails. */
  #reliedBytes = 0;

  /** A new, empty disk. `remove` leaves nothing behind once every process that uses it has ended. */
  constructor(fileSystem: FileSystem) {
    this.#fileSystem = fileSystem;
    this.#directory = mkdtempSync('/dev/shm/fieldpost-power-');
    this.mounted = this.#path('mounted');
    mkdirSync(this.mounted);
    writeFileSync(this.#path('image'), '');
    truncateSync(this.#path('image'), fileSystem.bytes);
    const [program, ...args] = MAKE[fileSystem.type];
    execFileSync(program, [...args, this.#path('image')], { stdio: ['ignore', 'ignore', 'inherit'] });
  }

  /**
   * Switches the disk on; a flush takes `flushMs`. Gives the words to put before a command so that it sees the disk mounted.
   * Loop device and mounts live in the namespace of that command alone, and end with this process.
   */
  async plugIn(flushMs: number): Promise<readonly string[]> {
    copySparse(this.#path('image'), this.#path('written'));
    writeFileSync(this.#path('log'), '');
    this.#reliedBytes = 0;
    writeFileSync(this.#path('device'), '');
    const files = ['device', 'written', 'log'].map((name) => this.#path(name));
    const alone = ['setpriv', '--pdeathsig', 'KILL', 'unshare', '--mount', '--propagation', 'private'];
    const [program = '', ...args] = [...alone, process.execPath, RECORDER, ...files, String(flushMs)];
    const recorder = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#recorder = recorder;
    const isReady = once(recorder.stdout, 'data').then(() => true);
    const hasEnded = once(recorder, 'exit').then(() => false);
    if (!(await Promise.race([isReady, hasEnded]))) throw new Error('the recorder does not start');
    const { type, options } = this.#fileSystem;
    // The loop devices may all be in use, or another process takes the one that was just found free.
    const mount = `
      tries=0
      until words=$(mount -t ${type} -o loop,${options} "$0" "$1" 2>&1); do
        tries=$((tries + 1))
        [ "$tries" -lt ${MOUNTS_MAX} ] || { echo "$words" >&2; exit 1; }
        sleep 0.1
      done
      shift
      exec "$@"`;
    return [
      ...['setpriv', '--pdeathsig', 'KILL', 'nsenter', `--mount=/proc/${recorder.pid}/ns/mnt`],
      ...['unshare', '--mount', '--propagation', 'private'],
      ...['sh', '-c', mount, this.#path('device'), this.mounted],
    ];
  }

  /** The power may fail at any moment from now on: later writes may be lost. */
  cutPower(): void {
    this.#reliedBytes = statSync(this.#path('log')).size;
  }

  /** Makes the file system that the process sees drop everything it has not written. */
  async shutDown(pid: number | undefined): Promise<void> {
    const xfsIo = spawn('/usr/sbin/xfs_io', ['-x', '-c', 'shutdown', `/proc/${pid}/root${this.mounted}`], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const [code] = await once(xfsIo, 'exit');
    if (code !== 0) throw new Error(`the file system cannot be shut down: ${code}`);
  }

  /** Chooses which writes stay on the disk. Call it after the process that used it has ended. */
  async settle(cut: Cut, chance: Chance): Promise<Left> {
    await this.#released();
    if (cut !== 'device') {
      renameSync(this.#path('written'), this.#path('image'));
      return { kept: 0, torn: 0, lost: 0 };
    }
    const { writes, left } = cutLog(
      readFileSync(this.#path('log')),
      this.#reliedBytes,
      this.#fileSystem.sectorsBytes,
      chance,
    );
    const image = openSync(this.#path('image'), 'r+');
    try {
      for (const { offset, bytes } of writes) writeSync(image, bytes, 0, bytes.length, offset);
    } finally {
      closeSync(image);
    }
    return left;
  }

  /** Removes the disk, and ends the recorder. */
  remove(): void {
    this.#recorder?.kill('SIGKILL');
    rmSync(this.#directory, { recursive: true, force: true });
  }

  /** Resolves once the file system is unmounted: then the recorder ends. */
  async #released(): Promise<void> {
    const recorder = this.#recorder;
    if (recorder !== null && recorder.exitCode === null) await once(recorder, 'exit');
    this.#recorder = null;
  }

  #path(name: string): string {
    return join(this.#directory, name);
  }
}

function copySparse(from: string, to: string): void {
  execFileSync('cp', ['--sparse=always', from, to], { stdio: ['ignore', 'ignore', 'inherit'] });
}
