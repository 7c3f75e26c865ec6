/**
 * `GET /metrics`: the state in Prometheus' text format 0.0.4.
 */
import type { Exchange } from '../http/exchange.js';
import { LINK_STATES, RELAY_STATES, STORAGE_STATES } from '../views.js';
import type { ApiContext } from './parts.js';

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

type Kind = 'gauge' | 'counter';
type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

/** `GET /metrics` */
export async function getMetrics(exchange: Exchange, context: ApiContext): Promise<void> {
  await context.store.look();
  exchange.send(200, CONTENT_TYPE, metricsOf(context));
}

function metricsOf(context: ApiContext): string {
  const { store, clock } = context;
  const { queued, sending, deferred, failed, oldestAgeMs, bytes, held } = store.counts();
  const { used, limits, reason } = store.room();
  const storage = store.storage();
  const uptimeMs = clock.bootMs() - context.startedBootMs;
  return [
    metric('build_info', 'gauge', 'Always 1; the label tells the version.', [
      [{ version: context.version }, 1],
    ]),
    metric('uptime_seconds', 'gauge', 'Time since the daemon started.', only(uptimeMs / 1000)),
    metric(
      'queue_messages',
      'gauge',
      'Messages in the queue, and failed ones, by status.',
      by('status', { queued, sending, deferred, failed }),
    ),
    metric(
      'queue_oldest_age_seconds',
      'gauge',
      'Age of the oldest message not final.',
      only(oldestAgeMs / 1000),
    ),
    metric('queue_bytes', 'gauge', 'Bytes of the journal and the spool.', only(bytes)),
    metric('queue_held', 'gauge', '1 while delivery is held.', only(Number(held))),
    metric(
      'queue_full',
      'gauge',
      '1 while no message of 1 KiB is accepted for one of the limits.',
      only(Number(reason !== null)),
    ),
    metric('queue_used_messages', 'gauge', 'Messages that count in the limit.', only(used.messages)),
    metric('queue_limit_messages', 'gauge', 'Messages that may wait.', only(limits.messages)),
    metric('queue_used_bytes', 'gauge', 'Bytes on the disk that count in the limit.', only(used.bytes)),
    metric('queue_limit_bytes', 'gauge', 'Bytes that may be on the disk.', only(limits.bytes)),
    metric('queue_used_memory_bytes', 'gauge', 'Memory for what is stored.', only(used.memoryBytes)),
    metric(
      'queue_limit_memory_bytes',
      'gauge',
      'Memory that what is stored may take; left out where there is no limit.',
      known(limits.memoryBytes),
    ),
    metric('accepted_total', 'counter', 'Messages accepted since the start.', only(context.acceptedTotal)),
    metric(
      'refused_total',
      'counter',
      'Refused requests to post messages since the start, by problem.',
      by('code', context.refusedTotals),
    ),
    metric(
      'outcomes_total',
      'counter',
      'Attempts by how they ended, since the start.',
      by('outcome', { ...context.outcomes() }),
    ),
    metric(
      'relay_state',
      'gauge',
      '1 for the state the relay is in.',
      oneOf(RELAY_STATES, context.relayState().state),
    ),
    metric('destinations', 'gauge', 'Entries of the address book.', only(store.book.counts.count)),
    metric(
      'destinations_synced',
      'gauge',
      '1 while the cloud has the address book as it is here.',
      only(Number(context.syncState()?.synced ?? false)),
    ),
    metric(
      'link_state',
      'gauge',
      '1 for the state the cloud link is in.',
      oneOf(LINK_STATES, context.linkState()?.state ?? 'disabled'),
    ),
    metric(
      'settings_refused',
      'gauge',
      '1 while the settings found last cannot be used and earlier ones are followed.',
      only(Number(context.settingsFault() !== null)),
    ),
    metric(
      'storage_state',
      'gauge',
      '1 for the state the storage is in.',
      oneOf(STORAGE_STATES, storage.state),
    ),
    metric(
      'storage_free_bytes',
      'gauge',
      'Free bytes where the state is kept; left out where nobody could look.',
      known(storage.freeBytes),
    ),
    metric(
      'storage_damaged',
      'gauge',
      'Pieces of the store that could not be read back.',
      only(storage.damaged),
    ),
  ].join('');
}

function metric(name: string, kind: Kind, help: string, samples: readonly Sample[]): string {
  const lines = samples.map(([labels, value]) => {
    const text = Object.entries(labels).map(([label, words]) => `${label}=${JSON.stringify(words)}`);
    return `fieldpost_${name}${text.length === 0 ? '' : `{${text.join(',')}}`} ${value}\n`;
  });
  return `# HELP fieldpost_${name} ${help}\n# TYPE fieldpost_${name} ${kind}\n${lines.join('')}`;
}

function only(value: number): Sample[] {
  return [[{}, value]];
}

/** No sample where it is null or infinite. */
function known(value: number | null): Sample[] {
  return value !== null && Number.isFinite(value) ? only(value) : [];
}

function by(label: string, values: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(values).map(([words, value]) => [{ [label]: words }, value]);
}

function oneOf(states: readonly string[], present: string): Sample[] {
  return states.map((state) => [{ state }, Number(state === present)]);
}
