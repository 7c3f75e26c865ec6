/**
 * `GET /metrics`: the state in Prometheus' text format.
 */
import type { Exchange } from '../../base/http/exchange.js';
import { by, METRICS_TYPE, type MetricsText, metricsText, oneOf } from '../../base/http/metrics-text.js';
import { LINK_STATES, RELAY_STATES, STORAGE_STATES } from '../../base/views.js';
import type { Store } from '../../mail/store/store.js';
import type { ApiContext } from './context.js';

const DAEMON = metricsText('fieldpost_');

/** `GET /metrics` */
export async function getMetrics(exchange: Exchange, context: ApiContext): Promise<void> {
  await context.store.look();
  exchange.send(200, METRICS_TYPE, metricsOf(context).join(''));
}

function metricsOf(context: ApiContext): string[] {
  const { store, version } = context;
  const { gauge, counter } = DAEMON;
  const uptimeMs = context.clock.bootMs() - context.startedBootMs;
  const isSynced = context.syncState()?.synced ?? false;
  const link = context.linkState()?.state ?? 'disabled';
  const isRefused = context.settingsFault() !== null;
  return [
    gauge('build_info', 'Always 1; the label tells the version.', [[{ version }, 1]]),
    gauge('uptime_seconds', 'Time since the daemon started.', uptimeMs / 1000),
    ...queueMetrics(DAEMON, store),
    counter('accepted_total', 'Messages accepted since the start.', context.accepted.total),
    counter(
      'refused_total',
      'Messages refused since the start, by error code: POSTs, and senders, recipients and mails over SMTP.',
      by('code', context.refused.byCode),
    ),
    counter(
      'outcomes_total',
      'Outcomes of messages since the start, by kind; each deferral counts.',
      by('outcome', context.outcomes()),
    ),
    gauge('relay_state', '1 for the state the relay is in.', oneOf(RELAY_STATES, context.relayState().state)),
    gauge('destinations', 'Entries of the address book.', context.book.counts.count),
    gauge(
      'destinations_synced',
      "1 while the cloud's copy of the address book is up to date.",
      Number(isSynced),
    ),
    gauge('link_state', '1 for the state the cloud link is in.', oneOf(LINK_STATES, link)),
    gauge(
      'settings_refused',
      '1 while the daemon uses earlier settings because the latest are invalid.',
      Number(isRefused),
    ),
    gauge('clock_trusted', '0 while the wall clock is known to be wrong.', Number(context.clockTrusted())),
    ...storageMetrics(DAEMON, store, context.settings.minFreeBytes),
  ];
}

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
