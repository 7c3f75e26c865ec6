/**
 * One line of the journal, a record:
 *
 *     crc ' ' payload '\n'
 *
 * `crc`, in eight hex digits, is the CRC-32 of the payload's bytes. It begins with the segment's number instead of
 * zero, because a segment is used again: a record of an earlier use is not valid under the new number. The payload is
 * compact JSON, whose escapes keep line breaks out of it:
 *
 *     {"contents":[…],"synced":n,"events":[…]}
 *
 * The payload may end with spaces (journal.ts). The first record of a segment, its head, also has
 * `"format":{"major":n,"minor":n}` (1.0 if it is missing) and `"store":"…","follows":{"segment":n,"upTo":n}`. The head
 * repeats the events of records behind `upTo`, because these may have been promised. So a promised record is valid in the
 * new segment before it becomes void in the old one.
 *
 * The contents stand first so that their byte ranges follow from their lengths, which the events carry. A record is
 * valid if and only if the line is whole, its CRC matches, and its payload has the right shape (shapes.ts). Bytes not yet
 * written are zeros, or left from an earlier use.
 */
import { Buffer } from 'node:buffer';
import { crc32, hex8 } from '../../base/crc.js';
import { assert } from '../../base/errors.js';
import { isJsonObject, jsonIn } from '../../base/json.js';
import { PAGE_BYTES } from '../../base/limits.js';
import type { ContentSum, StoreEvent } from './event.js';
import { FORMAT, type Format, formatOf, isForeign } from './format.js';
import { isPayload } from './shapes.js';

/** The end of the valid history in the segment before. The bytes behind it are void. */
export interface Follows {
  /** 0 for the very first segment. */
  readonly segment: number;
  readonly upTo: number;
}

/** Events that stand or fall together, and the contents they bring. */
export interface JournalRecord {
  readonly events: readonly StoreEvent[];
  /** JSON texts, in the order in which the events name them. */
  readonly contents: readonly Buffer[];
}

/** A record read back. */
export interface ReadRecord extends JournalRecord {
  /** The offset that was known to be synced when it was written. */
  readonly synced: number;
  readonly head?: SegmentHead;
}

/** The additional members of a segment's first record. */
export interface SegmentHead {
  readonly store: string;
  readonly follows: Follows;
  /** That of this program if left out. */
  readonly format?: Format;
}

const CRC_CHARS = 8;
const LINE_FEED = 0x0a;
const SPACE = 0x20;
const CONTENTS_HEAD = '{"contents":[';
const BEHIND_CONTENTS = '],"synced":';
/** Where the first content of a line begins, from the line's start. */
export const CONTENTS_OFFSET = CRC_CHARS + 1 + CONTENTS_HEAD.length;
/** A line is at most this much longer than its record. */
export const PADDING_BYTES_MAX = Math.floor(PAGE_BYTES / 3);
/** A head is at most this much longer than another record. */
const HEAD_BYTES_MAX = 192;
const FORMAT_TEXT = `"format":${JSON.stringify(FORMAT)}`;

/** A record with its events as text, which is made once even if the record is written twice. */
export interface SealedRecord extends JournalRecord {
  readonly eventsText: string;
  /** No line of this record is longer, wherever it is written. */
  readonly bytesMax: number;
}

/** Makes a record ready for a write. */
export function seal(record: JournalRecord): SealedRecord {
  const eventsText = JSON.stringify(record.events);
  let bytesMax = CONTENTS_OFFSET + 64 + HEAD_BYTES_MAX + Buffer.byteLength(eventsText);
  for (const content of record.contents) bytesMax += content.length + 1;
  return { events: record.events, contents: record.contents, eventsText, bytesMax };
}

/** Several records as one. */
export function merge(records: readonly JournalRecord[]): JournalRecord {
  return {
    events: records.flatMap(({ events }) => events),
    contents: records.flatMap(({ contents }) => contents),
  };
}

/** A record that was applied already, without all events but the new places of its contents. */
export function movesOf({ events, contents }: JournalRecord): JournalRecord {
  const moves = events.flatMap((event): StoreEvent[] =>
    event.e === 'accepted' || event.e === 'relocated' ? [{ e: 'relocated', messages: event.messages }] : [],
  );
  return { events: moves, contents };
}

interface LineContext {
  readonly segment: number;
  /** The segment is known to be on the device up to this offset. */
  readonly synced: number;
  /** Makes it the segment's first. */
  readonly head?: SegmentHead;
}

/** The number of spaces that end a line which would end at `end` without them: at most PADDING_BYTES_MAX. */
type Padding = (end: number) => number;
const unpadded: Padding = () => 0;

/** The line of a record, line feed included. */
export function encodeLine(record: SealedRecord, context: LineContext): Buffer {
  return encodeLines([record], 0, context).bytes;
}

/** The lines of records, the first at `from` and the last one padded, and where each starts. */
export function encodeLines(
  records: readonly SealedRecord[],
  from: number,
  context: LineContext,
  paddingAt: Padding = unpadded,
): { bytes: Buffer; starts: number[] } {
  // One buffer for all: buffers for their pieces would cost more than the pieces.
  const bytes = Buffer.allocUnsafe(records.reduce((sum, { bytesMax }) => sum + bytesMax, PADDING_BYTES_MAX));
  const starts: number[] = [];
  let end = 0;
  for (const record of records) {
    starts.push(from + end);
    const isLast = starts.length === records.length;
    end = writeLine(bytes, end, record, context, isLast ? (at) => paddingAt(from + at) : unpadded);
  }
  assert(end === 0 || bytes[end - 1] === LINE_FEED, 'the lines fit into their bytesMax');
  return { bytes: bytes.subarray(0, end), starts };
}

/** Writes a line at `start`, and returns its end. */
function writeLine(
  bytes: Buffer,
  start: number,
  { contents, eventsText }: SealedRecord,
  { segment, synced, head }: LineContext,
  paddingAt: Padding,
): number {
  const payloadAt = start + CRC_CHARS + 1;
  let at = payloadAt;
  contents.forEach((content, i) => {
    at += bytes.write(i === 0 ? CONTENTS_HEAD : ',', at);
    at += content.copy(bytes, at);
  });
  const headText = head
    ? `${FORMAT_TEXT},"store":"${head.store}","follows":${JSON.stringify(head.follows)},`
    : '';
  const opening = contents.length === 0 ? '{' : '],';
  at += bytes.write(`${opening}${headText}"synced":${synced},"events":${eventsText}}`, at);
  const padding = paddingAt(at + 1);
  bytes.fill(SPACE, at, at + padding);
  at += padding;
  bytes[at++] = LINE_FEED;
  bytes.write(`${hex8(crc32(bytes.subarray(payloadAt, at - 1), segment))} `, start, 'latin1');
  return at;
}

/** The payload of one line of this segment, with or without its line feed; null if its checksum is wrong. */
export function payloadOf(line: Buffer, segment: number): Buffer | null {
  const end = line[line.length - 1] === LINE_FEED ? line.length - 1 : line.length;
  if (end < CRC_CHARS + 2 || line[CRC_CHARS] !== 0x20) return null;
  const payload = line.subarray(CRC_CHARS + 1, end);
  return line.toString('latin1', 0, CRC_CHARS) === hex8(crc32(payload, segment)) ? payload : null;
}

/** The record of such a line; null if it is not valid, or has another shape. */
export function decodeLine(line: Buffer, segment: number): ReadRecord | null {
  const payload = payloadOf(line, segment);
  const record = payload && parse(payload);
  if (!payload || !isJsonObject(record)) return null;
  const format = formatOf(record.format);
  if (isForeign(format)) {
    const head = { store: String(record.store ?? ''), follows: { segment: 0, upTo: 0 }, format };
    return { events: [], contents: [], synced: 0, head };
  }
  if (!isPayload(record)) return null;
  const { synced, events, store, follows } = record as unknown as Parsed;
  const contents: Buffer[] = [];
  let at = CONTENTS_HEAD.length;
  for (const { length } of contentSums(events)) {
    contents.push(payload.subarray(at, at + length));
    at += length + 1;
  }
  if (store === undefined || follows === undefined) return { events, contents, synced };
  return { events, contents, synced, head: { store, follows, format } };
}

/** The members of a payload but for its contents. */
interface Parsed extends Partial<SegmentHead> {
  readonly synced: number;
  readonly events: StoreEvent[];
}

/** Parses what stands behind the contents, which are most of a payload. The lengths prove that the right place was found. */
function parse(payload: Buffer): unknown {
  const at = payload.lastIndexOf(BEHIND_CONTENTS);
  try {
    const behind: Parsed = JSON.parse(at < 0 ? '{}' : `{${payload.toString('utf8', at + '],'.length)}`);
    if (behind.events && endOfContents(behind.events) === at) return behind;
  } catch {
    // An event of a newer version has a member of the same name.
  }
  return jsonIn(payload);
}

/** Where the contents of these events end in a payload that begins with them. */
function endOfContents(events: readonly StoreEvent[]): number {
  const sums = contentSums(events);
  return CONTENTS_HEAD.length + sums.reduce((sum, { length }) => sum + length + 1, -1);
}

/** The sums of the contents, in their order. */
function contentSums(events: readonly StoreEvent[]): ContentSum[] {
  return events.flatMap((event) =>
    event.e === 'accepted' || event.e === 'relocated' ? event.messages.filter(({ shares }) => !shares) : [],
  );
}

/** What an event says of a content. */
export function sumOf(content: Buffer): ContentSum {
  return { length: content.length, crc: crc32(content) };
}
