/**
 * The Monday mail: how often, and for how long, a person's devices were offline in the week, or that none was. That it
 * comes also proves that the watch runs. It is for entries of documents with `weekly`: one message a person over all devices whose
 * documents have such an entry, at 07:00 on Monday in the person's zone. If the cloud cannot send it then, it is sent later
 * on that Monday, and not on Tuesday.
 *
 * While it is Monday somewhere, the leader looks each quarter of an hour. It reads only documents with such an entry: once to
 * learn its zone, and when people in some zone are to hear. A message is accepted once, because its key says for whom and for
 * which Monday it is; with several instances, all of them remember it.
 */
import { wordsOf } from '../base/errors.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../base/limits.js';
import { Alarm } from '../base/retry/alarm.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import { isoOf } from '../base/text.js';
import { inLanes } from '../base/turns.js';
import type { Entry } from '../mail/book/destination.js';
import { type Hours, hoursBeginMs, hoursIn } from '../mail/book/hours.js';
import { rulesOf } from '../mail/book/rules.js';
import type { Draft } from '../mail/message/message.js';
import type { KeyedContent, Store } from '../mail/store/store.js';
import { aboutOf, entriesOf, personAt, personOf } from './document.js';
import type { FleetDocuments, FleetWatch, Office, TakenKeys } from './fleet-store.js';
import { quietAt } from './marks.js';
import { draftFor } from './notification.js';
import { hashOf, isReachable, type Ways } from './outbox.js';
import type { Sighting } from './sighting.js';
import { type About, type TextOptions, weeklyOf } from './texts/texts.js';

const WEEK_MS = 7 * DAY_MS;
/** A zone may be a quarter of an hour beside the full hour. */
const EVERY_MS = 15 * MINUTE_MS;
/** An alarm may come a moment early. */
const MARGIN_MS = SECOND_MS;
const MONDAY = hoursIn('Mo 07:00-24:00') as Hours;
/** More than those hours, and less than until the hours before. */
const BEFORE_MS = 20 * HOUR_MS;
/** When those hours are in UTC, for the zones from 14 hours before it to 12 hours behind it. */
const MONDAY_SOMEWHERE = hoursIn('Su 17:00-24:00, Mo, Tu 00:00-12:00') as Hours;
/** 1970 began on a Thursday. */
const A_MONDAY_MS = 4 * DAY_MS + 7 * HOUR_MS;
/** Documents read, and messages accepted, at the same time. */
const LANES = 64;
/** After so many devices other work gets its turn. */
const SLICE = 2000;
const NO_ROOM = 'the outbox has no room for what can wait';
/** The name under which the instances remember the keys: the messages of a device have others. */
const TAKEN_AS = 'weekly';

/** When the week ends of which this zone is to hear now; null: it is not Monday after 07:00 there. */
export function weekEndMs(zone: string, nowMs: number): number | null {
  return isWithin(MONDAY, zone, nowMs) ? hoursBeginMs(MONDAY, zone, nowMs - BEFORE_MS) : null;
}

function isWithin(hours: Hours, zone: string, nowMs: number): boolean {
  return hoursBeginMs(hours, zone, nowMs) === nowMs;
}

/** The date of the Monday at whose 07:00 the week ends. No zone is three days from UTC. */
export function mondayOf(endMs: number): string {
  return isoOf(A_MONDAY_MS + Math.round((endMs - A_MONDAY_MS) / WEEK_MS) * WEEK_MS).slice(0, 10);
}

/** The outages of a device in a week. */
interface Week {
  readonly times: number;
  /** All of them together; null: since when it is offline is not known. */
  readonly lastedMs: number | null;
  /** Now. */
  readonly isOffline: boolean;
}

/** The outages of a device in the week up to `endMs`: also parts of outages, and of one that still lasts. */
export function weekOf(
  { state, sinceMs, marks }: Pick<Sighting, 'state' | 'sinceMs' | 'marks'>,
  endMs: number,
): Week {
  const isOffline = state === 'offline';
  const beganMs = endMs - WEEK_MS;
  const lasting = isOffline ? [[sinceMs ?? beganMs, endMs] as const] : [];
  const spans = [...marks.past, ...lasting]
    .map(([fromMs, untilMs]) => Math.min(untilMs, endMs) - Math.max(fromMs, beganMs))
    .filter((ms) => ms > 0);
  const isKnown = !isOffline || sinceMs !== null;
  return {
    times: spans.length,
    lastedMs: isKnown ? spans.reduce((sum, ms) => sum + ms, 0) : null,
    isOffline,
  };
}

interface WeeklyOptions extends Pick<Ways, 'takesMail' | 'takesShort'> {
  readonly clock: Pick<Clock, 'wallMs' | 'bootMs' | 'after' | 'trust'>;
  readonly log: Log;
  readonly office: Pick<Office, 'isLeader'>;
  readonly documents: Pick<FleetDocuments, 'ids' | 'about' | 'read'>;
  readonly watch: Pick<FleetWatch, 'sighting'>;
  /** The cloud's store, one message at a time. */
  readonly store: Pick<Store, 'recall'> & {
    accept(draft: Draft, keyed: KeyedContent): Promise<{ readonly ids: readonly string[] }>;
    /** False: it refuses every notification. */
    mayTakeMore(): boolean;
    /** True: the rest of the room is for news of outages. */
    isBusy(type: Entry['type']): boolean;
  };
  readonly taken: TakenKeys | null;
  readonly texts: TextOptions;
}

/** What one person is to hear. */
interface Report {
  readonly entry: Entry;
  /** The device, if this is a placeholder such as OWNER. */
  readonly device: string | null;
  readonly key: string;
  readonly zone: string;
  readonly endMs: number;
}

/** What is known of one person's devices. */
interface Devices {
  report: Report | null;
  /** The devices that the cloud watches. */
  total: number;
  readonly offline: (Week & { readonly about: About })[];
  readonly quiet: About[];
}

/** Sends the Monday mails. */
export class Weekly {
  readonly #options: WeeklyOptions;
  readonly #alarm: Alarm;
  #isOn = false;
  #running: Promise<void> | null = null;
  /** Why the last try failed; null: it did not. */
  #reason: string | null = null;
  /** The ETags of the documents whose zones are known. */
  readonly #read = new Map<string, string>();
  readonly #zones = new Set<string>();
  /** By zone: the Monday of which all people there have heard. */
  readonly #done = new Map<string, string>();

  constructor(options: WeeklyOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock, () => this.#wake());
  }

  start(): void {
    this.#isOn = true;
    this.#setAlarm();
  }

  /** Resolves when no message is on its way. */
  async stop(): Promise<void> {
    this.#isOn = false;
    this.#alarm.end();
    await this.#running;
  }

  #setAlarm(): void {
    const nowMs = this.#options.clock.wallMs();
    this.#alarm.in(EVERY_MS - (nowMs % EVERY_MS) + MARGIN_MS);
  }

  #wake(): void {
    this.#setAlarm();
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
  }

  async #run(): Promise<void> {
    const { office, clock, log } = this.#options;
    if (!isWithin(MONDAY_SOMEWHERE, 'UTC', clock.wallMs())) {
      this.#read.clear();
      this.#zones.clear();
      this.#done.clear();
      return;
    }
    if (!office.isLeader || clock.trust() === 'wrong') return;
    try {
      await this.#tell(await this.#wanted());
      this.#reason = null;
    } catch (error) {
      const reason = wordsOf(error);
      if (reason !== this.#reason) log.error('notification delayed', { kind: 'weekly', reason });
      this.#reason = reason;
    }
  }

  /** The devices with a document that somebody wants to hear of. Memory knows them: no document is read. */
  async #wanted(): Promise<string[]> {
    const { documents, clock } = this.#options;
    const wanted: string[] = [];
    let steps = 0;
    for (const id of documents.ids) {
      if (++steps % SLICE === 0) await new Promise<void>((resolve) => clock.after(0, resolve));
      if (documents.about(id)?.hasWeekly === true) wanted.push(id);
    }
    return wanted;
  }

  /** Tells who is to hear now. Rejects with why some do not: then it tells them, and only them, the next time. */
  async #tell(devices: readonly string[]): Promise<void> {
    await this.#learnZones(devices);
    const nowMs = this.#options.clock.wallMs();
    const dues = new Map<string, number>();
    for (const zone of this.#zones) {
      const endMs = weekEndMs(zone, nowMs);
      if (endMs !== null && this.#done.get(zone) !== mondayOf(endMs)) dues.set(zone, endMs);
    }
    if (dues.size === 0) return;
    if (!this.#options.store.mayTakeMore()) throw new Error(NO_ROOM);
    const people = await this.#peopleOf(devices, dues, nowMs);
    let refusal: unknown = null;
    await inLanes(LANES, people.values(), async (person) => {
      if (!this.#isOn || person.report === null || person.total === 0) return;
      try {
        await this.#report(person, person.report);
      } catch (error) {
        refusal ??= error;
      }
    });
    if (refusal !== null) throw refusal;
    if (this.#isOn) for (const [zone, endMs] of dues) this.#done.set(zone, mondayOf(endMs));
  }

  /** Reads those documents that are new or were changed. */
  async #learnZones(devices: readonly string[]): Promise<void> {
    const { documents } = this.#options;
    const fresh = devices.filter((id) => this.#read.get(id) !== documents.about(id)?.etag);
    await inLanes(LANES, fresh, async (id) => {
      const stored = this.#isOn ? await documents.read(id) : null;
      if (stored === null) return;
      for (const entry of entriesOf(stored.document))
        if (rulesOf(entry).weekly) this.#zones.add(this.#zoneOf(entry));
      this.#read.set(id, stored.etag);
    });
  }

  #zoneOf(entry: Entry): string {
    return rulesOf(entry).zone ?? this.#options.texts.timeZone;
  }

  /** `dues`: the zones in which people hear now, and when their week ended. Who is in none of them has no report. */
  async #peopleOf(
    devices: readonly string[],
    dues: ReadonlyMap<string, number>,
    nowMs: number,
  ): Promise<ReadonlyMap<string, Devices>> {
    const { documents, watch } = this.#options;
    const people = new Map<string, Devices>();
    const lastEndMs = Math.max(...dues.values());
    await inLanes(LANES, devices, async (id) => {
      const { document = null } = (this.#isOn ? await documents.read(id) : null) ?? {};
      if (document === null) return;
      const sighting = watch.sighting(id);
      const isWatched = sighting !== null && sighting.state !== 'moved';
      for (const entry of entriesOf(document)) {
        if (!rulesOf(entry).weekly || !isReachable(entry, this.#options)) continue;
        const name = personAt(id, entry);
        const person = people.get(name) ?? { report: null, total: 0, offline: [], quiet: [] };
        people.set(name, person);
        const zone = this.#zoneOf(entry);
        const endMs = dues.get(zone) ?? null;
        const device = personOf(entry) === null ? id : null;
        if (endMs !== null) person.report ??= { entry, device, key: keyOf(name, endMs), zone, endMs };
        if (!isWatched) continue;
        person.total++;
        const week = weekOf(sighting, endMs ?? lastEndMs);
        if (week.times > 0) person.offline.push({ about: aboutOf(document, id), ...week });
        if (quietAt(sighting.marks, nowMs) !== null) person.quiet.push(aboutOf(document, id));
      }
    });
    return people;
  }

  async #report(
    { offline, quiet, total }: Devices,
    { entry, device, key, zone, endMs }: Report,
  ): Promise<void> {
    const { store, taken, texts, log } = this.#options;
    const isKnown = store.recall(key) !== null;
    const isTaken = taken !== null && (await taken.hashOf(TAKEN_AS, key)) !== null;
    if (isTaken || (isKnown && taken === null)) return;
    if (!isKnown) {
      if (store.isBusy(entry.type)) throw new Error(NO_ROOM);
      const facts = { weekEndsMs: endMs, devices: offline, quietDevices: quiet, total };
      const text = weeklyOf(entry.lang, facts, { ...texts, timeZone: zone });
      const { ids } = await store.accept(draftFor(entry, device, text, null), { key, hash: key });
      log.info('notified', { devices: total, kind: 'weekly', ids: ids[0] });
    }
    await taken?.remember(TAKEN_AS, { key, hash: key });
  }
}

function keyOf(person: string, endMs: number): string {
  return `weekly ${mondayOf(endMs)} ${hashOf(person)}`;
}
