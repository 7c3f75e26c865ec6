/**
 * Replays the journal behind a snapshot. On the disk it changes only `damaged/`, free segments, and the names of files that
 * a newer version wrote.
 */
import { SEGMENT_BYTES } from '../../base/limits.js';
import type { Stamp } from '../../base/stamp.js';
import type { Log } from '../../base/system/log.js';
import { isFinal } from '../../base/views.js';
import { distrust } from '../book/book.js';
import { isUnderstood, type Place } from '../message/message.js';
import type { MovedMessage, Position, StoreEvent } from './event.js';
import { FORMAT, type Format, formatText, isForeign, isNewer, isOurs } from './format.js';
import type { Known } from './message-table.js';
import { type Damaged, type Quarantine, UNREADABLE } from './quarantine.js';
import { CONTENTS_OFFSET, decodeLine, type Follows, type JournalRecord, type SegmentHead } from './record.js';
import {
  chooseBase,
  type Head,
  judge,
  linkHistory,
  type Piece,
  type SegmentsState,
  type Stretch,
  scan,
} from './recovery.js';
import { fileOf, type Pieces, type Segments } from './segments.js';
import type { FoundSnapshots } from './snapshot.js';
import { accept, apply, type State } from './state.js';

/** After a gap in the history no message is sent by itself, because it may have been sent in the gap. */
export const UNKNOWN_OUTCOME = 'outcome unknown after storage damage';
const UNKNOWN_TO_US = 'outcome unknown: a newer version has used the store since';
const NOT_UNDERSTOOD = 'of a newer version: this one does not know such messages';

const FIRST_LINE_BYTES = 512;
/** Bytes that are wrong in so many readings are damaged. */
const READINGS_MAX = 3;

/** The place of a record without contents. */
const NOWHERE: Position = { segment: 0, offset: 0 };

/** The last segment of a history without damage, and what must be written there before the next record. */
export interface Resumable {
  readonly segment: number;
  /** The end of what is known to be on the device. */
  readonly from: number;
  /** From there on: the records that are not known to be on the device, and zeros over a torn one. */
  readonly bytes: Buffer;
  /** Where the next record begins. */
  readonly end: number;
}

/** What the journal needs to go on, and what the log tells. */
export interface Replayed {
  readonly follows: Follows;
  readonly unproven: readonly JournalRecord[];
  /** Where the journal can go on; null: only in a new segment. */
  readonly resumable: Resumable | null;
  /** Bytes of the segments begun since the snapshot. */
  readonly bytes: number;
  /** Pieces that are not valid, those copied to damaged/ by an interrupted start included. */
  readonly damagedPieces: number;
  /** True if a part of the history behind the snapshot is missing. */
  readonly gap: boolean;
  /** How many messages failed because of the gap, or because the record of their acceptance is lost. */
  readonly heldBack: number;
  /** Contents whose message is unknown. */
  readonly nameless: number;
  /** A newer major version has gone on from here. Its files are put aside, and not read. */
  readonly overtaken: boolean;
  /** The newest version that was read, if it is newer than this program's. */
  readonly newest: string | null;
  /** Messages that failed because only a newer version knows what they are. */
  readonly notUnderstood: number;
}

interface ReplayOptions extends FoundSnapshots {
  readonly segments: Segments;
  readonly damaged: Damaged;
  readonly quarantine: Quarantine;
  /** The snapshot's, or an empty one. */
  readonly state: State;
  /** The position in the file `synced`. */
  readonly noted: Position | null;
  /** The moment of this start. */
  readonly now: Stamp;
}

interface Damage {
  isAny: boolean;
  pieces: number;
}

interface FoundHistory {
  /** The segments whose heads name this program's format. */
  readonly ours: ReadonlySet<number>;
  readonly stretches: readonly Stretch[];
  readonly isWhole: boolean;
  /** The versions that have written it and the snapshot. */
  readonly formats: readonly (Format | undefined)[];
}

/** Brings the state up to date with all the history behind its snapshot. */
export async function replay(options: ReplayOptions): Promise<Replayed> {
  const { segments, state, current, now } = options;
  const damage: Damage = { isAny: current.state === 'bad', pieces: 0 };
  const history = await findHistory(options, damage);
  const moved = new Moved(state);
  const walked = await walk(options, history, damage, moved);
  // Bytes that cannot be read now may be readable later.
  for (const segment of options.damaged.unreadSegments) segments.keepWhole(segment);
  const overtaken = current.state === 'newer' || [...segments.newer].some((n) => n >= state.through.segment);
  const gap = !history.isWhole || overtaken || walked.isCut;
  const isDamaged = damage.isAny || damage.pieces > 0 || gap;
  if (isDamaged) distrust(state.book, gap);
  const reason = overtaken ? UNKNOWN_TO_US : UNKNOWN_OUTCOME;
  const { found, nameless } = isDamaged ? moved.accept(now, reason) : { found: 0, nameless: 0 };
  const notUnderstood = fail(state, now, NOT_UNDERSTOOD, (message) => !isUnderstood(message));
  const heldBack = found + (gap ? fail(state, now, reason, () => true) : 0);
  const newest = newestOf(history.formats);
  return {
    ...{ ...walked, damagedPieces: damage.pieces, gap, heldBack },
    ...{ nameless, overtaken, newest, notUnderstood },
  };
}

const ENDS: ReadonlySet<string> = new Set(['sent', 'expired', 'cancelled', 'replaced']);

/**
 * Messages that only a relocation names. Where nothing is damaged they had ended before they were moved. Else the record of
 * their acceptance may be lost.
 */
class Moved {
  readonly #state: State;
  readonly #unknown = new Map<string, { readonly moved: MovedMessage; readonly place: Place }>();
  readonly #ended = new Set<string>();

  constructor(state: State) {
    this.#state = state;
  }

  /** Applies a record. */
  apply(events: readonly StoreEvent[], contentsAt: Position): void {
    apply(this.#state, events, contentsAt, (moved, place) => this.#unknown.set(moved.id, { moved, place }));
    for (const event of events) {
      if (ENDS.has(event.e)) this.#ended.add((event as { id: string }).id);
      if (event.e === 'dropped') for (const id of event.ids) this.#ended.add(id);
    }
  }

  /** Takes them as failed. `nameless`: an earlier program wrote the id alone. */
  accept(now: Stamp, reply: string): { readonly found: number; readonly nameless: number } {
    const state = this.#state;
    let [found, nameless] = [0, 0];
    for (const [id, { moved, place }] of this.#unknown) {
      const { type, destination, at, reachMs = 0, ...rest } = moved;
      if (this.#ended.has(id) || state.messages.get(id)) continue;
      if (type === undefined || destination === undefined || at === undefined) {
        nameless++;
        continue;
      }
      accept(state, { ...rest, type, destination }, { at, reachMs }, place);
      apply(state, [{ e: 'failed', id, attempts: 0, at: now, reply }], NOWHERE);
      found++;
    }
    return { found, nameless };
  }
}

/** Chooses where history begins, and puts newer or damaged snapshots and segments aside. Finds the store id. */
async function findHistory(options: ReplayOptions, damage: Damage): Promise<FoundHistory> {
  const { segments, damaged, current, previous, state } = options;
  for (const snapshot of [current, previous]) {
    if (snapshot.state !== 'bad' || !snapshot.bytes) continue;
    const knownPieces = damaged.count;
    const isKept = await damaged.keep('store.json', snapshot.bytes);
    // Until two checkpoints have replaced a bad store.json.1, each start meets it again. It counts once.
    if (snapshot === current || damaged.count > knownPieces) damage.pieces++;
    if (!isKept) await snapshot.putAside();
  }
  const heads = await readHeads(options);
  // A checkpoint takes its place. After a power cut the copy tells the next start that a newer version was here.
  for (const snapshot of [current, previous]) if (snapshot.state === 'newer') await snapshot.copyAside();
  const base = chooseBase({
    current: current.state,
    previous: previous.state,
    segments: stateOfSegments(heads),
  });
  const noted = options.noted && segments.newer.has(options.noted.segment) ? null : options.noted;
  const { through } = state;
  segments.startAbove(Math.max(through.segment, noted?.segment ?? 0));
  for (const number of heads.keys()) if (number < through.segment) heads.delete(number);
  await freeUntouched(segments, heads, { through, noted });
  const links = new Map<number, Head>();
  for (const [number, head] of heads) links.set(number, head?.follows ?? 'unreadable');
  const { stretches, whole, missing } = linkHistory(links, through, noted);
  for (const segment of missing) {
    damage.pieces++;
    await damaged.keep(`${fileOf(segment)}.missing`, Buffer.alloc(0));
  }
  const used = base.from === 'current' ? current : base.from === 'previous' ? previous : null;
  const formats = [...[...heads.values()].map((head) => head?.format), used?.snapshot?.format];
  const ours = [...heads].filter(([, head]) => head?.format && isOurs(head.format)).map(([number]) => number);
  return { stretches, isWhole: base.trusted && whole, formats, ours: new Set(ours) };
}

/** Applies valid records, and copies damaged pieces. */
async function walk(
  { segments, damaged, state }: ReplayOptions,
  { stretches, ours }: FoundHistory,
  damage: Damage,
  moved: Moved,
): Promise<Pick<Replayed, 'follows' | 'unproven' | 'bytes' | 'resumable'> & { isCut: boolean }> {
  const base = state.through.segment;
  let follows: Follows = { segment: base, upTo: state.through.offset };
  let unproven: JournalRecord[] = [];
  let begunBytes = 0;
  let isCut = false;
  let resumable: Resumable | null = null;
  for (const stretch of stretches) {
    const { bytes, unreadable, pieces } = await readStretch(segments, stretch);
    if (stretch.segment !== base) begunBytes += bytes.length;
    const { valid, damaged: bad, provenTo, ...judged } = judge(stretch, pieces);
    // The snapshot ends behind a record. If zeros or nothing stand there, the end of the segment is gone.
    const at = stretch.from - 1;
    const seam = at >= 0 && !bytes[at] ? [{ offset: at, end: stretch.from }] : [];
    // The outcomes of all that was accepted before may have stood there.
    isCut ||= (judged.isCut || seam.length > 0) && unreadable.length === 0;
    // A segment with no proven byte was begun in doubt: the next one follows the segment before it.
    if (provenTo > 0) {
      follows = { segment: stretch.segment, upTo: provenTo };
      unproven = [];
    }
    for (const { offset, record } of valid) {
      moved.apply(record.events, { segment: stretch.segment, offset: offset + CONTENTS_OFFSET });
      if (offset >= provenTo && record.events.length > 0) unproven.push(copyOf(record));
    }
    // Unreadable bytes may have held a promise.
    const lost = unreadable.filter(({ offset, end }) => end > provenTo && isPartOf(stretch, offset, end));
    for (const { offset, end } of [...bad, ...lost, ...seam]) {
      damage.pieces++;
      const where = `${fileOf(stretch.segment)}.${offset}${unreadable.length > 0 ? UNREADABLE : ''}`;
      const isKept = await damaged.keep(where, bytes.subarray(offset, end));
      // Without a copy the segment stays.
      if (!isKept) segments.keepWhole(stretch.segment);
    }
    const isWhole = bad.length === 0 && unreadable.length === 0 && bytes.length === SEGMENT_BYTES;
    // What this program writes must not stand under the number of an older one, which would read and send it.
    resumable = isWhole && ours.has(stretch.segment) ? resumableAt(stretch, provenTo, pieces, bytes) : null;
  }
  return { follows, unproven, bytes: begunBytes, resumable, isCut };
}

/**
 * Memory and buses can fail for a moment: bytes that are no record count only if two readings agree, or all three fail.
 */
async function readStretch(segments: Segments, stretch: Stretch): Promise<Pieces & { pieces: Piece[] }> {
  let found = await segments.readAll(stretch.segment);
  for (let reading = 1; ; reading++) {
    const pieces = scan(found.bytes, stretch);
    const isWhole = pieces.every(({ record }) => record !== null);
    if (isWhole || found.unreadable.length > 0 || reading === READINGS_MAX) return { ...found, pieces };
    const again = await segments.readAll(stretch.segment);
    if (again.bytes.equals(found.bytes)) return { ...found, pieces };
    found = again;
  }
}

/**
 * Null if a record stands behind a torn one, or if nothing of the segment is known to be on the device. The lines of a
 * segment's former use stay behind the torn one, as they do while the segment is written.
 */
function resumableAt(
  { segment }: Stretch,
  from: number,
  pieces: readonly Piece[],
  bytes: Buffer,
): Resumable | null {
  const open = pieces.filter(({ end }) => end > from);
  const torn = open.findIndex(({ record }) => record === null);
  if (from === 0 || (torn !== -1 && open.slice(torn).some(({ record }) => record !== null))) return null;
  const records = torn === -1 ? open : open.slice(0, torn);
  const end = records.at(-1)?.end ?? from;
  // A copy, because a slice would keep the whole segment in memory.
  const rest = Buffer.from(bytes.subarray(from, open[torn]?.end ?? end));
  rest.fill(0, end - from);
  return { segment, from, bytes: rest, end };
}

function newestOf(formats: FoundHistory['formats']): string | null {
  const newer = formats.filter((format) => format !== undefined && isNewer(format)) as Format[];
  const newest = newer.sort((a, b) => b.minor - a.minor)[0];
  return newest ? formatText(newest) : null;
}

function isPartOf({ from, upTo }: Stretch, offset: number, end: number): boolean {
  return end > from && (upTo === null || offset < upTo);
}

/** The first record of each segment; undefined if it cannot be read. */
type Heads = Map<number, SegmentHead | undefined>;

/** Reads the heads, and finds the store id. Renames the segments of a newer major version: they are not in the answer. */
async function readHeads({ segments, quarantine, state }: ReplayOptions): Promise<Heads> {
  const heads: Heads = new Map();
  for (const number of segments.numbers) {
    // The snapshot knows content in it, and needs nothing else of it. With ten thousand messages that saves 10 ms.
    if (number < state.through.segment && state.liveBytes.has(number)) continue;
    const head = await readHead(segments, number);
    if (head && state.storeId === '') state.storeId = head.store;
    if (head?.format && isForeign(head.format)) await segments.putAsideNewer(number, quarantine);
    else heads.set(number, head);
  }
  return heads;
}

/**
 * If a head carries records over, it may be long: then all of the segment is read. A segment that begins with a zero is
 * prepared, and has no head.
 */
async function readHead(segments: Segments, number: number): Promise<SegmentHead | undefined> {
  for (let reading = 1; ; reading++) {
    const first = await segments.read(number, 0, FIRST_LINE_BYTES).catch(() => Buffer.alloc(0));
    const isEnough = first[0] === 0 || first.includes(0x0a);
    const bytes = isEnough ? first : (await segments.readAll(number)).bytes;
    const head = decodeLine(bytes.subarray(0, bytes.indexOf(0x0a) + 1), number)?.head;
    if (head || reading === READINGS_MAX) return head;
  }
}

/** If segment 1 was abandoned and removed, the next one is the first: it follows segment 0. */
function stateOfSegments(heads: Heads): SegmentsState {
  if (heads.size === 0) return 'none';
  const first = [...heads].find(([number, head]) => head || number === 1);
  return first && (first[0] === 1 || first[1]?.follows.segment === 0) ? 'from-first' : 'later';
}

/**
 * Frees the segments that no record was written to. A segment named in the snapshot, a head or the file `synced` was
 * written to, even if nothing of it is left.
 */
async function freeUntouched(
  segments: Segments,
  heads: Heads,
  { through, noted }: { through: Position; noted: Position | null },
): Promise<void> {
  const named = new Set([through.segment]);
  if (noted && noted.offset > 0) named.add(noted.segment);
  for (const head of heads.values()) if (head && head.follows.upTo > 0) named.add(head.follows.segment);
  for (const [number, head] of heads) {
    if (head || named.has(number) || !isUntouched(await segments.readAll(number), number)) continue;
    heads.delete(number);
    await segments.free(number);
  }
}

/** True if the segment was only prepared, and so promised nothing. */
function isUntouched({ bytes, unreadable }: Pieces, segment: number): boolean {
  if (unreadable.length > 0) return false;
  const pieces = scan(bytes, { segment, from: 0, upTo: null });
  return pieces.every(({ record, isForeign }) => record === null && !isForeign);
}

/** Marks matching messages that are not final as failed, with their content kept for a retry. Gives how many. */
function fail(state: State, now: Stamp, reply: string, which: (known: Known) => boolean): number {
  const messages = [...state.messages.select((known) => !isFinal(known.status) && which(known))];
  for (const { id, attempts } of messages)
    apply(state, [{ e: 'failed', id, attempts, at: now, reply }], NOWHERE);
  return messages.length;
}

/** Copies the contents, because a slice would keep the whole segment in memory. */
function copyOf({ events, contents }: JournalRecord): JournalRecord {
  return { events, contents: contents.map((content) => Buffer.from(content)) };
}

/** Logs what a start found. False if a checkpoint must follow, so that the next start does not find it again. */
export function tellOf(replayed: Replayed, { unknownEvents }: State, log: Log, copies: string): boolean {
  const { damagedPieces, gap, heldBack, nameless, overtaken, newest, notUnderstood } = replayed;
  if (overtaken) log.error('newer store put aside', { heldBack });
  if (damagedPieces > 0 || (gap && !overtaken))
    log.error('store damaged', { pieces: damagedPieces, heldBack, nameless: nameless || undefined, copies });
  if (newest !== null || unknownEvents.length > 0 || notUnderstood > 0) {
    const format = newest ?? formatText(FORMAT);
    log.warn('store of a newer version', { format, unknownEvents: unknownEvents.length, notUnderstood });
  }
  return damagedPieces === 0 && !gap && notUnderstood === 0;
}
