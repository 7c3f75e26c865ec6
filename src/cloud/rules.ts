/**
 * What one person is to hear of one device, and when. Pure. Moments are wall times.
 *
 * The watch has decided already: no quiet, silence for the device's delay, times its damping (watch.ts, presence.ts). Then, for
 * each person:
 *
 *   the device       the person knows       and                                        the person
 *   went offline     it is online           in `after_min`, after any quiet that was   hears of it
 *                                           asked for since, in their `hours`
 *   went offline     it is offline                                                      hears nothing
 *   came back        it is offline          in their `hours`                           hears of it
 *   came back        it is online           was offline beyond `after_min`, outside    hears one line when the hours begin,
 *                                           of their `hours`                           or with `night: "drop"` nothing
 *   came back        it is online                                                       hears nothing
 *   is still offline it is offline          after any quiet, in their `hours`           hears of it
 *   asks for quiet   anything               now in their `hours`, and no `after_min`   hears of it
 *   has a last word  anything               now in their `hours`, and no `after_min`   hears of it
 *   has a drill      anything                                                           hears of it
 *
 * Mails that do not leave, and leave again, are as an outage and its end; `after_min` counts from the same hour. A relay that
 * goes down is told also to a person who knows of messages that have failed.
 *
 * News marks who was told of it, and who waits. A mark lasts until the end of the outage is told: so whoever was not told of an
 * outage is not told of its end, and a person who is added during it, or whose rules change, is not told of the past.
 */
import { MINUTE_MS } from '../base/limits.js';
import { dueMs, type Rules } from '../mail/book/rules.js';
import type { DeviceNews } from './fleet-store.js';
import { STUCK_MS } from './marks.js';
import type { Happening } from './texts/texts.js';

/** What a person has to do with a piece of news. `fresh`: nobody has been asked yet. */
export type Standing = 'fresh' | 'told' | 'waits' | 'none';

/** A piece of news, as one person has it. */
export interface Item<N extends DeviceNews = DeviceNews> {
  readonly news: N;
  readonly mark: Standing;
  /** News up to this moment may be told together. */
  readonly windowEndsMs: number;
}

/** A person, and how they want to be told. */
export interface Listener {
  readonly uid: string | null;
  readonly rules: Rules;
  /** The time zone of people who have none. */
  readonly cloudZone: string;
  /** Nobody hears of an outage before that; null: the device is not quiet. */
  readonly quietUntilMs: number | null;
  /** True: waits for the end of the window, because several devices may become one message. */
  readonly gathers: boolean;
  /** True: a program of the operator, which hears everything but drills. */
  readonly isHook: boolean;
}

/** One outage that began and ended outside of a person's hours, or several. */
export type Was = Extract<Happening, { readonly kind: 'was' }>;

/** What happens now. `knows`: the person knows the last state, now or already. */
export type Ruling<N extends DeviceNews = DeviceNews> =
  | { readonly act: 'none'; readonly knows: boolean }
  | { readonly act: 'wait'; readonly untilMs: number }
  | { readonly act: 'tell'; readonly news: N; readonly was: Was | null };

/** Told so late, news of the last minute of a person's hours are still in time. */
const LATE_MS = 5 * MINUTE_MS;

/** News are about the state of the link, or of the mails; others are told for themselves. */
export type Axis = 'link' | 'mails' | 'still' | 'once';
const AXES: Readonly<Record<DeviceNews['kind'], Axis>> = {
  ...{ silent: 'link', stopped: 'link', back: 'link', stuck: 'mails', flows: 'mails', still: 'still' },
  ...{ quiet: 'once', word: 'once', drill: 'once', was: 'once' },
};

/** What this news is about. */
export const axisOf = ({ kind }: Pick<DeviceNews, 'kind'>): Axis => AXES[kind];

/** True for what begins and ends; other news are told for themselves. */
export const isState = (axis: Axis): boolean => axis === 'link' || axis === 'mails';

/** True for news that end what others have begun. */
export const isEnd = ({ kind }: Pick<DeviceNews, 'kind'>): boolean => kind === 'back' || kind === 'flows';

/**
 * The ids of two news of one axis, one after the other, which can be dropped: the state after them is that before them. Without
 * them everybody still knows the state that they were told last. The first news stay if possible: an outage began with them.
 */
export function needlessPair(all: readonly DeviceNews[]): readonly string[] {
  const people = new Set(all.flatMap(({ told = [] }) => told));
  const known = (news: readonly DeviceNews[], mark: string) =>
    news.findLast(({ told }) => told?.includes(mark) === true) ?? null;
  const isBad = (one: DeviceNews | null) => one !== null && !isEnd(one);
  const pairs = [1, 2, 0].map((from) => all.slice(from, from + 2));
  const harmless = pairs.find((pair) => {
    const rest = all.filter((one) => !pair.includes(one));
    return [...people].every((mark) => isBad(known(all, mark)) === isBad(known(rest, mark)));
  });
  return (harmless ?? all.slice(1, 3)).map(({ id }) => id);
}

/** What becomes of the news of one axis, `link` or `mails`, the oldest first and at least one. */
export function ruleState<N extends DeviceNews>(
  items: readonly Item<N>[],
  listener: Listener,
  nowMs: number,
): Ruling<N> {
  const last = items.at(-1) as Item<N>;
  if (last.mark === 'told') return { act: 'none', knows: true };
  const toldAt = items.findLastIndex(({ mark }) => mark === 'told');
  const told = items[toldAt];
  const first = items[0] as Item<N>;
  // An end without its beginning: the beginning was told before these news were kept.
  const knowsBad = told === undefined ? isEnd(first.news) && first.mark !== 'none' : !isEnd(told.news);
  if (isEnd(last.news) !== knowsBad && !isWorse(last.news, told?.news)) {
    const was = knowsBad ? null : nightOf(items.slice(toldAt + 1), listener);
    if (was === null) return { act: 'none', knows: true };
    return tellAt(last, endMs(last, listener, nowMs), nowMs, was);
  }
  if (last.mark === 'none' && !knowsBad) return { act: 'none', knows: false };
  const atMs = isEnd(last.news) ? endMs(last, listener, nowMs) : beginMs(last, listener, nowMs);
  return tellAt(last, atMs, nowMs, null);
}

/** True: a relay is down, and a person knows only of messages that have failed. */
function isWorse(news: DeviceNews, known: DeviceNews | undefined): boolean {
  return news.kind === 'stuck' && news.relay !== null && known?.kind === 'stuck' && known.relay === null;
}

/** What becomes of a reminder. `knowsBad`: this person was told of the outage, and it lasts. */
export function ruleReminder<N extends DeviceNews>(
  item: Item<N>,
  knowsBad: boolean,
  listener: Listener,
  nowMs: number,
): Ruling<N> {
  if (!knowsBad || item.mark === 'told' || item.mark === 'none') return { act: 'none', knows: true };
  return tellAt(item, beginMs(item, { ...listener, rules: atOnce(listener) }, nowMs), nowMs, null);
}

/** What becomes of news that are told for themselves. */
export function ruleOnce<N extends DeviceNews>(item: Item<N>, listener: Listener, nowMs: number): Ruling<N> {
  const { news, mark } = item;
  if (mark === 'told' || mark === 'none') return { act: 'none', knows: true };
  const { rules, cloudZone, uid, isHook } = listener;
  const isMeant =
    news.kind === 'drill'
      ? !isHook && (news.uid === null || news.uid === uid)
      : mark === 'waits' || dueMs(rules, cloudZone, nowMs) === nowMs;
  return isMeant ? { act: 'tell', news, was: null } : { act: 'none', knows: true };
}

function tellAt<N extends DeviceNews>(
  { news }: Item<N>,
  atMs: number,
  nowMs: number,
  was: Was | null,
): Ruling<N> {
  return nowMs < atMs ? { act: 'wait', untilMs: atMs } : { act: 'tell', news, was };
}

/** The moment from which a person's rules count. */
function baseMs({ news, windowEndsMs }: Item, { gathers }: Listener): number {
  return gathers ? Math.max(news.atMs, windowEndsMs) : news.atMs;
}

/**
 * When this person hears of what has begun: work on the device may have begun after it. If they could not be told in time, now
 * may be outside of their hours.
 */
function beginMs(item: Item, listener: Listener, nowMs: number): number {
  const { cloudZone, quietUntilMs } = listener;
  const readyMs = baseMs(item, listener) + rulesFor(item.news, listener).afterMs;
  return dueMs(atOnce(listener), cloudZone, Math.max(readyMs, quietUntilMs ?? readyMs, nowMs - LATE_MS));
}

/** When this person hears of its end. */
function endMs(item: Item, listener: Listener, nowMs: number): number {
  return dueMs(atOnce(listener), listener.cloudZone, Math.max(baseMs(item, listener), nowMs - LATE_MS));
}

const atOnce = ({ rules }: Listener): Rules => ({ ...rules, afterMs: 0 });

/** People hear of mails that do not leave after an hour. */
function rulesFor(news: DeviceNews, { rules }: Listener): Rules {
  return news.kind === 'stuck' ? { ...rules, afterMs: Math.max(0, rules.afterMs - STUCK_MS) } : rules;
}

/** What was over before the person's hours began, and lasted long enough for them; null: nothing, or they do not want it. */
function nightOf(items: readonly Item[], listener: Listener): Was | null {
  const { rules, cloudZone } = listener;
  if (rules.hours === null || rules.dropsNight) return null;
  let first: DeviceNews | null = null;
  let times = 0;
  for (const [n, { news, mark }] of items.entries()) {
    const end = items[n + 1];
    if (isEnd(news) || news.kind === 'stuck' || end === undefined) continue;
    const reachedMs = baseMs(items[n] as Item, listener) + rules.afterMs;
    const isAddressed = mark === 'fresh' || mark === 'waits';
    const wasOutside = dueMs(atOnce(listener), cloudZone, reachedMs) > reachedMs;
    if (!isAddressed || end.news.atMs < reachedMs || !wasOutside) continue;
    first ??= news;
    times++;
  }
  const last = items.at(-1)?.news;
  if (first === null || last?.kind !== 'back' || !('sinceMs' in first)) return null;
  return {
    kind: 'was',
    sinceMs: first.sinceMs,
    untilMs: last.sinceMs,
    times: Math.max(times, last.flaps?.times ?? 1),
  };
}
