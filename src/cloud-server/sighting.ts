/**
 * How the watch shows a device. Used by watch.ts.
 */
import type { Clock } from '../system/clock.js';
import type { Sighting } from './fleet-store.js';
import { type Moment, wallMsOf } from './moment.js';
import type { Presence } from './presence.js';
import type { DeviceStatus } from './status.js';

/** What the watch knows of a device. */
interface Seen {
  readonly presence: Presence;
  readonly heard: Moment;
  readonly since: Moment | null;
  readonly status: DeviceStatus;
}

/** The device of that id, with the wall times of its moments. */
export function sightingOf(id: string, { presence, heard, since, status }: Seen, clock: Clock): Sighting {
  const state = presence.said === 'moved' ? 'moved' : presence.state;
  const heardMs = wallMsOf(heard, clock);
  const sinceMs = state === 'offline' ? heardMs : since && wallMsOf(since, clock);
  return { id, state, heardMs, sinceMs, status };
}
