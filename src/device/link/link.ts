/**
 * The link to the cloud: sends heartbeats, derives the state of the link from their results, and reports when it is back.
 *
 *     state        a good heartbeat   a failed one             30 s after it began
 *     connecting   online             the third: offline       offline
 *     online       online             unsteady
 *     unsteady     online             the third: offline       offline
 *     offline      online             offline
 *
 * One failed heartbeat can always be lost, so it only makes the link unsteady. `connecting` is unsteady before it was ever
 * online. step() is the table, and #happen() is the one place that changes the state.
 */
import { assert } from '../../base/errors.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import { type Pauses, patienceMs, pauseMs, spread, startsAnew } from '../../base/retry/backoff.js';
import { CloudError } from '../../base/retry/call-error.js';
import { isPlausible, startMsOf } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import type { LinkMode, LinkPeriod, LinkView } from '../../base/views.js';
import type { CloudClient, HeartbeatAnswer, HeartbeatReport } from './client.js';

/** A fleet spreads its first heartbeats after a boot, and its retries after a failed one, over this long. */
export const LINK_SPREAD_MS = 25 * SECOND_MS;
/** A power cut may boot a whole fleet in one second: for this long after a boot heartbeats are spread. */
export const COMMON_BOOT_MS = 5 * MINUTE_MS;
/** The link is `offline` after this many failed heartbeats in a row, or this long after the first of them. */
const OFFLINE_FAILURES = 3;
export const OFFLINE_AFTER_MS = 30 * SECOND_MS;
const LINK_HISTORY_MAX = 100;
/** A clean stop waits at most this long for the goodbye to the cloud. */
const GOODBYE_TIMEOUT_MS = 3 * SECOND_MS;
/** The longest interval of heartbeats that a cloud may ask for. */
const HEARTBEAT_MS_MAX = HOUR_MS;
/** The wall clock counts as right if the cloud's differs by at most this plus the call's duration; as wrong from the other. */
const CLOUD_CLOCK_MS = 5 * SECOND_MS;
const CLOUD_CONTRADICTS_MS = 30 * DAY_MS;

/** All moments are on the boot's clock. */
export interface LinkState {
  readonly mode: LinkMode;
  readonly sinceMs: number;
  /** Why it is not online; null when it is, and before anything is known. */
  readonly reason: string | null;
  /** Failed heartbeats in a row. */
  readonly failures: number;
  /** Pauses of the back-off since the link was last good for a while. */
  readonly pauses: number;
  readonly nextMs: number;
  /** The end of the cloud's Retry-After. */
  readonly notBeforeMs: number;
}

/** `late`: overdueMs may have come. `wake`: a heartbeat is wanted within `withinMs`. */
export type LinkEvent =
  | { readonly kind: 'good'; readonly heartbeatMs?: number; readonly retryAfterMs?: number }
  | { readonly kind: 'failed'; readonly reason: string; readonly retryAfterMs?: number }
  | { readonly kind: 'late' }
  | { readonly kind: 'wake'; readonly withinMs: number };

/** The settings of the link. */
export interface LinkSettings extends Pick<Pauses, 'backoffMinMs' | 'backoffMaxMs'> {
  readonly heartbeatMs: number;
}

/** What the cloud must hear once, in the next heartbeat that arrives. */
export interface Untold {
  readonly members: Pick<HeartbeatReport, 'quietMs' | 'why'>;
  /** The cloud has answered a heartbeat with these members. */
  heard(): void;
}

/** The parts that the link uses. */
export interface LinkOptions {
  readonly client: Pick<CloudClient, 'heartbeat'>;
  readonly config: LinkSettings;
  /** The state of the device now. */
  readonly report: () => Pick<HeartbeatReport, 'queue' | 'version' | 'relay' | 'late'>;
  /** Asked before each heartbeat; null: the cloud has heard all. */
  readonly untold?: () => Untold | null;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
}

/** The functions that the link calls. */
interface LinkListeners {
  readonly online: () => void;
  /** The ETag of the destinations document in the answer to each good heartbeat; null: there is none. */
  readonly destinations: (etag: string | null) => void;
}

/** A heartbeat under way. */
interface Beat {
  /** Resolves with why it failed; null: the cloud has heard it. */
  readonly done: Promise<string | null>;
  /** It has a last word, which no other heartbeat has. */
  readonly hasWord: boolean;
  readonly control: AbortController;
  /** The one for which it was given up. */
  next?: Beat;
}

/** Idle until started; one heartbeat at a time. */
export class Link {
  readonly #options: LinkOptions;
  /** Ended states, the latest first; `sinceMs` on the boot's clock. */
  readonly #history: LinkPeriod[] = [];
  readonly #stopped = new AbortController();
  #listeners: LinkListeners | null = null;
  #state: LinkState;
  #lastMs: number | null = null;
  #sequence = 0;
  /** The interval that the cloud asks for; 0: it has not asked. */
  #askedMs = 0;
  #beating: Beat | null = null;
  /** The time zone of the cloud; null: not known. */
  #zone: string | null = null;
  readonly #alarm: Alarm;
  /** wake() was called during a heartbeat that may have begun before the network was back. */
  #isWanted = false;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock, () => this.#happen({ kind: 'late' }));
    this.#state = firstState(options.clock.bootMs(), commonMs(options), options.random());
  }

  start(listeners: LinkListeners): void {
    assert(this.#listeners === null);
    this.#listeners = listeners;
    this.#goOn();
  }

  get isOnline(): boolean {
    return this.#state.mode === 'online';
  }

  /** Tries without the pause of the back-off: a person asked for it, or the network has changed. */
  wake(): void {
    this.#isWanted = this.#beating !== null;
    this.#happen({ kind: 'wake', withinMs: commonMs(this.#options) });
  }

  /**
   * Sends a heartbeat at once, with `word` as the last word, whatever the back-off says. Resolves with why it failed;
   * null: the cloud has heard it. The heartbeat under way may hang on a dead connection, so it is given up for this one,
   * which says the same and more.
   */
  async sayNow(word?: string): Promise<string | null> {
    const { signal: stopped } = this.#stopped;
    while (!stopped.aborted && this.#beating?.hasWord) await this.#beating.done;
    if (stopped.aborted || this.#listeners === null) return 'the daemon is starting or stopping';
    const former = this.#beating;
    let beat = this.#begin(word);
    if (former !== null) former.next = beat;
    former?.control.abort();
    this.#goOn();
    for (;;) {
      const failed = await beat.done;
      if (failed === null || beat.next === undefined) return failed;
      beat = beat.next;
    }
  }

  /** Aborts the heartbeat under way. Then sends `goodbye`, for at most GOODBYE_TIMEOUT_MS, unless the link is offline. */
  async stop(goodbye: 'stopping' | 'moved' = 'stopping'): Promise<void> {
    this.#stopped.abort();
    this.#beating?.control.abort();
    this.#alarm.end();
    // The cloud may have heard the first heartbeat although it was aborted.
    const isFirst = this.#beating !== null && this.#sequence === 1;
    await this.#beating?.done;
    const { mode } = this.#state;
    if (mode === 'online' || mode === 'unsteady' || isFirst) await this.#sayGoodbye(goodbye);
  }

  view(): LinkView {
    const { mode, sinceMs, reason } = this.#state;
    const { clock } = this.#options;
    const startMs = startMsOf(clock);
    return {
      state: mode,
      sinceMs: startMs + sinceMs,
      lastHeartbeatMs: this.#lastMs === null ? null : startMs + this.#lastMs,
      reason,
      ...(this.#zone !== null && { zone: this.#zone }),
      history: this.#history.map((period) => ({ ...period, sinceMs: startMs + period.sinceMs })),
    };
  }

  /** Starts the heartbeat that is due, and sets the alarm for the next moment. */
  #goOn(): void {
    if (this.#stopped.signal.aborted) return;
    const isDue = this.#options.clock.bootMs() >= this.#state.nextMs;
    if (this.#beating === null && isDue) this.#begin();
    const nextMs = this.#beating === null ? this.#state.nextMs : Number.POSITIVE_INFINITY;
    this.#alarm.at(Math.min(nextMs, overdueMs(this.#state)));
  }

  #begin(word?: string): Beat {
    const control = new AbortController();
    const done = this.#beat(control.signal, word);
    this.#beating = { done, control, hasWord: word !== undefined };
    return this.#beating;
  }

  /** One heartbeat, and what follows from its result. */
  async #beat(signal: AbortSignal, word?: string): Promise<string | null> {
    const { client, clock, untold } = this.#options;
    const begunMs = clock.bootMs();
    const told = untold?.() ?? null;
    let event: LinkEvent;
    let answer: HeartbeatAnswer = {};
    try {
      const report = { ...this.#report('running', told), ...(word !== undefined && { last: word }) };
      answer = await client.heartbeat(report, signal);
      this.#lastMs = clock.bootMs();
      this.#askedMs = answer.heartbeatMs ?? 0;
      this.#zone = answer.zone ?? null;
      this.#compareClocks(answer, this.#lastMs - begunMs);
      told?.heard();
      event = { kind: 'good', ...answer };
    } catch (error) {
      if (!(error instanceof CloudError)) throw error;
      const { message: reason, retryAfterMs } = error;
      event = { kind: 'failed', reason, ...(retryAfterMs !== null && { retryAfterMs }) };
    }
    const failed = event.kind === 'failed' ? event.reason : null;
    // Another heartbeat has taken its place, or the link stops.
    if (signal.aborted) return failed;
    this.#beating = null;
    this.#happen(event);
    if (this.#isWanted) this.wake();
    if (event.kind === 'good') this.#listeners?.destinations(answer.destinations ?? null);
    return failed;
  }

  #report(state: HeartbeatReport['state'], told: Untold | null): HeartbeatReport {
    const { clock, config, report } = this.#options;
    return {
      bootId: clock.boot,
      sequence: ++this.#sequence,
      uptimeMs: clock.bootMs(),
      state,
      intervalMs: intervalMs(config, this.#askedMs),
      link: this.#state.mode,
      ...report(),
      ...told?.members,
    };
  }

  /** Compares the wall clock with the cloud's: one that agrees is right, one that is weeks away is wrong. */
  #compareClocks({ serverTimeMs }: HeartbeatAnswer, tookMs: number): void {
    const { clock } = this.#options;
    // A cloud whose own clock shows 1970 proves nothing.
    if (serverTimeMs === undefined || !isPlausible(serverTimeMs)) return;
    const apartMs = Math.abs(clock.wallMs() - serverTimeMs);
    if (apartMs <= CLOUD_CLOCK_MS + tookMs) clock.confirm();
    else if (apartMs >= CLOUD_CONTRADICTS_MS && clock.trust() !== 'wrong') clock.doubt();
  }

  #happen(event: LinkEvent): void {
    const { clock, random, config } = this.#options;
    const former = this.#state;
    this.#state = step(former, event, clock.bootMs(), random(), config);
    const hasChanged = this.#state.mode !== former.mode;
    if (hasChanged) this.#tell(former);
    this.#goOn();
    if (hasChanged && this.isOnline) this.#listeners?.online();
  }

  /** Adds the former state to the history, and logs the change. */
  #tell({ mode: before, sinceMs, reason: formerReason }: LinkState): void {
    const { log } = this.#options;
    const { mode, reason } = this.#state;
    const durationMs = this.#state.sinceMs - sinceMs;
    this.#history.unshift({ state: before, sinceMs, durationMs, reason: formerReason });
    this.#history.length = Math.min(this.#history.length, LINK_HISTORY_MAX);
    const fields = { before, lastedMs: durationMs, reason };
    if (mode === 'online') log.info('link online', fields);
    else if (mode === 'unsteady') log.info('link unsteady', fields);
    else log.warn('link offline', fields);
  }

  async #sayGoodbye(state: HeartbeatReport['state']): Promise<void> {
    const { client, clock, untold } = this.#options;
    const control = new AbortController();
    const patience = clock.after(GOODBYE_TIMEOUT_MS, () => control.abort());
    const told = untold?.() ?? null;
    try {
      await client.heartbeat(this.#report(state, told), control.signal);
      told?.heard();
    } catch (error) {
      // The cloud will notice the silence a little later.
      if (!(error instanceof CloudError)) throw error;
    }
    patience.stop();
  }
}

/**
 * The link at its start: the first heartbeat is due at a random moment within `withinMs`, because a power cut starts all
 * devices of a region in the same second. `random` is in [0, 1).
 */
export function firstState(nowMs: number, withinMs: number, random: number): LinkState {
  return {
    mode: 'connecting',
    sinceMs: nowMs,
    reason: null,
    failures: 0,
    pauses: 0,
    nextMs: nowMs + Math.floor(withinMs * random),
    notBeforeMs: nowMs,
  };
}

/** When the link becomes offline although a heartbeat is still under way; Infinity: never. */
export function overdueMs({ mode, sinceMs }: LinkState): number {
  return mode === 'connecting' || mode === 'unsteady' ? sinceMs + OFFLINE_AFTER_MS : Number.POSITIVE_INFINITY;
}

/** The state after the event, which happened at `nowMs`. `random` is in [0, 1). */
export function step(
  state: LinkState,
  event: LinkEvent,
  nowMs: number,
  random: number,
  settings: LinkSettings,
): LinkState {
  switch (event.kind) {
    case 'good': {
      const { heartbeatMs = 0, retryAfterMs = 0 } = event;
      const notBeforeMs = nowMs + patienceMs(retryAfterMs, random);
      const nextMs = Math.max(nowMs + spread(intervalMs(settings, heartbeatMs), random), notBeforeMs);
      return { ...become(state, 'online', nowMs), reason: null, failures: 0, nextMs, notBeforeMs };
    }
    case 'failed': {
      const { reason, retryAfterMs = 0 } = event;
      const failures = state.failures + 1;
      const isOffline = state.mode === 'offline' || failures >= OFFLINE_FAILURES || nowMs >= overdueMs(state);
      const mode = isOffline ? 'offline' : state.mode === 'connecting' ? 'connecting' : 'unsteady';
      const wasGood = startsAnew(state.mode === 'online' ? state.sinceMs : null, nowMs);
      const pauses = (wasGood ? 0 : state.pauses) + (isOffline ? 1 : 0);
      // A fleet loses its cloud in one moment, but must not come back in one.
      const retryMs = pauseMs(pauses, random, { ...settings, floorMs: spreadMs(settings), leastShare: 0.5 });
      const notBeforeMs = nowMs + patienceMs(retryAfterMs, random);
      const nextMs = Math.max(nowMs + retryMs, notBeforeMs);
      return { ...become(state, mode, nowMs), reason, failures, pauses, nextMs, notBeforeMs };
    }
    case 'late':
      return nowMs < overdueMs(state) ? state : become(state, 'offline', nowMs);
    case 'wake': {
      // A heartbeat that is due soon keeps its time: a second random draw would halve the spread of a fleet.
      if (state.mode === 'online' || state.nextMs <= nowMs + event.withinMs) return state;
      const nextMs = Math.max(nowMs + Math.floor(event.withinMs * random), state.notBeforeMs);
      return { ...state, nextMs };
    }
  }
}

/** The cloud may make the interval of heartbeats longer (`askedMs`), within bounds, and never shorter. */
function intervalMs({ heartbeatMs }: LinkSettings, askedMs: number): number {
  return Math.max(heartbeatMs, Math.min(askedMs, HEARTBEAT_MS_MAX));
}

/**
 * Within how long to call the cloud first. A whole fleet may boot, or get its network, in the same second, so soon
 * after a boot the calls are spread. Later it is 0.
 */
export function commonMs({
  clock,
  config,
}: {
  readonly clock: { bootMs(): number };
  readonly config: LinkSettings;
}): number {
  return clock.bootMs() < COMMON_BOOT_MS ? spreadMs(config) : 0;
}

/** The time over which a fleet spreads its tries: shorter if the settings have short heartbeats or pauses. */
function spreadMs({ heartbeatMs, backoffMaxMs }: LinkSettings): number {
  return Math.min(LINK_SPREAD_MS, heartbeatMs, backoffMaxMs);
}

function become(state: LinkState, mode: LinkMode, nowMs: number): LinkState {
  return state.mode === mode ? state : { ...state, mode, sinceMs: nowMs };
}
