/**
 * Judges what people were told by what truly happened: too early, at night, in quiet, twice, never, a return without an outage.
 * It knows the rules as the manual has them, and nothing of the program. Where the history leaves two things possible, both
 * are right; what the cloud promises only in calm is judged only there.
 *
 * The slack: people hear within a check for silence and a minute (of many devices, or of a site); after the cloud was away,
 * devices have five minutes more. See truth.ts.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import type { History, Message } from './history.js';
import { type Entry, EVERY_MS } from './plan.js';
import type { Kind } from './reading.js';
import { CHECK_MS, DeviceTruth, earliestMs, type Gap, latestMs, NEAR_MS, TELL_MS } from './truth.js';
import { beginMs, isWithin, mondaysIn } from './wall.js';

/** What a person believes of a device. `unsure`: both is right. */
type Belief = 'online' | 'offline' | 'unsure';

export interface Verdict {
  readonly found: readonly string[];
  /** How much was judged, by the kind. */
  readonly judged: ReadonlyMap<string, number>;
}

/** What a message says of one device. */
interface Said {
  readonly message: Message;
  readonly kind: Kind;
  readonly atMs: number;
}

export function judge(history: History): Verdict {
  const court = new Court(history);
  court.sit();
  return court;
}

class Court implements Verdict {
  readonly found: string[] = [];
  readonly judged = new Map<string, number>();
  readonly #history: History;
  readonly #truths = new Map<string, DeviceTruth>();
  readonly #people = new Set<string>();
  /** By person and device, in order. */
  readonly #said = new Map<string, Said[]>();
  readonly #beliefs = new Map<string, Belief>();

  constructor(history: History) {
    this.#history = history;
    for (const [id, device] of history.devices) {
      this.#truths.set(id, new DeviceTruth(id, device, history));
      for (const { paper } of device.versions)
        for (const { destination } of paper.destinations) this.#people.add(destination);
    }
  }

  sit(): void {
    const { messages } = this.#history;
    // One machine accepts in the order of its ids; a full outbox may send in another one.
    const order = (one: Message, other: Message) =>
      one.machine === other.machine ? (one.id < other.id ? -1 : 1) : one.atMs - other.atMs;
    for (const message of messages.toSorted(order)) this.#judgeMessage(message);
    for (const person of this.#people) {
      for (const truth of this.#truths.values()) {
        this.#judgeGaps(person, truth);
        this.#judgeWords(person, truth);
        this.#judgeQuiets(person, truth);
        this.#judgeStuck(person, truth);
        this.#judgeDrills(person, truth);
      }
      this.#judgeWeeks(person);
      this.#judgeSites(person);
    }
  }

  // ---- What was said ----

  #judgeMessage(message: Message): void {
    const { told, person, atMs } = message;
    const { kind } = told;
    if (kind === 'weekly') this.#judgeWeekly(message);
    for (const device of kind === 'weekly' ? [] : this.#devicesOf(message)) {
      const truth = this.#truths.get(device) as DeviceTruth;
      this.#count(kind);
      this.#judgeHours(message, truth);
      if (kind === 'silent' || kind === 'stopped') this.#judgeSilent(message, truth);
      else if (kind === 'back') this.#judgeBack(message, truth);
      else if (kind === 'was') this.#judgeWas(message, truth);
      else if (kind === 'still') this.#judgeStill(message, truth);
      else if (kind === 'stuck' || kind === 'flows') this.#judgeStuckSaid(message, truth);
      const all = this.#saidTo(person, device);
      all.push({ message, kind, atMs });
    }
  }

  /** Of a long list the words name a part: the others are those of which it may be told. */
  #devicesOf({ told, person, atMs }: Message): readonly string[] {
    const { kind, devices, count, site } = told;
    if (devices.length >= count) return devices;
    const fits = [...this.#truths.values()].filter((truth) => {
      const versions = truth.versionsIn(atMs - TELL_MS, atMs);
      if (
        devices.includes(truth.id) ||
        truth.entriesIn(person, atMs - TELL_MS, atMs).every((entry) => entry === null)
      )
        return false;
      if (site !== null && versions.every(({ paper }) => paper.site !== site)) return false;
      const belief = this.#beliefOf(person, truth.id);
      const silentMs = this.#silentMs(truth, atMs);
      if (kind === 'back') return belief !== 'online' && silentMs < 2 * EVERY_MS;
      return belief !== 'offline' && silentMs >= this.#needMs(truth, person, atMs);
    });
    if (fits.length === count - devices.length) return [...devices, ...fits.map(({ id }) => id)];
    // More or fewer would fit: of none of them it is known.
    for (const { id } of fits) this.#believe(person, id, 'unsure');
    return devices;
  }

  #judgeHours(message: Message, truth: DeviceTruth): void {
    const { person, atMs, told } = message;
    const fromMs = this.#earliestMs(atMs);
    const entries = truth.entriesIn(person, fromMs, atMs);
    if (entries.every((entry) => entry === null))
      this.#fault(message, truth, 'and is no person of the device');
    // A test of the way to a person, by somebody who stands at the device.
    if (told.kind === 'drill' || entries.every((entry) => entry === null)) return;
    const isRight = entries.some((entry) => {
      if (entry === null) return false;
      for (let ms = fromMs; ms <= atMs; ms += 15 * 1000) if (this.#isWithin(entry, ms)) return true;
      return this.#isWithin(entry, atMs);
    });
    if (!isRight) this.#fault(message, truth, 'outside the hours');
  }

  #judgeSilent(message: Message, truth: DeviceTruth): void {
    const { person, atMs } = message;
    const fromMs = this.#earliestMs(atMs);
    const needMs = this.#needMs(truth, person, atMs);
    // It may have returned since the message was accepted.
    const moments = [
      atMs,
      ...truth.certain.flatMap((one) => (one.atMs > fromMs && one.atMs <= atMs ? one.atMs - 1 : [])),
    ];
    const silences = moments.map((ms) => this.#silentMs(truth, ms));
    if (Math.max(...silences) < needMs)
      this.#fault(
        message,
        truth,
        `too early: silent for ${minutes(Math.max(...silences))} of ${minutes(needMs)}`,
      );
    if ([fromMs, atMs].every((ms) => truth.quietAt(ms) === 'yes'))
      this.#fault(message, truth, 'in a time of quiet');
    const before = truth.lastOf(truth.all, Math.min(fromMs + TELL_MS, atMs));
    if (before?.isCertain && before.said === 'moved' && fromMs > atMs - 2 * TELL_MS)
      this.#fault(message, truth, 'which has moved to another cloud');
    if (this.#beliefOf(person, truth.id) === 'offline') this.#repeated(message, truth, 'of an outage');
    this.#believe(person, truth.id, 'offline');
  }

  #judgeBack(message: Message, truth: DeviceTruth): void {
    const { person, atMs } = message;
    const said = this.#saidTo(person, truth.id);
    const belief = this.#beliefOf(person, truth.id);
    if (belief === 'online') {
      const isAgain = said.findLast(({ kind }) => isOfPresence(kind))?.kind === 'back';
      if (isAgain) this.#repeated(message, truth, 'of a return');
      else this.#fault(message, truth, 'of the return, and was not told of an outage');
    }
    const outage = said.findLast(({ kind }) => kind === 'silent' || kind === 'stopped' || kind === 'word');
    const fromMs = outage === undefined ? 0 : this.#earliestMs(outage.atMs);
    if (!truth.all.some((one) => one.atMs >= fromMs - NEAR_MS && one.atMs <= atMs))
      this.#fault(message, truth, 'of a return before it returned');
    this.#believe(person, truth.id, 'online');
  }

  /** One line about what has begun and ended while the person did not want to hear. */
  #judgeWas(message: Message, truth: DeviceTruth): void {
    const { person, atMs } = message;
    const fromMs = this.#earliestMs(atMs);
    if (this.#beliefOf(person, truth.id) === 'offline')
      this.#fault(message, truth, 'of an outage that is over, in place of the return');
    if (truth.entriesIn(person, fromMs, atMs).every((entry) => entry === null || entry.night === 'drop'))
      this.#fault(message, truth, 'of a night that was to be dropped');
    const said = this.#saidTo(person, truth.id).findLast(({ kind }) => isOfPresence(kind));
    const sinceMs = said === undefined ? 0 : this.#earliestMs(said.atMs);
    const entries = truth.entriesIn(person, fromMs, atMs);
    const afterMs = Math.min(...entries.map((entry) => (entry?.after_min ?? 0) * MINUTE_MS));
    const isTrue = truth.certain.some((before, n) => {
      const next = truth.certain[n + 1];
      if (next === undefined || next.atMs > atMs || next.atMs < sinceMs) return false;
      const gap = { fromMs: before.atMs, before };
      return next.atMs - before.atMs >= truth.needMs(gap, next.atMs) + afterMs;
    });
    if (!isTrue) this.#fault(message, truth, 'of an outage that was none, or was told');
  }

  #judgeStill(message: Message, truth: DeviceTruth): void {
    const { person, atMs } = message;
    if (this.#silentMs(truth, atMs) < DAY_MS) this.#fault(message, truth, 'still, before a day');
    if (this.#beliefOf(person, truth.id) === 'online')
      this.#fault(message, truth, 'still, and was not told of an outage');
    const last = truth.lastOf(truth.certain, atMs);
    const others = this.#saidTo(person, truth.id).filter(
      ({ kind, atMs }) => kind === 'still' && atMs > (last?.atMs ?? 0),
    );
    const most = this.#silentMs(truth, atMs) >= 7 * DAY_MS ? 1 : 0;
    if (others.length > most) this.#repeated(message, truth, 'by a reminder');
  }

  #judgeStuckSaid(message: Message, truth: DeviceTruth): void {
    const { person, atMs, told } = message;
    const said = this.#saidTo(person, truth.id).findLast(({ kind }) => kind === 'stuck' || kind === 'flows');
    if (told.kind === 'flows') {
      if (said?.kind !== 'stuck')
        this.#fault(message, truth, 'that mails leave again, and was not told that they do not');
      return;
    }
    if (said?.kind === 'stuck') this.#repeated(message, truth, 'that mails do not leave');
    const heard = truth.certain.filter((one) => one.atMs <= atMs);
    const last = heard.findLastIndex(({ isStuck }) => !isStuck);
    const first = heard[last + 1];
    // The news may wait for hours: then they were so for an hour at any time since the last word.
    const isLong = heard.some((one, n) => {
      const next = heard.slice(n).find((later) => !later.isStuck) ?? { atMs };
      return one.isStuck && next.atMs - one.atMs >= HOUR_MS;
    });
    if (!isLong)
      this.#fault(message, truth, `that mails do not leave, after ${minutes(atMs - (first?.atMs ?? atMs))}`);
  }

  #judgeWeekly(message: Message): void {
    const { person, atMs } = message;
    this.#count('weekly');
    const { wallMs, zone } = this.#history.plan;
    const fromMs = this.#earliestMs(atMs);
    const entries = [...this.#truths.values()].flatMap((truth) => truth.entriesIn(person, fromMs, atMs));
    const isRight = entries.some(
      (entry) =>
        entry?.weekly && mondaysIn(entry.zone ?? zone, wallMs + fromMs - HOUR_MS, wallMs + atMs).length > 0,
    );
    if (!isRight) this.#say(message, 'a week', 'that is not over, or wants none');
  }

  // ---- What had to be said ----

  #judgeGaps(person: string, truth: DeviceTruth): void {
    const { endMs, troubles } = this.#history;
    const gaps = truth.gaps(endMs);
    for (const [n, gap] of gaps.entries()) {
      if (truth.mayHaveMovedIn(gap.fromMs - DAY_MS, gap.toMs === Number.POSITIVE_INFINITY ? endMs : gap.toMs))
        continue;
      // Who waits for a while waits from the end of quiet on.
      const decidedMs = truth.decidedMs(gap);
      const entry = truth.entryIn(person, gap.fromMs - NEAR_MS, Math.min(endMs, decidedMs));
      if (entry === null) continue;
      const afterMs = (entry.after_min ?? 0) * MINUTE_MS;
      let dueMs = decidedMs + afterMs;
      for (let before = -1; before !== dueMs && dueMs < endMs; ) {
        before = dueMs;
        // Who waits when quiet begins waits anew from its end.
        const loudMs = truth.loudMs(dueMs);
        dueMs = this.#beginMs(entry, loudMs === dueMs ? dueMs : loudMs + CHECK_MS + afterMs);
      }
      const lateMs = latestMs(troubles, dueMs);
      const isStable = truth.entryIn(person, gap.fromMs - NEAR_MS, Math.min(lateMs, endMs)) !== null;
      if (!isStable) continue;
      if (lateMs + NEAR_MS < Math.min(gap.toMs, endMs)) {
        this.#count('outages that had to be told');
        const belief = this.#believedAt(person, truth.id, lateMs);
        if (belief === 'online')
          this.#missing(
            person,
            truth,
            `never told of the silence since ${this.#wall(gap.fromMs)}, due ${this.#wall(dueMs)}`,
            entry,
          );
        this.#judgeReminder(person, truth, gap, entry, decidedMs);
      }
      this.#judgeReturn(person, truth, gap, gaps[n + 1]);
      this.#judgeNight(person, truth, gap, gaps[n + 1], { entry, decidedMs, afterMs });
    }
  }

  #judgeReturn(person: string, truth: DeviceTruth, { fromMs, toMs }: Gap, next: Gap | undefined): void {
    const { endMs, troubles } = this.#history;
    if (toMs >= endMs) return;
    // Who was told at the last moment is told of the return behind that.
    const belief = this.#believedAt(person, truth.id, toMs - 1);
    if (belief !== 'offline') return;
    const entry = truth.entryIn(person, fromMs - NEAR_MS, toMs);
    if (entry === null || truth.mayBeQuietIn(toMs, toMs)) return;
    const dueMs = this.#beginMs(entry, toMs);
    const lateMs = latestMs(troubles, dueMs) + CHECK_MS;
    if (lateMs > endMs || (next !== undefined && next.fromMs + 2.5 * EVERY_MS < lateMs)) return;
    if (truth.entryIn(person, fromMs - NEAR_MS, lateMs) === null || truth.mayBeQuietIn(toMs, lateMs)) return;
    this.#count('returns that had to be told');
    if (this.#believedAt(person, truth.id, lateMs) === 'offline')
      this.#missing(
        person,
        truth,
        `never told of the return at ${this.#wall(toMs)}, due ${this.#wall(dueMs)}`,
        entry,
      );
  }

  /** What began and ended outside a person's hours: a line when they begin, unless it is to be dropped. */
  #judgeNight(
    person: string,
    truth: DeviceTruth,
    { fromMs, toMs }: Gap,
    next: Gap | undefined,
    { entry, decidedMs, afterMs }: { entry: Entry; decidedMs: number; afterMs: number },
  ): void {
    const { endMs, troubles } = this.#history;
    if (entry.hours === undefined || entry.night === 'drop' || toMs >= endMs) return;
    const [firstMs, lastMs] = [fromMs + EVERY_MS, decidedMs + afterMs];
    const beganMs = this.#beginMs(entry, firstMs);
    const isWholly = beganMs > firstMs && this.#beginMs(entry, lastMs) === beganMs && lastMs + TELL_MS < toMs;
    if (!isWholly || toMs + TELL_MS > beganMs) return;
    const lateMs = latestMs(troubles, beganMs) + CHECK_MS;
    if (lateMs > endMs || (next !== undefined && next.fromMs + 2.5 * EVERY_MS < lateMs)) return;
    if (truth.entryIn(person, fromMs - NEAR_MS, lateMs) === null || truth.mayBeQuietIn(fromMs, lateMs))
      return;
    if (this.#believedAt(person, truth.id, fromMs) !== 'online') return;
    this.#count('nights that had to be told');
    const isTold = this.#saidTo(person, truth.id).some(
      ({ kind, atMs }) => kind === 'was' && atMs >= beganMs - TELL_MS && atMs <= lateMs,
    );
    if (!isTold)
      this.#missing(person, truth, `never told of the outage of ${this.#wall(fromMs)} in the morning`, entry);
  }

  #judgeReminder(person: string, truth: DeviceTruth, gap: Gap, entry: Entry, decidedMs: number): void {
    const { endMs, troubles } = this.#history;
    const dueMs = this.#beginMs(entry, decidedMs + (entry.after_min ?? 0) * MINUTE_MS + DAY_MS);
    const lateMs = latestMs(troubles, dueMs) + CHECK_MS;
    if (lateMs > Math.min(endMs, gap.toMs) || truth.mayBeQuietIn(gap.fromMs, lateMs)) return;
    if (truth.entryIn(person, gap.fromMs - NEAR_MS, lateMs) === null) return;
    this.#count('reminders that had to come');
    const isTold = this.#saidTo(person, truth.id).some(
      ({ kind, atMs }) => kind === 'still' && atMs > gap.fromMs && atMs <= lateMs,
    );
    if (!isTold)
      this.#missing(person, truth, `not reminded of the silence since ${this.#wall(gap.fromMs)}`, entry);
  }

  /** A last word is told at once, and once. */
  #judgeWords(person: string, truth: DeviceTruth): void {
    const { endMs, troubles } = this.#history;
    const said = this.#saidTo(person, truth.id).filter(({ kind }) => kind === 'word');
    const spoken = truth.all.filter(({ last }) => last !== null);
    for (const { message, atMs } of said) {
      const fromMs = this.#earliestMs(atMs);
      const isTrue = spoken.some(
        (one) =>
          one.atMs <= atMs &&
          (one.atMs >= fromMs ||
            truth.entriesIn(person, fromMs, atMs).some((entry) => entry?.hours !== undefined)),
      );
      if (!isTrue) this.#fault(message, truth, 'a last word that it has not said now');
    }
    if (said.length > spoken.length)
      this.#missing(person, truth, `told ${said.length} last words of ${spoken.length}`, null);
    for (const one of spoken) {
      const lateMs = latestMs(troubles, one.atMs) + NEAR_MS;
      const entry = truth.entryIn(person, one.atMs, lateMs);
      const isPlain = entry !== null && entry.after_min === undefined && entry.hours === undefined;
      if (
        !isPlain ||
        !one.isCertain ||
        !truth.certain.includes(one) ||
        lateMs > endMs ||
        truth.mayBeQuietIn(one.atMs, lateMs)
      )
        continue;
      if (latestMs(troubles, one.atMs) > one.atMs + TELL_MS) continue;
      this.#count('last words that had to be told');
      if (!said.some(({ atMs }) => atMs >= one.atMs && atMs <= lateMs))
        this.#missing(person, truth, `never told the last word of ${this.#wall(one.atMs)}`, entry);
    }
  }

  #judgeQuiets(person: string, truth: DeviceTruth): void {
    const { endMs, troubles } = this.#history;
    const said = this.#saidTo(person, truth.id).filter(({ kind }) => kind === 'quiet');
    const asked = truth.history.quiets.filter((one) => one.untilMs > one.atMs);
    const wishes = new Set(asked.map(({ askedMs }) => askedMs));
    for (const { message, atMs } of said) {
      const fromMs = this.#earliestMs(atMs);
      if (!asked.some((one) => one.askedMs <= atMs && one.untilMs >= fromMs))
        this.#fault(message, truth, 'of quiet that is none');
    }
    if (said.length > wishes.size)
      this.#missing(person, truth, `told of quiet ${said.length} times of ${wishes.size}`, null);
    for (const one of asked) {
      const lateMs = latestMs(troubles, one.atMs) + CHECK_MS;
      const entry = truth.entryIn(person, one.atMs, lateMs);
      const isPlain = entry !== null && entry.after_min === undefined && entry.hours === undefined;
      if (!isPlain || !one.isCertain || lateMs > Math.min(endMs, one.untilMs)) continue;
      // Two wishes that come close to each other, or one that extends another.
      if (
        truth.history.quiets.some(
          (other) =>
            other.askedMs !== one.askedMs &&
            other.askedMs - TELL_MS <= one.untilMs &&
            other.untilMs + TELL_MS >= one.askedMs &&
            other.askedMs <= lateMs,
        )
      )
        continue;
      this.#count('times of quiet that had to be told');
      if (!said.some(({ atMs }) => atMs >= one.askedMs && atMs <= lateMs))
        this.#missing(person, truth, `never told of the quiet of ${this.#wall(one.atMs)}`, entry);
    }
  }

  #judgeStuck(person: string, truth: DeviceTruth): void {
    const { endMs, troubles } = this.#history;
    const { all } = truth;
    for (const [n, first] of all.entries()) {
      if (!first.isStuck || all[n - 1]?.isStuck) continue;
      const end = all.slice(n).find(({ isStuck }) => !isStuck);
      const beats = all.slice(n).filter(({ atMs }) => atMs < (end?.atMs ?? endMs));
      const isWhole = beats.every(
        (one, k) => one.isCertain && one.atMs - (beats[k - 1]?.atMs ?? one.atMs) < EVERY_MS * 1.5,
      );
      const lateMs = latestMs(troubles, first.atMs + HOUR_MS + EVERY_MS + CHECK_MS);
      const entry = truth.entryIn(person, first.atMs, lateMs);
      const isPlain = entry !== null && entry.after_min === undefined && entry.hours === undefined;
      if (!isPlain || !isWhole || lateMs > Math.min(endMs, end?.atMs ?? endMs)) continue;
      if (troubles.some((one) => one.toMs > first.atMs && one.fromMs < lateMs)) continue;
      if (truth.mayBeQuietIn(first.atMs, lateMs)) continue;
      this.#count('stuck mails that had to be told');
      const isTold = this.#saidTo(person, truth.id).some(
        ({ kind, atMs }) => kind === 'stuck' && atMs >= first.atMs && atMs <= lateMs,
      );
      if (!isTold)
        this.#missing(
          person,
          truth,
          `never told that its mails do not leave since ${this.#wall(first.atMs)}`,
          entry,
        );
    }
  }

  #judgeDrills(person: string, truth: DeviceTruth): void {
    const { endMs, troubles } = this.#history;
    const { drills } = truth.history;
    const said = this.#saidTo(person, truth.id).filter(({ kind }) => kind === 'drill');
    for (const atMs of drills) {
      const lateMs = latestMs(troubles, atMs);
      const entry = truth.entryIn(person, atMs, lateMs);
      if (entry === null || lateMs > endMs || lateMs > atMs + TELL_MS || entry.hours !== undefined) continue;
      this.#count('drills that had to be told');
      const told = said.filter((one) => one.atMs >= atMs - TELL_MS && one.atMs <= lateMs);
      if (told.length === 0)
        this.#missing(person, truth, `never told of the drill of ${this.#wall(atMs)}`, entry);
    }
  }

  #judgeWeeks(person: string): void {
    const { endMs, troubles, plan, messages } = this.#history;
    const zones = new Set<string>();
    for (const truth of this.#truths.values())
      for (const entry of truth.entriesIn(person, 0, endMs))
        if (entry?.weekly) zones.add(entry.zone ?? plan.zone);
    const said = messages.filter((one) => one.person === person && one.told.kind === 'weekly');
    for (const zone of zones) {
      for (const mondayMs of mondaysIn(zone, plan.wallMs, plan.wallMs + endMs)) {
        const dueMs = mondayMs - plan.wallMs;
        const lateMs = latestMs(troubles, dueMs) + CHECK_MS;
        const entries = [...this.#truths.values()].map((truth) =>
          truth.entryIn(person, dueMs - HOUR_MS, lateMs),
        );
        const isWanted = entries.some((entry) => entry?.weekly && (entry.zone ?? plan.zone) === zone);
        if (!isWanted || lateMs > endMs || zones.size > 1) continue;
        this.#count('weeks that had to be told');
        const told = said.filter(({ atMs }) => atMs >= dueMs - TELL_MS && atMs <= lateMs + HOUR_MS);
        if (told.length === 1 || (told.length > 1 && plan.isShared && lateMs > dueMs + TELL_MS + CHECK_MS))
          continue;
        this.found.push(
          `${person} was told ${told.length} times of the week that ended ${this.#wall(dueMs)}`,
        );
      }
    }
  }

  /** Most of a site falls silent at once: one message in place of many. */
  #judgeSites(person: string): void {
    const { endMs, troubles, plan } = this.#history;
    for (const site of ['North', 'South']) {
      const ofSite = [...this.#truths.values()].filter((truth) =>
        truth.history.versions.every(
          ({ paper }) =>
            paper.site === site &&
            paper.delay === undefined &&
            paper.destinations.some(({ destination }) => destination === person),
        ),
      );
      const everywhere = plan.devices.filter(({ paper }) => paper.site === site).length;
      if (ofSite.length < 3 || ofSite.length !== everywhere) continue;
      const gaps = ofSite.flatMap((truth) => truth.gaps(endMs).map((gap) => ({ truth, gap })));
      for (const { gap } of gaps) {
        const same = gaps.filter((one) => Math.abs(one.gap.fromMs - gap.fromMs) < 5000);
        const [first] = same;
        if (first?.gap !== gap || same.length < 3 || same.length * 2 <= ofSite.length) continue;
        const lateMs =
          same.map((one) => one.truth.decidedMs(one.gap)).reduce((a, b) => Math.max(a, b)) + TELL_MS;
        const isCalm = same.every(
          (one) =>
            one.gap.toMs > lateMs &&
            one.truth.isSteady(one.gap, 20 * MINUTE_MS) &&
            one.gap.before.said === 'running' &&
            one.gap.before.last === null &&
            !one.truth.mayBeQuietIn(one.gap.fromMs, lateMs) &&
            this.#believedAt(person, one.truth.id, gap.fromMs) === 'online' &&
            isPlain(one.truth.entryIn(person, one.gap.fromMs, lateMs)),
        );
        const isTroubled = troubles.some((one) => one.toMs > gap.fromMs - HOUR_MS && one.fromMs < lateMs);
        if (!isCalm || isTroubled || lateMs > endMs) continue;
        this.#count('sites that had to be told as one');
        const ids = new Set(
          same.flatMap((one) =>
            this.#saidTo(person, one.truth.id).flatMap(({ kind, atMs, message }) =>
              kind === 'silent' && atMs > gap.fromMs && atMs <= lateMs
                ? [`${message.machine} ${message.id}`]
                : [],
            ),
          ),
        );
        if (ids.size !== 1)
          this.found.push(
            `${person} was told of the site ${site}, silent since ${this.#wall(gap.fromMs)}, in ${ids.size} messages`,
          );
      }
    }
  }

  // ---- Means ----

  #needMs(truth: DeviceTruth, person: string, atMs: number): number {
    const before = truth.lastOf(truth.certain, this.#earliestMs(atMs)) ?? truth.certain[0];
    if (before === undefined) return 0;
    const entries = truth.entriesIn(person, this.#earliestMs(atMs), atMs);
    const afters = entries.flatMap((entry) => (entry === null ? [] : (entry.after_min ?? 0) * MINUTE_MS));
    return (
      truth.needMs({ fromMs: before.atMs, before }, atMs) +
      Math.min(...afters, Number.MAX_SAFE_INTEGER) -
      1000
    );
  }

  #silentMs(truth: DeviceTruth, atMs: number): number {
    return atMs - (truth.lastOf(truth.certain, atMs)?.atMs ?? 0);
  }

  #earliestMs(atMs: number): number {
    return earliestMs(this.#history.troubles, atMs);
  }

  #isWithin(entry: Entry, atMs: number): boolean {
    const { wallMs, zone } = this.#history.plan;
    return isWithin(entry.hours ?? null, entry.zone ?? zone, wallMs + atMs);
  }

  #beginMs(entry: Entry, atMs: number): number {
    const { wallMs, zone } = this.#history.plan;
    return beginMs(entry.hours ?? null, entry.zone ?? zone, wallMs + atMs) - wallMs;
  }

  #saidTo(person: string, device: string): Said[] {
    const key = `${person} ${device}`;
    const all = this.#said.get(key) ?? [];
    this.#said.set(key, all);
    return all;
  }

  /** What the person believes by the messages judged so far. */
  #beliefOf(person: string, device: string): Belief {
    return this.#beliefs.get(`${person} ${device}`) ?? 'online';
  }

  #believe(person: string, device: string, belief: Belief): void {
    this.#beliefs.set(`${person} ${device}`, belief);
  }

  /** What the person believed at a moment. */
  #believedAt(person: string, device: string, atMs: number): Belief {
    const said = this.#saidTo(person, device).filter((one) => one.atMs <= atMs);
    const last = said.findLast(({ kind }) => isOfPresence(kind));
    if (this.#beliefOf(person, device) === 'unsure') return 'unsure';
    if (last === undefined) return 'online';
    if (last.kind === 'word') return 'unsure';
    return last.kind === 'back' || last.kind === 'was' ? 'online' : 'offline';
  }

  /** Told twice: wrong, unless it is excused. */
  #repeated(message: Message, truth: DeviceTruth, what: string): void {
    const { plan, troubles } = this.#history;
    const { person, atMs } = message;
    const before = this.#saidTo(person, truth.id).findLast(
      ({ kind }) => isOfPresence(kind) || kind === message.told.kind,
    );
    const beforeMs = before === undefined ? 0 : this.#earliestMs(before.atMs);
    // It was removed from the document and came back, or the device has left this cloud and came back.
    if (truth.mayHaveMovedIn(beforeMs - DAY_MS, atMs)) return;
    if (truth.entriesIn(person, beforeMs, atMs).includes(null)) return;
    // Who told it first was killed or cut off at that time, with what it had accepted and not written.
    const isExcused =
      plan.isShared &&
      before !== undefined &&
      troubles.some(
        ({ kind, machine, fromMs, toMs }) =>
          kind !== 'jam' &&
          (machine === '' || machine === before.message.machine) &&
          fromMs <= before.atMs + 2 * MINUTE_MS &&
          toMs >= beforeMs - MINUTE_MS,
      );
    if (!isExcused) this.#fault(message, truth, `twice ${what}`);
  }

  #fault(message: Message, truth: DeviceTruth, what: string): void {
    this.#say(message, truth.id, what);
  }

  #say({ person, atMs, words }: Message, what: string, why: string): void {
    this.found.push(`${person} was told of ${what} ${why}\n  at ${this.#wall(atMs)}: ${words}`);
  }

  #missing(person: string, truth: DeviceTruth, why: string, entry: Entry | null): void {
    this.found.push(`${person} was ${why}, of ${truth.id}\n  ${JSON.stringify(entry)}`);
  }

  #wall(ms: number): string {
    return new Date(this.#history.plan.wallMs + ms).toISOString().slice(0, 19);
  }

  #count(what: string): void {
    this.judged.set(what, (this.judged.get(what) ?? 0) + 1);
  }
}

function isPlain(entry: Entry | null): boolean {
  return entry !== null && entry.after_min === undefined && entry.hours === undefined;
}

function isOfPresence(kind: Kind): boolean {
  return ['silent', 'stopped', 'back', 'was', 'still', 'word'].includes(kind);
}

function minutes(ms: number): string {
  return `${(ms / MINUTE_MS).toFixed(1)} min`;
}
