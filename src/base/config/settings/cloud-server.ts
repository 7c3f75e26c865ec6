/**
 * The settings of the reference cloud (`fieldpost cloud`), which a device does not need.
 */
import { listeners } from '../endpoints.js';
import { etcdPrefix, etcdStore, etcdUser } from '../etcd-store.js';
import { authorization, certificates, deviceKeys, privateKey } from '../file-kinds.js';
import { given, inFile, optional } from '../row.js';
import { duration, integer, pageUrl, password, timeZone, webhookUrl } from '../values.js';

export const CLOUD_SERVER_SETTINGS = {
  cloudServerListen: given({
    key: 'FIELDPOST_CLOUD_SERVER_LISTEN',
    kind: listeners,
    fallback: '127.0.0.1:43780',
    about:
      'Where the reference cloud listens (`fieldpost cloud`). Anything but loopback and unix sockets needs keys.',
  }),
  /** The keys of each device, and the operator's under `*`. Null: any device is let in, with any key. */
  cloudServerKeys: inFile({
    key: 'FIELDPOST_CLOUD_SERVER_KEYS_FILE',
    kind: deviceKeys,
    none: 'none: any device is let in, with any key',
    follows: 'live',
    about:
      'On each line a device and its key; `*` in place of a device is the operator, who may call for all.',
    isSecret: true,
  }),
  cloudServerDelayMs: given({
    key: 'FIELDPOST_CLOUD_SERVER_DELAY',
    kind: duration('1s', '1d'),
    fallback: '90s',
    about: 'The reference cloud tells people that a device is offline after it was silent for this long.',
  }),
  cloudServerStopDelayMs: given({
    key: 'FIELDPOST_CLOUD_SERVER_STOP_DELAY',
    kind: duration('1s', '7d'),
    fallback: '15m',
    about: 'The same for a device that has said that it was stopping.',
  }),
  /** Where SMS, phone and push messages are posted; null: they are not taken. */
  cloudServerWebhook: optional({
    key: 'FIELDPOST_CLOUD_SERVER_WEBHOOK',
    kind: webhookUrl,
    none: 'none: such messages are not taken',
    about: 'Where the reference cloud posts SMS, phone and push messages.',
    isSecret: true,
  }),
  cloudServerWebhookAuth: inFile({
    key: 'FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE',
    kind: authorization,
    about: 'What the webhook wants in `Authorization`, such as `Bearer abc` or `Basic dTpw`.',
    isSecret: true,
  }),
  cloudServerHourlyLimit: given({
    key: 'FIELDPOST_CLOUD_SERVER_HOURLY_LIMIT',
    kind: integer(1, 1_000_000),
    fallback: '60',
    about: 'SMS and phone calls that the reference cloud takes of one device in an hour.',
  }),
  cloudServerTimeZone: given({
    key: 'FIELDPOST_CLOUD_SERVER_TIME_ZONE',
    kind: timeZone,
    fallback: 'UTC',
    about: 'The zone in which the reference cloud tells people times.',
  }),
  cloudServerPublicUrl: optional({
    key: 'FIELDPOST_CLOUD_SERVER_PUBLIC_URL',
    kind: pageUrl,
    none: 'none: mails have no such line',
    about: 'A page about the devices. The mails of the reference cloud end with a line with this URL.',
  }),
  /** Null: files below the state directory. */
  cloudServerStore: optional({
    key: 'FIELDPOST_CLOUD_SERVER_STORE',
    kind: etcdStore,
    none: 'none: files in `FIELDPOST_STATE_DIR`',
    about:
      'The etcd in which several instances of the reference cloud keep their common state: `etcd:` and the URLs of its members.',
  }),
  cloudServerStorePrefix: given({
    key: 'FIELDPOST_CLOUD_SERVER_STORE_PREFIX',
    kind: etcdPrefix,
    fallback: 'fieldpost/',
    about: 'The beginning of all keys in etcd. Instances with the same prefix are one cloud.',
  }),
  cloudServerStoreCa: inFile({
    key: 'FIELDPOST_CLOUD_SERVER_STORE_CA_FILE',
    kind: certificates,
    none: "the system's",
    about: "The private CA of etcd's certificates.",
  }),
  cloudServerStoreCert: inFile({
    key: 'FIELDPOST_CLOUD_SERVER_STORE_CERT_FILE',
    kind: certificates,
    about: 'The certificate, with its chain, by which etcd knows this instance.',
  }),
  cloudServerStoreKey: inFile({
    key: 'FIELDPOST_CLOUD_SERVER_STORE_KEY_FILE',
    kind: privateKey,
    about: "That certificate's private key: PEM, without a passphrase.",
    isSecret: true,
  }),
  cloudServerStoreUser: optional({
    key: 'FIELDPOST_CLOUD_SERVER_STORE_USER',
    kind: etcdUser,
    about: 'The user at etcd.',
  }),
  cloudServerStorePassword: inFile({
    key: 'FIELDPOST_CLOUD_SERVER_STORE_PASSWORD_FILE',
    kind: password,
    about: "The etcd user's password.",
    isSecret: true,
  }),
};
