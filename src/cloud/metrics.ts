/**
 * `GET /metrics` of the reference cloud.
 */
import type { Exchange } from '../base/http/exchange.js';
import { by, METRICS_TYPE, metricsText } from '../base/http/metrics-text.js';
import { queueMetrics, storageMetrics } from '../mail/metrics.js';
import type { CloudParts } from './calls.js';

const CLOUD = metricsText('fieldpost_cloud_');
const ANY = { state: null, part: '', order: 'id', version: null, attention: false, after: null } as const;

/** `GET /metrics` */
export async function getMetrics(exchange: Exchange, parts: CloudParts): Promise<void> {
  await parts.store.look();
  exchange.send(200, METRICS_TYPE, (await metricsOf(parts)).join(''));
}

async function metricsOf(parts: CloudParts): Promise<string[]> {
  const { config, system, devices, fleet, store, accepted, totals, refused, delivery } = parts;
  const { gauge, counter } = CLOUD;
  const { counts } = await devices.list({ ...ANY, limit: 1 });
  const { attention, ...states } = counts;
  let documentCount = 0;
  for (const _ of fleet.documents.ids) documentCount++;
  return [
    gauge('build_info', 'Always 1; the label tells the version.', [[{ version: system.version }, 1]]),
    gauge('devices', 'Devices by state.', by('state', states)),
    gauge(
      'devices_attention',
      'Devices whose relay is failing or refusing, or with failed messages.',
      attention,
    ),
    gauge('documents', 'Devices with a destinations document.', documentCount),
    counter('heartbeats_total', 'Heartbeats since the start.', totals.heartbeats),
    counter('refused_total', 'Calls refused since the start, by error code.', by('code', refused.byCode)),
    counter(
      'devices_refused_total',
      'Calls of new devices refused since the start because there are too many devices.',
      devices.refused,
    ),
    gauge('untold_devices', 'Devices with news that people have not been told yet.', fleet.watch.untold),
    counter(
      'accepted_total',
      'Messages to people accepted since the start: notifications, and messages of devices.',
      by('kind', accepted.totals),
    ),
    gauge('outbox_messages', 'Waiting messages by part of the outbox.', by('part', accepted.waiting)),
    counter(
      'outcomes_total',
      'Outcomes of messages to people since the start, by kind; each deferral counts.',
      by('outcome', delivery.outcomes),
    ),
    ...queueMetrics(CLOUD, store),
    ...storageMetrics(CLOUD, store, config.minFreeBytes),
  ];
}
