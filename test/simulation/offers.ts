/**
 * Checks what relays and the cloud are offered against what clients were answered: the order, not too late, not too
 * soon, and whether a message had to expire or fail.
 */

import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { PAUSES } from '../../src/mail/delivery/smtp/failure-classification.js';
import type { Ending, Envelope } from '../../src/mail/delivery/smtp/protocol.js';
import { tokenOf } from './mail.js';
import type { Model, Posted } from './model.js';
import { Reach } from './reach.js';
import type { RelayWatcher } from './relay.js';
import type { World } from './world.js';

/** After a reboot the device knows ages to the minute only. */
const AGE_SLACK_MS = 2 * MINUTE_MS;
const SPREAD = 0.1;
/** Pauses start at a second and grow. Each flush or retry ends a pause. */
const CALLS_MAX = 120;

/** What happened to a message outside the device. */
interface Course {
  offers: number;
  lastMs: number;
  /** An urgent one that waits: the ordinary ones that were offered in this time. */
  passedBy: number;
  /** The relay deferred this message itself: no offer is due before then, unless a client asks for one. */
  notBeforeMs: number;
  /** A relay has refused it for good. */
  isRefused: boolean;
  /** The cloud has it. */
  isHanded: boolean;
  /** The reachable time when it was posted, and when it was first offered. */
  readonly mostMs: number;
  leastMs: number | null;
  /** The message must have expired at its last refusal. */
  isOver: boolean;
}

export class Offers implements RelayWatcher {
  readonly #world: World;
  readonly #model: Model;
  readonly #reach = new Reach();
  readonly #courses = new Map<string, Course>();
  /** Emails that no relay was offered yet, in the order in which they were posted. */
  readonly #fresh = new Set<Posted>();
  /** The last answer of a relay was a refusal of this device: the pauses get longer. */
  #isRefusedAtAll = false;
  /** How many calls have failed since then. */
  #stormMs = 0;
  #calls = 0;

  constructor(world: World) {
    this.#world = world;
    this.#model = world.model;
  }

  heard(): void {
    this.#reach.heard(this.#world.timeline.nowMs);
  }

  missed(): void {
    this.#reach.missed();
  }

  refused(): void {
    const { nowMs } = this.#world.timeline;
    this.#reach.missed();
    if (nowMs - this.#stormMs >= MINUTE_MS) {
      this.#stormMs = nowMs;
      this.#calls = 0;
    }
    if (++this.#calls > CALLS_MAX)
      this.#model.violation(`relays were called ${CALLS_MAX} times in vain in a minute`);
  }

  /** The device's process has ended: its last records may be lost. */
  ended(): void {
    this.#reach.ended();
    this.#isRefusedAtAll = false;
    for (const course of this.#courses.values()) {
      course.isOver = false;
      course.notBeforeMs = 0;
      course.passedBy = 0;
    }
  }

  /** A client asks to try these now; all if none are named. */
  hurried(posted?: Posted): void {
    const all = posted === undefined ? this.#courses.values() : [this.#of(posted)];
    for (const course of all) course.notBeforeMs = 0;
  }

  /** A client retries it. The age of a failed message restarts. */
  renewed(posted: Posted): void {
    const course = this.#of(posted);
    course.leastMs = null;
    course.isOver = false;
    course.notBeforeMs = 0;
  }

  /** They were posted at this moment. */
  posted(all: readonly Posted[]): void {
    for (const posted of all) {
      this.#of(posted);
      if (posted.type === 1) this.#fresh.add(posted);
    }
  }

  offered({ to }: Envelope): void {
    const { nowMs } = this.#world.timeline;
    const token = tokenOf(to);
    const posted = this.#model.messages.get(token);
    if (posted === undefined) {
      this.#model.violation(`${token} is offered, which nobody posted`);
      return;
    }
    const course = this.#of(posted);
    if (course.offers++ === 0) this.#checkOrder(posted);
    this.#fresh.delete(posted);
    course.leastMs ??= this.#reach.leastMs;
    course.lastMs = nowMs;
    if (this.#model.isHeld === true) this.#model.violation(`${token} is offered although the queue is held`);
    if (course.isOver) this.#model.violation(`${token} is offered although it has expired`);
    if (nowMs < course.notBeforeMs)
      this.#model.violation(`${token} is offered again ${course.notBeforeMs - nowMs} ms too soon`);
  }

  #checkOrder(posted: Posted): void {
    const { id } = posted;
    if (id === null) return;
    const { relayConnections, relays } = this.#world.live;
    // Each of several parallel lines holds a message, and perhaps the next one.
    const ahead = relayConnections === 1 && relays.length === 1 ? 0 : 2 * (relayConnections + 1);
    const due = [...this.#fresh].filter(
      // One that expires by itself may be gone already.
      (other) => other.id !== null && other.lifeMs === undefined && isDue(other),
    );
    const isUrgent = posted.isUrgent === true;
    // The next message may have been loaded before an urgent one came.
    for (const other of isUrgent ? [] : due)
      if (other.isUrgent && other.request.answeredMs !== this.#world.timeline.nowMs) {
        if (this.#of(other).passedBy++ === ahead + 2)
          this.#model.violation(`${posted.token} is offered before ${other.token}, which is urgent`);
      }
    const passed = due.filter((other) => (other.isUrgent === true) === isUrgent && (other.id as string) < id);
    if (passed.length <= ahead) return;
    const [oldest] = passed as [Posted];
    this.#model.violation(
      `${posted.token} is offered before ${oldest.token} and ${passed.length - 1} others`,
    );
  }

  concluded({ to }: Envelope, ending: Ending): void {
    const { diskTrouble, timeline, live } = this.#world;
    const { nowMs } = timeline;
    const posted = this.#model.messages.get(tokenOf(to));
    if (posted === undefined) return;
    const isRecorded = diskTrouble === 'none';
    const course = this.#of(posted);
    course.lastMs = nowMs;
    if (!('reply' in ending)) return;
    const { code, enhanced } = ending.reply;
    // A relay that refuses all mail counts as unreachable.
    if (code === 421 || enhanced === '5.7.1' || enhanced?.[2] === '3') this.#reach.missed();
    if (code < 300 && isRecorded) this.#reach.recorded();
    this.#isRefusedAtAll = code >= 500 && enhanced === '5.7.1';
    if (code >= 500 && enhanced !== '5.7.1') course.isRefused = true;
    if (code < 400 || code >= 500) return;
    const isItsOwn = ending.phase === 'rcpt';
    if (isItsOwn) course.notBeforeMs = nowMs + Math.floor(live.retryMinMs * (1 - SPREAD));
    // A limit of mails per session says nothing about this mail.
    if (enhanced === '4.5.3' || code === 421 || !isRecorded) return;
    // A retry may restart the age while the offer is under way.
    course.leastMs ??= this.#reach.leastMs;
    // Time in which the rate keeps mails back does not count, and nobody outside can tell it.
    course.isOver =
      !this.#world.rate.isSet && this.#reach.leastMs - course.leastMs > live.maxAgeMs[1] + AGE_SLACK_MS;
  }

  /** The cloud took it. */
  handed(token: string): void {
    const posted = this.#model.messages.get(token);
    if (posted === undefined) this.#model.violation(`the cloud has ${token}, which nobody posted`);
    else this.#of(posted).isHanded = true;
  }

  /** A client gets this status of it. */
  seen(posted: Posted, status: string): void {
    const { timeline, live, watch, device } = this.#world;
    const { maxAgeMs } = live;
    const { nowMs } = timeline;
    const course = this.#of(posted);
    const { token, type } = posted;
    const complain = (words: string) => this.#model.violation(`${token} ${words}`);
    if (status === 'failed' && !course.isRefused) complain('has failed, and nobody has refused it');
    if (status === 'sent' && type !== 1 && !course.isHanded)
      complain('is said to be sent, and the cloud has not got it');
    if (posted.lifeMs !== undefined) {
      this.#seenToLive(posted, posted.lifeMs, status, complain);
      return;
    }
    if (type === 1) {
      const reachedMs = this.#reach.mostMs - course.mostMs;
      if (status === 'expired' && course.offers === 0) complain('has expired and was never offered');
      if (status === 'expired' && reachedMs < maxAgeMs[1])
        complain(`has expired with a relay reachable for ${reachedMs} ms at most`);
      return;
    }
    const ageMs = nowMs - posted.atMs;
    if (status === 'expired' && ageMs < maxAgeMs[type] - AGE_SLACK_MS)
      complain(`has expired after ${ageMs} ms`);
    // Of an earlier boot no time is certain. Of several posts with one key the last may be the accepted one.
    const sinceMs = Math.max(posted.request.answeredMs ?? nowMs, posted.retriedMs ?? 0);
    const surelyMs = Math.min(nowMs - sinceMs, device.clock.bootMs());
    const isOpen = ['queued', 'sending', 'deferred'].includes(status);
    const wellMs = nowMs - (watch.weather.deviceMs ?? nowMs);
    if (wellMs < 5 * MINUTE_MS || !isOpen) return;
    if (surelyMs > maxAgeMs[type] + 5 * MINUTE_MS) complain(`is ${status} after ${surelyMs} ms`);
  }

  /** It must have expired once its life is surely over, and not before. */
  #seenToLive(posted: Posted, lifeMs: number, status: string, complain: (words: string) => void): void {
    const { timeline, device, diskTrouble } = this.#world;
    const { nowMs } = timeline;
    const reachedMs = this.#reach.mostMs - this.#of(posted).mostMs;
    const ageMs = nowMs - posted.atMs;
    if (status === 'expired' && ageMs < lifeMs - AGE_SLACK_MS && reachedMs < this.#world.live.maxAgeMs[1])
      complain(`has expired after ${ageMs} ms`);
    const sinceMs = Math.max(posted.request.answeredMs ?? nowMs, posted.retriedMs ?? 0);
    const surelyMs = Math.min(nowMs - sinceMs, device.clock.bootMs());
    const isOpen = status === 'queued' || status === 'deferred';
    if (isOpen && diskTrouble === 'none' && surelyMs > lifeMs + HOUR_MS)
      complain(`is ${status} after ${surelyMs} ms`);
  }

  /** The messages that the device must have offered by now, as far as clients know. */
  late(): Posted[] {
    const { timeline, live, swarm, watch } = this.#world;
    const { mailMs, shortMs } = watch.weather;
    const open = this.#world.posted(isDue);
    const eachMs = swarm.mailMs + 3 * swarm.syncMs + SECOND_MS;
    const pauseMs = this.#isRefusedAtAll ? Math.max(live.backoffMaxMs, PAUSES.maxMs) : live.backoffMaxMs;
    const triesMs = pauseMs + 2 * (live.relays.length + 1) * live.smtpTimeoutMs + 5 * MINUTE_MS;
    const againMs = live.retryMaxMs * (1 + SPREAD);
    // A cloud may have asked for an hour with Retry-After.
    const linkMs = HOUR_MS + againMs + 3 * live.heartbeatMs;
    const rateMs = this.#world.rate.waitMs(open.length);
    return open.filter((posted) => {
      const { offers, lastMs, isHanded, isRefused } = this.#of(posted);
      const sinceMs = posted.type === 1 ? mailMs : shortMs;
      if (sinceMs === null || posted.arrivals.length > 0 || isHanded || isRefused) return false;
      const restMs = (offers === 0 ? 0 : againMs) + (posted.type === 1 ? 0 : linkMs);
      const fromMs = Math.max(sinceMs, posted.request.answeredMs ?? 0, posted.retriedMs ?? 0, lastMs);
      return timeline.nowMs > fromMs + open.length * eachMs + triesMs + restMs + rateMs;
    });
  }

  /** Every message that the cloud has must have arrived in the end. */
  checkHanded(): void {
    for (const posted of this.#model.messages.values())
      if (posted.type !== 1 && this.#of(posted).isHanded && posted.arrivals.length === 0)
        this.#model.violation(`the cloud took ${posted.token}, and it has not arrived`);
  }

  #of(posted: Posted): Course {
    const known = this.#courses.get(posted.token);
    if (known !== undefined) return known;
    const course = {
      offers: 0,
      lastMs: 0,
      passedBy: 0,
      notBeforeMs: 0,
      isRefused: false,
      isHanded: false,
      mostMs: this.#reach.mostMs,
      leastMs: null,
      isOver: false,
    };
    this.#courses.set(posted.token, course);
    return course;
  }
}

/** True for a message that was accepted and that no client has tried to cancel. */
function isDue({ id, final, isCancelAsked, request }: Posted): boolean {
  return id !== null && final === null && !isCancelAsked && request.standing === 'promised';
}
