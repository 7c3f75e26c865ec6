/**
 * The devices in `presence.json`, in memory and as written.
 */
import { mapOf, shapeOf } from '../base/json.js';
import { CLOUD_GRACE_MS } from '../base/limits.js';
import type { PendingNews } from './batches.js';
import { MOMENT, type Moment } from './moment.js';
import { isHappening, type News } from './news.js';
import { afterAbsence, firstHeard, type Presence, SAID, type Said } from './presence.js';
import { type DeviceStatus, keptStatus, NO_STATUS, statusOf } from './status.js';

/** A device in memory. */
export interface Watched {
  presence: Presence;
  heard: Moment;
  /** The heartbeat that began this presence, or this absence after a move; null: not known. */
  since: Moment | null;
  status: DeviceStatus;
  /** News that somebody has not been told yet, in order. */
  news: PendingNews[];
}

/** A device in the file. */
export interface WrittenDevice extends Pick<Presence, 'state' | 'said' | 'everyMs'> {
  readonly heard: Moment;
  /** Files of earlier versions do not have it. */
  readonly since?: Moment | null;
  /** Left out if the device reports nothing of itself, and in files of earlier versions. */
  readonly status?: DeviceStatus;
  /** Files of earlier versions do not have the batch. */
  readonly news: readonly (News & { readonly batch?: string })[];
}

/** The device for the file. */
export function writtenOf({ presence, heard, since, status, news }: Watched): WrittenDevice {
  const { state, said, everyMs } = presence;
  const more = status === NO_STATUS ? {} : { status };
  const untold = news.map(({ news, batch }) => ({ ...news, batch }));
  return { state, said, everyMs, heard, since, ...more, news: untold };
}

const isMoment = shapeOf(MOMENT);
const isNamed = shapeOf({ id: '', 'batch?': '' });
const isFile = mapOf({
  state: (value) => value === 'online' || value === 'offline',
  said: (value) => SAID.includes(value as Said),
  everyMs: 1.5,
  heard: MOMENT,
  'since?': (value) => value === null || isMoment(value),
  'status?': {},
  news: [(one) => isNamed(one) && isHappening(one)],
});

/** The devices in the file's value; null if it has another shape. */
export function writtenIn(value: unknown): readonly [id: string, written: WrittenDevice][] | null {
  return isFile(value) ? Object.entries(value as Record<string, WrittenDevice>) : null;
}

/** The device from the file. The time until `nowMs` does not count as silence. News without a batch get `oldBatch`. */
export function restored(written: WrittenDevice, nowMs: number, oldBatch: string): Watched {
  const { state, said, everyMs, heard, since = null, status = NO_STATUS, news } = written;
  const fresh = afterAbsence(firstHeard(nowMs), nowMs, CLOUD_GRACE_MS);
  const pending = news.map(({ batch, ...one }) => ({
    news: one,
    batch: batch ?? oldBatch,
    isKept: batch !== undefined,
  }));
  const kept = keptStatus(NO_STATUS, statusOf({ ...status }));
  return { presence: { ...fresh, state, said, everyMs }, heard, since, status: kept, news: pending };
}
