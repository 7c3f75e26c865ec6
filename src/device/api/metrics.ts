/**
 * `GET /metrics`: the state in Prometheus' text format.
 */
import type { Exchange } from '../../base/http/exchange.js';
import { by, METRICS_TYPE, metricsText, oneOf } from '../../base/http/metrics-text.js';
import { LINK_STATES, RELAY_STATES, type RelayView } from '../../base/views.js';
import { queueMetrics, storageMetrics } from '../../mail/metrics.js';
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
  const relay = context.relayState();
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
    gauge('relay_state', '1 for the state the relay is in.', oneOf(RELAY_STATES, relay.state)),
    gauge(
      'relay_rate_used',
      'Mails that the relay got within each window (seconds) of FIELDPOST_RELAY_RATE; left out without.',
      rateOf(relay, 'sent'),
    ),
    gauge('relay_rate_limit', 'Limit of these mails.', rateOf(relay, 'limit')),
    gauge('destinations', 'Entries of the address book.', context.book.counts.count),
    gauge(
      'destinations_synced',
      "1 while the cloud's copy of the address book is up to date.",
      Number(isSynced),
    ),
    gauge('link_state', '1 for the state the cloud link is in.', oneOf(LINK_STATES, link)),
    gauge('programs_watched', 'Programs that must give signs.', context.alive.view().count),
    gauge('programs_late', 'Those of them that gave no sign in time.', context.alive.view().late.length),
    gauge(
      'settings_refused',
      '1 while the daemon uses earlier settings because the latest are invalid.',
      Number(isRefused),
    ),
    gauge('clock_trusted', '0 while the wall clock is known to be wrong.', Number(context.clockTrusted())),
    ...storageMetrics(DAEMON, store, context.settings.minFreeBytes),
  ];
}

/** A sample for each window, which its length in seconds names. */
function rateOf({ rate }: RelayView, member: 'sent' | 'limit') {
  return (rate?.used ?? []).map((one) => [{ window: String(one.windowMs / 1000) }, one[member]] as const);
}
