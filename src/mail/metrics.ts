/**
 * The metrics of a store, in Prometheus' text format.
 */
import { by, type MetricsText, oneOf } from '../base/http/metrics-text.js';
import { STORAGE_STATES } from '../base/views.js';
import type { Store } from './store/store.js';

/** The queue of a store. */
export function queueMetrics({ gauge }: MetricsText, store: Store): string[] {
  const { queued, sending, deferred, failed, oldestAgeMs, bytes, held } = store.counts();
  const { used, limits, reason } = store.room();
  const statuses = by('status', { queued, sending, deferred, failed });
  const isFull = Number(reason !== null);
  return [
    gauge('queue_messages', 'Messages in the queue, and failed ones, by status.', statuses),
    gauge(
      'queue_oldest_age_seconds',
      'Age of the oldest message that is not final; 0 if there is none.',
      oldestAgeMs / 1000,
    ),
    gauge('queue_bytes', 'Bytes of the journal, the spool and the snapshots on the disk.', bytes),
    gauge('queue_held', '1 while delivery is held.', Number(held)),
    gauge('queue_full', '1 while a limit keeps the queue from accepting even a message of 1 KiB.', isFull),
    gauge('queue_used_messages', 'Messages in the queue, and reserved places.', used.messages),
    gauge('queue_limit_messages', 'Limit of messages in the queue (FIELDPOST_MAX_QUEUE).', limits.messages),
    gauge('queue_used_bytes', 'Bytes on the disk that count in the limit.', used.bytes),
    gauge('queue_limit_bytes', 'Limit of bytes on the disk (FIELDPOST_MAX_SPOOL).', limits.bytes),
    gauge(
      'queue_used_memory_bytes',
      'Memory that the stored messages, keys and address book use.',
      used.memoryBytes,
    ),
    gauge(
      'queue_limit_memory_bytes',
      'Limit of that memory; left out if there is no limit.',
      limits.memoryBytes,
    ),
  ];
}

/** The storage of a store. */
export function storageMetrics({ gauge }: MetricsText, store: Store, minFreeBytes: number): string[] {
  const { state, freeBytes, damaged } = store.storage();
  return [
    gauge('storage_state', '1 for the state the storage is in.', oneOf(STORAGE_STATES, state)),
    gauge('storage_free_bytes', 'Free bytes in the state directory; left out if unknown.', freeBytes),
    gauge('storage_min_free_bytes', 'Bytes that must stay free (FIELDPOST_MIN_FREE).', minFreeBytes),
    gauge(
      'storage_damaged',
      'Pieces of the store that recovery could not read, and files of a newer version.',
      damaged,
    ),
  ];
}
