/**
 * Follows the address book of a simulated world at both ends: the calls over the link, and the state that the device
 * reports.
 */
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { HttpAnswer } from '../../src/base/system/https.js';
import type { Call, LinkWatcher } from './link.js';
import { DOCUMENT, durationMs } from './settings.js';
import type { Answer } from './wire.js';
import type { World } from './world.js';

type Fields = Readonly<Record<string, unknown>>;

/** A sync writes nothing more after this long without a call. */
const QUIET_MS = 10 * SECOND_MS;
/** A heartbeat times out, or the next one starts, within this time. */
const TRY_MS = MINUTE_MS;

export class BookWatch implements LinkWatcher {
  readonly #world: World;
  /** The tick of the last GET of the last sync; 0: that GET proves nothing. */
  #askedAt = 0;
  /** The tick of the last PUT; null: a GET came after it. */
  #putAt: number | null = null;
  #underWay = 0;
  #calledMs = 0;
  /** The ETag that the device saw last. */
  #etag: string | null = null;
  /** How many documents have reached the cloud. */
  arrivals = 0;
  /** Since when the way to the cloud is free, and since when the network is down; null: it is not. */
  #goodMs: number | null = null;
  #downMs: number | null = null;

  constructor(world: World) {
    this.#world = world;
  }

  asked({ kind, method }: Call): void {
    if (kind !== 'destinations') return;
    const { edits } = this.#world.people;
    this.#underWay++;
    this.#calledMs = this.#world.timeline.nowMs;
    // An edit during a PUT gets another sync: the last GET of this sync proves nothing about it.
    const at = method === 'GET' ? edits.asked() : null;
    if (at !== null && (this.#putAt === null || !edits.isEditedSince(this.#putAt))) this.#askedAt = at;
    this.#putAt = method === 'PUT' ? edits.tick() : null;
  }

  answered({ kind, method, body }: Call, { status }: Answer): void {
    if (kind !== 'destinations') return;
    if (method === 'GET') this.#world.people.edits.asked();
    if (method === 'GET' || status >= 300) return;
    const { destinations } = JSON.parse(body ?? '{}') as { destinations: unknown[] };
    this.arrivals++;
    this.#world.people.edits.arrived(destinations);
    this.#world.notices.document(destinations);
  }

  told({ kind, method, fate }: Call, answer: HttpAnswer | null): void {
    if (kind !== 'destinations') return;
    this.#underWay--;
    this.#calledMs = this.#world.timeline.nowMs;
    const isGood = answer !== null && fate !== 'portal' && (answer.status < 300 || answer.status === 304);
    if (isGood) this.#etag = answer.headers.etag ?? this.#etag;
    // A 404 of the cloud is true too: there is no document.
    const isTrue = isGood || (answer?.status === 404 && fate !== 'stray');
    if (method === 'GET' && !isTrue) this.#askedAt = 0;
  }

  processEnded(): void {
    this.#underWay = 0;
    this.#putAt = null;
    this.#askedAt = 0;
    this.#etag = null;
    this.#goodMs = null;
    this.#downMs = null;
    this.#world.people.edits.ended();
  }

  /** Checks what the device reports about link and book. */
  async look(): Promise<void> {
    const world = this.#world;
    const { device, timeline } = world;
    this.#note();
    if (!world.swarm.hasCloud || world.isAway || device.program === null || device.clock.isAsleep) return;
    const state = await world.awaited(world.programs.state());
    if (state === null || device.program === null) return;
    const { link = {}, destinations = {} } = state;
    this.#lookAtLink(link);
    const { reason, lastSync, synced } = destinations;
    const isQuiet = this.#underWay === 0 && timeline.nowMs - this.#calledMs >= QUIET_MS;
    if (!isQuiet || reason !== null || typeof lastSync !== 'string' || this.#askedAt === 0) return;
    const syncedMs = timeline.nowMs - (device.clock.wallMs() - Date.parse(lastSync));
    if (syncedMs < this.#calledMs - 1) return;
    world.people.edits.synced(this.#askedAt);
    if (synced !== true) return;
    const { edits } = world.people;
    const at = edits.tick();
    const [listed, found] = [await world.awaited(world.people.look()), await this.document()];
    const isOld = found === null || found.etag !== this.#etag || edits.isEditedSince(at);
    if (listed === null || isOld) return;
    world.people.compare(listed, found.destinations);
  }

  /** The document as the cloud's screen gets it; null: there is none, or the cloud does not answer. */
  async document(): Promise<{ readonly etag: string; readonly destinations: readonly unknown[] } | null> {
    const headers = { Authorization: 'Bearer any' };
    const found = await this.#world.awaited(
      this.#world.cloud.ask({ method: 'GET', path: DOCUMENT, headers }),
    );
    if (found?.status !== 200) return null;
    return { ...JSON.parse(found.body.toString()), etag: String(found.headers.etag) };
  }

  /** Called after every step: the link changes only there. */
  #note(): void {
    const { link, cloud, device, timeline, isAway } = this.#world;
    const isWell = link.isGood && cloud.isUp && device.isUp && !isAway;
    this.#goodMs = isWell ? (this.#goodMs ?? timeline.nowMs) : null;
    this.#downMs = link.isUp || !device.isUp || isAway ? null : (this.#downMs ?? timeline.nowMs);
  }

  /** The link must report a good or a bad network that lasts this long. */
  #lookAtLink({ state, reason }: Fields): void {
    const { timeline, model, swarm, settings } = this.#world;
    const { nowMs } = timeline;
    const heartbeatMs = Math.max(durationMs(settings.FIELDPOST_HEARTBEAT), durationMs(swarm.cloudDelay) / 3);
    const comesMs = 1.1 * Math.min(heartbeatMs, HOUR_MS);
    // A Retry-After of ten minutes, and the longest pause.
    const returnsMs = 1.1 * 10 * MINUTE_MS + 10 * MINUTE_MS;
    const isKnown = (sinceMs: number | null, ms: number) => sinceMs !== null && nowMs - sinceMs > ms;
    const words = `the link is ${state} (${reason})`;
    if (isKnown(this.#goodMs, Math.max(comesMs, returnsMs) + TRY_MS) && state !== 'online')
      model.violation(`${words}, and all is well for ${(nowMs - (this.#goodMs ?? 0)) / SECOND_MS} s`);
    if (isKnown(this.#downMs, comesMs + returnsMs + TRY_MS) && state !== 'offline')
      model.violation(`${words}, and the network is down for ${(nowMs - (this.#downMs ?? 0)) / SECOND_MS} s`);
  }
}
