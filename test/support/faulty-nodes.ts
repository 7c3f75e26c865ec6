/**
 * The files and directories of the faulty disk. Each has a state that the running system sees (`now`), one that is on
 * stable storage for certain (`certain`), and the changes since (`unsynced`). A power cut may lose any of these changes.
 */

/** Which unsynced changes reach stable storage; see `FaultyDisk.afterPowerCut`. */
export type PowerCut = 'nothing' | 'everything' | 'random' | 'torn-head' | 'torn-tail';

/** One power cut: how it treats the unsynced, a coin for `random`, and the write that the `torn` ones tear. */
export interface Cut {
  readonly kind: PowerCut;
  readonly random: () => number;
  readonly coin: () => boolean;
  readonly torn: Write | undefined;
}

export type Node = FileNode | DirectoryNode;

const SECTOR_BYTES = 512;
const ZERO = Buffer.alloc(SECTOR_BYTES);
const BLOCK_BYTES = 4096;

/**
 * A state of a file. Sectors are never changed in place, and copies share even the list of them until one is
 * changed: a sweep keeps thousands. A hole is zeros.
 */
interface Image {
  bytes: number;
  shared: boolean;
  sectors: (Buffer | undefined)[];
}

/** One unsynced write: whole new sectors, as the page cache holds them, and the file's size after it. */
interface Write {
  readonly order: number;
  readonly first: number;
  /** Undefined: a durable write of another has put this sector on stable storage. */
  readonly sectors: (Buffer | undefined)[];
  readonly bytes: number;
}

/** One unsynced change of names, which happens wholly or not at all: create, remove, or rename (both). */
interface Change {
  readonly order: number;
  readonly gone: string | null;
  readonly here: string | null;
  readonly node: Node | null;
}

export class FileNode {
  now: Image = { bytes: 0, shared: false, sectors: [] };
  certain: Image = { bytes: 0, shared: false, sectors: [] };
  unsynced: Write[] = [];

  read(offset: number, length: number): Buffer {
    const end = Math.max(offset, Math.min(offset + length, this.now.bytes));
    const found = Buffer.alloc(end - offset);
    for (let at = Math.floor(offset / SECTOR_BYTES); at * SECTOR_BYTES < end; at++) {
      const from = at * SECTOR_BYTES;
      const sector = this.now.sectors[at];
      if (sector && sector !== ZERO)
        sector.copy(found, Math.max(0, from - offset), Math.max(0, offset - from));
    }
    return found;
  }

  write(bytes: Buffer, offset: number, order: number): void {
    const first = Math.floor(offset / SECTOR_BYTES);
    let own: Buffer | null = null;
    const sectors: Buffer[] = [];
    for (let at = first; at * SECTOR_BYTES < offset + bytes.length; at++) {
      const from = at * SECTOR_BYTES - offset;
      // A store fills its files ahead: most sectors are zeros.
      if (isZero(bytes, from)) {
        sectors.push(ZERO);
        continue;
      }
      own ??= Buffer.from(bytes);
      let sector = own.subarray(Math.max(0, from), from + SECTOR_BYTES);
      if (sector.length < SECTOR_BYTES) {
        // The part of the sector that this write leaves alone goes to the device with it.
        const whole = Buffer.from(this.now.sectors[at] ?? ZERO);
        sector.copy(whole, Math.max(0, -from));
        sector = whole;
      }
      sectors.push(sector);
    }
    this.now.bytes = Math.max(this.now.bytes, offset + bytes.length);
    const write: Write = { order, first, sectors, bytes: this.now.bytes };
    lay(this.now, write, () => true);
    this.unsynced.push(write);
  }

  /** What was written up to `order` is certain. */
  sync(order: number): void {
    for (const write of this.unsynced) if (write.order <= order) lay(this.certain, write, () => true);
    this.unsynced = this.unsynced.filter((write) => write.order > order);
  }

  /**
   * The end of a durable write: its sectors are certain, with what earlier writes have put into them. Of other sectors it
   * says nothing.
   */
  syncOne(order: number): void {
    const own = this.unsynced.find((write) => write.order === order);
    if (own === undefined) return;
    lay(this.certain, own, () => true);
    this.unsynced = this.unsynced.map((write) => (write.order < order ? without(write, own) : write));
    this.loseOne(order);
  }

  /** A failed durable write. */
  loseOne(order: number): void {
    this.unsynced = this.unsynced.filter((write) => write.order !== order);
  }

  /** A failed durable write of which some sectors are certain. */
  losePartOfOne(order: number, coin: () => boolean): void {
    for (const write of this.unsynced) if (write.order === order) lay(this.certain, write, coin);
    this.loseOne(order);
  }

  /** A failed sync: readable until the machine stops, but no later sync will write it. */
  lose(): void {
    this.unsynced = [];
  }

  /** A failed sync that got some of it down: these sectors are certain, the others lost. */
  losePart(coin: () => boolean): void {
    for (const write of this.unsynced) lay(this.certain, write, coin);
    this.lose();
  }

  afterCut(cut: Cut): FileNode {
    const image = copyOf(this.certain);
    for (const write of this.unsynced) {
      const half = write.sectors.length / 2;
      const torn = write === cut.torn;
      if (cut.kind === 'everything' || (cut.kind.startsWith('torn') && !torn)) lay(image, write, () => true);
      if (torn && cut.kind === 'torn-head') lay(image, write, (at) => at < half);
      if (torn && cut.kind === 'torn-tail') lay(image, write, (at) => at >= half);
      if (cut.kind === 'random') layAtRandom(image, write, cut);
    }
    return fileOf(image);
  }

  copy(): FileNode {
    const copy = new FileNode();
    copy.now = copyOf(this.now);
    copy.certain = copyOf(this.certain);
    copy.unsynced = [...this.unsynced];
    return copy;
  }
}

export class DirectoryNode {
  now = new Map<string, Node>();
  certain = new Map<string, Node>();
  unsynced: Change[] = [];

  change(order: number, gone: string | null, here: string | null, node: Node | null): void {
    const change = { order, gone, here, node };
    apply(this.now, change);
    this.unsynced.push(change);
  }

  sync(order: number): void {
    for (const change of this.unsynced) if (change.order <= order) apply(this.certain, change);
    this.unsynced = this.unsynced.filter((change) => change.order > order);
  }

  lose(): void {
    this.unsynced = [];
  }

  losePart(coin: () => boolean): void {
    this.certain = this.#some(coin);
    this.lose();
  }

  afterCut(cut: Cut): DirectoryNode {
    const toss = cut.kind === 'random' ? cut.coin : () => cut.kind !== 'nothing';
    return directoryOf([...this.#some(toss)].map(([name, node]) => [name, node.afterCut(cut)]));
  }

  /** A node may be certain under one name and seen under another; `known` keeps it one node. */
  copy(known: Map<Node, Node>): DirectoryNode {
    const copied = (node: Node): Node => {
      const copy = known.get(node) ?? node.copy(known);
      known.set(node, copy);
      return copy;
    };
    const copy = new DirectoryNode();
    copy.now = new Map([...this.now].map(([name, node]) => [name, copied(node)]));
    copy.certain = new Map([...this.certain].map(([name, node]) => [name, copied(node)]));
    copy.unsynced = this.unsynced.map((one) => ({ ...one, node: one.node && copied(one.node) }));
    return copy;
  }

  /** The certain names and some of the changes since: each only if all before it on the same names are there. */
  #some(toss: () => boolean): Map<string, Node> {
    const names = new Map(this.certain);
    const missed = new Set<string | null>();
    for (const change of this.unsynced) {
      const touched = [change.gone, change.here].filter((name) => name !== null);
      if (!touched.some((name) => missed.has(name)) && toss()) apply(names, change);
      else for (const name of touched) missed.add(name);
    }
    return names;
  }
}

/** Blocks that a file of so many bytes occupies, in bytes. */
export function occupiedBytes(bytes: number): number {
  return Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
}

/** True if the bytes hold a whole sector of zeros from there on. */
function isZero(bytes: Buffer, from: number): boolean {
  const end = from + SECTOR_BYTES;
  return from >= 0 && end <= bytes.length && bytes.compare(ZERO, 0, SECTOR_BYTES, from, end) === 0;
}

function apply(names: Map<string, Node>, change: Change): void {
  if (change.gone !== null) names.delete(change.gone);
  if (change.here !== null && change.node) names.set(change.here, change.node);
}

/** Lays those sectors of the write that are `kept` over the image; the file grows as far as the last of them. */
function lay(image: Image, write: Write, kept: (at: number) => boolean): void {
  unshare(image);
  write.sectors.forEach((sector, at) => {
    if (sector === undefined || !kept(at)) return;
    image.sectors[write.first + at] = sector;
    const end = (write.first + at + 1) * SECTOR_BYTES;
    image.bytes = Math.max(image.bytes, Math.min(end, write.bytes));
  });
}

/** A write without the sectors of a later one: the page cache holds one content of a sector, the later. */
function without(write: Write, later: Write): Write {
  const isOver = (at: number) => at >= later.first && at < later.first + later.sectors.length;
  return {
    ...write,
    sectors: write.sectors.map((sector, at) => (isOver(write.first + at) ? undefined : sector)),
  };
}

/** Each sector by coin; if the write grew the file, it is as long as before, as after, or anything between. */
function layAtRandom(image: Image, write: Write, cut: Cut): void {
  const before = image.bytes;
  lay(image, write, cut.coin);
  const growth = Math.max(0, write.bytes - before);
  const kept = cut.coin() ? growth : cut.coin() ? Math.floor(cut.random() * growth) : 0;
  truncate(image, before + kept);
}

function truncate(image: Image, bytes: number): void {
  unshare(image);
  image.bytes = bytes;
  image.sectors.length = Math.min(image.sectors.length, Math.ceil(bytes / SECTOR_BYTES));
  const tail = bytes % SECTOR_BYTES;
  const last = image.sectors[(bytes - tail) / SECTOR_BYTES];
  if (tail > 0 && last) {
    image.sectors[(bytes - tail) / SECTOR_BYTES] = Buffer.concat(
      [last.subarray(0, tail), ZERO],
      SECTOR_BYTES,
    );
  }
}

function copyOf(image: Image): Image {
  image.shared = true;
  return { ...image };
}

function unshare(image: Image): void {
  if (image.shared) image.sectors = image.sectors.slice();
  image.shared = false;
}

function fileOf(image: Image): FileNode {
  const file = new FileNode();
  file.now = image;
  file.certain = copyOf(image);
  return file;
}

function directoryOf(entries: Iterable<readonly [string, Node]>): DirectoryNode {
  const directory = new DirectoryNode();
  directory.certain = new Map(entries);
  directory.now = new Map(directory.certain);
  return directory;
}
