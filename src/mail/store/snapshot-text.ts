/**
 * The bytes of a snapshot file.
 *
 *     {"crc":"xxxxxxxx","through":{"segment":n,"offset":n},"state":{"format":{"major":n,"minor":n},…,"messages":[
 *     [[…],[…]],
 *     [[…]]
 *     ]}}
 *
 * `crc` is the CRC-32 of all bytes behind its comma. The state includes the journal up to `through`. A line is a list of
 * some hundred messages (rows.ts): the store reads and writes a line at a time, to save memory and not to hold up others.
 */
import { Buffer } from 'node:buffer';
import { crc32, hex8 } from '../../base/crc.js';
import type { StoreDocument } from './document.js';
import type { Position } from './event.js';
import { FORMAT, type Format, formatOf } from './format.js';

const HEAD = /^\{"crc":"([0-9a-f]{8})","through":(\{"segment":\d+,"offset":\d+\}),"state":/;
/** The first member of the state: the version is known before the state is parsed. */
const FORMAT_MEMBER = /^\{"format":(\{"major":\d+,"minor":\d+\})/;
/** `beginsLikeSnapshot` looks at so many bytes. */
export const HEAD_BYTES_MAX = 200;
const TAIL = '\n]}}\n';
const CRC_AT = '{"crc":"'.length;
const SUMMED_FROM = '{"crc":"xxxxxxxx",'.length;

/** A snapshot with a right checksum. */
export interface Snapshot {
  readonly through: Position;
  readonly format: Format;
  /** Parses it. */
  state(): StoreDocument;
}

/** The bytes of a snapshot, each piece made on demand. The checksum stands at their begin, and is known at their end. */
export function* encodeSnapshot(
  through: Position,
  { messages, ...rest }: StoreDocument,
): Generator<Buffer, { bytes: Buffer; at: number }, void> {
  const members = JSON.stringify({ format: FORMAT, ...rest }).slice(0, -1);
  const head = `{"crc":"xxxxxxxx","through":${JSON.stringify(through)},"state":${members},"messages":[`;
  let piece = Buffer.from(head);
  let crc = crc32(piece.subarray(SUMMED_FROM));
  yield piece;
  let separator = '\n';
  for (const line of messages) {
    piece = Buffer.from(separator + JSON.stringify(line));
    crc = crc32(piece, crc);
    yield piece;
    separator = ',\n';
  }
  piece = Buffer.from(TAIL);
  yield piece;
  return { bytes: Buffer.from(hex8(crc32(piece, crc))), at: CRC_AT };
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
      const members = JSON.parse(`${bytes.toString('utf8', head.length, end)}]}`);
      const lines = bytes.subarray(end + 1, -TAIL.length);
      return { ...members, messages: linesIn(lines, members.kinds === undefined) };
    },
  };
}

/** The rows of one line after another. In format 1 a line is no list. */
function* linesIn(bytes: Buffer, isOld: boolean): Generator<unknown[], void, void> {
  for (let from = 0; from < bytes.length; ) {
    const at = bytes.indexOf(',\n', from);
    const to = at < 0 ? bytes.length : at;
    const line = bytes.toString('utf8', from, to);
    yield JSON.parse(isOld ? `[${line}]` : line);
    from = to + ',\n'.length;
  }
}

/** True if a file with this head is a snapshot, whole or not. */
export function beginsLikeSnapshot(head: Buffer): boolean {
  return HEAD.test(head.toString('latin1'));
}
