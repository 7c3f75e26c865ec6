/**
 * A device, as the watch shows it to the operator. Pure.
 */
import type { Marks } from './marks.js';
import type { DeviceStatus, Presence } from './presence.js';

/** A device, as the watch shows it. */
export interface Sighting {
  readonly id: string;
  readonly state: 'online' | 'offline' | 'moved';
  /** Wall time of its last heartbeat; null: not known. */
  readonly heardMs: number | null;
  /** Wall time since which it is in this state; if it is offline, of its last heartbeat. Null: not known. */
  readonly sinceMs: number | null;
  readonly status: DeviceStatus;
  readonly marks: Marks;
}

/** The device as the watch shows it. `sinceMs`: since when it is in its state; of one that is offline it does not count. */
export function sightingOf(
  id: string,
  { said, state: heard }: Presence,
  { heardMs, sinceMs, status, marks }: Pick<Sighting, 'heardMs' | 'sinceMs' | 'status' | 'marks'>,
): Sighting {
  const state = said === 'moved' ? 'moved' : heard;
  return { id, state, heardMs, sinceMs: state === 'offline' ? heardMs : sinceMs, status, marks };
}
