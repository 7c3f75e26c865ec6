/**
 * One line of the journal, a record:
 *
 *     crc ' ' payload '\n'
 *
 * `crc`, in eight hex digits, is the CRC-32 of the payload's bytes, begun with the segment's number in place of
 * zero: a segment is used again when nothing needs it any more, and what an earlier use left in it must not be
 * taken for a record. The payload is compact JSON, whose escapes keep line breaks out of it:
 *
 *     {"contents":[…],"synced":n,"events":[…]}
 *
 * The first record of a segment, its head, also says `"format":{"major":n,"minor":n}` (format.ts; 1.0 if it is
 * missing) and `"store":"…","follows":{"segment":n,"upTo":n}`: where the
 * history that counts ends in the segment before. What was written behind that, and may have been promised,
 * stands in the head once more: so it is never void in one place before it is whole in the other.
 *
 * The contents stand first so that their byte ranges follow from their lengths, which the events carry. A
 * record is valid if and only if the line is whole and its CRC matches; its events stand or fall together.
 * Bytes of a segment not yet written are zeros, or what an earlier use left.
 */
import { Buffer } from 'node:buffer';
import { crc32, hex8 } from './crc.js';
import type { ContentSum, StoreEvent } from './event.js';
import { FORMAT, type Format, formatOf, isForeign } from './format.js';

/** Where the history that counts ends in the segment before; what is behind it there is void. */
export interface Follows {
  /** 0 for the very first segment. */
  readonly segment: number;
  readonly upTo: number;
}

/** Events that stand or fall together, and the contents they bring. */
export interface JournalRecord {
  readonly events: readonly StoreEvent[];
  /** The contents' JSON texts, in the order in which the events name them. */
  readonly contents: readonly Buffer[];
}

/** A record read back. */
export interface ReadRecord extends JournalRecord {
  /** The offset that was known to be synced when it was written. */
  readonly synced: number;
  /** Only in the first of a segment. */
  readonly head?: SegmentHead;
}

/** What the first record of a segment says. */
export interface SegmentHead {
  /** The store id. */
  readonly store: string;
  readonly follows: Follows;
  /** That of this program if left out. */
  readonly format?: Format;
}

const CRC_CHARS = 8;
const CONTENTS_HEAD = '{"contents":[';
/** Where the first content of a line begins, from the line's start. */
export const CONTENTS_OFFSET = CRC_CHARS + 1 + CONTENTS_HEAD.length;
/** A head is at most this much longer than another record. */
const HEAD_BYTES_MAX = 192;
const FORMAT_TEXT = `"format":${JSON.stringify(FORMAT)}`;

/** A record with its events as text, made once however often it has to be written. */
export interface SealedRecord extends JournalRecord {
  readonly eventsText: string;
  /** No line of this record is longer, wherever it is written. */
  readonly bytesMax: number;
}

/** Makes a record ready to be written. */
export function seal(record: JournalRecord): SealedRecord {
  const eventsText = JSON.stringify(record.events);
  let bytesMax = CONTENTS_OFFSET + 64 + HEAD_BYTES_MAX + Buffer.byteLength(eventsText);
  for (const content of record.contents) bytesMax += content.length + 1;
  return { events: record.events, contents: record.contents, eventsText, bytesMax };
}

/** Several records as one, which stands or falls as a whole. */
export function merge(records: readonly JournalRecord[]): JournalRecord {
  return {
    events: records.flatMap(({ events }) => events),
    contents: records.flatMap(({ contents }) => contents),
  };
}

/** The record as what is left of it once it was applied: its contents lie in a new place. */
export function movesOf({ events, contents }: JournalRecord): JournalRecord {
  const moves = events.flatMap((event): StoreEvent[] =>
    event.e === 'accepted' || event.e === 'relocated' ? [{ e: 'relocated', messages: event.messages }] : [],
  );
  return { events: moves, contents };
}

/** Where a record is written. */
export interface LineContext {
  readonly segment: number;
  /** The offset of the segment known to be on the device. */
  readonly synced: number;
  /** Makes it the segment's first. */
  readonly head?: SegmentHead;
}

/** The line of a record, line feed included. */
export function encodeLine({ contents, eventsText }: SealedRecord, context: LineContext): Buffer {
  const { segment, synced, head } = context;
  const headText = head
    ? `${FORMAT_TEXT},"store":"${head.store}","follows":${JSON.stringify(head.follows)},`
    : '';
  const rest = `${headText}"synced":${synced},"events":${eventsText}}\n`;
  if (contents.length === 0) return sealLine(Buffer.from(`         {${rest}`), segment);
  let bytes = CONTENTS_OFFSET + contents.length + 1 + Buffer.byteLength(rest);
  for (const content of contents) bytes += content.length;
  const line = Buffer.allocUnsafe(bytes);
  let at = CRC_CHARS + 1;
  at += line.write(CONTENTS_HEAD, at, 'latin1');
  for (const content of contents) {
    at += content.copy(line, at);
    line[at++] = COMMA;
  }
  line[at - 1] = BRACKET;
  line[at++] = COMMA;
  line.write(rest, at);
  return sealLine(line, segment);
}

/** The lines of records that follow each other from `from` on, and where each starts. */
export function encodeLines(
  records: readonly SealedRecord[],
  from: number,
  context: LineContext,
): { bytes: Buffer; starts: number[] } {
  const starts: number[] = [];
  let at = from;
  const lines = records.map((record) => {
    const line = encodeLine(record, context);
    starts.push(at);
    at += line.length;
    return line;
  });
  return { bytes: lines.length === 1 ? (lines[0] as Buffer) : Buffer.concat(lines), starts };
}

const COMMA = 0x2c;
const BRACKET = 0x5d;

function sealLine(line: Buffer, segment: number): Buffer {
  line.write(`${hex8(crc32(line.subarray(CRC_CHARS + 1, line.length - 1), segment))} `, 0, 'latin1');
  return line;
}

/** The record of one line (with or without its line feed) of this segment, or null if it is not valid. */
export function decodeLine(line: Buffer, segment: number): ReadRecord | null {
  const end = line[line.length - 1] === 0x0a ? line.length - 1 : line.length;
  if (end < CRC_CHARS + 2 || line[CRC_CHARS] !== 0x20) return null;
  const payload = line.subarray(CRC_CHARS + 1, end);
  if (line.toString('latin1', 0, CRC_CHARS) !== hex8(crc32(payload, segment))) return null;
  const parsed = JSON.parse(payload.toString()) as {
    contents?: unknown[];
    format?: unknown;
    store?: string;
    follows?: Follows;
    synced: number;
    events: StoreEvent[];
  };
  const format = formatOf(parsed.format);
  if (isForeign(format)) {
    const { store = '', follows = { segment: 0, upTo: 0 } } = parsed;
    return { events: [], contents: [], synced: 0, head: { store, follows, format } };
  }
  const contents: Buffer[] = [];
  let at = CONTENTS_OFFSET;
  for (const { length } of contentSums(parsed.events)) {
    contents.push(line.subarray(at, at + length));
    at += length + 1;
  }
  const { synced, events, store, follows } = parsed;
  if (store === undefined || follows === undefined) return { events, contents, synced };
  return { events, contents, synced, head: { store, follows, format } };
}

/** The contents that the events name, in order. */
export function contentSums(events: readonly StoreEvent[]): ContentSum[] {
  return events.flatMap((event) => (event.e === 'accepted' || event.e === 'relocated' ? event.messages : []));
}

/** A content's bytes with what an event says of it. */
export function sumOf(content: Buffer): ContentSum {
  return { length: content.length, crc: crc32(content) };
}
