/**
 * Which devices the page shows, in which order, and what it says of all of them. Pure. Used by device-item.ts and fleet.ts.
 */
import { counted } from '../../sizes.js';

/** A device, as `GET /devices` tells it. A cloud of an earlier version leaves out `since`. */
export interface FleetDevice {
  readonly id: string;
  readonly state: string;
  readonly since?: string | null;
  readonly lastHeartbeat: string | null;
  readonly destinations: number | null;
}

/** The states, those that need a person first. */
export const DEVICE_STATES = ['offline', 'online', 'moved', 'unheard'] as const;

const rankOf = ({ state }: FleetDevice) => (DEVICE_STATES as readonly string[]).indexOf(state);

/** The devices in this state (empty: in any) whose id has these words in it: those that are offline first, then by id. */
export function selected(devices: readonly FleetDevice[], words: string, state: string): FleetDevice[] {
  const wanted = words.trim().toLowerCase();
  return devices
    .filter((one) => (state === '' || one.state === state) && one.id.toLowerCase().includes(wanted))
    .sort((a, b) => rankOf(a) - rankOf(b) || (a.id < b.id ? -1 : 1));
}

/** One sentence about all devices, and its mood. */
export function fleetHeadline(devices: readonly FleetDevice[]): readonly [mood: string, words: string] {
  if (devices.length === 0) return ['soft', 'no device has called yet'];
  const count = (state: string) => devices.filter((one) => one.state === state).length;
  const [offline, online] = [count('offline'), count('online')];
  const all = counted(devices.length, 'device');
  if (offline > 0) return ['bad', `${offline} of ${all} ${offline === 1 ? 'is' : 'are'} offline`];
  if (online === devices.length) return ['good', online === 1 ? '1 device, online' : `${all}, all online`];
  return ['good', `${online} of ${all} ${online === 1 ? 'is' : 'are'} online, none is offline`];
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
  unheard: 'has a document, has never called',
};
