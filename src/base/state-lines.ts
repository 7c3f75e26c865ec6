/**
 * The state of the daemon in a few lines for people, and in one sentence. Pure.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS } from './limits.js';
import { bytesInWords, counted, span } from './text.js';
import {
  isRelayDown,
  keptForUrgent,
  type QueueCounts,
  type QueueRoom,
  type RateView,
  type StorageState,
} from './views.js';

interface Stated {
  state: string;
  since: string | null;
  reason: string | null;
}

/** When the next mail may go by FIELDPOST_RELAY_RATE; null: now. */
interface RateEnd {
  readonly nextAt: string | null;
}

/** The answer of the state endpoint. A daemon of another version may leave out any member; its line is then left out. */
export type DaemonState = Partial<{
  /** `until`: null while it is not quiet. */
  quiet: { until: string | null; why: string | null; by: string | null; known_to_cloud: boolean };
  /** `id`: by which the cloud knows it; null without one. */
  device: { hostname: string; id: string | null };
  link: Stated & {
    since: string;
    lastHeartbeat: string | null;
    history?: readonly (Stated & { since: string; durationMs: number })[];
  };
  /** `nextTryAt`: when a relay that is down is tried again; null during a try. */
  relay: Stated & {
    nextTryAt?: string | null;
    name?: string | null;
    lastSentAt?: string | null;
    rate?: (Pick<RateView, 'used'> & RateEnd) | null;
  };
  queue: Omit<QueueCounts, 'forCloud'> &
    Partial<QueueRoom & Pick<QueueCounts, 'forCloud'> & { full: boolean }>;
  destinations: {
    count: number;
    hidden?: number;
    synced: boolean;
    lastSync: string | null;
    reason?: string | null;
  };
  /** Programs that must give signs, and the names of those that are late. */
  alive: { count: number; late: readonly string[] };
  /** JSON writes an infinite number as null. */
  storage: Omit<StorageState, 'freeBytes'> & { freeBytes: number | null };
  clock: { trusted: boolean; now?: string };
  settings: Stated;
  version: string;
  uptimeMs: number;
}>;

/** Good: no problem. Uneasy: a problem that needs no action. Bad: a person must act. */
export type Mood = 'good' | 'uneasy' | 'bad';

/** An empty topic continues the line before. The words may have text of strangers in them. */
type StateLine = readonly [topic: string, mood: Mood, words: string];

/** How a reader is shown a time of the API (ISO 8601). */
type ShowTime = (iso: string) => string;

/**
 * All that the daemon says of itself, topic by topic. `isPage`: for a page that shows the room of the queue as a picture, and
 * has buttons for what a command does.
 */
export function stateLines(state: DaemonState, time: ShowTime, isPage = false): StateLine[] {
  return [
    ...quiet(state, time),
    ...relay(state, time),
    ...lastMail(state),
    ...queue(state, isPage),
    ...link(state, time),
    ...destinations(state, time),
    ...alive(state),
    ...storage(state),
    ...clock(state),
    ...settings(state, time),
  ];
}

/** Messages that wait so long for a peer that is down are a case for a person. */
const LONG_DOWN_MS = 15 * MINUTE_MS;

type Said = readonly [mood: Mood, words: string];

/**
 * The state in one sentence, and its colour, for every face: the page and its title, `status`, `queue`, the report. Each
 * row that is so adds its words, in this order, and the worst mood colours them all. fieldpost(1) has the table, too:
 *
 *     the device is quiet                                 uneasy  until when, and why
 *     the storage, the queue or the settings refuse       bad     why
 *     a program gives no sign                             bad     which
 *     messages wait, and delivery is on hold              uneasy  how many, and that
 *     emails wait, and no relay is configured             uneasy  how many, and that
 *     emails wait, and the relay fails or refuses         uneasy  how many, its reason, since when; after 15 min bad
 *     emails wait, and the relay may get none now         uneasy  how many, the limit, and when the next may go
 *     emails wait, and the relay tells a reason           uneasy  how many, and the reason
 *     SMS, calls or pushes wait, and there is no cloud    uneasy  how many, and that
 *     they wait, and the cloud link is not online         uneasy  how many, and why; after 15 min bad
 *     they wait, and the link tells a reason              uneasy  how many, and the reason
 *     messages wait for none of this, some deferred       uneasy  how many of both
 *     messages wait, none is deferred                     good    how many
 *     messages have failed                                uneasy  how many
 *     all of the above is good, and something else is not         the first such: relay, cloud, then the worst line
 *     nothing of all this                                 good    all is well
 *
 * Null if the daemon does not tell its queue. The words may have text of strangers in them.
 */
export function headline(state: DaemonState, time: ShowTime): Said | null {
  const [calm, said] = [quietTrouble(state, time), headlineOf(state, time)];
  const all = [calm, said].filter((one) => one !== null);
  return all.length === 0 ? null : [worst(all), wordsOf(all)];
}

function headlineOf(state: DaemonState, time: ShowTime): Said | null {
  const refused = [...refusals(state), ...silences(state)];
  const { queue } = state;
  if (queue === undefined) return refused[0] ?? null;
  const waiting = queue.queued + queue.sending + queue.deferred;
  const waits = waiting > 0 ? [waitWords(waiting, state, time)] : [];
  if (waiting === 0 && queue.held) waits.push(['uneasy', 'nothing waits, and delivery is on hold']);
  const failed: Said[] = queue.failed > 0 ? [['uneasy', `${queue.failed} failed`]] : [];
  const said = [...refused, ...waits, ...failed];
  // In front: behind the number of waiting messages it would read as what they wait for.
  if (worst(said) === 'good') said.unshift(...elsewhere(state, time).slice(0, 1));
  if (said.length === 0) return ['good', 'all is well, nothing waits'];
  const start = refused.length + waits.length === 0 ? 'nothing waits; ' : '';
  return [worst(said), `${start}${wordsOf(said)}`];
}

/** Until when this device is quiet; null: it is not. */
function quietTrouble({ quiet }: DaemonState, time: ShowTime): Said | null {
  if (!quiet?.until) return null;
  const unknown = quiet.known_to_cloud ? '' : ', but the cloud does not know it yet';
  return ['uneasy', `quiet until ${time(quiet.until)}${because(quiet.why)}${unknown}`];
}

/** Why messages, or the new settings, are refused. */
function refusals({ storage, queue, settings }: DaemonState): Said[] {
  const said: Said[] = [];
  if (storage !== undefined && storage.state !== 'ok')
    said.push(['bad', `messages are refused: the storage is ${storage.state}${because(storage.reason)}`]);
  else if (queue?.full)
    said.push(['bad', `${refusedWords(queue)}: the queue is full${because(queue.reason)}`]);
  if (settings?.state === 'refused')
    said.push(['bad', `the new settings are refused${because(settings.reason)}`]);
  return said;
}

/** Which programs give no sign. */
function silences({ alive }: DaemonState): Said[] {
  if (alive === undefined || alive.late.length === 0) return [];
  return [['bad', `${lateWords(alive.late)} no sign`]];
}

/** So many names are told. */
const LATE_SHOWN_MAX = 3;

function lateWords(late: readonly string[]): string {
  const rest = late.length - LATE_SHOWN_MAX;
  const names = rest > 0 ? [...late.slice(0, LATE_SHOWN_MAX), `${rest} more`] : late;
  const last = names.length > 1 ? ` and ${names.at(-1)}` : '';
  const first = last === '' ? names : names.slice(0, -1);
  return `${first.join(', ')}${last} ${late.length === 1 ? 'gives' : 'give'}`;
}

/** How many messages wait, and for what. An older daemon does not tell which wait for the cloud. */
function waitWords(waiting: number, state: DaemonState, time: ShowTime): Said {
  const { held = false, deferred = 0, forCloud = 0 } = state.queue ?? {};
  const reasons: Said[] = held
    ? [['uneasy', 'delivery is on hold']]
    : [
        ...(forCloud < waiting ? relayTrouble(state, time, true) : []),
        ...(forCloud > 0 ? cloudTrouble(state, time, true) : []),
      ];
  const count = `${waiting} waiting`;
  if (reasons.length > 0) return [worst(reasons), `${count}: ${wordsOf(reasons)}`];
  return deferred > 0 ? ['uneasy', `${count}, ${deferred} of them deferred`] : ['good', count];
}

/** Why an email that waits does so; empty if nothing keeps it. */
export function whyMailWaits(state: DaemonState, time: ShowTime): string {
  if (state.queue?.held) return 'delivery is on hold';
  return wordsOf(relayTrouble(state, time, true));
}

/** What keeps emails from leaving; with `isAwaited` some wait for it. */
function relayTrouble({ relay, clock }: DaemonState, time: ShowTime, isAwaited: boolean): Said[] {
  if (relay === undefined) return [];
  if (relay.state === 'none') return [['uneasy', 'no relay is configured (FIELDPOST_RELAY)']];
  if (isRelayDown(relay.state)) {
    const why = relay.reason ?? `the relay is ${relay.state}`;
    return [[downMood(relay, clock, isAwaited), `${why}${since(relay.since, time)}${nextTry(relay, time)}`]];
  }
  const rate = isAwaited ? rateTrouble(relay.rate, time) : null;
  if (rate !== null) return [['uneasy', rate]];
  return relay.reason && (isAwaited || relay.state !== 'ok') ? [['uneasy', relay.reason]] : [];
}

/** The limit that keeps emails back: the longest that is used up. Null if there is none. */
function rateTrouble(rate: NonNullable<DaemonState['relay']>['rate'], time: ShowTime): string | null {
  if (!rate?.nextAt) return null;
  const [longest] = rate.used
    .filter(({ limit, sent }) => sent >= limit - keptForUrgent(limit))
    .sort((one, other) => other.windowMs - one.windowMs);
  if (longest === undefined) return null;
  const { limit, windowMs } = longest;
  const unit = { [MINUTE_MS]: 'a minute', [HOUR_MS]: 'an hour', [DAY_MS]: 'a day' }[windowMs];
  const most = `the relay gets at most ${counted(limit, 'mail')} ${unit ?? `in ${span(windowMs)}`}`;
  return `${most} (FIELDPOST_RELAY_RATE); the next may go at ${time(rate.nextAt)}`;
}

/** What keeps SMS, calls and pushes from leaving. */
function cloudTrouble({ link, clock }: DaemonState, time: ShowTime, isAwaited: boolean): Said[] {
  if (link === undefined) return [];
  const { state, reason } = link;
  if (state === 'disabled') return isAwaited ? [['uneasy', 'no cloud is configured (FIELDPOST_CLOUD)']] : [];
  if (state === 'online') return isAwaited && reason ? [['uneasy', reason]] : [];
  const words = `the cloud link has been ${state}${since(link.since, time)}${because(reason)}`;
  return [[downMood(link, clock, isAwaited), words]];
}

function downMood({ since }: Stated, clock: DaemonState['clock'], isAwaited: boolean): Mood {
  const isLong = Date.parse(clock?.now ?? '') - Date.parse(since ?? '') >= LONG_DOWN_MS;
  return isAwaited && isLong ? 'bad' : 'uneasy';
}

/** What is not good although no message waits for it, the first to be told first: damage is worse than the rest. */
function elsewhere(state: DaemonState, time: ShowTime): Said[] {
  const lines = [...storage(state), ...destinations(state, time), ...clock(state)];
  return [
    ...relayTrouble(state, time, false),
    ...cloudTrouble(state, time, false),
    ...lines.flatMap(([, mood, words]): Said[] => (mood === 'good' ? [] : [[mood, words]])),
  ];
}

function wordsOf(said: readonly Said[]): string {
  return said.map(([, words]) => words).join('; ');
}

function worst(said: readonly Said[]): Mood {
  const moods = said.map(([mood]) => mood);
  return (['bad', 'uneasy'] as const).find((mood) => moods.includes(mood)) ?? 'good';
}

function since(iso: string | null | undefined, time: ShowTime): string {
  return iso ? ` since ${time(iso)}` : '';
}

function nextTry(peer: Stated & { nextTryAt?: string | null }, time: ShowTime): string {
  return peer.nextTryAt ? `; next try ${time(peer.nextTryAt)}` : '';
}

function because(reason: string | null | undefined): string {
  return reason ? `: ${reason}` : '';
}

function quiet({ quiet }: DaemonState, time: ShowTime): StateLine[] {
  if (quiet === undefined) return [];
  const { until, why, by, known_to_cloud: isKnown } = quiet;
  if (until === null)
    return isKnown ? [] : [['quiet', 'uneasy', 'ended, but the cloud does not know it yet']];
  const who = by === null ? '' : ` (begun by ${by})`;
  const unknown = isKnown ? '' : '; the cloud does not know it yet, so people may still be told';
  return [['quiet', 'uneasy', `until ${time(until)}${because(why)}${who}${unknown}`]];
}

function relay({ relay }: DaemonState, time: ShowTime): StateLine[] {
  if (relay === undefined) return [];
  const { state, reason, name } = relay;
  if (state === 'none')
    return [['relay', 'uneasy', 'none is configured (FIELDPOST_RELAY): messages are held']];
  const rate = rateLine(relay.rate, time);
  if (state === 'unknown' && !reason)
    return [['relay', 'good', `${name ? `${name}, ` : ''}not tried yet`], ...rate];
  if (state === 'unknown') return [['relay', 'uneasy', `has taken nothing yet: ${reason}`], ...rate];
  // A reason names the relays.
  const which = name && !reason ? `${name}, ` : '';
  const words = `${which}${state}${since(relay.since, time)}${because(reason)}${nextTry(relay, time)}`;
  return [['relay', state === 'ok' ? 'good' : 'uneasy', words], ...rate];
}

function rateLine(rate: NonNullable<DaemonState['relay']>['rate'], time: ShowTime): StateLine[] {
  if (!rate) return [];
  const used = rate.used.map(({ limit, windowMs, sent }) => {
    const left = limit - sent;
    const kept = left > 0 && left <= keptForUrgent(limit) ? ` (the other ${left} for urgent mails)` : '';
    return `${sent} of ${limit} in ${span(windowMs)}${kept}`;
  });
  const next = rate.nextAt ? `; the next may go at ${time(rate.nextAt)}` : '';
  return [['', 'good', `rate: ${used.join(', ')}${next}`]];
}

function lastMail({ relay, clock }: DaemonState): StateLine[] {
  if (!relay?.lastSentAt) return [];
  const agoMs = Date.parse(clock?.now ?? '') - Date.parse(relay.lastSentAt);
  return agoMs >= 0 ? [['', 'good', `last mail sent ${span(agoMs)} ago`]] : [];
}

function queue({ queue }: DaemonState, isPage: boolean): StateLine[] {
  if (queue === undefined) return [];
  const { sending, deferred, failed, used, limits } = queue;
  const waiting = queue.queued + sending + deferred;
  const detail = [
    sending > 0 ? `${sending} being sent` : '',
    deferred > 0 ? `${deferred} deferred` : '',
    waiting > 0 ? `the oldest for ${span(queue.oldestAgeMs)}` : '',
  ].filter((part) => part !== '');
  const words = waiting === 0 ? 'empty' : `${counted(waiting, 'message')} waiting (${detail.join(', ')})`;
  const lines: StateLine[] = [['queue', 'good', `${words}, ${bytesInWords(queue.bytes)} on disk`]];
  if (used && limits && !isPage)
    lines.push(['', queue.full ? 'bad' : 'good', `room: ${roomWords(used, limits)}`]);
  if (queue.full) lines.push(['', 'bad', `full, ${refusedWords(queue)}${because(queue.reason)}`]);
  const release = isPage ? '' : ': fieldpost queue release ends it';
  if (queue.held) lines.push(['', 'uneasy', `delivery is on hold${release}`]);
  if (failed > 0) {
    const why = isPage ? '' : ': fieldpost queue list --status failed tells why';
    lines.push(['', 'uneasy', `${counted(failed, 'message')} failed${why}`]);
  }
  return lines;
}

/** Who is refused by a full queue: a part of it is kept for urgent messages. */
function refusedWords({ used, limits }: NonNullable<DaemonState['queue']>): string {
  const kinds = ['messages', 'bytes', 'memoryBytes'] as const;
  const hasRoom =
    used && limits && kinds.every((kind) => used[kind] < (limits[kind] ?? Number.POSITIVE_INFINITY));
  return hasRoom ? 'messages are refused, but urgent ones are still taken' : 'messages are refused';
}

function roomWords(used: QueueRoom['used'], limits: QueueRoom['limits']): string {
  const memory =
    limits.memoryBytes === null
      ? ''
      : `, ${bytesInWords(used.memoryBytes)} of ${bytesInWords(limits.memoryBytes)} of memory`;
  const disk = `${bytesInWords(used.bytes)} of ${bytesInWords(limits.bytes)} on disk`;
  return `${used.messages} of ${counted(limits.messages, 'message')}, ${disk}${memory} used`;
}

function link({ link }: DaemonState, time: ShowTime): StateLine[] {
  if (link === undefined) return [];
  const { state, lastHeartbeat, reason } = link;
  if (state === 'disabled') return [['cloud', 'good', 'none is configured']];
  const heartbeat = lastHeartbeat === null ? '' : `, last heartbeat ${time(lastHeartbeat)}`;
  const words = `${state}${since(link.since, time)}${heartbeat}${because(reason)}`;
  return [['cloud', state === 'online' ? 'good' : 'uneasy', words]];
}

function destinations({ destinations, link }: DaemonState, time: ShowTime): StateLine[] {
  if (destinations === undefined) return [];
  const { synced, lastSync, reason, hidden = 0 } = destinations;
  const count = counted(destinations.count, 'destination');
  if (link?.state === 'disabled') {
    if (destinations.count === 0) return [['address book', 'good', count]];
    return [['address book', 'uneasy', `${count}, but without a cloud nobody is told`]];
  }
  const last = lastSync ? ` (last synced ${time(lastSync)})` : '';
  const words = `${count}, ${synced ? '' : 'not yet '}in step with the cloud${last}${because(reason)}`;
  const lines: StateLine[] = [['address book', synced ? 'good' : 'uneasy', words]];
  if (hidden > 0)
    lines.push(['', 'uneasy', `${hidden} more in the cloud, which this version does not understand`]);
  return lines;
}

function alive({ alive }: DaemonState): StateLine[] {
  if (alive === undefined || alive.count === 0) return [];
  const { count, late } = alive;
  if (late.length === 0) return [['programs', 'good', `${counted(count, 'program')} watched`]];
  return [['programs', 'bad', `${lateWords(late)} no sign; ${count} watched`]];
}

function storage({ storage }: DaemonState): StateLine[] {
  if (storage === undefined) return [];
  const { state, reason, freeBytes, newer = [], unusable = [] } = storage;
  // Null until the store has looked for the first time.
  const free = freeBytes === null ? '' : `, ${bytesInWords(freeBytes)} free`;
  const whole = `${state}${because(reason)}${free}`;
  const lines: StateLine[] = [['storage', state === 'ok' ? 'good' : 'bad', whole]];
  // Files of a newer version count as damage, but nothing is wrong with them.
  const pieces = storage.damaged - newer.length;
  if (pieces > 0) {
    const where = 'see damaged/ and names in .damaged';
    lines.push(['', 'bad', `${counted(pieces, 'piece')} of the store could not be read: ${where}`]);
  }
  if (newer.length > 0) {
    const words = `a newer version wrote ${newer.join(', ')}: put aside, because only that version can read them`;
    lines.push(['', 'bad', words]);
  }
  if (unusable.length > 0) {
    const what = 'can be neither read nor renamed: check the file system, or delete it while stopped';
    lines.push(['', 'bad', `${unusable.join(', ')} ${what}`]);
  }
  return lines;
}

function clock({ clock }: DaemonState): StateLine[] {
  if (clock === undefined || clock.trusted) return [];
  return [['clock', 'uneasy', 'the time of day is not confirmed; dates shown may be wrong']];
}

function settings({ settings }: DaemonState, time: ShowTime): StateLine[] {
  if (settings === undefined || settings.state === 'ok') return [];
  const words = `${settings.state}${since(settings.since, time)}${because(settings.reason)} (the last good ones are used)`;
  return [['settings', 'bad', words]];
}
