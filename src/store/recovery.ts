/**
 * Recovery as tables: which snapshot to start from, which segments make up the history behind it, and what a
 * line that cannot be read means. Pure; replay.ts does the reading.
 */
import { Buffer } from 'node:buffer';
import type { Position } from './event.js';
import { decodeLine, type Follows, type ReadRecord } from './record.js';

/** What a snapshot file is: `bad` cannot be read, `newer` was written by a newer major version. */
export type SnapshotState = 'good' | 'bad' | 'absent' | 'newer';
/** Which segments there are: none, all from the very first one on, or only later ones. */
export type SegmentsState = 'none' | 'from-first' | 'later';

/** What a start finds in the state directory. */
export interface Findings {
  readonly current: SnapshotState;
  readonly previous: SnapshotState;
  readonly segments: SegmentsState;
}

/** What to start from. `trusted`: the history behind it is whole, so what is queued there may be sent. */
export interface Base {
  readonly from: 'current' | 'previous' | 'empty';
  readonly trusted: boolean;
}

interface BaseRow {
  readonly current: readonly SnapshotState[];
  readonly previous: readonly SnapshotState[];
  readonly segments: readonly SegmentsState[];
  readonly base: Base;
  readonly why: string;
}

const ANY: readonly SnapshotState[] = ['good', 'bad', 'absent', 'newer'];
const OTHER: readonly SnapshotState[] = ['bad', 'absent', 'newer'];
const UNUSABLE: readonly SnapshotState[] = ['bad', 'absent'];
const ANYWHERE: readonly SegmentsState[] = ['none', 'from-first', 'later'];

/** Every combination of findings matches exactly one row. */
export const BASE_TABLE: readonly BaseRow[] = [
  {
    current: ['good'],
    previous: ANY,
    segments: ANYWHERE,
    base: { from: 'current', trusted: true },
    why: 'the newest snapshot is whole',
  },
  {
    current: ['newer'],
    previous: ['good'],
    segments: ANYWHERE,
    base: { from: 'previous', trusted: false },
    why: 'a newer version has gone on from there: what it did is unknown',
  },
  {
    current: ['newer'],
    previous: OTHER,
    segments: ANYWHERE,
    base: { from: 'empty', trusted: false },
    why: 'only the newer version knows what was before',
  },
  {
    current: UNUSABLE,
    previous: ['newer'],
    segments: ANYWHERE,
    base: { from: 'empty', trusted: false },
    why: 'only the newer version knows what was before',
  },
  {
    current: UNUSABLE,
    previous: ['good'],
    segments: ANYWHERE,
    base: { from: 'previous', trusted: true },
    why: 'the newest is damaged, or a power cut fell between the two renames; the segments of the one before are kept',
  },
  {
    current: UNUSABLE,
    previous: UNUSABLE,
    segments: ['from-first'],
    base: { from: 'empty', trusted: true },
    why: 'no snapshot is needed: the journal still has everything',
  },
  {
    current: ['absent'],
    previous: ['absent'],
    segments: ['none'],
    base: { from: 'empty', trusted: true },
    why: 'a new store',
  },
  {
    current: ['absent'],
    previous: ['absent'],
    segments: ['later'],
    base: { from: 'empty', trusted: false },
    why: 'snapshots once existed: what happened before the first segment is lost',
  },
  {
    current: ['bad'],
    previous: UNUSABLE,
    segments: ['none', 'later'],
    base: { from: 'empty', trusted: false },
    why: 'what the snapshots held is lost',
  },
  {
    current: ['absent'],
    previous: ['bad'],
    segments: ['none', 'later'],
    base: { from: 'empty', trusted: false },
    why: 'what the snapshots held is lost',
  },
];

/** The rows of the table that match, of which there is always one. */
export function rowsFor(findings: Findings): BaseRow[] {
  return BASE_TABLE.filter(
    (row) =>
      row.current.includes(findings.current) &&
      row.previous.includes(findings.previous) &&
      row.segments.includes(findings.segments),
  );
}

/** The base that the one matching row names. */
export function chooseBase(findings: Findings): Base {
  return (rowsFor(findings)[0] as BaseRow).base;
}

/** The head of a segment: how it follows another, or that it cannot be read, or that it holds no record at all. */
export type Head = Follows | 'unreadable' | 'untouched';

/** A stretch of history: from `from` to `upTo` in the segment, or to the end of what is there if that is null. */
export interface Stretch {
  readonly segment: number;
  readonly from: number;
  readonly upTo: number | null;
  /** How far a second place (synced-file.ts) says that the segment was synced; 0 if it does not say. */
  readonly noted?: number;
}

/** The history behind a base, and what of it is missing. */
export interface History {
  readonly stretches: Stretch[];
  /** False if something between base and newest is missing. */
  readonly whole: boolean;
  /** The segments that are needed and not there. */
  readonly missing: number[];
}

/**
 * The stretches that make up the history behind `base`, oldest first, found by walking from the newest
 * segment along its `follows`. Segments passed over on the way are void: they were begun in doubt and never
 * proven. `noted`: how far which segment was proven, from a second place.
 */
export function linkHistory(
  heads: ReadonlyMap<number, Head>,
  base: Position,
  noted: Position | null = null,
): History {
  const notedIn = (segment: number) => (noted?.segment === segment ? { noted: noted.offset } : {});
  const missing: number[] = [];
  const written = [...heads.keys()]
    .filter((segment) => segment >= base.segment && heads.get(segment) !== 'untouched')
    .sort((a, b) => b - a);
  const stretches: Stretch[] = [];
  let whole = true;
  let next: { segment: number; upTo: number | null } | undefined;
  const newest = written[0];
  if (newest !== undefined) next = { segment: newest, upTo: null };
  if (noted && noted.segment > Math.max(base.segment, newest ?? 0))
    next = { segment: noted.segment, upTo: noted.offset };
  while (next && next.segment > base.segment) {
    const { segment, upTo }: { segment: number; upTo: number | null } = next;
    const head = heads.get(segment);
    const before = written.find((older) => older < segment);
    if (head === undefined || head === 'untouched') {
      // The history names a segment that is gone: go on with what there is.
      whole = false;
      missing.push(segment);
      next = before === undefined ? undefined : { segment: before, upTo: null };
      continue;
    }
    stretches.unshift({ segment, from: 0, upTo, ...notedIn(segment) });
    if (head === 'unreadable') {
      next = before === undefined ? { segment: base.segment, upTo: null } : { segment: before, upTo: null };
    } else {
      next = { segment: head.segment, upTo: head.upTo };
    }
  }
  if (base.segment > 0) {
    if (next?.segment === base.segment && heads.has(base.segment)) {
      const { segment, offset } = base;
      stretches.unshift({ segment, from: offset, upTo: next.upTo, ...notedIn(segment) });
    } else {
      whole = false;
      if (!heads.has(base.segment)) missing.push(base.segment);
    }
  }
  return { stretches, whole, missing };
}

/** A piece of a segment: a valid record, or bytes that are none. */
export interface Piece {
  readonly offset: number;
  readonly end: number;
  readonly record: ReadRecord | null;
  /** No write of ours, whole or torn, leaves such bytes. */
  readonly isForeign?: true;
}

/** Splits the bytes of a stretch's segment into pieces, up to where it ends or only zeros follow. */
export function scan(bytes: Buffer, { segment, from, upTo }: Stretch): Piece[] {
  const pieces: Piece[] = [];
  const end = endOfWritten(bytes, from, upTo);
  let offset = from;
  while (offset < end) {
    const lineFeed = bytes.indexOf(0x0a, offset);
    const lineEnd = lineFeed === -1 || lineFeed >= end ? end : lineFeed + 1;
    const record = decodeLine(bytes.subarray(offset, lineEnd), segment);
    if (record) pieces.push({ offset, end: lineEnd, record });
    else pieces.push(...salvage(bytes, offset, lineEnd, segment).map((piece) => examine(piece, bytes)));
    offset = lineEnd;
  }
  return pieces;
}

/** A lost line feed joins two lines: a valid record may begin in the middle of what could not be read. */
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
 * The journal is JSON in UTF-8, and zeros. Of an unfinished write each sector is old or new, and so is text or zeros:
 * other control characters, and octets that UTF-8 has not, come from a disk that lost what it had.
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
  // A segment is prepared with zeros, a mebibyte of which takes long one by one.
  while (end - ZEROS.length >= from && ZEROS.equals(bytes.subarray(end - ZEROS.length, end))) {
    end -= ZEROS.length;
  }
  while (end > from && bytes[end - 1] === 0) end--;
  return end;
}

/** What a stretch holds, sorted by what it means. */
export interface Judgement {
  /** Valid, in order. Those from `provenTo` on are not known to be on the device. */
  readonly valid: readonly (Piece & { readonly record: ReadRecord })[];
  /** Was proven once and cannot be read now. */
  readonly damaged: readonly { readonly offset: number; readonly end: number }[];
  readonly provenTo: number;
}

/**
 * Judges the pieces of a stretch. With a follower, all before its `upTo` was proven. Without one, proven is
 * what a later record, or the synced file, says was synced: a bad line above that is the torn tail of an unfinished write,
 * unless it holds what no write of ours leaves.
 */
export function judge(stretch: Stretch, pieces: readonly Piece[]): Judgement {
  const valid = pieces.filter((piece): piece is Piece & { record: ReadRecord } => piece.record !== null);
  const synced = valid.map(({ record }) => record.synced);
  const provenTo = stretch.upTo ?? Math.max(stretch.from, stretch.noted ?? 0, ...synced);
  const damaged = pieces
    .filter(({ record, offset, isForeign }) => record === null && (offset < provenTo || isForeign))
    .map(({ offset, end }) => ({ offset, end }));
  const readTo = pieces.at(-1)?.end ?? stretch.from;
  if (readTo < provenTo) damaged.push({ offset: readTo, end: provenTo });
  return { valid, damaged, provenTo };
}
