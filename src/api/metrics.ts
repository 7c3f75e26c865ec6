/**
 * `GET /metrics`: the state in Prometheus' text format 0.0.4. Used by routes.ts.
 */
import type { Exchange } from '../http/exchange.js';
import type { Store } from '../store/store.js';
import { LINK_STATES, RELAY_STATES, STORAGE_STATES } from '../views.js';
import type { ApiContext } from './parts.js';

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

/** `GET /metrics` */
export async function getMetrics(exchange: Exchange, context: ApiContext): Promise<void> {
  await context.store.look();
  exchange.send(200, CONTENT_TYPE, metricsOf(context).join(''));
}

function metricsOf(context: ApiContext): string[] {
  const { store, version } = context;
  const uptimeMs = context.clock.bootMs() - context.startedBootMs;
  const isSynced = context.syncState()?.synced ?? false;
  const link = context.linkState()?.state ?? 'disabled';
  const isRefused = context.settingsFault() !== null;
  return [
    gauge('build_info', 'Always 1; the label tells the version.', [[{ version }, 1]]),
    gauge('uptime_seconds', 'Time since the daemon started.', uptimeMs / 1000),
    ...queueMetrics(store),
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
    gauge('destinations', 'Entries of the address book.', store.book.counts.count),
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
    ...storageMetrics(context),
  ];
}

function queueMetrics(store: Store): string[] {
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

function storageMetrics({ store, settings }: ApiContext): string[] {
  const { state, freeBytes, damaged } = store.storage();
  return [
    gauge('storage_state', '1 for the state the storage is in.', oneOf(STORAGE_STATES, state)),
    gauge('storage_free_bytes', 'Free bytes in the state directory; left out if unknown.', freeBytes),
    gauge('storage_min_free_bytes', 'Bytes that must stay free (FIELDPOST_MIN_FREE).', settings.minFreeBytes),
    gauge(
      'storage_damaged',
      'Pieces of the store that recovery could not read, and files of a newer version.',
      damaged,
    ),
  ];
}

/** A number, or several with labels. A null or infinite number gives no sample. */
type Measured = number | null | readonly Sample[];

function gauge(name: string, help: string, measured: Measured): string {
  return metric(name, 'gauge', help, measured);
}

function counter(name: string, help: string, measured: Measured): string {
  return metric(name, 'counter', help, measured);
}

function metric(name: string, kind: string, help: string, measured: Measured): string {
  const lines = samplesOf(measured).map(([labels, value]) => {
    const text = Object.entries(labels).map(([label, words]) => `${label}=${JSON.stringify(words)}`);
    return `fieldpost_${name}${text.length === 0 ? '' : `{${text.join(',')}}`} ${value}\n`;
  });
  return `# HELP fieldpost_${name} ${help}\n# TYPE fieldpost_${name} ${kind}\n${lines.join('')}`;
}

function samplesOf(measured: Measured): readonly Sample[] {
  if (measured === null) return [];
  if (typeof measured !== 'number') return measured;
  return Number.isFinite(measured) ? [[{}, measured]] : [];
}

function by(label: string, values: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(values).map(([words, value]) => [{ [label]: words }, value]);
}

function oneOf(states: readonly string[], present: string): Sample[] {
  return states.map((state) => [{ state }, Number(state === present)]);
}
