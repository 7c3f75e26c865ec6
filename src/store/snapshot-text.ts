/**
 * The bytes of a snapshot file.
 *
 *     {"crc":"xxxxxxxx","through":{"segment":n,"offset":n},"state":{"format":{"major":n,"minor":n},…,"messages":[
 *     {…},[…],[…],
 *     […]
 *     ]}}
 *
 * `crc` is the CRC-32 of all bytes behind its comma. The state includes the journal up to `through`. A line holds many
 * messages (rows.ts): the store reads and writes a line at a time, to save memory. Used by snapshot.ts.
 */
import { Buffer } from 'node:buffer';
import { KIB } from '../limits.js';
import { crc32, hex8 } from './crc.js';
import type { StoreDocument } from './document.js';
import type { Position } from './event.js';
import { FORMAT, type Format, formatOf } from './format.js';
import type { SnapshotRow } from './rows.js';

const HEAD = /^\{"crc":"([0-9a-f]{8})","through":(\{"segment":\d+,"offset":\d+\}),"state":/;
/** The first member of the state: the version is known before the state is parsed. */
const FORMAT_MEMBER = /^\{"format":(\{"major":\d+,"minor":\d+\})/;
/** `beginsLikeSnapshot` looks at so many bytes. */
export const HEAD_BYTES_MAX = 200;
const PIECE_CHARS = 64 * KIB;
const TAIL = '\n]}}\n';
const SUMMED_FROM = '{"crc":"xxxxxxxx",'.length;

/** A snapshot with a right checksum. */
export interface Snapshot {
  readonly through: Position;
  readonly format: Format;
  /** Parses it, which is slow for ten thousand messages. */
  state(): StoreDocument;
}

/** In pieces, because a single text would take four times its size in memory. */
export function encodeSnapshot(through: Position, { messages, ...rest }: StoreDocument): Buffer[] {
  const position = JSON.stringify(through);
  const members = JSON.stringify({ format: FORMAT, ...rest }).slice(0, -1);
  const pieces: Buffer[] = [];
  let text = `{"crc":"xxxxxxxx","through":${position},"state":${members},"messages":[`;
  let separator = '\n';
  for (const batch of messages) {
    text += separator + JSON.stringify(batch).slice(1, -1);
    separator = ',\n';
    if (text.length < PIECE_CHARS) continue;
    pieces.push(Buffer.from(text));
    text = '';
  }
  pieces.push(Buffer.from(text + TAIL));
  const [head, ...others] = pieces as [Buffer, ...Buffer[]];
  const crc = others.reduce((sum, piece) => crc32(piece, sum), crc32(head.subarray(SUMMED_FROM)));
  head.write(hex8(crc), '{"crc":"'.length, 'latin1');
  return pieces;
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
      const rest = JSON.parse(`${bytes.toString('utf8', head.length, end)}]}`);
      return { ...rest, messages: messagesOf(bytes, end + 1) };
    },
  };
}

function* messagesOf(bytes: Buffer, start: number): Iterable<SnapshotRow[]> {
  const end = bytes.length - TAIL.length;
  for (let from = start; from < end; ) {
    const at = bytes.indexOf(',\n', from);
    const to = at < 0 ? end : at;
    yield JSON.parse(`[${bytes.toString('utf8', from, to)}]`);
    from = to + ',\n'.length;
  }
}

/** True if a file with this head is a snapshot, whole or not. */
export function beginsLikeSnapshot(head: Buffer): boolean {
  return HEAD.test(head.toString('latin1'));
}
