/**
 * What becomes of news after a telling: which are told to all whom they concern, who waits, and when somebody is due. Pure.
 *
 * News of an outage are kept until its end is told, marked with those who know: the end is told to them only.
 */
import { grouped } from '../base/collections.js';
import type { Entry } from '../mail/book/destination.js';
import type { DeviceNews, KeptNews, NewsOfDevice, Settled, Telling } from './fleet-store.js';
import type { ToldPerson } from './outages.js';
import { type Axis, axisOf, type Item, isEnd, isState, type Ruling } from './rules.js';
import type { About, TextOptions } from './texts/texts.js';

/** What one person is to hear of one axis of a device's news. */
export interface Hearing {
  readonly ofDevice: NewsOfDevice;
  readonly about: About;
  readonly entry: Entry;
  /** As this person reads them. */
  readonly texts: TextOptions;
  /** The same for all entries of a person. A placeholder such as OWNER may be another one for each device. */
  readonly person: string;
  /** A hash of the person, as news are marked with it. */
  readonly mark: string;
  readonly axis: Axis;
  readonly items: readonly (Item & KeptNews)[];
  readonly ruling: Ruling;
}

/** A hearing of which the person is told now. */
export type Telltale = Hearing & { readonly ruling: Extract<Ruling, { readonly act: 'tell' }> };

/** What a person was told by an accepted message. */
export interface Reached {
  readonly hearing: Telltale;
  readonly person: ToldPerson;
  readonly isMany: boolean;
}

/** Gathers what becomes of the news of many devices. */
export class Settling {
  readonly #settled = new Map<string, Settled>();
  /** By device: why somebody is not told. */
  readonly #refused = new Map<string, Error>();
  /** Why nothing could be told. */
  failure: Error | null = null;

  /** Somebody was not told of this device, and is due again. */
  refuse(device: string, why: Error): void {
    this.#refused.set(device, why);
  }

  /** True: somebody was not told. */
  get hasRefused(): boolean {
    return this.#refused.size > 0;
  }

  /** Settles the news of a device; `told`: who has heard of them now. */
  settle({ device, news }: NewsOfDevice, hearings: readonly Hearing[], told: readonly Reached[]): void {
    const heard = new Set(told.map(({ hearing }) => hearing));
    const parts = [...grouped(news, ({ news }) => axisOf(news))].flatMap(([axis, ofAxis]) => {
      const each = isState(axis) ? [ofAxis] : ofAxis.map((one) => [one]);
      return each.map((kept) => settledOf(kept, axis, hearingsOf(kept, hearings), heard));
    });
    const dueMs = Math.min(...parts.map((part) => part.dueMs));
    const windowEndsMs = Math.max(...news.map((one) => one.windowEndsMs));
    this.#settled.set(device, {
      dropped: parts.flatMap((part) => part.dropped),
      marked: parts.flatMap((part) => part.marked),
      dueMs,
      isOwed: this.#refused.has(device) || dueMs <= windowEndsMs,
    });
  }

  /** The result. */
  end(): Telling {
    const [refused = null] = this.#refused.values();
    return { settled: this.#settled, refusal: this.failure ?? refused };
  }
}

function hearingsOf(kept: readonly KeptNews[], hearings: readonly Hearing[]): readonly Hearing[] {
  const last = kept.at(-1)?.news.id;
  return hearings.filter(({ items }) => items.at(-1)?.news.id === last);
}

type Part = Pick<Settled, 'dropped' | 'marked' | 'dueMs'>;

function settledOf(
  kept: readonly KeptNews[],
  axis: Axis,
  hearings: readonly Hearing[],
  heard: ReadonlySet<Hearing>,
): Part {
  const last = kept.at(-1)?.news as DeviceNews;
  const mustStay = isState(axis) && !isEnd(last);
  // The document may name them again before the end.
  const present = new Set(hearings.map(({ mark }) => mark));
  const absentIn = (marks: readonly string[] = []) =>
    mustStay ? marks.filter((mark) => !present.has(mark)) : [];
  const told = absentIn(last.told);
  const waits = absentIn(last.waits);
  let dueMs = Number.POSITIVE_INFINITY;
  let needsEarlier = false;
  for (const hearing of hearings) {
    const { mark, ruling, items } = hearing;
    if (ruling.act === 'none') {
      if (ruling.knows && items.at(-1)?.mark !== 'none') told.push(mark);
    } else if (heard.has(hearing)) told.push(mark);
    else {
      waits.push(mark);
      dueMs = Math.min(dueMs, ruling.act === 'wait' ? ruling.untilMs : 0);
      needsEarlier ||= items
        .slice(0, -1)
        .some(({ mark, news }) => (mark === 'told' ? !isEnd(news) : mark !== 'none'));
    }
  }
  const ids = kept.map(({ news }) => news.id);
  if (waits.length === 0 && !mustStay) return { dropped: ids, marked: [], dueMs };
  const before = kept.slice(0, -1).map(({ news }) => news);
  const asked = before.filter(({ waits }) => waits !== undefined);
  const marked = isMarked(last, told, waits) ? [] : [{ ...last, told, waits }];
  // Somebody may still hear of what was over before their hours began, or of the end of what they know.
  const staysBefore = needsEarlier || (isEnd(last) && waits.length > 0);
  if (!staysBefore) return { dropped: ids.slice(0, -1), marked, dueMs };
  const fresh = before.filter((news) => !asked.includes(news));
  return { dropped: [], marked: [...fresh.map((news) => firstMarked(news, hearings)), ...marked], dueMs };
}

/** Earlier news of which nobody was asked: those who are concerned now were concerned then. */
function firstMarked(news: DeviceNews, hearings: readonly Hearing[]): DeviceNews {
  return { ...news, told: [], waits: hearings.map(({ mark }) => mark) };
}

function isMarked(news: DeviceNews, told: readonly string[], waits: readonly string[]): boolean {
  const isSame = (one: readonly string[] | undefined, other: readonly string[]) =>
    one?.length === other.length && other.every((mark) => one.includes(mark));
  return isSame(news.told, told) && isSame(news.waits, waits);
}
