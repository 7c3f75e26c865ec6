/**
 * A `Disk` in memory that is as bad as a real one may be. Of what was not synced, any part may be
 * missing after a power cut: each 512-byte sector of a write is wholly old or wholly new, a file that grew may
 * have grown less, a name made, renamed or removed is so for certain only after its directory was synced (the
 * content of a file and its name are two things). A rename happens wholly or not at all; changes of different
 * names are independent. A failed sync loses: what it should have written is still read back, but no later
 * sync writes it.
 */
import assert from 'node:assert';
import type { Disk, DiskFile, Found, Space } from '../../src/base/system/disk.js';
import {
  type Cut,
  DirectoryNode,
  FileNode,
  type Node,
  occupiedBytes,
  type PowerCut,
} from './faulty-nodes.js';
import { seededRandom } from './random.js';
import { systemError } from './system-error.js';

export interface Operation {
  readonly kind: 'create' | 'write' | 'sync' | 'rename' | 'remove' | 'makeDirectory' | 'syncDirectory';
  readonly path: string;
}

/**
 * What becomes of one operation. `error:` nothing of it was done (a sync: everything it covers is lost);
 * `error-half:` half of a write, some of a sync, the rest lost; `error-after:` all was done and yet it fails;
 * each followed by the error's code. The power can be cut before the operation or after it, and then nobody is told;
 * what happens when it is cut in the middle is up to the variant of `afterPowerCut`.
 */
export type Fault =
  | 'ok'
  | 'power-cut-before'
  | 'power-cut-after'
  | `error:${string}`
  | `error-half:${string}`
  | `error-after:${string}`;

/** Every call to a disk whose power was cut (or whose process was killed) rejects with this. */
export class PowerCutError extends Error {
  readonly code = 'POWERCUT';
  override readonly name = 'PowerCutError';
}

/** The effect of a possible operation; `half` and `lost` if a failure leaves a trace. */
interface Effect {
  whole(): void;
  half?(): void;
  lost?(): void;
}

const UNLIMITED = 2 ** 40;
/** The odds that one unsynced piece is on stable storage, drawn anew for each `random` power cut. */
const ODDS = [0.1, 0.5, 0.9] as const;

export class FaultyDisk implements Disk {
  /** Operations begun so far, those that were let fail included. */
  operations = 0;
  /** Asked before each operation, `n` counting from 1; here a test plants its fault, or takes an `afterPowerCut`. */
  onOperation: (n: number, operation: Operation) => Fault = () => 'ok';
  /** Asked before each read of a file's bytes: the code of the error it fails with; null: it is read. */
  onRead: (path: string, offset: number, length: number) => string | null = () => null;
  /** What an operation waits for before it begins: a disk that takes its time. */
  pace: (operation: Operation) => Promise<void> | null = () => null;
  /** Bytes of file content that fit, in blocks of 4096. */
  capacityBytes = UNLIMITED;
  /** Files and directories that fit. */
  capacityInodes = UNLIMITED;
  readonly #random: () => number;
  readonly #open = new Map<object, FileNode>();
  #root = new DirectoryNode();
  /** Counts writes and changes of names, so that a sync covers those before it and no other. */
  #order = 0;
  /** The file written last. */
  #last: FileNode | null = null;
  #dead = false;

  /** `random`: see `seededRandom`. `directories` are there from the start, for certain. */
  constructor(options: { random?: () => number; directories?: readonly string[] } = {}) {
    this.#random = options.random ?? seededRandom(1);
    for (const path of options.directories ?? []) {
      let directory = this.#root;
      for (const name of partsOf(path)) {
        const inner = directory.now.get(name) ?? new DirectoryNode();
        assert(inner instanceof DirectoryNode);
        directory.change(0, null, name, inner);
        directory.sync(0);
        directory = inner;
      }
    }
  }

  /** Bytes that files occupy. */
  get usedBytes(): number {
    return this.#used().bytes;
  }

  /** Files that are open. */
  get handles(): number {
    return this.#open.size;
  }

  /** True once the power was cut or the process killed. */
  get dead(): boolean {
    return this.#dead;
  }

  /** From now on every call, those under way included, rejects with PowerCutError and nothing changes. */
  cutPower(): void {
    this.#dead = true;
  }

  /**
   * A fresh disk with what stable storage might hold if the power failed now; this disk stays as it is, so a
   * test may take several. `nothing`: only what is certain. `everything`: all unsynced writes and names made
   * it. `random`: each sector and each name by coin. `torn-head`, `torn-tail`: everything, but of the very last
   * write only the first or only the last half of its sectors.
   */
  afterPowerCut(kind: PowerCut, random: () => number = this.#random): FaultyDisk {
    const odds = ODDS[Math.floor(random() * ODDS.length)] ?? 0.5;
    const cut: Cut = { kind, random, coin: () => random() < odds, torn: this.#last?.unsynced.at(-1) };
    return this.#successor(this.#root.afterCut(cut));
  }

  /** A fresh disk as the next process finds it after a crash of this one: the page cache, lost bytes included, survives. */
  afterKill(): FaultyDisk {
    const known = new Map<Node, Node>();
    const successor = this.#successor(this.#root.copy(known));
    const last = this.#last && known.get(this.#last);
    successor.#order = this.#order;
    successor.#last = last instanceof FileNode ? last : null;
    this.#dead = true;
    return successor;
  }

  async open(path: string, how: Parameters<Disk['open']>[1]): Promise<DiskFile> {
    if (how === 'create') return this.#create(path);
    await this.#turn();
    const node = this.#find(path, 'open');
    if (node instanceof DirectoryNode) throw diskError('EISDIR', 'open', path);
    return this.#handle(node, path, how);
  }

  async look(path: string): Promise<Found | null> {
    await this.#turn();
    const node = this.#look(path, 'lstat');
    if (node instanceof DirectoryNode) return { kind: 'directory', bytes: 0 };
    return node ? { kind: 'file', bytes: node.now.bytes } : null;
  }

  async readWhole(path: string): Promise<Buffer | null> {
    await this.#turn();
    const node = this.#look(path, 'open');
    if (node instanceof DirectoryNode) throw diskError('EISDIR', 'read', path);
    return node ? this.#read(node, path, 0, node.now.bytes) : null;
  }

  async list(directory: string): Promise<string[]> {
    await this.#turn();
    const node = this.#look(directory, 'scandir');
    if (node instanceof FileNode) throw diskError('ENOTDIR', 'scandir', directory);
    return node ? [...node.now.keys()].sort() : [];
  }

  async makeDirectory(path: string): Promise<void> {
    const names = partsOf(path);
    for (let depth = 1; depth <= names.length; depth++) {
      const part = `/${names.slice(0, depth).join('/')}`;
      await this.#operate({ kind: 'makeDirectory', path: part }, () => {
        const [parent, name] = this.#parent(part, 'mkdir');
        const there = parent.now.get(name);
        if (there instanceof DirectoryNode) return null;
        if (there) throw diskError(depth === names.length ? 'EEXIST' : 'ENOTDIR', 'mkdir', path);
        this.#needInode('mkdir', part);
        return { whole: () => parent.change(++this.#order, null, name, new DirectoryNode()) };
      });
    }
  }

  /** Within one directory only: no promise of Fieldpost needs more. */
  rename(from: string, to: string): Promise<void> {
    return this.#operate({ kind: 'rename', path: to }, () => {
      const [directory, name] = this.#parent(from, 'rename');
      const [target, newName] = this.#parent(to, 'rename');
      assert(directory === target, 'this model renames within one directory only');
      const node = directory.now.get(name);
      const replaced = directory.now.get(newName);
      if (!node) throw diskError('ENOENT', 'rename', from);
      if (node === replaced) return null;
      if (replaced instanceof DirectoryNode) throw diskError('EISDIR', 'rename', to);
      if (replaced && node instanceof DirectoryNode) throw diskError('ENOTDIR', 'rename', to);
      return { whole: () => directory.change(++this.#order, name, newName, node) };
    });
  }

  remove(path: string): Promise<void> {
    return this.#operate({ kind: 'remove', path }, () => {
      const there = this.#look(path, 'rm');
      if (there instanceof DirectoryNode) throw diskError('EISDIR', 'rm', path);
      if (!there) return null;
      const [directory, name] = this.#parent(path, 'rm');
      return { whole: () => directory.change(++this.#order, name, null, null) };
    });
  }

  syncDirectory(path: string): Promise<void> {
    const order = this.#order;
    return this.#operate({ kind: 'syncDirectory', path }, () => {
      const node = this.#find(path, 'open');
      if (node instanceof FileNode) throw diskError('ENOTDIR', 'open', path);
      return this.#syncOf(node, order);
    });
  }

  async space(path: string): Promise<Space> {
    await this.#turn();
    this.#find(path, 'statfs');
    const used = this.#used();
    return {
      freeBytes: Math.max(0, this.capacityBytes - used.bytes),
      sizeBytes: this.capacityBytes,
      freeInodes: Math.max(0, this.capacityInodes - used.inodes),
    };
  }

  async #create(path: string): Promise<DiskFile> {
    const file = new FileNode();
    await this.#operate({ kind: 'create', path }, () => {
      const [directory, name] = this.#parent(path, 'open');
      if (directory.now.has(name)) throw diskError('EEXIST', 'open', path);
      this.#needInode('open', path);
      return { whole: () => directory.change(++this.#order, null, name, file) };
    });
    return this.#handle(file, path, 'create');
  }

  #handle(file: FileNode, path: string, how: Parameters<Disk['open']>[1]): DiskFile {
    const handle = {};
    this.#open.set(handle, file);
    const check = () => {
      if (!this.#open.has(handle)) throw diskError('EBADF', 'use of a closed handle on', path);
    };
    const looked = async <T>(look: () => T): Promise<T> => {
      await this.#turn();
      check();
      return look();
    };
    return {
      read: (offset, length) => looked(() => this.#read(file, path, offset, length)),
      size: () => looked(() => file.now.bytes),
      write: async (bytes, offset) => {
        let order: number | null = null;
        await this.#operate({ kind: 'write', path }, () => {
          if (bytes.length === 0) return null;
          check();
          if (how === 'read') throw diskError('EBADF', 'write', path);
          const { whole, half } = this.#writeOf(file, path, bytes, offset);
          const noted = () => {
            whole();
            order = this.#order;
          };
          return { whole: noted, half };
        });
        // A durable write ends with a sync of its own sectors: a sweep stops between the two, too.
        if (how === 'durable' && order !== null) await this.#syncOne(file, path, order);
      },
      sync: () => {
        const order = this.#order;
        return this.#operate({ kind: 'sync', path }, () => {
          check();
          return this.#syncOf(file, order);
        });
      },
      close: async () => {
        await this.#turn();
        this.#open.delete(handle);
      },
    };
  }

  #syncOne(file: FileNode, path: string, order: number): Promise<void> {
    return this.#operate({ kind: 'sync', path }, () => ({
      whole: () => file.syncOne(order),
      half: () => file.losePartOfOne(order, () => this.#random() < 0.5),
      lost: () => file.loseOne(order),
    }));
  }

  #read(file: FileNode, path: string, offset: number, length: number): Buffer {
    const code = this.onRead(path, offset, length);
    if (code !== null) throw diskError(code, 'read', path);
    return file.read(offset, length);
  }

  #writeOf(
    file: FileNode,
    path: string,
    bytes: Buffer,
    offset: number,
  ): Required<Pick<Effect, 'whole' | 'half'>> {
    const write = (count: number) => {
      this.#last = file;
      if (count > 0) file.write(bytes.subarray(0, count), offset, ++this.#order);
    };
    const whole = () => {
      const room = occupiedBytes(file.now.bytes) + this.#room();
      const fits = Math.min(bytes.length, Math.max(0, room - offset));
      write(fits);
      // As a real one: what fits is written, then the error comes.
      if (fits < bytes.length) throw diskError('ENOSPC', 'write', path);
    };
    return { whole, half: () => write(Math.floor(bytes.length / 2)) };
  }

  #syncOf(node: Node, order: number): Effect {
    return {
      whole: () => node.sync(order),
      half: () => node.losePart(() => this.#random() < 0.5),
      lost: () => node.lose(),
    };
  }

  /** Runs one operation: finds out whether it is possible, asks what is to become of it, and does that. */
  async #operate(operation: Operation, plan: () => Effect | null): Promise<void> {
    await this.#turn();
    const pause = this.pace(operation);
    if (pause !== null) await pause;
    this.#mustLive();
    const effect = plan();
    if (effect === null) return;
    const fault = this.onOperation(++this.operations, operation);
    this.#mustLive();
    if (fault === 'power-cut-before') this.cutPower();
    this.#mustLive();
    if (fault.startsWith('error:')) effect.lost?.();
    else if (fault.startsWith('error-half:')) effect.half?.();
    else effect.whole();
    if (fault === 'power-cut-after') this.cutPower();
    await this.#turn();
    const code = fault.split(':')[1];
    if (code !== undefined) throw diskError(code, operation.kind, operation.path);
  }

  /** Lets others go first, a few turns by chance, so that calls under way together end in any order. */
  async #turn(): Promise<void> {
    for (let turns = 1 + Math.floor(this.#random() * 3); turns > 0; turns--) await null;
    this.#mustLive();
  }

  #mustLive(): void {
    if (this.#dead) throw new PowerCutError('the power was cut');
  }

  /** The node at a path; undefined if there is none. */
  #look(path: string, call: string): Node | undefined {
    let node: Node | undefined = this.#root;
    for (const name of partsOf(path)) {
      if (node instanceof FileNode) throw diskError('ENOTDIR', call, path);
      node = node?.now.get(name);
    }
    return node;
  }

  #find(path: string, call: string): Node {
    const node = this.#look(path, call);
    if (!node) throw diskError('ENOENT', call, path);
    return node;
  }

  /** The directory a path lies in, and the name it has there. */
  #parent(path: string, call: string): [DirectoryNode, string] {
    const names = partsOf(path);
    const name = names.pop();
    assert(name !== undefined, 'the root has no name');
    const directory = this.#find(`/${names.join('/')}`, call);
    if (directory instanceof FileNode) throw diskError('ENOTDIR', call, path);
    return [directory, name];
  }

  #needInode(call: string, path: string): void {
    if (this.capacityInodes === UNLIMITED) return;
    if (this.#used().inodes >= this.capacityInodes) throw diskError('ENOSPC', call, path);
  }

  /** Bytes that files may still grow by. */
  #room(): number {
    return this.capacityBytes === UNLIMITED ? UNLIMITED : this.capacityBytes - this.#used().bytes;
  }

  /** What is in the tree, and what was removed from it but is still open. */
  #used(): { bytes: number; inodes: number } {
    const nodes = new Set<Node>(this.#open.values());
    for (const node of nodesUnder(this.#root)) nodes.add(node);
    let bytes = 0;
    for (const node of nodes) if (node instanceof FileNode) bytes += occupiedBytes(node.now.bytes);
    return { bytes, inodes: nodes.size };
  }

  #successor(root: DirectoryNode): FaultyDisk {
    const disk = new FaultyDisk({ random: this.#random });
    disk.#root = root;
    disk.capacityBytes = this.capacityBytes;
    disk.capacityInodes = this.capacityInodes;
    return disk;
  }
}

function diskError(code: string, call: string, path: string): Error {
  return systemError(code, `${code}: ${call} '${path}'`);
}

function partsOf(path: string): string[] {
  assert(path.startsWith('/'), `the faulty disk knows absolute paths only, not ${path}`);
  return path.split('/').filter((name) => name !== '');
}

function* nodesUnder(directory: DirectoryNode): Iterable<Node> {
  for (const node of directory.now.values()) {
    yield node;
    if (node instanceof DirectoryNode) yield* nodesUnder(node);
  }
}
