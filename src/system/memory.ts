/**
 * V8's memory, held short. It lets 32 MiB of the dead buffers of streams pile up before it looks at them, and its heap
 * grow, whatever we keep. Main has both seen to; who streams much tells how much.
 */
import { nextTick } from 'node:process';
import {
  HTTP_MEMORY_SHARE,
  IDLE_MEMORY_BYTES,
  MEMORY_LIMIT_BYTES_MAX,
  MIB,
  STORE_MEMORY_FACTOR,
} from '../limits.js';

/** Fewer bytes would be of no use, whatever the limit. */
const STORE_MEMORY_BYTES_MIN = MIB;

/** As much as the unit has. */
const TIGHT_BYTES = 128 * MIB;

/** How much may pile up. A look at the young costs half a millisecond, one at all 20 ms with the memory of 64 MB in use. */
const PILE_BYTES_MAX = { minor: 4 * MIB, major: 2 * MIB };

/**
 * Bytes of memory that this process may take: what its control group allows (`constrainedBytes`, which is 0 or more than
 * the machine has where there is no limit), else half of the machine's, within bounds.
 */
export function memoryLimit(constrainedBytes: number, machineBytes: number): number {
  if (constrainedBytes > 0 && constrainedBytes <= machineBytes) return constrainedBytes;
  return Math.min(machineBytes / 2, MEMORY_LIMIT_BYTES_MAX);
}

/** Of that, the bytes of what the store may know (store/weight.ts), so that requests and the next start have theirs. */
export function storeMemory(limitBytes: number): number {
  const leftBytes = limitBytes * (1 - HTTP_MEMORY_SHARE) - IDLE_MEMORY_BYTES;
  return Math.max(STORE_MEMORY_BYTES_MIN, leftBytes / STORE_MEMORY_FACTOR);
}

/**
 * A function to be told of the octets of buffers that are done with; from time to time it frees them. `minor` finds those that
 * were streamed, `major` also those that were kept for a while.
 */
export function bufferCollector(
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

/**
 * Nearly all that is made is gone after one request. V8 would let its generations grow to keep more of the dead about:
 * held short, the daemon takes a third less memory under load, for a tenth of the requests that 32 clients together can
 * make (scripts/bench memory, accept). V8 heeds the first of these only when it runs already; and node:v8 would take 2 ms
 * of the start, which is over by then. Within the unit's memory or less it is held shorter still, for another tenth: in 64 MB
 * with every budget spent the peak is 8 MiB lower.
 */
export async function keepHeapSmall(limitBytes: number): Promise<void> {
  const { setFlagsFromString } = await import('node:v8');
  setFlagsFromString('--semi-space-growth-factor=1');
  const isTight = limitBytes <= TIGHT_BYTES;
  setFlagsFromString(`--heap-growing-percent=${isTight ? 20 : 50}`);
  // The old generation may then grow by 2 MiB before it is looked at, not by 8 at least.
  if (isTight) setFlagsFromString('--optimize-for-size');
}

type GcType = 'minor' | 'major';
type Collect = (options: { type: GcType }) => void;

/** Loaded with the first pile. */
function collection(type: GcType): () => Promise<void> {
  let loaded: Promise<Collect> | null = null;
  return async () => {
    loaded ??= load();
    const collect = await loaded;
    // Whoever tells of a buffer may still have it in hand; but the next request is not to come before.
    if (type === 'major') await new Promise<void>((resolve) => nextTick(resolve));
    collect({ type });
  };
}

/** Node tells nobody how to collect but who asks for it by this flag, in a context made after that. */
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
