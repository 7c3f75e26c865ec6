/**
 * The table of settings: every FIELDPOST_ key with its default, what is allowed, what it is for. parseConfig
 * reads by it, `fieldpost check` lists by it, and the README's table is held against it by a test.
 */
import { API_SETTINGS } from './api-settings.js';
import { CLOUD_SERVER_SETTINGS } from './cloud-server-settings.js';
import { relays, showRelay } from './endpoints.js';
import { heloNameOf, senderOf } from './names.js';
import { credential, given, hidden, optional, SECRET, type Setting } from './setting.js';
import {
  address,
  bearer,
  cloudUrl,
  deviceId,
  duration,
  heloName,
  integer,
  oneOf,
  path,
  refuse,
  secretFile,
  size,
} from './values.js';

const userName = {
  allowed: 'the name the relay knows this device by',
  parse: (text: string) => (/\p{Cc}/u.test(text) ? refuse('it has a control character') : text),
};
const password = {
  allowed: 'the password itself; better a file',
  parse: (text: string) => (/\p{Cc}/u.test(text) ? refuse('it has a control character or line break') : text),
};
const caFile = { allowed: 'the path of a file with PEM certificates', parse: (text: string) => text };

const certificates = (pem: string | null | undefined) =>
  pem == null ? '' : `(${pem.split('-----BEGIN CERTIFICATE-----').length - 1} certificates)`;

/** Every setting there is, in the order in which people read of them. */
export const SETTINGS = {
  FIELDPOST_RELAY: optional(
    relays,
    'none: messages are held',
    (config) => config.relays.map(showRelay).join(','),
    'Where mail goes, in the order to try. The port is 465 for `smtps`, else 587 with a user and 25 without. `smtp` insists on STARTTLS when there is a user or the relay is not on this device, unless `?tls=never` allows clear text.',
  ),
  FIELDPOST_RELAY_USER: optional(userName, 'none', null, 'The user at every relay whose URL names none.'),
  FIELDPOST_RELAY_PASSWORD_FILE: optional(
    secretFile,
    credential('relay-password'),
    null,
    "The relay user's password.",
    SECRET,
  ),
  FIELDPOST_RELAY_PASSWORD: optional(
    password,
    'none',
    (config) => hidden(config.relayPassword),
    'The same in the environment, where other programs may see it: works and warns.',
    SECRET,
  ),
  FIELDPOST_RELAY_CA_FILE: optional(
    caFile,
    "the system's",
    (config) => certificates(config.relayCa),
    "The private CA of the relays' certificates.",
  ),
  FIELDPOST_RELAY_CONNECTIONS: given(
    integer(1, 4),
    '1',
    (config) => config.relayConnections,
    'Connections to the relay at the same time.',
  ),
  FIELDPOST_SMTP_TIMEOUT: given(
    duration('1s', '10m'),
    '60s',
    (config) => config.smtpTimeoutMs,
    'How long to wait for each answer of the relay (10 minutes after the final dot).',
  ),
  FIELDPOST_FROM: optional(
    address,
    '`fieldpost@<hostname>`',
    senderOf,
    'The sender of the mails. Many relays refuse one without a full domain, or one that is not theirs.',
  ),
  FIELDPOST_HELO_NAME: optional(
    heloName,
    'the host name of the device',
    heloNameOf,
    'What this device calls itself towards relays (EHLO). Some take mail only from a full name.',
  ),
  ...API_SETTINGS,
  FIELDPOST_STATE_DIR: optional(
    path,
    '`$STATE_DIRECTORY`, else `./.fieldpost`',
    (config) => config.stateDir,
    'Where messages and the address book are kept.',
  ),
  FIELDPOST_LOG: given(
    oneOf(['debug', 'info', 'warn', 'error']),
    'info',
    (config) => config.logLevel,
    'The least level that is logged.',
  ),
  FIELDPOST_BACKOFF_MIN: given(
    duration('100ms', '1h'),
    '1s',
    (config) => config.backoffMinMs,
    'The first pause after trouble with a relay or the cloud; it doubles each time.',
  ),
  FIELDPOST_BACKOFF_MAX: given(
    duration('1s', '1d'),
    '5m',
    (config) => config.backoffMaxMs,
    'The longest such pause.',
  ),
  FIELDPOST_RETRY_MIN: given(
    duration('1s', '1d'),
    '1m',
    (config) => config.retryMinMs,
    "The least pause before a message's next attempt after trouble of its own.",
  ),
  FIELDPOST_RETRY_MAX: given(
    duration('1s', '7d'),
    '1h',
    (config) => config.retryMaxMs,
    'The longest such pause.',
  ),
  FIELDPOST_MAX_AGE_EMAIL: given(
    duration('1m', '365d'),
    '5d',
    (config) => config.maxAgeMs[1],
    'After so much time with a relay in reach an email expires.',
  ),
  FIELDPOST_MAX_AGE_SMS: given(
    duration('1m', '365d'),
    '24h',
    (config) => config.maxAgeMs[2],
    'The age at which an SMS expires.',
  ),
  FIELDPOST_MAX_AGE_PHONE: given(
    duration('1m', '365d'),
    '1h',
    (config) => config.maxAgeMs[3],
    'The age at which a phone call expires.',
  ),
  FIELDPOST_MAX_AGE_PUSH: given(
    duration('1m', '365d'),
    '24h',
    (config) => config.maxAgeMs[4],
    'The age at which a push message expires.',
  ),
  FIELDPOST_CLOUD: optional(
    cloudUrl,
    'none: no cloud link',
    (config) => config.cloud?.url ?? '',
    'The base URL of the cloud. Needs a device id and a key.',
  ),
  FIELDPOST_DEVICE_ID: optional(
    deviceId,
    'none',
    (config) => config.cloud?.deviceId ?? '',
    'The name of this device in the cloud.',
  ),
  FIELDPOST_CLOUD_KEY_FILE: optional(
    secretFile,
    credential('cloud-key'),
    null,
    "This device's key to the cloud.",
    SECRET,
  ),
  FIELDPOST_CLOUD_KEY: optional(
    bearer,
    'none',
    (config) => hidden(config.cloud?.key),
    'The same in the environment: works and warns.',
    SECRET,
  ),
  FIELDPOST_CLOUD_CA_FILE: optional(
    caFile,
    "the system's",
    (config) => certificates(config.cloud?.ca),
    "The private CA of the cloud's certificate.",
  ),
  FIELDPOST_CLOUD_CERT_FILE: optional(
    caFile,
    'none',
    (config) => certificates(config.cloud?.clientCertificate?.cert),
    'The certificate, with its chain, by which the cloud knows this device (mutual TLS); the key is asked for all the same.',
  ),
  FIELDPOST_CLOUD_CERT_KEY_FILE: optional(
    secretFile,
    'none',
    null,
    "That certificate's private key: PEM, without a passphrase.",
    SECRET,
  ),
  FIELDPOST_HEARTBEAT: given(
    duration('5s', '1h'),
    '30s',
    (config) => config.heartbeatMs,
    'How often the cloud is told that this device is alive.',
  ),
  ...CLOUD_SERVER_SETTINGS,
  FIELDPOST_MAX_BODY: given(
    size('1KiB', '16MiB'),
    '1MiB',
    (config) => config.maxBodyBytes,
    'The largest JSON body of a request.',
  ),
  FIELDPOST_MAX_BATCH: given(
    integer(1, 1000),
    '100',
    (config) => config.maxBatch,
    'Messages in one request.',
  ),
  FIELDPOST_MAX_ATTACHMENTS: given(
    integer(0, 100),
    '10',
    (config) => config.maxAttachments,
    'Attachments of one message.',
  ),
  FIELDPOST_MAX_MESSAGE: given(
    size('1KiB', '1GiB'),
    '25MiB',
    (config) => config.maxMessageBytes,
    'One message with its attachments.',
  ),
  FIELDPOST_MAX_QUEUE: given(
    integer(1, 1_000_000),
    '10000',
    (config) => config.maxQueue,
    'Messages waiting at the same time.',
  ),
  FIELDPOST_MAX_SPOOL: given(
    size('4MiB', '1024GiB'),
    '256MiB',
    (config) => config.maxSpoolBytes,
    'What the state directory may hold.',
  ),
  FIELDPOST_MIN_FREE: given(
    // A start with the disk full of our own messages needs room for a segment or two, or it delivers none.
    size('4MiB', '1024GiB'),
    '16MiB',
    (config) => config.minFreeBytes,
    'What is left free on the file system.',
  ),
  FIELDPOST_KEEP_FAILED: given(
    duration('0s', '365d'),
    '7d',
    (config) => config.keepFailedMs,
    'How long the content of failed messages is kept for a retry.',
  ),
  FIELDPOST_HISTORY: given(
    integer(0, 100_000),
    '1000',
    (config) => config.history,
    'Finished messages that stay readable, without their content.',
  ),
};

/** The key of a setting. */
export type SettingKey = keyof typeof SETTINGS;

/** What the settings parse to. */
export type SettingValues = {
  [Key in SettingKey]: (typeof SETTINGS)[Key] extends Setting<infer T> ? T : never;
};
