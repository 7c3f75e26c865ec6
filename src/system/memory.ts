/**
 * Memory that streams leave behind. V8 lets 32 MiB of dead buffers pile up before it looks at them, and a large file
 * would take that much whatever we keep. Main makes it; who streams much tells it how much.
 */
import { MIB } from '../limits.js';

/** How much may pile up. A look costs half a millisecond. */
const PILE_BYTES_MAX = 4 * MIB;

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
