/**
 * Which devices the page asks for, and what it says of them. Pure.
 */

import { counted } from '../../base/text.js';
import { isRelayDown } from '../../base/views.js';

/** A device, as `GET /devices` tells it. */
export interface FleetDevice {
  readonly id: string;
  readonly name: string | null;
  readonly state: string;
  readonly since: string | null;
  readonly lastHeartbeat: string | null;
  readonly destinations: number | null;
  readonly version: string | null;
  readonly queue: { readonly queued: number; readonly deferred: number; readonly failed: number } | null;
  readonly relay: string | null;
  readonly link: string | null;
}

/** The states, those that need a person first. */
export const DEVICE_STATES = ['offline', 'online', 'moved', 'unheard'] as const;
/** In place of a state: the devices that need a person, in any state. */
export const ATTENTION = 'attention';

type State = (typeof DEVICE_STATES)[number];

/** How many devices are in each state, and how many need a person. */
export type FleetCounts = Readonly<Record<State | typeof ATTENTION, number>>;

/** The query that lists the devices, those that need a person first. */
export function queryFor(words: string, state: string, limit: number): URLSearchParams {
  const query = new URLSearchParams({ order: ATTENTION, limit: String(limit) });
  if (words.trim() !== '') query.set('q', words.trim());
  if (state === ATTENTION) query.set('attention', 'true');
  else if (state !== '') query.set('state', state);
  return query;
}

/** One sentence about all devices, and its mood; `refused`: the calls of devices that are too many. */
export function fleetHeadline(counts: FleetCounts, refused: number): readonly [mood: string, words: string] {
  const { offline, online, attention, unheard } = counts;
  const count = countOf(counts);
  const hasNone = count === unheard;
  const all = counted(count, 'device');
  const some = (part: number) => `${part} of ${all} ${part === 1 ? 'is' : 'are'}`;
  const troubles = [
    ...(attention > 0 ? [`${attention} ${attention === 1 ? 'needs' : 'need'} attention`] : []),
    ...(refused > 0 ? [`there are too many: ${counted(refused, 'call')} of others refused`] : []),
  ];
  const isAllOnline = online === count;
  const rest = isAllOnline
    ? `${all}, ${count === 1 ? '' : 'all '}online`
    : `${some(online)} online, none is offline`;
  const seen = offline > 0 ? `${some(offline)} offline` : hasNone ? 'no device has called yet' : rest;
  const mood = offline > 0 ? 'bad' : troubles.length > 0 ? 'uneasy' : hasNone ? 'soft' : 'good';
  return [mood, [seen, ...troubles].join('; ')];
}

/** The number of all devices. */
export function countOf(counts: FleetCounts): number {
  return DEVICE_STATES.reduce((sum, state) => sum + counts[state], 0);
}

/** Why the device needs a person, in short; null if it does not. */
export function troubleOf({ relay, queue }: Pick<FleetDevice, 'relay' | 'queue'>): string | null {
  const failed = queue?.failed ?? 0;
  const reasons = [
    ...(isRelayDown(relay) ? [`relay ${relay}`] : []),
    ...(failed > 0 ? [`${counted(failed, 'message')} failed`] : []),
  ];
  return reasons.length === 0 ? null : reasons.join(', ');
}

/** The settings of a device for this cloud, one on each line. The key goes into the file. */
export function settingsFor(cloud: string, id: string): string {
  return [
    `FIELDPOST_CLOUD=${cloud.replace(/\/+$/, '')}`,
    `FIELDPOST_DEVICE_ID=${id}`,
    'FIELDPOST_CLOUD_KEY_FILE=/etc/fieldpost/cloud-key',
  ].join('\n');
}

/** Somebody whom the cloud tells. */
export interface Told {
  readonly type: number;
  readonly destination: string;
  readonly name: string;
  readonly lang: string;
}

/** The people in the `destinations` of a document, each once, and how many entries are none. */
export function peopleIn(destinations: unknown): {
  readonly people: readonly Told[];
  readonly others: number;
} {
  const people = new Map<string, Told>();
  let others = 0;
  for (const value of Array.isArray(destinations) ? destinations : []) {
    const { type, destination, name, lang } = (value ?? {}) as Partial<Record<keyof Told, unknown>>;
    const key = `${type} ${destination}`;
    if (![1, 2, 3, 4].includes(type as number) || typeof destination !== 'string') others++;
    else if (!people.has(key)) {
      people.set(key, { type: type as number, destination, name: String(name), lang: String(lang) });
    }
  }
  return { people: [...people.values()], others };
}

/** The state in a sentence, after which `since` may follow. */
export const STATE_WORDS: Readonly<Record<string, string>> = {
  offline: 'last heard',
  online: 'since',
  moved: 'to another cloud',
  unheard: 'has never called',
};
