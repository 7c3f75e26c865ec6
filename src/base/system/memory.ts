/**
 * Keeps the memory of the process small: limits, V8's heap, and garbage collections for buffers. V8 does not count the
 * bytes of buffers that a stream is done with. Without collections a daemon of 96 MB with every limit in use reaches
 * 94 % of them (test/systemd/full-memory), and an upload takes 5 MiB more.
 */
import { nextTick } from 'node:process';
import { HTTP_MEMORY_SHARE, MIB } from '../limits.js';

/** Without a control group, the memory limit is this, or half of the machine's memory if that is less. */
const MEMORY_LIMIT_BYTES_MAX = 1024 * MIB;
/** The part of the limit that an idle daemon takes: Node.js, V8, code, buffers. */
const IDLE_MEMORY_BYTES = 36 * MIB;
/** Memory that the store takes for each byte it keeps there: V8's dead objects, and the snapshots that a start reads. */
const STORE_MEMORY_FACTOR = 2.5;

/** The store gets at least this. */
const STORE_MEMORY_BYTES_MIN = MIB;

/** The memory of the unit (systemd/fieldpost.service). */
const TIGHT_BYTES = 128 * MIB;

/**
 * Bytes of dead buffers between two collections. `minor` takes 0.5 ms; `major`, where V8 obeys it, 20 ms with the memory of
 * 64 MB in use.
 */
const PILE_BYTES_MAX = { minor: 4 * MIB, major: 2 * MIB };

/**
 * Bytes of memory that this process may take: the limit of its control group (`constrainedBytes`: 0 or more than the
 * machine has if there is none), else half of the machine's, within bounds.
 */
export function memoryLimit(constrainedBytes: number, machineBytes: number): number {
  if (constrainedBytes > 0 && constrainedBytes <= machineBytes) return constrainedBytes;
  return Math.min(machineBytes / 2, MEMORY_LIMIT_BYTES_MAX);
}

/** The store's share of the limit (mail/store/weight.ts). The rest is for requests and for the next start. */
export function storeMemory(limitBytes: number): number {
  const leftBytes = limitBytes * (1 - HTTP_MEMORY_SHARE) - IDLE_MEMORY_BYTES;
  return Math.max(STORE_MEMORY_BYTES_MIN, leftBytes / STORE_MEMORY_FACTOR);
}

/**
 * Gives a function that takes the bytes of buffers no longer used and runs a garbage collection for every few MiB of them.
 * `minor` frees buffers that lived shortly, `major` also older ones. V8 of Node.js 20 makes a minor one of either. That is
 * enough: its real one, without a type, frees 1 MiB more after a start, and accepting with 20,000 queued then takes 180 µs
 * of processor time in place of 130.
 */
export function garbageCollector(
  type: GcType,
  collect: () => unknown = collection(type),
): (bytes: number) => void {
  let pileBytes = 0;
  return (bytes) => {
    pileBytes += bytes;
    if (pileBytes < PILE_BYTES_MAX[type]) return;
    pileBytes = 0;
    collect();
  };
}

/** From then on the young generation does not grow. V8 ignores the flag before the heap is set up. */
const YOUNG_STAYS = '--semi-space-growth-factor=1';
/** Of V8's young generation. With 1 MiB an accepted message costs 15 % more processor time, with 16 MiB no less. */
const YOUNG_BYTES = 4 * MIB;

/**
 * Sets flags of V8, which otherwise lets its heap grow to spare itself garbage collections. With the unit's memory limit of
 * 128 MB the flags are stricter: the peak with every limit in use is 69 %, not 92 %. Call it once the daemon runs, because
 * loading node:v8 takes 2 ms of the start.
 */
export async function keepHeapSmall(limitBytes: number): Promise<void> {
  const { setFlagsFromString } = await import('node:v8');
  const isTight = limitBytes <= TIGHT_BYTES;
  setFlagsFromString(`--heap-growing-percent=${isTight ? 20 : 50}`);
  if (!isTight) return;
  setFlagsFromString(YOUNG_STAYS);
  // The old generation then grows by 2 MiB between two collections, not by 8 or more.
  setFlagsFromString('--optimize-for-size');
}

/**
 * Gives a function that ends the growth of V8's young generation at YOUNG_BYTES. Call it now and then under load: after
 * each checkpoint. After 15,000 accepted messages 72 MiB are resident, without it 95.
 */
export function youngGenerationCap(): () => Promise<void> {
  let isCapped = false;
  return async () => {
    if (isCapped) return;
    const { getHeapSpaceStatistics, setFlagsFromString } = await import('node:v8');
    const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
    if (young === undefined || young.space_size < YOUNG_BYTES) return;
    isCapped = true;
    setFlagsFromString(YOUNG_STAYS);
  };
}

type GcType = 'minor' | 'major';
type Collect = (options: { type: GcType }) => void;

/** Loads what it needs with the first collection. */
function collection(type: GcType): () => Promise<void> {
  let loaded: Promise<Collect> | null = null;
  return async () => {
    loaded ??= load();
    const collect = await loaded;
    // The caller may still hold the buffer until this turn ends; the next request must not come first.
    if (type === 'major') await new Promise<void>((resolve) => nextTick(resolve));
    collect({ type });
  };
}

/** V8's function `gc`. Only a context that is made while the flag --expose-gc is set has it. */
async function load(): Promise<Collect> {
  const [{ setFlagsFromString }, { runInNewContext }] = await Promise.all([
    import('node:v8'),
    import('node:vm'),
  ]);
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  return collect;
}
