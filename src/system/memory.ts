/**
 * Memory that streams leave behind. V8 lets 32 MiB of dead buffers pile up before it looks at them, and a large file
 * would take that much whatever we keep. Main makes it; who streams much tells it how much.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { MIB } from '../limits.js';

/** How much may pile up. A look costs half a millisecond. */
const PILE_BYTES_MAX = 4 * MIB;

/** A function to be told of the octets of buffers that have been streamed; from time to time it frees them. */
export function bufferCollector(collect = youngCollection()): (bytes: number) => void {
  let pileBytes = 0;
  return (bytes) => {
    pileBytes += bytes;
    if (pileBytes < PILE_BYTES_MAX) return;
    pileBytes = 0;
    collect();
  };
}

/** Node tells nobody how to collect the young generation but who asks for it by this flag, in a context made after that. */
function youngCollection(): () => void {
  let collect: ((options: { type: 'minor' }) => void) | null = null;
  return () => {
    if (collect === null) {
      setFlagsFromString('--expose-gc');
      collect = runInNewContext('gc');
      setFlagsFromString('--no-expose-gc');
    }
    collect?.({ type: 'minor' });
  };
}
