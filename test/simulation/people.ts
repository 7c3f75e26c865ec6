/**
 * Those who edit the address book of a simulated world: programs at the device, and the cloud's own screen. Each target
 * belongs to one entry for ever, and each name is written once, so that it tells who wrote it. Used by world.ts.
 */
import type { Chance } from './chance.js';
import { codeOf } from './programs.js';
import type { Answer, Request } from './wire.js';

const DESTINATIONS = '/api/internal/offline_notification_destinations';

type Side = 'device' | 'cloud';

interface Person {
  readonly destination: string;
  /** At the device, once that is known. */
  id: number | null;
  readonly uid: string | null;
  /** Somebody was told that it is there. */
  isCreated: boolean;
  /** By whom it may have been removed, and for certain. */
  readonly removers: Set<Side>;
  isRemoved: boolean;
  readonly editors: Set<Side>;
  /** What its name may be: the last that was certain, and those written since. */
  names: string[];
}

interface Entry {
  readonly uid: string;
  readonly type: number;
  readonly destination: string;
  readonly lang: string;
  readonly name: string;
}

export interface PeopleOptions {
  readonly chance: Chance;
  readonly device: (request: Request) => Promise<Answer | null>;
  readonly cloud: (request: Request) => Promise<Answer | null>;
  readonly cloudPath: string;
  readonly violation: (words: string) => void;
}

export class People {
  readonly #options: PeopleOptions;
  readonly #people: Person[] = [];
  #made = 0;
  #names = 0;

  constructor(options: PeopleOptions) {
    this.#options = options;
  }

  async add(): Promise<void> {
    const person = this.#person('device', null);
    const answer = await this.#options.device({
      method: 'POST',
      path: DESTINATIONS,
      ...json(this.#fields(person)),
    });
    if (answer?.status === 201) {
      person.isCreated = true;
      person.id = (JSON.parse(answer.body.toString()) as { id: number }).id;
    } else this.#check('an added destination', answer);
  }

  async edit(): Promise<void> {
    const person = this.#known();
    if (person === null) return;
    person.editors.add('device');
    const name = this.#name();
    person.names.push(name);
    const answer = await this.#options.device({
      method: 'PUT',
      path: `${DESTINATIONS}/${person.id}`,
      ...json({ ...this.#fields(person), name }),
    });
    if (answer?.status === 200) person.names = person.names.slice(person.names.indexOf(name));
    else if (answer?.status !== 404 || (person.removers.size === 0 && person.isCreated))
      this.#check('an edited destination', answer);
  }

  async remove(): Promise<void> {
    const person = this.#known();
    if (person === null) return;
    person.removers.add('device');
    const answer = await this.#options.device({ method: 'DELETE', path: `${DESTINATIONS}/${person.id}` });
    if (answer?.status === 204) person.isRemoved = true;
    else if (answer?.status !== 404) this.#check('a removed destination', answer);
  }

  /** The cloud's screen changes the document. */
  async screen(how: 'adds' | 'edits' | 'removes'): Promise<void> {
    const { chance, cloud, cloudPath: path } = this.#options;
    const headers = { Authorization: 'Bearer any' };
    const found = await cloud({ method: 'GET', path, headers });
    if (found === null || (found.status !== 200 && found.status !== 404)) return;
    const document = found.status === 200 ? JSON.parse(found.body.toString()) : { destinations: [] };
    const entries = document.destinations as Entry[];
    const one = entries.length > 0 ? chance.one(entries) : null;
    const person = this.#people.find(({ destination }) => destination === one?.destination);
    let next = entries;
    let sure = (): void => undefined;
    if (how === 'adds') {
      const uid = uidOf(++this.#made);
      const added = this.#person('cloud', uid);
      next = [...entries, { uid, ...this.#fields(added) } as Entry];
      sure = () => {
        added.isCreated = true;
      };
    } else if (one !== null && person !== undefined) {
      if (how === 'removes') {
        person.removers.add('cloud');
        next = entries.filter((entry) => entry !== one);
      } else {
        person.editors.add('cloud');
        const name = this.#name();
        person.names.push(name);
        next = entries.map((entry) => (entry === one ? { ...entry, name } : entry));
      }
    } else return;
    const condition =
      found.status === 200 ? { 'If-Match': String(found.headers.etag) } : { 'If-None-Match': '*' };
    const { headers: type, body } = json({ ...document, destinations: next });
    const answer = await cloud({ method: 'PUT', path, headers: { ...headers, ...condition, ...type }, body });
    if (answer !== null && answer.status < 300) sure();
  }

  /** Both sides are quiet and in step: holds what they have against what was promised. */
  check(listed: readonly Omit<Entry, 'uid'>[], document: readonly Entry[] | null): void {
    const { violation } = this.#options;
    const local = listed.map(textOf).sort();
    const remote = document?.map(textOf).sort() ?? local;
    if (local.join() !== remote.join())
      violation(`the list is ${local.join('; ')}, the document ${remote.join('; ')}`);
    const names = new Map(listed.map(({ destination, name }) => [destination, name]));
    for (const { destination, isCreated, isRemoved, removers, editors, names: may } of this.#people) {
      const name = names.get(destination);
      if (name === undefined) {
        if (isCreated && removers.size === 0) violation(`${destination} is gone, and nobody has removed it`);
        continue;
      }
      if (isRemoved && removers.size === 1 && !editors.has('cloud'))
        violation(`${destination} is back after the device removed it`);
      if (!may.includes(name) && !editors.has('cloud'))
        violation(`${destination} is called ${name}, not ${may.join(' or ')}`);
    }
  }

  #known(): Person | null {
    const known = this.#people.filter(({ id, isRemoved }) => id !== null && !isRemoved);
    return known.length === 0 ? null : this.#options.chance.one(known);
  }

  #person(_side: Side, uid: string | null): Person {
    const person: Person = {
      destination: `p${this.#people.length}@example.com`,
      id: null,
      uid,
      isCreated: false,
      removers: new Set(),
      isRemoved: false,
      editors: new Set(),
      names: [this.#name()],
    };
    this.#people.push(person);
    return person;
  }

  #fields({ destination, names }: Person): Omit<Entry, 'uid'> {
    return { type: 1, destination, lang: 'en', name: names.at(-1) as string };
  }

  #name(): string {
    return `name ${++this.#names}`;
  }

  #check(what: string, answer: Answer | null): void {
    if (answer === null || answer.status === 507 || answer.status === 503) return;
    this.#options.violation(`${what} is answered ${answer.status} ${codeOf(answer)}`);
  }
}

function json(body: unknown): { headers: Record<string, string>; body: string } {
  return { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
}

function textOf({ type, destination, lang, name }: Omit<Entry, 'uid'>): string {
  return `${type} ${destination} ${lang} ${name}`;
}

function uidOf(n: number): string {
  return `00000000-0000-4000-9000-${n.toString(16).padStart(12, '0')}`;
}
