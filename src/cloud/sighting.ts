/**
 * How a watch shows a device.
 */
import type { Sighting } from './fleet-store.js';
import type { Presence } from './presence.js';
import type { DeviceStatus } from './status.js';

/** What a watch knows of a device. Wall times are null if they are not known. */
interface Known {
  readonly presence: Presence;
  readonly heardMs: number | null;
  /** Since when it is in its state; of one that is offline it does not count. */
  readonly sinceMs: number | null;
  readonly status: DeviceStatus;
}

/** The device of that id. */
export function sightingOf(id: string, { presence, heardMs, sinceMs, status }: Known): Sighting {
  const state = presence.said === 'moved' ? 'moved' : presence.state;
  return { id, state, heardMs, sinceMs: state === 'offline' ? heardMs : sinceMs, status };
}
