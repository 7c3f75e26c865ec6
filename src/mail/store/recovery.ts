/**
 * Recovery as tables: which snapshot to start from, which segments make up the history behind it, and what a line that
 * is not valid means. Pure.
 */
import { Buffer } from 'node:buffer';
import type { Position } from './event.js';
import { decodeLine, type Follows, payloadOf, type ReadRecord } from './record.js';

/** `bad` cannot be read, `newer` was written by a newer major version. */
export type SnapshotState = 'good' | 'bad' | 'absent' | 'newer';
/** `from-first`: all segments from the very first one on. */
export type SegmentsState = 'none' | 'from-first' | 'later';

interface Findings {
  readonly current: SnapshotState;
  readonly previous: SnapshotState;
  readonly segments: SegmentsState;
}

/** Which snapshot to start from. `trusted`: the history behind it is whole, so its queued messages may be sent. */
interface ReplayBase {
  readonly from: 'current' | 'previous' | 'empty';
  readonly trusted: boolean;
}

interface BaseRow extends ReplayBase {
  readonly current: readonly SnapshotState[];
  readonly previous: readonly SnapshotState[];
  readonly segments: readonly SegmentsState[];
}

const ALL: readonly SnapshotState[] = ['good', 'bad', 'absent', 'newer'];
const NOT_GOOD: readonly SnapshotState[] = ['bad', 'absent', 'newer'];
const USELESS: readonly SnapshotState[] = ['bad', 'absent'];
const ANY: readonly SegmentsState[] = ['none', 'from-first', 'later'];

/** Every combination of findings matches exactly one row. */
const BASE_TABLE: readonly BaseRow[] = [
  // The newest snapshot is whole.
  { current: ['good'], previous: ALL, segments: ANY, from: 'current', trusted: true },
  // A newer version has gone on from the snapshot before: its changes are unknown.
  { current: ['newer'], previous: ['good'], segments: ANY, from: 'previous', trusted: false },
  // Only the newer version knows the history.
  { current: ['newer'], previous: NOT_GOOD, segments: ANY, from: 'empty', trusted: false },
  { current: USELESS, previous: ['newer'], segments: ANY, from: 'empty', trusted: false },
  // The newest is damaged, or a power cut fell between the two renames. The segments behind the older one are kept.
  { current: USELESS, previous: ['good'], segments: ANY, from: 'previous', trusted: true },
  // No snapshot is needed: the journal still has everything.
  { current: USELESS, previous: USELESS, segments: ['from-first'], from: 'empty', trusted: true },
  // A new store.
  { current: ['absent'], previous: ['absent'], segments: ['none'], from: 'empty', trusted: true },
  // Snapshots once existed: the history before the first segment is lost.
  { current: ['absent'], previous: ['absent'], segments: ['later'], from: 'empty', trusted: false },
  // The content of the damaged snapshots is lost.
  { current: ['bad'], previous: USELESS, segments: ['none', 'later'], from: 'empty', trusted: false },
  { current: ['absent'], previous: ['bad'], segments: ['none', 'later'], from: 'empty', trusted: false },
];

/** The matching rows of the table: always one. */
export function rowsFor(findings: Findings): BaseRow[] {
  return BASE_TABLE.filter(
    (row) =>
      row.current.includes(findings.current) &&
      row.previous.includes(findings.previous) &&
      row.segments.includes(findings.segments),
  );
}

/** The base in the matching row. */
export function chooseBase(findings: Findings): ReplayBase {
  return rowsFor(findings)[0] as BaseRow;
}

/** What the head of a segment says of the one before it. */
export type Head = Follows | 'unreadable';

/** A stretch of history in one segment. If `upTo` is null, it ends where the records end. */
export interface Stretch {
  readonly segment: number;
  readonly from: number;
  readonly upTo: number | null;
  /** The segment was synced up to here, as the file `synced` says. Left out if that file names another segment. */
  readonly noted?: number;
}

interface History {
  readonly stretches: Stretch[];
  /** False if a part between base and newest is missing. */
  readonly whole: boolean;
  /** Segments that are needed and do not exist. */
  readonly missing: number[];
}

/**
 * Walks from the newest segment along `follows` to `base`. The segments that it skips are void: the daemon began them
 * after an error, and never synced them. The stretches come oldest first. `noted`: the position in the file `synced`.
 */
export function linkHistory(
  heads: ReadonlyMap<number, Head>,
  base: Position,
  noted: Position | null = null,
): History {
  const notedIn = (segment: number) => (noted?.segment === segment ? { noted: noted.offset } : {});
  const missing: number[] = [];
  const written = [...heads.keys()].filter((segment) => segment >= base.segment).sort((a, b) => b - a);
  const stretches: Stretch[] = [];
  let whole = true;
  const newest = written[0];
  let next: { segment: number | undefined; upTo: number | null } = { segment: newest, upTo: null };
  if (noted && noted.segment > Math.max(base.segment, newest ?? 0))
    next = { segment: noted.segment, upTo: noted.offset };
  while (next.segment !== undefined && next.segment > base.segment) {
    const segment: number = next.segment;
    const head = heads.get(segment);
    const before = written.find((older) => older < segment);
    if (head === undefined) {
      // A named segment is gone: go on with the one before it.
      whole = false;
      missing.push(segment);
      next = { segment: before, upTo: null };
      continue;
    }
    stretches.unshift({ segment, from: 0, upTo: next.upTo, ...notedIn(segment) });
    next = head === 'unreadable' ? { segment: before ?? base.segment, upTo: null } : head;
  }
  if (base.segment > 0) {
    if (next.segment === base.segment && heads.has(base.segment)) {
      const { segment, offset } = base;
      stretches.unshift({ segment, from: offset, upTo: next.upTo, ...notedIn(segment) });
    } else {
      whole = false;
      if (!heads.has(base.segment)) missing.push(base.segment);
    }
  }
  return { stretches, whole, missing };
}

/** A valid record, or bytes that are none. */
export interface Piece {
  readonly offset: number;
  readonly end: number;
  readonly record: ReadRecord | null;
  /** No write of this program, whole or torn, can leave these bytes. */
  readonly isForeign?: true;
}

/** Splits a stretch of the segment's bytes into pieces, without the zeros at its end. */
export function scan(bytes: Buffer, { segment, from, upTo }: Stretch): Piece[] {
  const pieces: Piece[] = [];
  const end = endOfWritten(bytes, from, upTo);
  let offset = from;
  while (offset < end) {
    const lineFeed = bytes.indexOf(0x0a, offset);
    const lineEnd = lineFeed === -1 || lineFeed >= end ? end : lineFeed + 1;
    const line = bytes.subarray(offset, lineEnd);
    const record = decodeLine(line, segment);
    if (record) pieces.push({ offset, end: lineEnd, record });
    // Its checksum is right: it is no torn write.
    else if (payloadOf(line, segment)) pieces.push({ offset, end: lineEnd, record, isForeign: true });
    else pieces.push(...salvage(bytes, offset, lineEnd, segment).map((piece) => examine(piece, bytes)));
    offset = lineEnd;
  }
  return pieces;
}

/** A lost line feed joins two lines: a valid record may begin in the middle of the bytes. */
function salvage(bytes: Buffer, offset: number, end: number, segment: number): Piece[] {
  const text = bytes.toString('latin1', offset, end);
  for (const match of text.matchAll(/[0-9a-f]{8} \{"/g)) {
    if (match.index === 0) continue;
    const start = offset + match.index;
    const record = decodeLine(bytes.subarray(start, end), segment);
    if (record)
      return [
        { offset, end: start, record: null },
        { offset: start, end, record },
      ];
  }
  return [{ offset, end, record: null }];
}

/**
 * The journal is JSON in UTF-8, and zeros. A torn write leaves each sector old or new, so text or zeros. Other control
 * characters, and octets that UTF-8 does not use, come from a disk that lost its content.
 */
const FOREIGN = Uint8Array.from({ length: 256 }, (_, octet) =>
  (octet < 0x20 && octet !== 0 && octet !== 0x0a) || octet === 0xc0 || octet === 0xc1 || octet > 0xf4 ? 1 : 0,
);

function examine(piece: Piece, bytes: Buffer): Piece {
  if (piece.record) return piece;
  for (let at = piece.offset; at < piece.end; at++) {
    if (FOREIGN[bytes[at] as number] === 1) return { ...piece, isForeign: true };
  }
  return piece;
}

const ZEROS = Buffer.alloc(4096);

/** The offset behind the last byte before `upTo` that is not zero, or `from`. */
function endOfWritten(bytes: Buffer, from: number, upTo: number | null): number {
  let end = Math.min(bytes.length, upTo ?? bytes.length);
  // A segment is filled with up to a mebibyte of zeros, which takes long octet by octet.
  while (end - ZEROS.length >= from && ZEROS.equals(bytes.subarray(end - ZEROS.length, end))) {
    end -= ZEROS.length;
  }
  while (end > from && bytes[end - 1] === 0) end--;
  return end;
}

interface JudgedStretch {
  /** In order. Records from `provenTo` on are not known to be on the device. */
  readonly valid: readonly (Piece & { readonly record: ReadRecord })[];
  /** Proven earlier, and not valid now. */
  readonly damaged: readonly { readonly offset: number; readonly end: number }[];
  readonly provenTo: number;
  /** Its end is gone. */
  readonly isCut: boolean;
}

/**
 * All before the follower's `upTo` is proven. Without a follower, a later record or the file `synced` says what is
 * proven. An invalid line after the proven part is the torn tail of a write, unless it is foreign.
 */
export function judge(stretch: Stretch, pieces: readonly Piece[]): JudgedStretch {
  const valid = pieces.filter((piece): piece is Piece & { record: ReadRecord } => piece.record !== null);
  const synced = valid.map(({ record }) => record.synced);
  const provenTo = stretch.upTo ?? Math.max(stretch.from, stretch.noted ?? 0, ...synced);
  const damaged = pieces
    .filter(({ record, offset, isForeign }) => record === null && (offset < provenTo || isForeign))
    .map(({ offset, end }) => ({ offset, end }));
  const readTo = pieces.at(-1)?.end ?? stretch.from;
  const isCut = readTo < provenTo;
  if (isCut) damaged.push({ offset: readTo, end: provenTo });
  return { valid, damaged, provenTo, isCut };
}
