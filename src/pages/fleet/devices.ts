/**
 * Which devices the page asks for, and what it says of them. Pure.
 */

import { ATTENTION } from '../../base/fleet-lines.js';

/** The query that lists the devices, those that need a person first. */
export function queryFor(words: string, state: string, limit: number): URLSearchParams {
  const query = new URLSearchParams({ order: ATTENTION, limit: String(limit) });
  if (words.trim() !== '') query.set('q', words.trim());
  if (state === ATTENTION) query.set('attention', 'true');
  else if (state !== '') query.set('state', state);
  return query;
}

/** Somebody whom the cloud tells. */
export interface Told {
  readonly type: number;
  readonly destination: string;
  readonly name: string;
  readonly lang: string;
  /** When they are told, by the rules of their entry as it stands; empty: at once. */
  readonly rules: string;
  /** When they last confirmed a drill; null: never. */
  readonly confirmedAt: string | null;
}

/** The people in the `destinations` of a document, each once, and how many entries are none. */
export function peopleIn(destinations: unknown): {
  readonly people: readonly Told[];
  readonly others: number;
} {
  const people = new Map<string, Told>();
  let others = 0;
  for (const value of Array.isArray(destinations) ? destinations : []) {
    const { type, destination, name, lang, confirmedAt } = (value ?? {}) as Partial<
      Record<keyof Told, unknown>
    >;
    const key = `${type} ${destination}`;
    if (![1, 2, 3, 4].includes(type as number) || typeof destination !== 'string') others++;
    else if (!people.has(key)) {
      people.set(key, {
        ...{ type: type as number, destination, name: String(name), lang: String(lang) },
        rules: rulesIn(value as Readonly<Record<string, unknown>>),
        confirmedAt: typeof confirmedAt === 'string' ? confirmedAt : null,
      });
    }
  }
  return { people: [...people.values()], others };
}

/** `after 60 min; only Mo-Fr 07:00-18:00 (Europe/Berlin); a report each Monday`. */
function rulesIn({ after_min: minutes, hours, zone, weekly }: Readonly<Record<string, unknown>>): string {
  const where = typeof zone === 'string' ? ` (${zone})` : '';
  return [
    typeof minutes === 'number' && minutes > 0 ? `after ${minutes} min` : [],
    typeof hours === 'string' ? `only ${hours}${where}` : [],
    weekly === true ? 'a report each Monday' : [],
  ]
    .flat()
    .join('; ');
}

/** The state in a sentence, after which `since` may follow. */
export const STATE_WORDS: Readonly<Record<string, string>> = {
  offline: 'last heard',
  online: 'since',
  moved: 'to another cloud',
  unheard: 'has never called',
};
