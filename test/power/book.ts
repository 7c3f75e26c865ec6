/**
 * Edits the address book of a device that loses its power, one edit after the other. Each target belongs to one entry. The
 * answers tell which names an entry may have.
 */
import type { Chance } from '../simulation/chance.js';
import type { Answer, Request } from '../simulation/wire.js';

const DESTINATIONS = '/api/internal/offline_notification_destinations';

/** Null: it is not in the book. */
type Name = string | null;

interface Entry {
  readonly destination: string;
  id: number | null;
  /** The names it may have: the last confirmed one, and those asked for since. */
  may: Name[];
}

export interface BookOptions {
  readonly ask: (request: Request) => Promise<Answer | null>;
  readonly chance: Chance;
  readonly onWrong: (words: string) => void;
}

export class Book {
  /** Edits that were answered. */
  edits = 0;
  readonly #options: BookOptions;
  readonly #entries: Entry[] = [];
  #names = 0;
  #idMax = 0;

  constructor(options: BookOptions) {
    this.#options = options;
  }

  async edit(): Promise<void> {
    const { chance } = this.#options;
    const here = this.#entries.filter(({ id, may }) => id !== null && !may.includes(null));
    if (here.length < 3 || chance.is(0.3)) return await this.#add();
    const entry = chance.one(here);
    const path = `${DESTINATIONS}/${entry.id}`;
    if (chance.is(0.3)) {
      await this.#change(entry, null, 204, { method: 'DELETE', path });
      return;
    }
    const name = `name ${++this.#names}`;
    await this.#change(entry, name, 200, { method: 'PUT', path, ...json(fieldsOf(entry, name)) });
  }

  /** Compares what the device lists with its earlier answers. */
  async check(): Promise<void> {
    const { ask, onWrong } = this.#options;
    const answer = await ask({ method: 'GET', path: DESTINATIONS });
    if (answer?.status !== 200) return onWrong(`the address book is answered ${answer?.status}`);
    const listed = JSON.parse(answer.body.toString()) as { id: number; destination: string; name: string }[];
    for (const { destination } of listed)
      if (!this.#entries.some((entry) => entry.destination === destination))
        onWrong(`${destination} is listed, which nobody added`);
    for (const entry of this.#entries) {
      const found = listed.find(({ destination }) => destination === entry.destination);
      const name = found?.name ?? null;
      if (!entry.may.includes(name))
        onWrong(`${entry.destination} is ${name}, and was answered ${entry.may.join(' or ')}`);
      if (found !== undefined && entry.id !== null && entry.id !== found.id)
        onWrong(`${entry.destination} was ${entry.id} and is ${found.id}`);
      entry.may = [name];
      entry.id = found?.id ?? entry.id;
    }
  }

  async #add(): Promise<void> {
    const entry: Entry = { destination: `p${this.#entries.length}@example.com`, id: null, may: [null] };
    this.#entries.push(entry);
    const name = `name ${++this.#names}`;
    const asked = { method: 'POST', path: DESTINATIONS, ...json(fieldsOf(entry, name)) };
    const answer = await this.#change(entry, name, 201, asked);
    if (answer === null) return;
    const { id } = JSON.parse(answer.body.toString()) as { id: number };
    if (id <= this.#idMax) this.#options.onWrong(`the id ${id} is used again`);
    this.#idMax = id;
    entry.id = id;
  }

  /** Asks for a change; gives the answer if it was done. */
  async #change(entry: Entry, to: Name, status: number, asked: Request): Promise<Answer | null> {
    entry.may.push(to);
    const answer = await this.#options.ask(asked);
    if (answer === null || answer.status === 503) return null;
    if (answer.status !== status) {
      this.#options.onWrong(
        `${asked.method} ${entry.destination} is answered ${answer.status} ${answer.body}`,
      );
      return null;
    }
    this.edits++;
    entry.may = [to];
    return answer;
  }
}

function fieldsOf({ destination }: Entry, name: string): object {
  return { type: 1, destination, lang: 'en', name };
}

function json(body: object): { headers: Record<string, string>; body: string } {
  return { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
}
