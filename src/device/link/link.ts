/**
 * The link to the cloud: sends heartbeats, derives the state of the link from their results, and reports when it is back.
 */
import { assert } from '../../base/errors.js';
import {
  CLOUD_CLOCK_MS,
  CLOUD_CONTRADICTS_MS,
  GOODBYE_TIMEOUT_MS,
  LINK_HISTORY_MAX,
} from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import { isPlausible, startMsOf } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import type { LinkPeriod, LinkView } from '../../base/views.js';
import { type CloudClient, CloudError, type HeartbeatAnswer, type HeartbeatReport } from './client.js';
import {
  commonMs,
  firstState,
  intervalMs,
  type LinkEvent,
  type LinkSettings,
  type LinkState,
  overdueMs,
  step,
} from './link-state.js';

/** The parts that the link uses. */
export interface LinkOptions {
  readonly client: Pick<CloudClient, 'heartbeat'>;
  readonly config: LinkSettings;
  /** The state of the device now. */
  readonly report: () => Pick<HeartbeatReport, 'queue' | 'version' | 'relay'>;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
}

/** The functions that the link calls. */
export interface LinkListeners {
  readonly online: () => void;
  /** The ETag of the destinations document in the answer to each good heartbeat; null: there is none. */
  readonly destinations: (etag: string | null) => void;
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
  #beating: Promise<void> | null = null;
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

  /** Aborts the heartbeat under way. Then sends `goodbye`, for at most GOODBYE_TIMEOUT_MS, unless the link is offline. */
  async stop(goodbye: 'stopping' | 'moved' = 'stopping'): Promise<void> {
    this.#stopped.abort();
    this.#alarm.end();
    // The cloud may have heard the first heartbeat although it was aborted.
    const isFirst = this.#beating !== null && this.#sequence === 1;
    await this.#beating;
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
      history: this.#history.map((period) => ({ ...period, sinceMs: startMs + period.sinceMs })),
    };
  }

  /** Starts the heartbeat that is due, and sets the alarm for the next moment. */
  #goOn(): void {
    if (this.#stopped.signal.aborted) return;
    const isDue = this.#options.clock.bootMs() >= this.#state.nextMs;
    if (this.#beating === null && isDue) this.#beating = this.#beat();
    const nextMs = this.#beating === null ? this.#state.nextMs : Number.POSITIVE_INFINITY;
    this.#alarm.at(Math.min(nextMs, overdueMs(this.#state)));
  }

  /** One heartbeat, and what follows from its result. */
  async #beat(): Promise<void> {
    const { client, clock } = this.#options;
    const begunMs = clock.bootMs();
    let event: LinkEvent;
    let answer: HeartbeatAnswer = {};
    try {
      answer = await client.heartbeat(this.#report('running'), this.#stopped.signal);
      this.#lastMs = clock.bootMs();
      this.#askedMs = answer.heartbeatMs ?? 0;
      this.#compareClocks(answer, this.#lastMs - begunMs);
      event = { kind: 'good', ...answer };
    } catch (error) {
      if (!(error instanceof CloudError)) throw error;
      const { message: reason, retryAfterMs } = error;
      event = { kind: 'failed', reason, ...(retryAfterMs !== null && { retryAfterMs }) };
    }
    this.#beating = null;
    if (this.#stopped.signal.aborted) return;
    this.#happen(event);
    if (this.#isWanted) this.wake();
    if (event.kind === 'good') this.#listeners?.destinations(answer.destinations ?? null);
  }

  #report(state: HeartbeatReport['state']): HeartbeatReport {
    const { clock, config, report } = this.#options;
    return {
      bootId: clock.boot,
      sequence: ++this.#sequence,
      uptimeMs: clock.bootMs(),
      state,
      intervalMs: intervalMs(config, this.#askedMs),
      link: this.#state.mode,
      ...report(),
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

  /** The one place in which the link's state changes. */
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
    const { client, clock } = this.#options;
    const control = new AbortController();
    const patience = clock.after(GOODBYE_TIMEOUT_MS, () => control.abort());
    try {
      await client.heartbeat(this.#report(state), control.signal);
    } catch (error) {
      // The cloud will notice the silence a little later.
      if (!(error instanceof CloudError)) throw error;
    }
    patience.stop();
  }
}
