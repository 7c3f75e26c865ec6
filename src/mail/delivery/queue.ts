/**
 * The delivery loop of one transport: takes messages from the store and sends them, at its own pace. A nudge, its alarm or
 * a line that becomes free wakes it; in between it does nothing.
 *
 * | mode     | what it does                                                        | goes on to          |
 * |----------|---------------------------------------------------------------------|---------------------|
 * | idle     | nothing yet                                                         | running, by start() |
 * | running  | `#pump` begins all that can begin now, and waits for nothing        | stopping, by stop() |
 * | stopping | begins nothing; what is being sent may end within STOP_SENDING_MS   | closed              |
 * | closed   | closes the lines: a send that fails now is not the peer's fault     |                     |
 *
 * `#run` sends over one line as long as messages are ready, and pumps again. So a message that is accepted while an attempt
 * ends is not missed.
 */
import { assert } from '../../base/errors.js';
import { SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Timer } from '../../base/system/clock.js';
import type { Message, Verdict } from '../message/message.js';
import type { IsWanted } from '../store/store.js';
import { Blame, type ChargeOptions, CONFIRM_MS, deferral, type Offer, unreadable } from './blame.js';
import type { Expiry } from './expiry.js';
import type { OutcomeWriter } from './outcome-writer.js';
import { choosePeer, chooseProbe, nextPeerMs, type Peer, SLOW_OFFER_MS } from './peer.js';
import { ReadyQueue } from './ready-queue.js';
import type { Line, Load, Outcome, Transport } from './transport.js';

/** A stop waits at most this long for the message that is being sent. */
export const STOP_SENDING_MS = 10 * SECOND_MS;

/** What a queue needs. */
interface QueueOptions extends ChargeOptions {
  readonly writer: OutcomeWriter;
  readonly expiry: Expiry;
  /** Each outcome is recorded before the next message is sent. */
  readonly recordsEach?: boolean;
}

/**
 * What becomes of a message after an offer. `unoffered`: it was not tried, and is still the next. `requeued`: it moves to the
 * end, uncharged; with `isOutage` it takes its old place when the peer works again. `unconfirmed`: it is offered again soon,
 * uncharged, and its reply is recorded.
 */
type Fate =
  | Verdict
  | { readonly kind: 'unoffered' }
  | {
      readonly kind: 'requeued';
      readonly reply: string;
      readonly isOutage: boolean;
      readonly isNews: boolean;
    }
  | { readonly kind: 'unconfirmed'; readonly reply: string };

const UNOFFERED: Fate = { kind: 'unoffered' };

const MODES = ['idle', 'running', 'stopping', 'closed'] as const;
type Mode = (typeof MODES)[number];

/** The loop; idle until started. */
export class Queue<L extends Load> {
  readonly #options: QueueOptions;
  readonly #transport: Transport<L>;
  readonly #ready: ReadyQueue;
  readonly #blame: Blame;
  readonly #alarm: Alarm;
  #mode: Mode = 'idle';
  /** The lines in use, from before the session is opened until the outcome is recorded. */
  readonly #busy = new Set<Line<L>>();
  /** How many of them open a session now. Each will pick a message. */
  #connecting = 0;
  readonly #sending = new Set<Promise<void>>();

  /** `mine` tells which messages are for this transport. */
  constructor(transport: Transport<L>, mine: IsWanted, options: QueueOptions) {
    this.#options = options;
    this.#transport = transport;
    this.#ready = new ReadyQueue(options.store, options.clock, mine);
    this.#blame = new Blame(options.clock);
    this.#alarm = new Alarm(options.clock, () => this.#pump());
  }

  start(): void {
    this.#become('running');
    this.#pump();
  }

  /** Checks what may be sent now, after an accept, retry, flush, hold or release. Cheap, so it may be called often. */
  nudge(): void {
    const { writer } = this.#options;
    this.#ready.review();
    if (writer.isWaiting) void writer.tryAgain();
    else this.#pump();
  }

  /** The store has deferred the message. */
  deferred(id: string): void {
    this.#ready.deferred(id);
  }

  /** There is room again for outcomes. */
  relieved(): void {
    this.#pump();
  }

  /** Tries failing peers at once, because the network is back or a person asked for it. */
  wake(): void {
    for (const peer of this.#transport.peers) peer.wake();
    this.nudge();
  }

  /** True if a message waits only for its turn, or for a peer that works. */
  get hasReady(): boolean {
    return this.#ready.ready() > 0;
  }

  /** Finishes the messages that are being sent, within STOP_SENDING_MS, and closes the connections. */
  async stop(): Promise<void> {
    this.#become('stopping');
    this.#alarm.end();
    let timer: Timer | undefined;
    const patience = new Promise<void>((done) => {
      timer = this.#options.clock.after(STOP_SENDING_MS, done);
    });
    await Promise.race([Promise.all(this.#sending), patience]);
    timer?.stop();
    this.#become('closed');
    const { lines, scout } = this.#transport;
    await Promise.all([...lines, ...(scout ? [scout] : [])].map((line) => line.close()));
    await Promise.all(this.#sending);
  }

  /** The mode only moves forward: a second stop changes nothing. */
  #become(mode: Mode): void {
    assert(mode !== 'running' || this.#mode === 'idle', 'a queue starts once');
    if (MODES.indexOf(mode) > MODES.indexOf(this.#mode)) this.#mode = mode;
  }

  #mayTake(): boolean {
    const { store, writer } = this.#options;
    return this.#mode === 'running' && !store.held && !writer.isStuck && this.#transport.isOpen();
  }

  /** Begins all that can begin now, and sets the alarm for what can begin later. */
  #pump(): void {
    this.#alarm.at(this.#beginAll());
  }

  /** Begins what can begin, and returns the boot time at which more may begin; Infinity: only after a nudge. */
  #beginAll(): number {
    this.#beginProbe();
    const urgentMs = this.#beginUrgent();
    while (this.#mayTake()) {
      const peers = this.#peers();
      const peer = choosePeer(peers);
      if (peer === null) return Math.min(nextPeerMs(peers), this.#leftOutMs(peers), urgentMs);
      const line = this.#freeLine(peer);
      // Each line pumps again when it has picked a message, and when it is free.
      if (line === undefined) return urgentMs;
      const ready = this.#ready.ready();
      if (ready === 0 && this.#connecting === 0) return this.#ready.nextMs;
      if (ready <= this.#connecting || !this.#options.writer.mayOffer()) break;
      const heldMs = this.#heldBackMs(peer);
      if (heldMs > 0) {
        this.#transport.missed();
        return Math.min(this.#options.clock.bootMs() + heldMs, this.#ready.urgentNextMs, urgentMs);
      }
      void this.#run(line, peer);
    }
    return Number.POSITIVE_INFINITY;
  }

  /** A peer that is down and may get nothing now must not keep others from being tried: it is left out if there are any. */
  #peers(): readonly Peer[] {
    const { peers, rate } = this.#transport;
    if (rate === null) return peers;
    const usable = peers.filter((peer) => !peer.isDown || this.#heldBackMs(peer) === 0);
    return usable.length > 0 ? usable : peers;
  }

  /** Boot time at which a peer that is left out of these may get a message; Infinity if none is. */
  #leftOutMs(peers: readonly Peer[]): number {
    const out = this.#transport.peers.filter((peer) => !peers.includes(peer));
    return this.#options.clock.bootMs() + Math.min(...out.map((peer) => this.#heldBackMs(peer)));
  }

  /** How long the rate of the peer keeps back the message that a further line would take; 0: not at all. */
  #heldBackMs({ name }: Peer): number {
    const { rate } = this.#transport;
    if (rate === null) return 0;
    return rate.waitMs(name, this.#ready.urgentReady > this.#connecting, this.#connecting);
  }

  /** A line that is not busy, if possible one with an open session to the peer. */
  #freeLine(peer: Peer): Line<L> | undefined {
    const free = this.#transport.lines.filter((line) => !this.#busy.has(line));
    return free.find((line) => line.isOpenTo(peer)) ?? free[0];
  }

  #beginProbe(): void {
    const { scout } = this.#transport;
    if (scout === null || this.#busy.has(scout) || !this.#mayTake()) return;
    const peer = chooseProbe(this.#peers());
    if (peer === null || this.#ready.ready() <= this.#connecting || !this.#options.writer.mayOffer()) return;
    if (this.#heldBackMs(peer) > 0) return;
    void this.#run(scout, peer);
  }

  /**
   * An urgent message does not wait behind others that are under way for long: it gets one further connection. Returns the
   * boot time at which that may be so.
   */
  #beginUrgent(): number {
    const { scout, lines, peers } = this.#transport;
    const peer = peers.find(({ isDown }) => !isDown);
    if (scout === null || peer === undefined || !this.#mayTake() || this.#ready.urgentReady === 0)
      return Number.POSITIVE_INFINITY;
    const { offeredSinceMs } = peer;
    const isFree = !this.#busy.has(scout) && this.#options.writer.mayOffer();
    if (offeredSinceMs === null || !isFree || !lines.every((line) => this.#busy.has(line)))
      return Number.POSITIVE_INFINITY;
    const dueMs = offeredSinceMs + SLOW_OFFER_MS;
    if (this.#options.clock.bootMs() < dueMs) return dueMs;
    if (this.#heldBackMs(peer) > 0) return Number.POSITIVE_INFINITY;
    void this.#run(scout, peer, true);
    return Number.POSITIVE_INFINITY;
  }

  /** Uses one line: opens a session, and sends one message after another. */
  async #run(line: Line<L>, peer: Peer, isUrgent = false): Promise<void> {
    const isProbe = peer.begin();
    const isScout = line === this.#transport.scout;
    // A scout counts only if its peer was reached since its last failure. Else a message would wait for a peer that is down.
    const isCounted = !isScout || peer.isReached;
    this.#busy.add(line);
    if (isCounted) this.#connecting++;
    const reason = await line.open(peer);
    if (isCounted) this.#connecting--;
    if (reason !== null) {
      // A queue that has stopped leaves the peer's state alone: after a reload another queue uses the relay.
      if (this.#mode === 'running') peer.failed(reason);
      this.#missed();
    } else {
      peer.isReached = true;
      const sending = this.#sendAll(line, peer, isProbe, isUrgent);
      this.#sending.add(sending);
      await sending;
      this.#sending.delete(sending);
    }
    if (isProbe) peer.endProbe();
    // The other lines take over, so that no peer has more connections than are allowed.
    if (isScout) await line.close();
    this.#busy.delete(line);
    this.#pump();
    if (this.#mode !== 'running') void line.close();
    else if (!this.#busy.has(line)) line.rest();
  }

  /**
   * While one message is sent, the next is loaded. With PIPELINING its commands go out together with the final dot: one
   * round trip a message. While a `sent` is recorded, the next message is sent, which saves a third of the time. So a
   * killed process sends two messages twice at most; one if `recordsEach`.
   */
  async #sendAll(line: Line<L>, peer: Peer, isProbe: boolean, isUrgent: boolean): Promise<void> {
    let load = await this.#load(peer, isProbe, isUrgent);
    let [recorded, recordedBefore] = [Promise.resolve(), Promise.resolve()];
    for (let isFirst = true; load !== null; isFirst = false) {
      const next = this.#mayLookAhead(line, peer, load) ? await this.#load(peer, false, isUrgent) : null;
      await recordedBefore;
      if (!this.#mayTake() || !(isFirst || line.isOpenTo(peer))) {
        if (next !== null) this.#putBack(next, peer);
        this.#putBack(load, peer);
        await line.close();
        break;
      }
      const wasDown = peer.isDown;
      // Q3: the offer.
      const afterRefusals = this.#blame.refusals(peer);
      const offer = line.offer(load, next).finally(peer.offering());
      // An urgent message that is ready now must not wait for its end.
      if (this.#ready.urgentReady > 0) this.#pump();
      const outcome = await offer;
      if (outcome?.isDoubtful) this.#transport.rate?.doubted(peer.name);
      const hasOthers = next !== null || this.hasReady || this.#busy.size > 1;
      const fate = this.#judge(peer, load, outcome, { hasOthers, afterRefusals });
      if (wasDown && !peer.isDown) this.#ready.endOutage();
      recordedBefore = recorded;
      recorded = this.#conclude(line, peer, load, fate);
      // After a refusal the session may end, or the writer be stuck.
      if (fate.kind !== 'sent' || this.#options.recordsEach) await recorded;
      load = next;
    }
    await Promise.all([recordedBefore, recorded]);
  }

  /** Claims the next message that can be read and is not too old; null if there is none, or none may be sent. */
  async #load({ name: relay }: Peer, isProbe: boolean, isUrgent: boolean): Promise<L | null> {
    const { writer, expiry } = this.#options;
    const { rate } = this.#transport;
    while (this.#mayTake() && writer.mayOffer()) {
      // What is left of the rate may be kept for urgent ones.
      const onlyUrgent = isUrgent || (rate !== null && rate.waitMs(relay, false) > 0);
      if ((onlyUrgent ? this.#ready.urgentReady : this.#ready.ready()) === 0) break;
      if (rate !== null && rate.waitMs(relay, true) > 0) break;
      const message = this.#ready.claim(isProbe, onlyUrgent);
      if (message === null) break;
      rate?.begin(relay);
      // The other lines left this message to us: there may be more for them.
      this.#pump();
      const found = expiry.isOver(message, false) ? expiry.verdictOn(message) : await this.#loaded(message);
      if (!('kind' in found)) return found;
      rate?.end(relay);
      await writer.record({ id: message.id, verdict: found, relay });
    }
    return null;
  }

  /** Loads a claimed message, or returns the verdict on it if it cannot be read. */
  async #loaded(message: Message): Promise<L | Verdict> {
    try {
      return await this.#transport.load(message);
    } catch (error) {
      return unreadable(message, error, this.#options);
    }
  }

  /**
   * Look ahead only with a peer that works, and only if more messages are ready than lines are connecting. An urgent
   * message is not bound to the message before it, whose reply may not come.
   */
  #mayLookAhead(line: Line<L>, { state }: Peer, load: L): boolean {
    const { urgentReady } = this.#ready;
    return (
      state === 'ok' && urgentReady === 0 && line.takesAhead(load) && this.#ready.ready() > this.#connecting
    );
  }

  /** Decides what becomes of an offered message. */
  #judge(peer: Peer, { message }: L, outcome: Outcome | null, offer: Offer): Fate {
    if (outcome === null) return UNOFFERED;
    const { kind, suspect, reply, retryAfterMs } = outcome;
    if (this.#mode === 'closed' && kind !== 'sent') {
      this.#options.log.warn('send abandoned', { id: message.id, reply });
      return UNOFFERED;
    }
    const judgement = this.#blame.judge(peer, message.id, outcome, offer);
    if (outcome.unreadable !== undefined) return unreadable(message, outcome.unreadable, this.#options);
    if (kind !== 'deferred') return { kind, reply };
    if (judgement === 'failed') return { kind: 'failed', reply };
    if (this.#options.expiry.isOver(message, true)) return { kind: 'expired', reply };
    if (judgement === 'charged') {
      const deferred = deferral(message, reply, this.#options);
      // Wait longer than the pause that the peer asks for, so that other messages are sent in between.
      const pauseMs = retryAfterMs > 0 ? peer.readyMs - this.#options.clock.bootMs() : 0;
      return { ...deferred, delayMs: pauseMs + deferred.delayMs };
    }
    if (judgement === 'unconfirmed') return { kind: judgement, reply };
    const isNews = suspect === 'either' || peer.isNews();
    return { kind: 'requeued', reply, isOutage: judgement === 'waits', isNews };
  }

  async #conclude(line: Line<L>, peer: Peer, load: L, fate: Fate): Promise<void> {
    const { id } = load.message;
    const { rate } = this.#transport;
    if (fate.kind === 'unoffered') {
      this.#putBack(load, peer);
      await line.close();
    } else if (fate.kind === 'requeued') {
      this.#giveBack(load, peer);
      this.#ready.requeue(load.message, fate.isOutage);
      if (fate.isNews) this.#options.log.info('put behind', { id, relay: peer.name, reply: fate.reply });
      if (!fate.isOutage) return;
      this.#missed();
      // The next try opens a new session: a person may have corrected our name or login.
      await line.close();
    } else if (fate.kind === 'unconfirmed') {
      // Recorded as a deferral: its reply is all that a person has until the refusal is confirmed.
      const verdict = { kind: 'deferred', reply: fate.reply, delayMs: CONFIRM_MS } as const;
      await this.#options.writer.record({ id, verdict, relay: peer.name });
      rate?.end(peer.name);
    } else {
      const verdict = rate !== null && fate.kind === 'sent' ? { ...fate, relay: peer.name } : fate;
      await this.#options.writer.record({ id, verdict, relay: peer.name });
      rate?.end(peer.name);
    }
  }

  /** The message was not tried: it is the next again. */
  #putBack(load: L, peer: Peer): void {
    this.#giveBack(load, peer);
    this.#ready.putBack(load.message);
  }

  #giveBack({ message }: L, { name }: Peer): void {
    this.#transport.rate?.end(name);
    this.#options.store.giveBack(message.id);
    this.#options.expiry.expect(message);
  }

  /** A peer is down. If all are, this time does not count for the age of emails. */
  #missed(): void {
    const { peers } = this.#transport;
    if (this.#mode === 'running' && peers.every(({ isDown }) => isDown)) this.#transport.missed();
  }
}
