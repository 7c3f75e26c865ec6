/**
 * The end of a mail on standard input, as sendmail knows it: a line with a single dot.
 */
import { Buffer } from 'node:buffer';

const LF = 10;
const DOT = 46;
const DOT_LINE = /^\.\r?\n/;
/** The beginning of what may become such a line. */
const OPEN_LINE = /^\.\r?$/;

/** The input before the line with the dot; what follows that line is not read. */
export async function* upToDot(input: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, void> {
  let rest = Buffer.alloc(0);
  let previous = LF;
  for await (const chunk of input) {
    const bytes = Buffer.concat([rest, chunk]);
    rest = Buffer.alloc(0);
    let end = bytes.length;
    for (let at = dotIn(bytes, 0, previous); at >= 0; at = dotIn(bytes, at + 1, DOT)) {
      const line = bytes.toString('latin1', at, at + 3);
      const isOver = DOT_LINE.test(line);
      if (isOver || OPEN_LINE.test(line)) end = at;
      if (!isOver) continue;
      yield bytes.subarray(0, end);
      return;
    }
    rest = Buffer.from(bytes.subarray(end));
    if (end > 0) {
      yield bytes.subarray(0, end);
      previous = bytes[end - 1] as number;
    }
  }
  // The end of the input ends the line as well: then `rest` is a single dot.
}

/** Where the next line with a dot in front begins, from `from`; `previous` is the octet before that. -1: nowhere. */
function dotIn(bytes: Buffer, from: number, previous: number): number {
  if (previous === LF && bytes[from] === DOT) return from;
  const found = bytes.indexOf('\n.', from, 'latin1');
  return found < 0 ? -1 : found + 1;
}
