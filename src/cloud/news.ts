/**
 * News that people must be told, and the batches in which they are told: what a store hands to teller.ts.
 */
import { shapeOf } from '../base/json.js';
import type { Happening } from './texts/texts.js';

/** News with an id, drawn at random. */
export type News = Happening & { readonly id: string };

/** News of one device. */
export type DeviceNews = News & { readonly device: string };

/**
 * News that came within DIGEST_WINDOW_MS. The first one opens the batch. `id` is drawn at random. After a crash the same
 * batch has the same members. The news of one device are in order.
 */
export interface NewsBatch {
  readonly id: string;
  readonly news: readonly DeviceNews[];
}

/** What came of telling a batch. */
export interface Telling {
  /** The ids of the news that everybody has been told. They leave the batch. */
  readonly told: ReadonlySet<string>;
  /** Why others are not told yet; null: nothing failed. Then they wait for the end of the batch. */
  readonly refusal: Error | null;
}

const isOutage = shapeOf({ kind: (value) => value === 'silent' || value === 'stopped', 'sinceMs|null': 1.5 });
const isReturn = shapeOf({ kind: (value) => value === 'back', 'sinceMs|null': 1.5, 'lastedMs|null': 1.5 });

/** True for what happened, as a store has written it. */
export const isHappening = (value: unknown): value is Happening => isOutage(value) || isReturn(value);
