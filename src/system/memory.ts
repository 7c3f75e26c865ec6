/**
 * V8's memory, held short. It lets 32 MiB of the dead buffers of streams pile up before it looks at them, and its heap
 * grow, whatever we keep. Main has both seen to; who streams much tells how much.
 */
import {
  HTTP_MEMORY_SHARE,
  IDLE_MEMORY_BYTES,
  MEMORY_LIMIT_BYTES_MAX,
  MIB,
  STORE_MEMORY_FACTOR,
} from '../limits.js';

/** Fewer bytes would be of no use, whatever the limit. */
const STORE_MEMORY_BYTES_MIN = MIB;

/** How much may pile up. A look costs half a millisecond. */
const PILE_BYTES_MAX = 4 * MIB;

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

/** A function to be told of the octets of buffers that have been streamed; from time to time it frees them. */
export function bufferCollector(collect: () => unknown = youngCollection()): (bytes: number) => void {
  let pileBytes = 0;
  return (bytes) => {
    pileBytes += bytes;
    if (pileBytes < PILE_BYTES_MAX) return;
    pileBytes = 0;
    collect();
  };
}

/**
 * Nearly all that is made is gone after one request. V8 would let its generations grow to keep more of the dead about:
 * held short, the daemon takes a third less memory under load, for a tenth of the requests that 32 clients together can
 * make (scripts/bench memory, accept). V8 heeds the first of these only when it runs already; and node:v8 would take 2 ms
 * of the start, which is over by then.
 */
export async function keepHeapSmall(): Promise<void> {
  const { setFlagsFromString } = await import('node:v8');
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=50');
}

type Collect = (options: { type: 'minor' }) => void;

/** Loaded with the first pile. */
function youngCollection(): () => Promise<void> {
  let loaded: Promise<Collect> | null = null;
  return async () => {
    loaded ??= load();
    (await loaded)({ type: 'minor' });
  };
}

/** Node tells nobody how to collect the young generation but who asks for it by this flag, in a context made after that. */
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
