/**
 * What a reload may change: which settings of a running daemon follow a new configuration, and which wait for a
 * restart. Used by daemon.ts.
 */
import type { Config } from '../config.js';

/** What takes a setting up: requests and the log read theirs each time; delivery and a restart begin anew. */
export type Follower = 'log' | 'requests' | 'delivery' | 'restart';

// Every member of Config, by the compiler's care.
const FOLLOWERS: Readonly<Record<keyof Config, readonly [Follower, key: string]>> = {
  logLevel: ['log', 'FIELDPOST_LOG'],
  relays: ['delivery', 'FIELDPOST_RELAY'],
  relayPassword: ['delivery', 'FIELDPOST_RELAY_PASSWORD'],
  relayCa: ['delivery', 'FIELDPOST_RELAY_CA_FILE'],
  relayConnections: ['delivery', 'FIELDPOST_RELAY_CONNECTIONS'],
  smtpTimeoutMs: ['delivery', 'FIELDPOST_SMTP_TIMEOUT'],
  from: ['delivery', 'FIELDPOST_FROM'],
  heloName: ['delivery', 'FIELDPOST_HELO_NAME'],
  backoffMinMs: ['delivery', 'FIELDPOST_BACKOFF_MIN'],
  backoffMaxMs: ['delivery', 'FIELDPOST_BACKOFF_MAX'],
  retryMinMs: ['delivery', 'FIELDPOST_RETRY_MIN'],
  retryMaxMs: ['delivery', 'FIELDPOST_RETRY_MAX'],
  maxAgeMs: ['delivery', 'FIELDPOST_MAX_AGE'],
  maxBodyBytes: ['requests', 'FIELDPOST_MAX_BODY'],
  maxBatch: ['requests', 'FIELDPOST_MAX_BATCH'],
  maxAttachments: ['requests', 'FIELDPOST_MAX_ATTACHMENTS'],
  maxMessageBytes: ['requests', 'FIELDPOST_MAX_MESSAGE'],
  maxQueue: ['requests', 'FIELDPOST_MAX_QUEUE'],
  maxSpoolBytes: ['requests', 'FIELDPOST_MAX_SPOOL'],
  minFreeBytes: ['requests', 'FIELDPOST_MIN_FREE'],
  // Who may call is settled when the sockets are opened; the state directory and the link are taken once.
  listen: ['restart', 'FIELDPOST_LISTEN'],
  allowedHosts: ['restart', 'FIELDPOST_ALLOWED_HOSTS'],
  apiToken: ['restart', 'FIELDPOST_API_TOKEN'],
  sendToken: ['restart', 'FIELDPOST_SEND_TOKEN'],
  stateDir: ['restart', 'FIELDPOST_STATE_DIR'],
  cloud: ['restart', 'FIELDPOST_CLOUD'],
  heartbeatMs: ['restart', 'FIELDPOST_HEARTBEAT'],
  cloudServer: ['restart', 'FIELDPOST_CLOUD_SERVER'],
  keepFailedMs: ['restart', 'FIELDPOST_KEEP_FAILED'],
  history: ['restart', 'FIELDPOST_HISTORY'],
};

/** What is different in a new configuration. */
export interface Changes {
  /** Those members of it that are new and can be followed at once. */
  readonly values: Partial<Config>;
  readonly followers: ReadonlySet<Follower>;
  /** The keys of `values`, and of what is new but waits for a restart. */
  readonly taken: readonly string[];
  readonly waiting: readonly string[];
}

/** What changes from `before` to `after`. */
export function changesBetween(before: Config, after: Config): Changes {
  const members = Object.keys(FOLLOWERS) as (keyof Config)[];
  const changed = members.filter(
    (member) => JSON.stringify(before[member]) !== JSON.stringify(after[member]),
  );
  const live = changed.filter((member) => FOLLOWERS[member][0] !== 'restart');
  const keyOf = (member: keyof Config) => FOLLOWERS[member][1];
  return {
    values: Object.fromEntries(live.map((member) => [member, after[member]])),
    followers: new Set(changed.map((member) => FOLLOWERS[member][0])),
    taken: live.map(keyOf),
    waiting: changed.filter((member) => !live.includes(member)).map(keyOf),
  };
}
