/**
 * Replays the journal behind a snapshot; the tables of recovery.ts decide what the files mean. On the disk it changes only
 * `damaged/`, free segments, and the names of what a newer version wrote. Used by opening.ts and ledger.ts.
 */
import { distrust } from '../destinations/book.js';
import { isFinal, isUnderstood, type Message, type Stamp } from '../message/message.js';
import type { Log } from '../system/log.js';
import type { Aside } from './aside.js';
import { type Damaged, UNREADABLE } from './damaged.js';
import type { Position } from './event.js';
import { FORMAT, type Format, formatText, isForeign, isNewer } from './format.js';
import { type Pieces, READINGS_MAX, readStretch } from './pieces.js';
import { CONTENTS_OFFSET, decodeLine, type Follows, type JournalRecord, type SegmentHead } from './record.js';
import {
  chooseBase,
  type Head,
  judge,
  linkHistory,
  type SegmentsState,
  type Stretch,
  scan,
} from './recovery.js';
import type { Segments } from './segments.js';
import type { FoundSnapshots } from './snapshot.js';
import { apply, type State } from './state.js';

/** Why a message found in a history with a gap is not sent by itself. */
export const UNKNOWN_OUTCOME = 'outcome unknown after storage damage';
const UNKNOWN_TO_US = 'outcome unknown: a newer version has used the store since';
const NOT_UNDERSTOOD = 'of a newer version: this one does not know such messages';

const FIRST_LINE_BYTES = 512;

/** What a replay gives: what the journal must know to go on, and what is to be told. */
export interface Replayed {
  readonly follows: Follows;
  readonly unproven: readonly JournalRecord[];
  /** Bytes of the segments begun since the snapshot. */
  readonly bytes: number;
  /** Pieces that cannot be used. A start that was cut off may have copied them to damaged/ before. */
  readonly damagedPieces: number;
  /** True if a part of the history behind the snapshot is missing. */
  readonly gap: boolean;
  /** How many messages failed because of that. */
  readonly heldBack: number;
  /** A newer major version has gone on from here: its files were put aside, and are not read. */
  readonly overtaken: boolean;
  /** The newest version that was read, if that is newer than this program's. */
  readonly newest: string | null;
  /** Messages that failed because only a newer version knows what they are. */
  readonly notUnderstood: number;
}

/** What a replay needs. */
interface ReplayOptions extends FoundSnapshots {
  readonly segments: Segments;
  readonly damaged: Damaged;
  readonly aside: Aside;
  /** That of the snapshot that was read, or an empty one. The replay brings it up to date. */
  readonly state: State;
  /** What a second place says was synced (synced-file.ts). */
  readonly noted: Position | null;
  /** The moment of this start. */
  readonly now: Stamp;
}

/** The damage that this start met. */
interface Damage {
  isAny: boolean;
  /** Pieces of which there is a copy, or could be. */
  pieces: number;
}

/** The journal behind the snapshot. */
interface History {
  readonly stretches: readonly Stretch[];
  readonly isWhole: boolean;
  /** The versions that have written it, and the snapshot. */
  readonly formats: readonly Format[];
}

/** Brings the state up to date with all the history behind its snapshot. */
export async function replay(options: ReplayOptions): Promise<Replayed> {
  const { segments, state, current, now } = options;
  const damage: Damage = { isAny: current.state === 'bad', pieces: 0 };
  const history = await findHistory(options, damage);
  const walked = await walk(options, history.stretches, damage);
  // What cannot be read now may be readable later.
  for (const segment of options.damaged.unreadSegments) segments.keepWhole(segment);
  const overtaken = current.state === 'newer' || [...segments.newer].some((n) => n >= state.through.segment);
  const gap = !history.isWhole || overtaken;
  if (damage.isAny || damage.pieces > 0 || gap) distrust(state.book, gap);
  const notUnderstood = fail(state, now, NOT_UNDERSTOOD, (message) => !isUnderstood(message));
  // After a gap nothing is sent by itself: it may have been sent in the gap.
  const reason = overtaken ? UNKNOWN_TO_US : UNKNOWN_OUTCOME;
  const heldBack = gap ? fail(state, now, reason, () => true) : 0;
  const newest = newestOf(history.formats);
  return { ...walked, damagedPieces: damage.pieces, gap, heldBack, overtaken, newest, notUnderstood };
}

/** Chooses where history begins, and puts aside what stands in its way. Finds the store id. */
async function findHistory(options: ReplayOptions, damage: Damage): Promise<History> {
  const { segments, damaged, current, previous, state } = options;
  for (const snapshot of [current, previous]) {
    if (snapshot.state !== 'bad' || !snapshot.bytes) continue;
    const knownPieces = damaged.count;
    const isKept = await damaged.keep('store.json', snapshot.bytes);
    // Until two checkpoints have replaced a bad store.json.1, each start meets it again. It counts once.
    if (snapshot === current || damaged.count > knownPieces) damage.pieces++;
    if (!isKept) await snapshot.putAside();
  }
  const newerStore = await putAsideNewer(options);
  const base = chooseBase({
    current: current.state,
    previous: previous.state,
    segments: await stateOfSegments(segments),
  });
  const noted = options.noted && segments.newer.has(options.noted.segment) ? null : options.noted;
  const { through } = state;
  segments.startAbove(Math.max(through.segment, noted?.segment ?? 0));
  if (state.storeId === '') state.storeId = newerStore;
  const { heads, formats } = await readHeads(segments, { through, noted }, state);
  const { stretches, whole, missing } = linkHistory(heads, through, noted);
  for (const segment of missing) {
    damage.pieces++;
    await damaged.keep(`${fileOf(segment)}.missing`, Buffer.alloc(0));
  }
  const used = base.from === 'current' ? current : base.from === 'previous' ? previous : null;
  if (used?.snapshot) formats.push(used.snapshot.format);
  return { stretches, isWhole: base.trusted && whole, formats };
}

/** Applies what is valid, and copies what is damaged. */
async function walk(
  { segments, damaged, state }: ReplayOptions,
  stretches: readonly Stretch[],
  damage: Damage,
): Promise<Pick<Replayed, 'follows' | 'unproven' | 'bytes'>> {
  const { through } = state;
  let follows: Follows = { segment: through.segment, upTo: through.offset };
  let unproven: JournalRecord[] = [];
  let begunBytes = 0;
  for (const stretch of stretches) {
    const { bytes, unreadable, pieces } = await readStretch(segments, stretch);
    if (stretch.segment !== through.segment) begunBytes += bytes.length;
    const judgement = judge(stretch, pieces);
    // A segment of which nothing is proven was begun in doubt: the next one follows the segment before it.
    if (judgement.provenTo > 0) {
      follows = { segment: stretch.segment, upTo: judgement.provenTo };
      unproven = [];
    }
    for (const { offset, record } of judgement.valid) {
      apply(state, record.events, { segment: stretch.segment, offset: offset + CONTENTS_OFFSET });
      if (offset >= judgement.provenTo && record.events.length > 0) unproven.push(copyOf(record));
    }
    // Nobody knows whether what cannot be read was promised.
    const lost = unreadable.filter(
      ({ offset, end }) => end > judgement.provenTo && isPartOf(stretch, offset, end),
    );
    for (const { offset, end } of [...judgement.damaged, ...lost]) {
      damage.pieces++;
      const where = `${fileOf(stretch.segment)}.${offset}${unreadable.length > 0 ? UNREADABLE : ''}`;
      const isKept = await damaged.keep(where, bytes.subarray(offset, end));
      // Nothing is removed before its copy is on the disk.
      if (!isKept) segments.keepWhole(stretch.segment);
    }
  }
  return { follows, unproven, bytes: begunBytes };
}

/** The newest version that is newer than ours. */
function newestOf(formats: readonly Format[]): string | null {
  const newest = formats.filter(isNewer).sort((a, b) => b.minor - a.minor)[0];
  return newest ? formatText(newest) : null;
}

/**
 * Puts aside what a newer major version wrote: segments are renamed, of snapshots there are copies before a checkpoint
 * takes their place. So the next start sees it too, whenever the power is cut. Gives the store id, or an empty text.
 */
async function putAsideNewer({ segments, aside, current, previous }: ReplayOptions): Promise<string> {
  let store = '';
  for (const number of segments.numbers) {
    const { head } = await readHead(segments, number);
    if (!head?.format || !isForeign(head.format)) continue;
    store = head.store;
    await segments.putAsideNewer(number, aside);
  }
  for (const snapshot of [current, previous]) if (snapshot.state === 'newer') await snapshot.copyAside();
  return store;
}

function fileOf(segment: number): string {
  return `${String(segment).padStart(8, '0')}.log`;
}

function isPartOf({ from, upTo }: Stretch, offset: number, end: number): boolean {
  return end > from && (upTo === null || offset < upTo);
}

/** The first segment may have been begun in vain, and removed: then another one follows none. */
async function stateOfSegments(segments: Segments): Promise<SegmentsState> {
  const { numbers } = segments;
  if (numbers.length === 0) return 'none';
  for (const number of numbers) {
    const { head } = await readHead(segments, number);
    if (head || number === 1) return number === 1 || head?.follows.segment === 0 ? 'from-first' : 'later';
  }
  return 'later';
}

/**
 * The heads of the segments from the snapshot on; finds the store id, and frees untouched segments. A
 * segment that another place speaks of was written: it is never untouched, whatever is left of it.
 */
async function readHeads(
  segments: Segments,
  { through, noted }: { through: Position; noted: Position | null },
  state: State,
): Promise<{ heads: Map<number, Head>; formats: Format[] }> {
  const heads = new Map<number, Head>();
  const formats: Format[] = [];
  const spokenOf = new Set([through.segment]);
  if (noted && noted.offset > 0) spokenOf.add(noted.segment);
  const headless: { number: number; whole: Pieces | null }[] = [];
  const numbers = segments.numbers.filter((number) => number >= through.segment);
  for (const number of numbers) {
    const { head, whole } = await readHead(segments, number);
    heads.set(number, head?.follows ?? 'unreadable');
    if (!head) headless.push({ number, whole });
    else if (head.follows.upTo > 0) spokenOf.add(head.follows.segment);
    if (head && state.storeId === '') state.storeId = head.store;
    if (head?.format) formats.push(head.format);
  }
  // The highest first: it can be used under the number that it has.
  for (const { number, whole } of headless.reverse()) {
    if (spokenOf.has(number)) continue;
    if (!isUntouched(whole ?? (await segments.readAll(number)), number)) continue;
    heads.set(number, 'untouched');
    await segments.free(number);
  }
  return { heads, formats };
}

/** The first record of a segment. It is short, but for what a start in doubt had to carry over: then all is read. */
async function readHead(
  segments: Segments,
  number: number,
): Promise<{ head: SegmentHead | undefined; whole: Pieces | null }> {
  for (let reading = 1; ; reading++) {
    const first = await segments.read(number, 0, FIRST_LINE_BYTES).catch(() => Buffer.alloc(0));
    const whole = first.includes(0x0a) ? null : await segments.readAll(number);
    const bytes = whole?.bytes ?? first;
    const head = decodeLine(bytes.subarray(0, bytes.indexOf(0x0a) + 1), number)?.head;
    if (head || reading === READINGS_MAX) return { head, whole };
  }
}

/** True if no record of this segment is in it: it was prepared, and nothing was ever promised by it. */
function isUntouched({ bytes, unreadable }: Pieces, segment: number): boolean {
  if (unreadable.length > 0) return false;
  const pieces = scan(bytes, { segment, from: 0, upTo: null });
  return pieces.every(({ record, isForeign }) => record === null && !isForeign);
}

/** Lets the messages that are not final fail with this reason; gives how many. Their content is kept for a retry. */
function fail(state: State, now: Stamp, reply: string, which: (message: Message) => boolean): number {
  const messages = [...state.messages.values()].filter(
    (message) => !isFinal(message.status) && which(message),
  );
  for (const { id, attempts } of messages)
    apply(state, [{ e: 'failed', id, attempts, at: now, reply }], { segment: 0, offset: 0 });
  return messages.length;
}

/** A copy, which does not keep the bytes of the whole segment in memory. */
function copyOf({ events, contents }: JournalRecord): JournalRecord {
  return { events, contents: contents.map((content) => Buffer.from(content)) };
}

/** Logs what a start found that needs telling, and gives false if a checkpoint must make an end of it. */
export function tellOf(replayed: Replayed, { unknownEvents }: State, log: Log, copies: string): boolean {
  const { damagedPieces, gap, heldBack, overtaken, newest, notUnderstood } = replayed;
  if (overtaken) log.error('newer store put aside', { heldBack });
  if (damagedPieces > 0 || (gap && !overtaken))
    log.error('store damaged', { pieces: damagedPieces, heldBack, copies });
  if (newest !== null || unknownEvents.length > 0 || notUnderstood > 0) {
    const format = newest ?? formatText(FORMAT);
    log.warn('store of a newer version', { format, unknownEvents: unknownEvents.length, notUnderstood });
  }
  return damagedPieces === 0 && !gap && notUnderstood === 0;
}
