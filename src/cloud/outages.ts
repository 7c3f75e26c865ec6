/**
 * The outages of devices, and who was told of them when: a log below `cloud/outages/`. Each batch of news appends a line for
 * each news that people were told, with one sync. A file is named after the wall time of its first line, in ms. Nothing is read
 * until an operator asks for a device; a line that is torn or damaged is skipped, because nothing depends on it.
 */
import { wordsOf } from '../base/errors.js';
import { jsonIn, shapeOf } from '../base/json.js';
import { DAY_MS, MIB } from '../base/limits.js';
import type { Clock } from '../base/system/clock.js';
import type { Disk } from '../base/system/disk.js';
import type { Log } from '../base/system/log.js';
import { Turns } from '../base/turns.js';
import { type DeviceNews, isHappening } from './fleet-store.js';

/** Outages are kept for this long. */
export const OUTAGES_KEPT_MS = 30 * DAY_MS;
/** The log takes at most so many files of about this size. */
export const OUTAGE_FILES_MAX = 64;
const FILE_BYTES = MIB;
/** News in one write: a whole fleet may fall silent at once. */
const CHUNK = 1000;
/** The outages of one device that an answer has. */
export const OUTAGES_MAX = 100;

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

/** A message to a person about an outage. Moments are wall times. */
interface Telling extends ToldPerson {
  readonly of: 'offline' | 'online';
  readonly atMs: number;
}

/** One outage. Null: not known; of the last one `endedMs` may also lie ahead. */
export interface Outage {
  readonly kind: 'silent' | 'stopped' | null;
  readonly beganMs: number | null;
  endedMs: number | null;
  lastedMs: number | null;
  readonly told: Telling[];
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
  readonly #turns = new Turns();
  #hasFailed = false;

  constructor(options: OutageLogOptions) {
    this.#options = options;
  }

  /** Resolves when the lines are on the disk, or cannot be: telling people matters more. Never rejects. */
  async record(all: readonly ToldNews[]): Promise<void> {
    if (all.length === 0) return;
    try {
      for (let from = 0; from < all.length; from += CHUNK)
        await this.#turns.do(() => this.#append(all.slice(from, from + CHUNK)));
      this.#hasFailed = false;
    } catch (error) {
      if (!this.#hasFailed) this.#options.log.error('outages not kept', { reason: wordsOf(error) });
      this.#hasFailed = true;
    }
  }

  async #append(all: readonly ToldNews[]): Promise<void> {
    const { disk, clock } = this.#options;
    const atMs = clock.wallMs();
    const path = (await this.#fillable(atMs)) ?? (await this.#begin(atMs));
    // The line end comes first: the last line of an earlier run may be torn.
    const lines = all.map((one) => `\n${JSON.stringify({ atMs, ...one })}`);
    const file = await disk.open(path, 'update');
    try {
      await file.write(Buffer.from(lines.join('')), await file.size());
      await file.sync();
    } finally {
      await file.close();
    }
  }

  /** The last file, if it is not full; each day has a new one. */
  async #fillable(atMs: number): Promise<string | null> {
    const { disk, directory } = this.#options;
    const name = (await disk.list(directory)).at(-1);
    if (name === undefined || atMs - startOf(name) >= DAY_MS) return null;
    const path = `${directory}/${name}`;
    const found = await disk.look(path);
    return found?.kind === 'file' && found.bytes < FILE_BYTES ? path : null;
  }

  /** A new file, in place of those that are too old or too many. */
  async #begin(atMs: number): Promise<string> {
    const { disk, directory } = this.#options;
    await disk.makeDirectory(directory);
    const names = await disk.list(directory);
    const young = names.filter((name) => atMs - startOf(name) <= OUTAGES_KEPT_MS + DAY_MS);
    const kept = young.slice(-(OUTAGE_FILES_MAX - 1));
    for (const name of names) if (!kept.includes(name)) await disk.remove(`${directory}/${name}`);
    // Names have the order of the lines, whatever the clock does.
    const start = Math.max(atMs, ...kept.map((name) => startOf(name) + 1));
    const path = `${directory}/${String(Math.floor(start)).padStart(15, '0')}.log`;
    await (await disk.open(path, 'create')).close();
    await disk.syncDirectory(directory);
    return path;
  }

  /** The outages of a device, the newest first. Rejects with the disk's error. */
  async of(device: string): Promise<Outage[]> {
    const { disk, clock, directory } = this.#options;
    const sinceMs = clock.wallMs() - OUTAGES_KEPT_MS;
    const mark = `"device":${JSON.stringify(device)}`;
    const lines: Line[] = [];
    for (const name of await disk.list(directory)) {
      const text = (await disk.readWhole(`${directory}/${name}`))?.toString() ?? '';
      for (const one of text.split('\n')) {
        const line = one.includes(mark) ? lineIn(one) : null;
        if (line?.news.device === device && line.atMs >= sinceMs) lines.push(line);
      }
    }
    return outagesOf(lines).reverse().slice(0, OUTAGES_MAX);
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

/** The outages in the lines of one device, the oldest first. News have a line for each time that somebody was told. */
export function outagesOf(lines: readonly Line[]): Outage[] {
  const outages: Outage[] = [];
  const byNews = new Map<string, Outage>();
  for (const { news, told, atMs } of lines) {
    const outage = byNews.get(news.id) ?? outageFor(news, outages);
    byNews.set(news.id, outage);
    const of = news.kind === 'back' ? 'online' : 'offline';
    for (const person of told)
      if (!outage.told.some(({ id, of: direction }) => id === person.id && direction === of))
        outage.told.push({ ...person, of, atMs });
  }
  return outages;
}

function outageFor(news: DeviceNews, outages: Outage[]): Outage {
  const sinceMs = 'sinceMs' in news ? (news.sinceMs ?? null) : null;
  const last = outages.at(-1);
  if (news.kind !== 'back') {
    const kind = news.kind === 'stopped' ? 'stopped' : 'silent';
    const outage: Outage = { kind, beganMs: sinceMs, endedMs: null, lastedMs: null, told: [] };
    outages.push(outage);
    return outage;
  }
  const { lastedMs } = news;
  const isOpen = last !== undefined && last.endedMs === null && last.lastedMs === null;
  if (isOpen) return Object.assign(last, { endedMs: sinceMs, lastedMs });
  const beganMs = sinceMs === null || lastedMs === null ? null : sinceMs - lastedMs;
  const outage: Outage = { kind: null, beganMs, endedMs: sinceMs, lastedMs, told: [] };
  outages.push(outage);
  return outage;
}
