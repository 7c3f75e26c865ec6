/**
 * The bytes of a snapshot file.
 *
 *     {"crc":"xxxxxxxx","through":{"segment":n,"offset":n},"state":{"format":{"major":n,"minor":n},…,"messages":[
 *     {…},[…],[…],
 *     […]
 *     ]}}
 *
 * `crc` is the CRC-32 of all bytes behind its comma. The state includes the journal up to `through`. A line holds many
 * messages (rows.ts): the store reads and writes a line at a time, to save memory. The state's member `index` holds the
 * heads of the lines, so that a start can leave them unread. Used by snapshot.ts.
 */
import { Buffer } from 'node:buffer';
import { KIB } from '../limits.js';
import type { Batch } from './batches.js';
import { crc32, hex8 } from './crc.js';
import type { StoreDocument } from './document.js';
import type { Position } from './event.js';
import { FORMAT, type Format, formatOf } from './format.js';
import { type BatchHead, isStored } from './message-map.js';
import { rowsIn } from './rows.js';

const HEAD = /^\{"crc":"([0-9a-f]{8})","through":(\{"segment":\d+,"offset":\d+\}),"state":/;
/** The first member of the state: the version is known before the state is parsed. */
const FORMAT_MEMBER = /^\{"format":(\{"major":\d+,"minor":\d+\})/;
/** `beginsLikeSnapshot` looks at so many bytes. */
export const HEAD_BYTES_MAX = 200;
const PIECE_BYTES = 64 * KIB;
const TAIL = '\n]}}\n';
const SUMMED_FROM = '{"crc":"xxxxxxxx",'.length;

/** The heads of the lines. A start leaves a line with a head unread. */
interface Index {
  /** The CRC-32 of the lines, each with what separates it from the one before. */
  readonly crc: number;
  readonly heads: readonly (BatchHead | null)[];
}

/** A snapshot with a right checksum. */
export interface Snapshot {
  readonly through: Position;
  readonly format: Format;
  /** Parses it, which is slow for ten thousand messages. */
  state(): StoreDocument;
}

/** In pieces, because a single text would take four times its size in memory. */
export function encodeSnapshot(through: Position, { messages, ...rest }: StoreDocument): Buffer[] {
  const heads: (BatchHead | null)[] = [];
  const pieces: Buffer[] = [];
  let waiting: Buffer[] = [];
  let waitingBytes = 0;
  const join = () => {
    pieces.push(Buffer.concat(waiting));
    waiting = [];
    waitingBytes = 0;
  };
  for (const batch of messages) {
    const separator = heads.length === 0 ? '\n' : ',\n';
    const line = isStored(batch) ? batch.line : Buffer.from(JSON.stringify(batch.rows).slice(1, -1));
    heads.push(batch.head);
    waiting.push(Buffer.from(separator), line);
    waitingBytes += line.length;
    if (waitingBytes >= PIECE_BYTES) join();
  }
  join();
  const index: Index = { crc: crcOf(pieces, 0), heads };
  const state = { format: FORMAT, ...rest, ...(heads.some((head) => head !== null) && { index }) };
  const members = JSON.stringify(state).slice(0, -1);
  const head = Buffer.from(
    `{"crc":"xxxxxxxx","through":${JSON.stringify(through)},"state":${members},"messages":[`,
  );
  pieces.push(Buffer.from(TAIL));
  head.write(hex8(crcOf(pieces, crc32(head.subarray(SUMMED_FROM)))), '{"crc":"'.length, 'latin1');
  return [head, ...pieces];
}

function crcOf(pieces: readonly Buffer[], start: number): number {
  return pieces.reduce((sum, piece) => crc32(piece, sum), start);
}

/** Null if the bytes are not a whole snapshot. */
export function decodeSnapshot(bytes: Buffer): Snapshot | null {
  const start = bytes.toString('latin1', 0, HEAD_BYTES_MAX);
  const [head = '', crc, through] = HEAD.exec(start) ?? [];
  if (through === undefined || crc !== hex8(crc32(bytes.subarray(SUMMED_FROM)))) return null;
  const format = FORMAT_MEMBER.exec(start.slice(head.length))?.[1];
  return {
    through: JSON.parse(through),
    format: formatOf(format && JSON.parse(format)),
    state() {
      const end = bytes.indexOf('\n');
      const { index, ...rest } = JSON.parse(`${bytes.toString('utf8', head.length, end)}]}`);
      return { ...rest, messages: batchesOf(bytes.subarray(end, -TAIL.length), index) };
    },
  };
}

/** A version without an index writes back one that it has read, with other messages: then its CRC is wrong. */
function* batchesOf(bytes: Buffer, index: Index | undefined): Iterable<Batch> {
  const heads = index && index.crc === crc32(bytes) ? index.heads : [];
  let count = 0;
  for (let from = 1; from < bytes.length; ) {
    const at = bytes.indexOf(',\n', from);
    const to = at < 0 ? bytes.length : at;
    const line = bytes.subarray(from, to);
    const head = heads[count++] ?? null;
    yield head ? { head, line } : { head, rows: rowsIn(line) };
    from = to + ',\n'.length;
  }
}

/** True if a file with this head is a snapshot, whole or not. */
export function beginsLikeSnapshot(head: Buffer): boolean {
  return HEAD.test(head.toString('latin1'));
}
