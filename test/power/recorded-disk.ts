/**
 * A disk whose power can be cut. Its file system lies on a loop device, and that on a file whose writes and flushes are
 * recorded in order (block-recorder.mjs). What such a disk holds after a cut is what its volatile cache decides: all that
 * was flushed, and of the rest anything. Used by device.ts.
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

const RECORDER = fileURLToPath(new URL('block-recorder.mjs', import.meta.url));
const HEAD_BYTES = 16;
const WRITE = 1;
const MIB = 2 ** 20;
/** What a device writes whole: this, or only a sector of 512. The first block is always: ext4 has no other superblock there. */
const BLOCK_BYTES = 4096;
const SECTORS_BYTES = [512, BLOCK_BYTES];

export interface FileSystem {
  readonly name: string;
  readonly type: 'ext4' | 'xfs';
  /** For mount. */
  readonly options: string;
  readonly bytes: number;
}

const EXT4 = { type: 'ext4', bytes: 64 * MIB } as const;

export const FILE_SYSTEMS: readonly FileSystem[] = [
  { ...EXT4, name: 'ext4, data=ordered', options: 'data=ordered' },
  { ...EXT4, name: 'ext4, data=journal', options: 'data=journal' },
  { ...EXT4, name: 'ext4, data=writeback', options: 'data=writeback' },
  // mkfs.xfs makes none that is smaller.
  { name: 'xfs', type: 'xfs', options: 'defaults', bytes: 300 * MIB },
];

const MAKE = {
  ext4: ['mkfs.ext4', '-q', '-F', '-b', '4096', '-E', 'lazy_itable_init=0,lazy_journal_init=0,nodiscard'],
  xfs: ['mkfs.xfs', '-q', '-K'],
} as const;

/** How the power goes: the file system drops all that it has not written; or the device all that was not flushed. */
export type Cut = 'file system' | 'device';

/** What became of the writes since the last flush. */
export interface Left {
  readonly kept: number;
  readonly torn: number;
  readonly lost: number;
}

interface Write {
  readonly offset: number;
  readonly bytes: Buffer;
}

/** A write, or without bytes a flush. */
interface Entry {
  readonly offset: number;
  readonly bytes: Buffer | null;
  /** Where it ends in the log. */
  readonly endBytes: number;
}

export class RecordedDisk {
  /** Where it is mounted, for who runs by way of `plugIn`. */
  readonly mounted: string;
  readonly #directory: string;
  readonly #fileSystem: FileSystem;
  #recorder: ChildProcess | null = null;
  /** So much of the log is certain to be written before the power goes. */
  #reliedBytes = 0;

  /** A new disk, empty. Nothing of it is left once it is removed, and all that uses it has ended. */
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
   * Switches the disk on. Gives the words to be put before a command so that it sees it mounted. Loop device and mounts
   * live in the namespace of that command alone, and both end with this process: whatever happens, none is left behind.
   */
  async plugIn(): Promise<readonly string[]> {
    copySparse(this.#path('image'), this.#path('written'));
    writeFileSync(this.#path('log'), '');
    this.#reliedBytes = 0;
    writeFileSync(this.#path('device'), '');
    const files = ['device', 'written', 'log'].map((name) => this.#path(name));
    const alone = ['setpriv', '--pdeathsig', 'KILL', 'unshare', '--mount', '--propagation', 'private'];
    const [program = '', ...args] = [...alone, process.execPath, RECORDER, ...files];
    const recorder = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#recorder = recorder;
    const isReady = once(recorder.stdout, 'data').then(() => true);
    const hasEnded = once(recorder, 'exit').then(() => false);
    if (!(await Promise.race([isReady, hasEnded]))) throw new Error('the recorder does not start');
    const { type, options } = this.#fileSystem;
    const mount = `mount -t ${type} -o loop,${options} "$0" "$1" || exit; shift; exec "$@"`;
    return [
      ...['setpriv', '--pdeathsig', 'KILL', 'nsenter', `--mount=/proc/${recorder.pid}/ns/mnt`],
      ...['unshare', '--mount', '--propagation', 'private'],
      ...['sh', '-c', mount, this.#path('device'), this.mounted],
    ];
  }

  /** From now on the power may go at any moment: nobody relies on what is written from here on. */
  cutPower(): void {
    this.#reliedBytes = statSync(this.#path('log')).size;
  }

  /** Lets the file system that the process sees forget all that it has not written. */
  async shutDown(pid: number | undefined): Promise<void> {
    const xfsIo = spawn('/usr/sbin/xfs_io', ['-x', '-c', 'shutdown', `/proc/${pid}/root${this.mounted}`], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const [code] = await once(xfsIo, 'exit');
    if (code !== 0) throw new Error(`the file system cannot be shut down: ${code}`);
  }

  /** After the process has ended that the disk was mounted for: decides what is left on it. */
  async settle(cut: Cut, chance: Chance): Promise<Left> {
    await this.#released();
    if (cut === 'file system') {
      renameSync(this.#path('written'), this.#path('image'));
      return { kept: 0, torn: 0, lost: 0 };
    }
    const log = readLog(readFileSync(this.#path('log')));
    const image = openSync(this.#path('image'), 'r+');
    const left = { kept: 0, torn: 0, lost: 0 };
    try {
      const later = log.findIndex(({ endBytes }) => endBytes > this.#reliedBytes);
      // Near the beginning, where the program still runs, rather than where its file system is unmounted.
      const first = later < 0 ? log.length : later;
      const writes = Array.from(log.keys()).filter((i) => i >= first && log[i]?.bytes !== null);
      const last = writes[Math.floor(writes.length * chance.random() ** 3)] ?? first - 1;
      const before = log.slice(0, last + 1);
      const lastFlush = before.findLastIndex(({ bytes }) => bytes === null);
      const flushed = writesOf(before.slice(0, lastFlush + 1));
      const waiting = writesOf(before.slice(lastFlush + 1));
      for (const { offset, bytes } of flushed) writeSync(image, bytes, 0, bytes.length, offset);
      // Devices differ: some lose all, some hardly anything.
      const odds = chance.one([0, 0.1, 0.5, 0.9]);
      const sectorBytes = chance.one(SECTORS_BYTES);
      for (const write of waiting) {
        const fate = fateOf(odds, chance);
        left[fate]++;
        const isKept = () => fate === 'kept' || (fate === 'torn' && chance.is(0.5));
        for (const { offset, bytes } of sectorsOf(write, write.offset === 0 ? BLOCK_BYTES : sectorBytes))
          if (isKept()) writeSync(image, bytes, 0, bytes.length, offset);
      }
    } finally {
      closeSync(image);
    }
    return left;
  }

  /** Takes it away, and what still uses it. */
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

/** What is in the log, in order; a write of which only a part is there has not been answered. */
function readLog(log: Buffer): Entry[] {
  const entries: Entry[] = [];
  for (let at = 0; at + HEAD_BYTES <= log.length; ) {
    const [type, length] = [log.readUInt32LE(at), log.readUInt32LE(at + 4)];
    const offset = Number(log.readBigUInt64LE(at + 8));
    at += HEAD_BYTES;
    const bytes = type === WRITE ? log.subarray(at, at + length) : null;
    at += length;
    entries.push({ offset, bytes, endBytes: at });
  }
  return entries;
}

function writesOf(entries: readonly Entry[]): Write[] {
  return entries.flatMap(({ offset, bytes }) => (bytes === null ? [] : { offset, bytes }));
}

function fateOf(odds: number, chance: Chance): keyof Left {
  if (chance.is(0.1)) return 'torn';
  return chance.is(odds) ? 'kept' : 'lost';
}

function* sectorsOf({ offset, bytes }: Write, sectorBytes: number): Generator<Write> {
  for (let at = 0; at < bytes.length; at += sectorBytes)
    yield { offset: offset + at, bytes: bytes.subarray(at, at + sectorBytes) };
}
