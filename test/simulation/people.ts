/**
 * The editors of the address book of a simulated world: programs at the device, and the cloud's own screen. edits.ts
 * knows which outcomes are right.
 */
import { AFTER_MINUTES_MAX } from '../../src/mail/book/rules.js';
import type { Chance } from './chance.js';
import { Edits } from './edits.js';
import { codeOf } from './programs.js';
import { DOCUMENT } from './settings.js';
import type { Answer } from './wire.js';
import type { World } from './world.js';

const DESTINATIONS = '/api/internal/offline_notification_destinations';
const LANGS = ['nl', 'fr', 'de', 'en', 'it', 'pl', 'es'] as const;
/** How many targets there are where two entries may share one. */
const FEW = 5;
/** No one changes this entry: it gets every mail that people get. */
export const WITNESS = 'witness@example.com';

/** What the device shows of an entry. */
interface Listed {
  readonly id: number;
  readonly type: number;
  readonly destination: string;
  readonly lang: string;
  readonly name: string;
  readonly after_min?: number;
}

interface Entry extends Omit<Listed, 'id'> {
  readonly uid: string;
  readonly [member: string]: unknown;
}

interface Document {
  readonly destinations: readonly unknown[];
}

/** What the cloud's screen does. */
export type ScreenWork = 'adds' | 'edits' | 'removes' | 'adds strange' | 'touches';

export class People {
  /** All edits of the book. A target belongs to one entry for ever. */
  readonly edits = new Edits(({ destination }) => this.#keyOf.get(String(destination)));
  readonly #world: World;
  readonly #chance: Chance;
  readonly #keyOf = new Map<string, string>();
  readonly #idOf = new Map<string, number>();
  readonly #busy = new Set<string>();
  /** Entries that were removed in the cloud and may be put back there. */
  readonly #gone: Entry[] = [];
  /** Values in the document that no device understands; true: it must be there in the end. */
  readonly #strange = new Map<string, boolean>();
  #tokens = 0;

  constructor(world: World, chance: Chance) {
    this.#world = world;
    this.#chance = chance;
  }

  /** A program adds one. */
  async add(destination = this.#target(), lang: string = this.#chance.one(LANGS)): Promise<void> {
    const { device, swarm } = this.#world;
    const fields = { type: 1, destination, lang, name: this.#token('name') };
    const key = this.#made(destination);
    const booked = this.edits.book('device', 'create', key, { name: fields.name, destination });
    const answer = await device.ask({ method: 'POST', path: DESTINATIONS, ...json(fields) });
    if (answer?.status === 201) {
      booked.done();
      this.#seen([JSON.parse(answer.body.toString()) as Listed]);
    } else if (answer?.status === 409 && swarm.hasFewTargets) booked.refused();
    else this.#check('an added destination', answer);
  }

  /** A program changes an entry that the device lists; true if that worked. */
  async edit(): Promise<boolean> {
    return await this.#touch(async ({ id, type, destination, lang: spoken, name }, key) => {
      const { device, swarm } = this.#world;
      const chance = this.#chance;
      const noted: Record<string, unknown> = {};
      if (chance.is(0.7)) noted.name = this.#token('name');
      if (chance.is(0.3) || noted.name === undefined) noted.destination = this.#target(key);
      Object.assign(noted, ruleOf(noted.name));
      const lang = chance.is(0.4) ? chance.one(LANGS) : spoken;
      const booked = this.edits.book('device', 'edit', key, noted);
      // Often the rule is left out, which must keep it.
      const fields = { type, destination, name, ...noted, lang };
      const request = { method: 'PUT', path: `${DESTINATIONS}/${id}`, ...json(fields) };
      const answer = await device.ask(request);
      if (answer?.status === 200) booked.done();
      else if (answer?.status === 404 || (answer?.status === 409 && swarm.hasFewTargets)) booked.refused();
      else this.#check('an edited destination', answer);
      return answer?.status === 200;
    });
  }

  /** A program removes an entry that the device lists, often the newest. */
  async remove(): Promise<void> {
    const pick = this.#chance.is(0.4) ? youngest : undefined;
    await this.#touch(async ({ id }, key) => {
      const booked = this.edits.book('device', 'delete', key);
      const answer = await this.#world.device.ask({ method: 'DELETE', path: `${DESTINATIONS}/${id}` });
      if (answer?.status === 204) booked.done();
      else if (answer?.status === 404) booked.refused();
      else this.#check('a removed destination', answer);
      return answer?.status === 204;
    }, pick);
  }

  /** A program removes a value that the device does not understand. */
  async removeHidden(): Promise<void> {
    const { device } = this.#world;
    const listed = await device.ask({ method: 'GET', path: `${DESTINATIONS}?hidden=true` });
    if (listed?.status !== 200) return;
    const hidden = JSON.parse(listed.body.toString()) as { id: string; entry: unknown }[];
    if (hidden.length === 0) return;
    const { id, entry } = this.#chance.one(hidden);
    if (typeof entry === 'string') this.#strange.set(entry, false);
    const answer = await device.ask({ method: 'DELETE', path: `${DESTINATIONS}/${id}` });
    if (answer?.status !== 204 && answer?.status !== 404) this.#check('a removed hidden entry', answer);
  }

  /** Somebody edits at either side while a sync is under way. */
  async meddle(): Promise<void> {
    const chance = this.#chance;
    const how = chance.one(['edits', 'edits', 'adds', 'removes', 'touches'] as const);
    if (chance.is(0.6)) await this.screen(how);
    else if (chance.is(0.7)) await this.edit();
    else await this.remove();
  }

  /** The entries that the device lists; null: it does not answer. */
  async look(): Promise<readonly Listed[] | null> {
    const answer = await this.#world.device.ask({ method: 'GET', path: DESTINATIONS });
    if (answer?.status !== 200) return null;
    const list = JSON.parse(answer.body.toString()) as Listed[];
    this.#seen(list);
    const targets = new Set(list.map(({ destination }) => destination.toLowerCase()));
    if (targets.size !== list.length) this.#world.model.violation('two destinations have the same target');
    return list;
  }

  async #touch(
    work: (old: Listed, key: string) => Promise<boolean>,
    pick: (list: readonly Listed[]) => Listed = (list) => this.#chance.one(list),
  ): Promise<boolean> {
    const list = (await this.look())?.filter(({ destination }) => {
      return destination !== WITNESS && !this.#busy.has(this.#keyOf.get(destination) ?? '');
    });
    if (list === undefined || list.length === 0) return false;
    const old = pick(list);
    const key = this.#keyOf.get(old.destination);
    if (key === undefined) {
      this.#world.model.violation(`${old.destination} came from nowhere`);
      return false;
    }
    this.#busy.add(key);
    const isDone = await work(old, key);
    this.#busy.delete(key);
    return isDone;
  }

  /** The cloud's screen changes the document. */
  async screen(how: ScreenWork): Promise<void> {
    const { cloud } = this.#world;
    const path = DOCUMENT;
    const headers = { Authorization: 'Bearer any' };
    const found = await cloud.ask({ method: 'GET', path, headers });
    if (found === null || (found.status !== 200 && found.status !== 404)) return;
    const document = (
      found.status === 200 ? JSON.parse(found.body.toString()) : { destinations: [] }
    ) as Document;
    const change = this.#change(how, document.destinations, this.#chance);
    if (change === null) return;
    const { next, booked } = change;
    const condition =
      found.status === 200 ? { 'If-Match': String(found.headers.etag) } : { 'If-None-Match': '*' };
    const { headers: type, body } = json({ ...document, destinations: next });
    const answer = await cloud.ask({
      method: 'PUT',
      path,
      headers: { ...headers, ...condition, ...type },
      body,
    });
    if (answer !== null && answer.status < 300) booked?.done();
    else if (answer?.status === 412) booked?.refused();
  }

  #change(how: ScreenWork, all: readonly unknown[], chance: Chance) {
    const { edits } = this;
    const entries = all.filter((entry) => typeof entry === 'object') as Entry[];
    const mine = entries.filter(({ destination }) => destination !== WITNESS);
    const old = mine.length > 0 ? chance.one(mine) : null;
    const key = old === null ? undefined : this.#keyOf.get(old.destination);
    switch (how) {
      case 'touches':
        return { next: all, booked: null };
      case 'adds strange': {
        const strange = this.#token('strange');
        const done = () => void this.#strange.set(strange, true);
        return { next: [...all, strange], booked: { done, refused: () => undefined } };
      }
      case 'adds': {
        const back = chance.is(0.3) ? this.#gone.pop() : undefined;
        const was = back === undefined ? undefined : this.#keyOf.get(back.destination);
        if (entries.some(({ uid }) => uid === back?.uid)) return null;
        const destination = this.#target(was);
        const uid = back?.uid ?? uidOf(++this.#tokens);
        const noted = { name: this.#token('name'), destination, room: this.#token('room') };
        const booked = edits.book('cloud', 'create', was ?? this.#made(destination), noted);
        return { next: [...all, { uid, type: 1, lang: chance.one(LANGS), ...noted }], booked };
      }
      case 'removes':
        if (old === null || key === undefined) return null;
        this.#gone.push(old);
        return { next: all.filter((entry) => entry !== old), booked: edits.book('cloud', 'delete', key) };
      case 'edits': {
        if (old === null || key === undefined) return null;
        const noted: Record<string, unknown> = {};
        if (chance.is(0.6)) noted.name = this.#token('name');
        if (chance.is(0.3)) noted.destination = this.#target(key);
        if (chance.is(0.3)) noted.room = this.#token('room');
        Object.assign(noted, ruleOf(noted.room));
        const next = all.map((entry) => (entry === old ? { ...old, ...noted } : entry));
        return { next, booked: edits.book('cloud', 'edit', key, noted) };
      }
    }
  }

  /** The cloud has an older document, or none: its edits since that tick are lost. */
  lost(since: number, document: Document | null): void {
    this.edits.lost(since);
    for (const [strange, mustBe] of this.#strange)
      this.#strange.set(strange, mustBe && document?.destinations.includes(strange) === true);
  }

  /** Both sides are in sync: compares them with each other and with the promises. */
  check(listed: readonly Omit<Listed, 'id'>[], document: readonly unknown[] | null): void {
    const { model, swarm } = this.#world;
    this.compare(listed, document ?? []);
    if (swarm.hasFewTargets || document === null) return;
    for (const [strange, mustBe] of this.#strange)
      if (mustBe && !document.includes(strange)) model.violation(`${strange} is lost`);
    for (const words of this.edits.violations(document)) model.violation(words);
  }

  /** Both sides report that they are in sync: compares them with each other. */
  compare(listed: readonly Omit<Listed, 'id'>[], document: readonly unknown[]): void {
    const local = listed.map(textOf).sort();
    const remote = (document.filter((entry) => typeof entry === 'object') as Entry[]).map(textOf).sort();
    if (local.join() !== remote.join())
      this.#world.model.violation(`the list is ${local.join('; ')}, the document ${remote.join('; ')}`);
  }

  /** Checks that an id belongs to one entry for ever. */
  #seen(list: readonly Listed[]): void {
    const { model, swarm } = this.#world;
    if (swarm.hasFewTargets) return;
    for (const { id, destination } of list) {
      const key = this.#keyOf.get(destination);
      if (key === undefined) continue;
      const known = this.#idOf.get(key);
      if (known !== undefined && known !== id) model.violation(`${key} had the id ${known} and has ${id}`);
      this.#idOf.set(key, id);
      const other = [...this.#idOf].find(([one, its]) => its === id && one !== key);
      if (other !== undefined) model.violation(`the id ${id} is that of ${key}, and was that of ${other[0]}`);
    }
  }

  #made(destination: string): string {
    const key = this.#keyOf.get(destination) ?? `entry ${this.#keyOf.size + 1}`;
    this.#keyOf.set(destination, key);
    return key;
  }

  /** A target; it belongs to that entry, if one is named. */
  #target(key?: string): string {
    const { hasFewTargets } = this.#world.swarm;
    const chance = this.#chance;
    const few = `d${chance.below(FEW)}@${chance.one(['example.com', 'EXAMPLE.com'])}`;
    const target = hasFewTargets ? few : `${this.#token('d')}@example.com`;
    if (key !== undefined) this.#keyOf.set(target, key);
    return target;
  }

  #token(kind: string): string {
    return `${kind}${++this.#tokens}`;
  }

  #check(what: string, answer: Answer | null): void {
    if (answer === null || answer.status === 507 || answer.status === 503) return;
    this.#world.model.violation(`${what} is answered ${answer.status} ${codeOf(answer)}`);
  }
}

function json(body: unknown): { headers: Record<string, string>; body: string } {
  return { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
}

/** For every third token a rule with a value of its own; no chance is drawn for it. */
function ruleOf(token: unknown): { after_min?: number } {
  const number = Number(/\d+$/.exec(String(token ?? ''))?.[0] ?? 1);
  return number % 3 === 0 && number <= AFTER_MINUTES_MAX ? { after_min: number } : {};
}

function textOf({ type, destination, lang, name, after_min }: Omit<Listed, 'id'>): string {
  return `${type} ${destination} ${lang} ${name} ${after_min}`;
}

function uidOf(n: number): string {
  return `00000000-0000-4000-9000-${n.toString(16).padStart(12, '0')}`;
}

function youngest(list: readonly Listed[]): Listed {
  return list.reduce((last, one) => (one.id > last.id ? one : last));
}
