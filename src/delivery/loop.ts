/**
 * Delivery: takes messages from the store and has them sent through the relays, at its own pace. It is woken by
 * nudges, by one timer and by its own connections becoming free, and does nothing in between. daemon.ts builds
 * it; the api nudges it; the state endpoint asks it about the relays.
 *
 * `#pump` decides, without waiting for anything, what can begin now; `#run` sends over one line for as long as
 * there is something ready, and pumps again. So nothing accepted while an attempt ends can be missed.
 */
import type { Config } from '../config.js';
import { assert } from '../errors.js';
import { STOP_SENDING_MS } from '../limits.js';
import type { Address } from '../message/address.js';
import type { Store } from '../store/store.js';
import type { Clock, Timer } from '../system/clock.js';
import type { Log } from '../system/log.js';
import type { RelayView } from '../views.js';
import { Agenda } from './agenda.js';
import { Courier, type Fate, type Load, type Render } from './courier.js';
import { Line } from './line.js';
import type { OutcomeWriter } from './outcome-writer.js';
import { chooseProbe, chooseRelay, nextRelayMs } from './relay-choice.js';
import { overallState, RelayHealth } from './relay-health.js';
import type { OpenSession } from './session.js';

/** What delivery is given. */
export interface DeliveryOptions {
  readonly store: Store;
  readonly writer: OutcomeWriter;
  readonly config: Pick<
    Config,
    'relays' | 'relayConnections' | 'backoffMinMs' | 'backoffMaxMs' | 'retryMinMs' | 'retryMaxMs' | 'maxAgeMs'
  >;
  /** Rejects with SessionError. */
  readonly open: OpenSession;
  readonly render: Render;
  /** The present sender, for mails that are not sent by that of their acceptance. */
  readonly sender: () => Address;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
}

/** The loop; idle until started. */
export class Delivery {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #agenda: Agenda;
  readonly #courier: Courier;
  readonly #writer: OutcomeWriter;
  readonly #relays: readonly RelayHealth[];
  readonly #lines: readonly Line[];
  /** Tries relays that fail while another works, so that no mail waits for them on the lines. */
  readonly #scout: Line;
  readonly #startedMs: number;
  #mode: 'idle' | 'running' | 'stopping' = 'idle';
  #timer: Timer | null = null;
  #timerMs = 0;
  /** Lines on their way to a relay, each of which will pick a message. */
  #connecting = 0;
  readonly #sending = new Set<Promise<void>>();

  constructor(options: DeliveryOptions) {
    const { store, config, clock, open, random, log } = options;
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#startedMs = clock.bootMs();
    // Only emails go through a relay.
    this.#agenda = new Agenda(store, clock, ({ type }) => type === 1);
    this.#courier = new Courier(options);
    this.#writer = options.writer;
    this.#relays = config.relays.map((relay) => new RelayHealth(relay, { config, clock, random, log }));
    this.#lines = Array.from({ length: config.relayConnections }, () => new Line(open, clock));
    this.#scout = new Line(open, clock);
  }

  start(): void {
    assert(this.#mode === 'idle');
    this.#mode = 'running';
    this.#pump();
  }

  /** Something may be there to send: after an accept, retry, flush, hold or release. Cheap at any rate. */
  nudge(): void {
    this.#agenda.review();
    if (this.#writer.isWaiting) void this.#writer.tryAgain();
    else this.#pump();
  }

  /** The store has deferred it. */
  deferred(id: string): void {
    this.#agenda.deferred(id);
  }

  /** There is room again for what becomes of messages. */
  relieved(): void {
    this.#pump();
  }

  /** The network is back, or a person wants it so: failing relays are tried at once. */
  wake(): void {
    for (const health of this.#relays) health.wake();
    this.nudge();
  }

  /** Finishes what is being sent, for at most STOP_SENDING_MS, and closes the connections. */
  async stop(): Promise<void> {
    this.#mode = 'stopping';
    this.#courier.stopping();
    this.#disarm();
    let timer: Timer | undefined;
    const patience = new Promise<void>((done) => {
      timer = this.#clock.after(STOP_SENDING_MS, done);
    });
    await Promise.race([Promise.all(this.#sending), patience]);
    timer?.stop();
    this.#courier.abandon();
    await Promise.all([...this.#lines, this.#scout].map((line) => line.close()));
    await Promise.all(this.#sending);
  }

  relayState(): RelayView {
    const sinceStartMs = this.#clock.bootMs() - this.#startedMs;
    return overallState(this.#relays, this.#clock.wallMs() - sinceStartMs);
  }

  #mayTake(): boolean {
    return this.#mode === 'running' && !this.#store.held && !this.#writer.isStuck;
  }

  /** Begins all that can begin now, and sets the timer for what can begin later. */
  #pump(): void {
    this.#setTimer(this.#beginAll());
  }

  /** Begins what can begin, and tells when, on the boot's clock, there may be more; Infinity: not by itself. */
  #beginAll(): number {
    this.#beginProbe();
    while (this.#mayTake()) {
      const health = chooseRelay(this.#relays);
      if (health === null) return nextRelayMs(this.#relays);
      const line = this.#freeLine(health);
      // Each line asks again when it has picked a message, and when it is free.
      if (line === undefined) break;
      const ready = this.#agenda.ready();
      if (ready === 0 && this.#connecting === 0) return this.#agenda.nextMs;
      if (ready <= this.#connecting || !this.#writer.mayOffer()) break;
      void this.#run(line, health);
    }
    return Number.POSITIVE_INFINITY;
  }

  #beginProbe(): void {
    if (this.#scout.isBusy || !this.#mayTake()) return;
    const health = chooseProbe(this.#relays);
    if (health === null || this.#agenda.ready() <= this.#connecting || !this.#writer.mayOffer()) return;
    void this.#run(this.#scout, health);
  }

  #freeLine({ relay }: RelayHealth): Line | undefined {
    const free = this.#lines.filter(({ isBusy }) => !isBusy);
    return free.find((line) => line.isOpenTo(relay)) ?? free[0];
  }

  /** One line at work: a session, and one message after another. */
  async #run(line: Line, health: RelayHealth): Promise<void> {
    const isProbe = health.begin();
    const isScout = line === this.#scout;
    // No message is kept from the others for a relay that may not even let us in.
    const isCounted = !isScout || health.isReached;
    line.isBusy = true;
    if (isCounted) this.#connecting++;
    const isReached = await this.#courier.reach(line, health);
    if (isCounted) this.#connecting--;
    if (!isReached) this.#missed();
    else {
      health.reached();
      const sending = this.#sendAll(line, health, isProbe);
      this.#sending.add(sending);
      await sending;
      this.#sending.delete(sending);
    }
    if (isProbe) health.endProbe();
    // The lines take over, and no relay has more connections than are allowed.
    if (isScout) await line.close();
    line.isBusy = false;
    this.#pump();
    if (this.#mode !== 'running') void line.close();
    else if (!line.isBusy) line.rest();
  }

  /**
   * While one message is on its way the next is made ready, and a relay that pipelines is told of it together with
   * the end of the one before: so each costs one round trip.
   */
  async #sendAll(line: Line, health: RelayHealth, isProbe: boolean): Promise<void> {
    let load = await this.#load(health, isProbe);
    let recorded = Promise.resolve();
    for (let isFirst = true; load !== null; isFirst = false) {
      const next = this.#mayLookAhead(line, health, load) ? await this.#load(health, false) : null;
      // What was sent is written down before more is: a killed process sends one message twice at most.
      await recorded;
      if (!this.#mayTake() || !(isFirst || line.isOpenTo(health.relay))) {
        if (next !== null) this.#putBack(next);
        this.#putBack(load);
        await line.close();
        return;
      }
      const before = health.state;
      const fate = await this.#courier.offer(line, health, load, next);
      if (before === 'failing' && health.state === 'ok') this.#agenda.letBack();
      recorded = this.#conclude(line, health, load, fate);
      load = next;
    }
    await recorded;
  }

  /** Claims the next message that can be read; null if there is none, or none may be sent. */
  async #load({ name: relay }: RelayHealth, isProbe: boolean): Promise<Load | null> {
    while (this.#mayTake() && this.#agenda.ready() > 0 && this.#writer.mayOffer()) {
      const message = this.#agenda.claim(isProbe);
      if (message === null) break;
      // There may be work for the other lines, which counted on us to take it.
      this.#pump();
      const load = await this.#courier.load(message);
      if (!('kind' in load)) return load;
      await this.#writer.record({ id: message.id, verdict: load, relay });
    }
    return null;
  }

  /** What is long on its way, or may turn out ill, keeps no other message waiting; and each line gets its share. */
  #mayLookAhead(line: Line, { state }: RelayHealth, { content }: Load): boolean {
    const ahead = state === 'ok' && line.takesAhead && Buffer.isBuffer(content);
    return ahead && this.#agenda.ready() > this.#connecting;
  }

  async #conclude(line: Line, health: RelayHealth, load: Load, fate: Fate): Promise<void> {
    const { id } = load.message;
    if (fate.kind === 'unoffered') {
      this.#putBack(load);
      await line.close();
    } else if (fate.kind === 'behind') {
      this.#store.giveBack(id);
      this.#agenda.putBehind(load.message, fate.isOutage);
      if (fate.isNews) this.#log.info('put behind', { id, relay: health.name, reply: fate.reply });
      if (!fate.isOutage) return;
      this.#missed();
      // The next try introduces us anew: our name or the login may have been mended.
      await line.close();
    } else await this.#writer.record({ id, verdict: fate, relay: health.name });
  }

  /** Nothing has happened to it: it is the next of its kind again. */
  #putBack({ message }: Load): void {
    this.#store.giveBack(message.id);
    this.#agenda.putBack(message);
  }

  /** A relay was of no use; unless another is, this time does not count. */
  #missed(): void {
    if (this.#relays.every(({ state }) => state === 'failing')) this.#courier.missed();
  }

  /** The one timer of an idle loop. Infinity: none. */
  #setTimer(whenMs: number): void {
    if (this.#timer !== null && whenMs === this.#timerMs) return;
    this.#disarm();
    if (whenMs === Number.POSITIVE_INFINITY) return;
    this.#timerMs = whenMs;
    this.#timer = this.#clock.after(Math.max(1, whenMs - this.#clock.bootMs()), () => {
      this.#timer = null;
      this.#pump();
    });
  }

  #disarm(): void {
    this.#timer?.stop();
    this.#timer = null;
  }
}
