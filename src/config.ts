/**
 * The settings of operations.md: the environment (and an env file) made into one complete Config, or into
 * the list of everything that is wrong with it. The keys themselves stand in config/settings.ts.
 */
import { checkTogether } from './config/consistency.js';
import { completeRelay } from './config/endpoints.js';
import { Findings } from './config/findings.js';
import {
  readClientCertificate,
  readDeviceKeys,
  readPem,
  readSecret,
  readWebhookAuth,
} from './config/secrets.js';
import type { Setting } from './config/setting.js';
import { SETTINGS, type SettingKey, type SettingValues } from './config/settings.js';
import { FieldpostError } from './errors.js';
import { type Address, parseAddress } from './message/address.js';
import type { LogLevel } from './system/log.js';

/** One relay of FIELDPOST_RELAY. */
export interface RelayConfig {
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  /** `implicit`: smtps. `starttls`: required. `offered`: STARTTLS if the relay has it. `never`: clear text. */
  readonly tls: 'implicit' | 'starttls' | 'offered' | 'never';
  /** Null: no authentication. */
  readonly user: string | null;
}

/** Where the local API listens; a tcp host has no brackets. */
export type ListenConfig =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | {
      readonly kind: 'unix';
      readonly path: string;
      /** Whoever calls here may send and ask after what was sent, and nothing else. */
      readonly sendOnly?: true;
    };

/** The link to the cloud. */
export interface CloudConfig {
  /** Without a slash at its end. */
  readonly url: string;
  readonly deviceId: string;
  readonly key: string;
  /** PEM of a private CA, or null for the system's. */
  readonly ca: string | null;
  /** PEM of what this device shows to the cloud, or null for no mutual TLS. */
  readonly clientCertificate: { readonly cert: string; readonly key: string } | null;
}

/** What the reference cloud (`fieldpost cloud`) is given; mail goes by the same relays as a device's. */
export interface CloudServerConfig {
  readonly listen: readonly ListenConfig[];
  /** The keys of each device, and the operator's under `*`. Null: any device is let in, with any key. */
  readonly keys: ReadonlyMap<string, readonly string[]> | null;
  /** A silence as long as this is an outage; the second is for a device that has said it was stopping. */
  readonly delayMs: number;
  readonly stopDelayMs: number;
  /** Where SMS, phone and push messages are posted; null: they are not taken. */
  readonly webhook: string | null;
  /** The webhook's `Authorization`; null: it wants none. */
  readonly webhookAuth: string | null;
  /** IANA name of the zone in which people are told times. */
  readonly timeZone: string;
}

/** Every setting, complete and checked. */
export interface Config {
  readonly relays: readonly RelayConfig[];
  readonly relayPassword: string | null;
  /** PEM of a private CA, or null for the system's. */
  readonly relayCa: string | null;
  readonly relayConnections: number;
  readonly smtpTimeoutMs: number;
  /** Null: one of the device's host name (config/names.ts). */
  readonly from: Address | null;
  /** What is said in EHLO; null: the device's host name. */
  readonly heloName: string | null;
  readonly listen: readonly ListenConfig[];
  readonly allowedHosts: readonly string[];
  readonly apiToken: string | null;
  /** Lets a client send and ask after what it sent, and nothing else. */
  readonly sendToken: string | null;
  readonly stateDir: string;
  readonly logLevel: LogLevel;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  readonly retryMinMs: number;
  readonly retryMaxMs: number;
  /** By message type: 1 email, 2 SMS, 3 phone, 4 push. */
  readonly maxAgeMs: Readonly<Record<1 | 2 | 3 | 4, number>>;
  /** Null: no cloud, the link is disabled. */
  readonly cloud: CloudConfig | null;
  readonly heartbeatMs: number;
  readonly cloudServer: CloudServerConfig;
  readonly maxBodyBytes: number;
  readonly maxBatch: number;
  readonly maxAttachments: number;
  readonly maxMessageBytes: number;
  readonly maxQueue: number;
  readonly maxSpoolBytes: number;
  readonly minFreeBytes: number;
  readonly keepFailedMs: number;
  readonly history: number;
}

/** One thing that is wrong with the configuration. */
export interface ConfigProblem {
  readonly key: string;
  /** As it was given; null where it is, or may be, a secret. */
  readonly value: string | null;
  /** What is wrong, and what is allowed. */
  readonly detail: string;
}

/** What parseConfig gives: a Config that is good, or what keeps it from being one. */
export type ParsedConfig =
  | { readonly config: Config; readonly warnings: readonly string[] }
  | { readonly problems: readonly ConfigProblem[] };

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Reads a text file; throws what node:fs throws. */
export type ReadText = (path: string) => string;

/**
 * The configuration in `env`, its secrets and certificates read with `read`; or every problem it has, at
 * once. A key set to nothing counts as not set. An unknown key is a problem, but only a warning where it is among
 * `accepted`: then a newer version has run with it on this device.
 */
export function parseConfig(
  env: Environment,
  read: ReadText,
  device: { hostname: string },
  accepted: ReadonlySet<string> = new Set(),
): ParsedConfig {
  const findings = new Findings(env, accepted);
  const values = parseSettings(env, findings);
  const secrets = {
    relayPassword: readSecret('FIELDPOST_RELAY_PASSWORD', 'relay-password', values, env, read, findings),
    apiToken: readSecret('FIELDPOST_API_TOKEN', 'api-token', values, env, read, findings),
    sendToken: readSecret('FIELDPOST_SEND_TOKEN', 'send-token', values, env, read, findings),
    cloudKey: readSecret('FIELDPOST_CLOUD_KEY', 'cloud-key', values, env, read, findings),
  };
  const relayCa = readPem('FIELDPOST_RELAY_CA_FILE', values, read, findings);
  const cloudCa = readPem('FIELDPOST_CLOUD_CA_FILE', values, read, findings);
  const clientCertificate = readClientCertificate(values, read, findings);
  const relays = (values.FIELDPOST_RELAY ?? []).map((url) => completeRelay(url, values.FIELDPOST_RELAY_USER));
  const cloud =
    values.FIELDPOST_CLOUD !== null && values.FIELDPOST_DEVICE_ID !== null && secrets.cloudKey !== null
      ? {
          url: values.FIELDPOST_CLOUD,
          deviceId: values.FIELDPOST_DEVICE_ID,
          key: secrets.cloudKey,
          ca: cloudCa,
          clientCertificate,
        }
      : null;
  const config: Config = {
    relays,
    relayPassword: secrets.relayPassword,
    relayCa,
    relayConnections: values.FIELDPOST_RELAY_CONNECTIONS,
    smtpTimeoutMs: values.FIELDPOST_SMTP_TIMEOUT,
    from: values.FIELDPOST_FROM,
    heloName: values.FIELDPOST_HELO_NAME,
    listen: values.FIELDPOST_LISTEN,
    allowedHosts: values.FIELDPOST_ALLOWED_HOSTS ?? [],
    apiToken: secrets.apiToken,
    sendToken: secrets.sendToken,
    stateDir: values.FIELDPOST_STATE_DIR ?? stateDirectoryOf(env),
    logLevel: values.FIELDPOST_LOG,
    backoffMinMs: values.FIELDPOST_BACKOFF_MIN,
    backoffMaxMs: values.FIELDPOST_BACKOFF_MAX,
    retryMinMs: values.FIELDPOST_RETRY_MIN,
    retryMaxMs: values.FIELDPOST_RETRY_MAX,
    maxAgeMs: {
      1: values.FIELDPOST_MAX_AGE_EMAIL,
      2: values.FIELDPOST_MAX_AGE_SMS,
      3: values.FIELDPOST_MAX_AGE_PHONE,
      4: values.FIELDPOST_MAX_AGE_PUSH,
    },
    cloud,
    heartbeatMs: values.FIELDPOST_HEARTBEAT,
    cloudServer: {
      listen: values.FIELDPOST_CLOUD_SERVER_LISTEN,
      keys: readDeviceKeys(values, read, findings),
      delayMs: values.FIELDPOST_CLOUD_SERVER_DELAY,
      stopDelayMs: values.FIELDPOST_CLOUD_SERVER_STOP_DELAY,
      webhook: values.FIELDPOST_CLOUD_SERVER_WEBHOOK,
      webhookAuth: readWebhookAuth(values, read, findings),
      timeZone: values.FIELDPOST_CLOUD_SERVER_TIME_ZONE,
    },
    maxBodyBytes: values.FIELDPOST_MAX_BODY,
    maxBatch: values.FIELDPOST_MAX_BATCH,
    maxAttachments: values.FIELDPOST_MAX_ATTACHMENTS,
    maxMessageBytes: values.FIELDPOST_MAX_MESSAGE,
    maxQueue: values.FIELDPOST_MAX_QUEUE,
    maxSpoolBytes: values.FIELDPOST_MAX_SPOOL,
    minFreeBytes: values.FIELDPOST_MIN_FREE,
    keepFailedMs: values.FIELDPOST_KEEP_FAILED,
    history: values.FIELDPOST_HISTORY,
  };
  checkHostname(config, device.hostname, findings);
  checkTogether(config, values, secrets.cloudKey, findings);
  return findings.problems.length > 0
    ? { problems: findings.problems }
    : { config, warnings: findings.warnings };
}

/** Where state is kept where no setting says otherwise. systemd lists several directories with colons; the first is ours. */
function stateDirectoryOf(env: Environment): string {
  return env.STATE_DIRECTORY?.split(':')[0] || './.fieldpost';
}

/** The state directory that `env` names, also where something else in it is wrong. */
export function namedStateDirectory(env: Environment): string {
  return env.FIELDPOST_STATE_DIR?.trim() || stateDirectoryOf(env);
}

/** A problem as one line. */
export function formatProblem({ key, value, detail }: ConfigProblem): string {
  return `${value === null ? key : `${key}=${value}`}: ${detail}`;
}

/** The effective configuration of a device by key, as one would write it; secrets hidden, empty where nothing is set. */
export function describeConfig(config: Config, hostname: string): Record<string, string> {
  const lines: Record<string, string> = {};
  for (const [key, setting] of Object.entries<Setting<unknown>>(SETTINGS)) {
    if (setting.show !== null) lines[key] = setting.show(config, hostname);
  }
  return lines;
}

/** The value of every key; a bad one is reported and stands at its default, so that the rest can be looked at. */
function parseSettings(env: Environment, findings: Findings): SettingValues {
  for (const key of Object.keys(env)) {
    if (key.startsWith('FIELDPOST_') && !Object.hasOwn(SETTINGS, key)) findings.unknown(key);
  }
  const parseOne = ([key, setting]: [string, Setting<unknown>]) => {
    const fallback = setting.fallback === null ? null : setting.parse(setting.fallback);
    const text = env[key]?.trim() ?? '';
    if (text === '') return [key, fallback];
    try {
      return [key, setting.parse(text)];
    } catch (error) {
      if (!(error instanceof FieldpostError)) throw error;
      findings.problem(key as SettingKey, `${error.message} (allowed: ${setting.allowed})`);
      return [key, fallback];
    }
  };
  // What the table promises of each key's type, Object.entries cannot say.
  return Object.fromEntries(Object.entries(SETTINGS).map(parseOne)) as SettingValues;
}

/** Warns of a host name of which no sender can be made. */
function checkHostname({ from }: Config, hostname: string, findings: Findings): void {
  if (from !== null || parseAddress(`fieldpost@${hostname}`) !== null) return;
  findings.warnings.push(
    `the host name ${JSON.stringify(hostname)} cannot stand in an address: mails come from fieldpost@localhost; set FIELDPOST_FROM`,
  );
}
