/**
 * The outages of devices of the last year, and who was told of them when: a log below `cloud/outages/`. Each batch of news
 * appends a line for each news that people were told. A file is named after the wall time of its first line, in ms. Nothing
 * is read until an operator asks for a device; a line that is torn or damaged is skipped, because nothing depends on it.
 */
import { Recent } from '../base/collections.js';
import { systemCodeOf, wordsOf } from '../base/errors.js';
import { jsonIn, shapeOf } from '../base/json.js';
import { DAY_MS, KIB, MIB } from '../base/limits.js';
import type { Clock } from '../base/system/clock.js';
import type { Disk, DiskFile } from '../base/system/disk.js';
import type { Log } from '../base/system/log.js';
import { Turns } from '../base/turns.js';
import { type DeviceNews, isHappening } from './fleet-store.js';

/** Outages are kept for this long. */
export const OUTAGES_KEPT_MS = 366 * DAY_MS;
/** All files together take about so much: some 250,000 lines. The oldest files make way. */
export const OUTAGE_BYTES_MAX = 64 * MIB;
/** A new file begins when the last one has this size or age. */
const FILE_BYTES = MIB;
const FILE_MS = 7 * DAY_MS;
/** About so much is one write: a whole fleet may fall silent at once. */
const WRITE_CHARS = 256 * KIB;
/** So much is searched at a time; then other work gets its turn. */
const PIECE_BYTES = 64 * KIB;
/** The outages of one device that an answer has, and its tellings of anything else. */
export const OUTAGES_MAX = 1000;

/** A person who was told, and the id of the message in the outbox. */
export interface ToldPerson {
  readonly type: number;
  readonly name: string;
  readonly destination: string;
  readonly id: string;
}

/** News that were told: a line of the log. */
export interface ToldNews {
  readonly news: DeviceNews;
  readonly told: readonly ToldPerson[];
}

/** A message to a person. */
export interface ToldMessage extends ToldPerson {
  /** Of an outage: whether the device went offline, or came back. Null: of something else. */
  readonly of: 'offline' | 'online' | null;
  readonly news: DeviceNews['kind'];
  /** Wall time. */
  readonly atMs: number;
}

/** One outage. Moments are wall times. Null: not known; of the last one `endedMs` may also lie ahead. */
export interface Outage {
  readonly kind: 'silent' | 'stopped' | null;
  readonly beganMs: number | null;
  readonly endedMs: number | null;
  readonly lastedMs: number | null;
  /** The device ran throughout, or it restarted. */
  readonly why: 'ran' | 'restarted' | null;
  /** The last word of the device before it. */
  readonly word: string | null;
  /** The quiet time in which it began, or that somebody asked for during it. */
  readonly quiet: { readonly untilMs: number; readonly why: string | null } | null;
  readonly told: readonly ToldMessage[];
}

/** What the log has of a device. */
export interface OutageHistory {
  /** The newest first, at most OUTAGES_MAX. */
  readonly outages: readonly Outage[];
  /** How many there were. */
  readonly total: number;
  /** The tellings of what is no outage, the newest first. */
  readonly others: readonly ToldMessage[];
}

interface OutageLogOptions {
  readonly disk: Disk;
  readonly clock: Pick<Clock, 'wallMs'>;
  readonly log: Log;
  readonly directory: string;
}

type Line = ToldNews & { readonly atMs: number };

const isPerson = shapeOf({ type: 1, name: '', destination: '', id: '' });
const isOfDevice = shapeOf({ id: '', device: '' });
const isLine = shapeOf({
  atMs: 1.5,
  news: (value) => isOfDevice(value) && isHappening(value),
  told: [isPerson],
});

/** The log of outages. */
export class OutageLog {
  readonly #options: OutageLogOptions;
  readonly #writing = new Turns();
  /** One device is read at a time. */
  readonly #reading = new Turns();
  #hasFailed = false;

  constructor(options: OutageLogOptions) {
    this.#options = options;
  }

  /** Resolves when the lines are on the disk, or cannot be: telling people matters more. Never rejects. */
  async record(all: readonly ToldNews[]): Promise<void> {
    if (all.length === 0) return;
    try {
      for (const lines of writesOf(all, this.#options.clock.wallMs()))
        await this.#writing.do(() => this.#append(lines));
      this.#hasFailed = false;
    } catch (error) {
      if (!this.#hasFailed) this.#options.log.error('outages not kept', { reason: wordsOf(error) });
      this.#hasFailed = true;
    }
  }

  async #append(lines: string): Promise<void> {
    const { disk, clock } = this.#options;
    const atMs = clock.wallMs();
    const path = (await this.#fillable(atMs)) ?? (await this.#begin(atMs));
    const file = await disk.open(path, 'update');
    try {
      await file.write(Buffer.from(lines), await file.size());
      await file.sync();
    } finally {
      await file.close();
    }
  }

  /** The last file, if it is neither full nor old. */
  async #fillable(atMs: number): Promise<string | null> {
    const { disk, directory } = this.#options;
    const name = (await disk.list(directory)).at(-1);
    if (name === undefined || atMs - startOf(name) >= FILE_MS) return null;
    const path = `${directory}/${name}`;
    const found = await disk.look(path);
    return found?.kind === 'file' && found.bytes < FILE_BYTES ? path : null;
  }

  /** A new file, in place of those that are too old or take too much. */
  async #begin(atMs: number): Promise<string> {
    const { disk, directory } = this.#options;
    await disk.makeDirectory(directory);
    const names = await disk.list(directory);
    const kept: string[] = [];
    let bytes = FILE_BYTES;
    for (const name of names.toReversed()) {
      bytes += (await disk.look(`${directory}/${name}`))?.bytes ?? 0;
      const isYoung = atMs - startOf(name) <= OUTAGES_KEPT_MS + FILE_MS;
      if (isYoung && bytes <= OUTAGE_BYTES_MAX) kept.push(name);
      else await disk.remove(`${directory}/${name}`);
    }
    // Names have the order of the lines, whatever the clock does.
    const start = Math.max(atMs, ...kept.map((name) => startOf(name) + 1));
    const path = `${directory}/${String(Math.floor(start)).padStart(15, '0')}.log`;
    await (await disk.open(path, 'create')).close();
    await disk.syncDirectory(directory);
    return path;
  }

  /** What the log has of a device. Rejects with the disk's error. */
  async of(device: string): Promise<OutageHistory> {
    return await this.#reading.do(() => this.#read(device));
  }

  async #read(device: string): Promise<OutageHistory> {
    const { disk, clock, directory } = this.#options;
    const sinceMs = clock.wallMs() - OUTAGES_KEPT_MS;
    // JSON writes the quotes of a text within another text with backslashes.
    const mark = Buffer.from(`"device":${JSON.stringify(device)}`);
    const teller = new Chronicle();
    for (const name of await disk.list(directory)) {
      // The lines of a file may be a week older than those that follow.
      for await (const text of linesWith(mark, disk, `${directory}/${name}`)) {
        const line = lineIn(text);
        if (line?.news.device === device && line.atMs >= sinceMs) teller.add(line);
      }
    }
    return teller.history;
  }
}

/** The lines in writes of about WRITE_CHARS. A line end comes first: the last line of an earlier run may be torn. */
function* writesOf(all: readonly ToldNews[], atMs: number): Generator<string> {
  let lines = '';
  for (const { news, told } of all) {
    // The links of a drill are nobody's business.
    const shown = news.kind === 'drill' ? { ...news, key: '' } : news;
    lines += `\n${JSON.stringify({ atMs, news: shown, told })}`;
    if (lines.length < WRITE_CHARS) continue;
    yield lines;
    lines = '';
  }
  if (lines !== '') yield lines;
}

const LINE_END = 0x0a;

/** The lines of a file that have these octets; none if it is gone. */
async function* linesWith(mark: Buffer, disk: Disk, path: string): AsyncGenerator<string> {
  const file = await openIfThere(disk, path);
  if (file === null) return;
  try {
    let rest: Buffer = Buffer.alloc(0);
    for (let offset = 0, length = PIECE_BYTES; length > 0; offset += length) {
      const piece = await file.read(offset, PIECE_BYTES);
      length = piece.length;
      const octets = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
      // After the last piece there is no line end.
      const end = length === 0 ? octets.length : octets.lastIndexOf(LINE_END) + 1;
      yield* foundIn(octets.subarray(0, end), mark);
      rest = octets.subarray(end);
    }
  } finally {
    await file.close();
  }
}

/** The lines with the mark. Searching octets is far quicker than reading each line as a text. */
function* foundIn(octets: Buffer, mark: Buffer): Generator<string> {
  for (let at = octets.indexOf(mark); at !== -1; ) {
    const next = octets.indexOf(LINE_END, at);
    const end = next === -1 ? octets.length : next;
    yield octets.toString('utf8', octets.lastIndexOf(LINE_END, at) + 1, end);
    at = octets.indexOf(mark, end);
  }
}

/** Null: a write has just removed it. */
async function openIfThere(disk: Disk, path: string): Promise<DiskFile | null> {
  try {
    return await disk.open(path, 'read');
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

/** The moment in the name of a file. */
function startOf(name: string): number {
  return Number.parseInt(name, 10) || 0;
}

function lineIn(text: string): Line | null {
  const value = jsonIn(text);
  return isLine(value) ? (value as Line) : null;
}

/** So many words and quiet times may belong to the next outage. */
const BEFORE_MAX = 10;

/** News of no outage, and who was told of them. */
interface Aside {
  readonly news: DeviceNews;
  readonly told: ToldMessage[];
}

type OpenOutage = { -readonly [Member in keyof Omit<Outage, 'told'>]: Outage[Member] } & {
  readonly told: ToldMessage[];
};

/** Puts the lines of one device together. They come in their order; memory has the last outages only. */
export class Chronicle {
  /** By the id of the news that began them. */
  readonly #outages = new Recent<string, OpenOutage>(OUTAGES_MAX);
  /** By the id of its news: where its tellings belong. */
  readonly #tellings = new Recent<string, ToldMessage[]>(4 * OUTAGES_MAX);
  /** By the id of its news. */
  readonly #others = new Recent<string, Aside>(OUTAGES_MAX);
  /** The words and quiet times since the last outage began. */
  #before: Aside[] = [];
  #last: OpenOutage | null = null;
  #total = 0;

  /** News have a line for each time that somebody was told. */
  add({ news, told, atMs }: Line): void {
    const tellings = this.#tellings.get(news.id) ?? this.#placeOf(news, atMs);
    this.#tellings.set(news.id, tellings);
    const of = news.kind === 'back' ? 'online' : 'offline';
    for (const person of told)
      if (!tellings.some(({ id, news: kind }) => id === person.id && kind === news.kind))
        tellings.push({ ...person, of, news: news.kind, atMs });
  }

  get history(): OutageHistory {
    const others = [...this.#others.values()].flatMap(({ told }) => told);
    return {
      outages: [...this.#outages.values()].reverse(),
      total: this.#total,
      others: others
        .map((one) => ({ ...one, of: null }))
        .reverse()
        .slice(0, OUTAGES_MAX),
    };
  }

  #placeOf(news: DeviceNews, atMs: number): ToldMessage[] {
    switch (news.kind) {
      case 'silent':
      case 'stopped':
        return this.#begin(news, atMs).told;
      case 'back':
        return this.#end(news).told;
      case 'still':
        return this.#open?.told ?? this.#aside(news);
      case 'quiet':
        if (this.#open !== null) this.#open.quiet = quietOf(news);
        return this.#aside(news);
      default:
        return this.#aside(news);
    }
  }

  #aside(news: DeviceNews): ToldMessage[] {
    const aside: Aside = { news, told: [] };
    this.#others.set(news.id, aside);
    if (news.kind === 'word' || news.kind === 'quiet')
      this.#before = [...this.#before, aside].slice(-BEFORE_MAX);
    return aside.told;
  }

  get #open(): OpenOutage | null {
    const last = this.#last;
    return last !== null && last.endedMs === null && last.lastedMs === null ? last : null;
  }

  #begin(news: DeviceNews & { readonly kind: 'silent' | 'stopped' }, atMs: number): OpenOutage {
    const { kind, sinceMs: beganMs, word = null } = news;
    const outage = this.#new(news.id, { kind, beganMs, word });
    for (const { news: earlier, told } of this.#before) {
      if (!leadsTo(earlier, outage, atMs)) continue;
      if (earlier.kind === 'quiet') outage.quiet = quietOf(earlier);
      if (earlier.kind !== 'word') continue;
      outage.word = earlier.word;
      // Who heard the word was told of this outage.
      outage.told.push(...told);
      this.#others.delete(earlier.id);
      this.#tellings.set(earlier.id, outage.told);
    }
    this.#before = [];
    return outage;
  }

  #end({ id, sinceMs, lastedMs, why }: DeviceNews & { readonly kind: 'back' }): OpenOutage {
    const beganMs = sinceMs === null || lastedMs === null ? null : sinceMs - lastedMs;
    const outage = this.#open ?? this.#new(id, { beganMs });
    return Object.assign(outage, { endedMs: sinceMs, lastedMs, why: why?.kind ?? null });
  }

  #new(id: string, known: Partial<Outage>): OpenOutage {
    const unknown = {
      kind: null,
      beganMs: null,
      endedMs: null,
      lastedMs: null,
      why: null,
      word: null,
      quiet: null,
    };
    const outage: OpenOutage = { ...unknown, ...known, told: [] };
    this.#outages.set(id, outage);
    this.#last = outage;
    this.#total++;
    return outage;
  }
}

function quietOf({ untilMs, why }: DeviceNews & { readonly kind: 'quiet' }): Outage['quiet'] {
  return { untilMs, why };
}

/** True for the last word before an outage, and for the quiet time in which it began: nobody hears of it before its end. */
function leadsTo(news: DeviceNews, { beganMs, word }: Outage, atMs: number): boolean {
  if (news.kind === 'word') return news.word === word || (beganMs !== null && news.sinceMs === beganMs);
  return news.kind === 'quiet' && beganMs !== null && news.untilMs > beganMs && news.untilMs <= atMs;
}
