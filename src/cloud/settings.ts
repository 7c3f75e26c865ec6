/**
 * The settings of the reference cloud: its own, and those of the mail engine.
 */
import { clearTextAdvice, listeners, needsToken, showListener } from '../base/config/endpoints.js';
import { given, inFile, optional, type ValuesOf } from '../base/config/row.js';
import { type Check, Settings } from '../base/config/settings.js';
import {
  bearer,
  certificates,
  deviceId,
  duration,
  fits,
  integer,
  items,
  type Kind,
  parseUrl,
  plainText,
  privateKey,
  refuse,
  secretText,
  shown,
  type TextKind,
} from '../base/config/values.js';
import {
  CLOUD,
  completeMail,
  DELIVERY_SETTINGS,
  type MailConfig,
  RELAY_SETTINGS,
  SERVICE_SETTINGS,
  STORE_SETTINGS,
} from '../mail/settings.js';
import { checkMail, effectiveMail } from '../mail/settings-rules.js';

/** A URL to post to; its path or query may be secret. */
const webhookUrl: Kind<string> = {
  allowed: 'an https:// URL (http:// only to this machine itself) without user or fragment',
  parse: (text) => parseUrl(text).href,
  show: (value) => `${new URL(value).origin}/(hidden)`,
};

/** The URL of a page for people to open. */
const pageUrl = shown('an https:// or http:// URL without user, of at most 500 characters', (text) => {
  const url = URL.canParse(text) ? new URL(text) : refuse('not a URL');
  if (!/^https?:$/.test(url.protocol)) refuse('neither https:// nor http://');
  if (url.username !== '' || url.password !== '') refuse('a user or password does not belong here');
  return url.href.length <= 500 ? url.href : refuse('longer than 500 characters');
});

const timeZone = shown('UTC, or a name of the tz database such as Europe/Amsterdam', (text) => {
  // Intl takes memory, and most users have UTC.
  if (text === 'UTC') return text;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone;
  } catch {
    return refuse('not a time zone');
  }
});

/**
 * On each line a device, blanks, and its key; `*` in place of a device is the operator, and `*:read` who may only read. A
 * device may stand on several lines, while its key is being changed.
 */
const deviceKeys: TextKind<ReadonlyMap<string, readonly string[]>> = {
  parse(text) {
    const keys = new Map<string, string[]>();
    for (const [index, line] of text.split('\n').entries()) {
      const [device = '', key = '', ...rest] = line.trim().split(/\s+/);
      if (device === '' || device.startsWith('#')) continue;
      const at = `line ${index + 1}`;
      if (key === '' || rest.length > 0) refuse(`${at} is not a device and its key`);
      if (!/^\*(?::read)?$/.test(device) && !fits(deviceId, device))
        refuse(`${at}: a device has ${deviceId.allowed}`);
      if (!fits(bearer, key)) refuse(`${at}: the key has characters beyond visible ASCII`);
      keys.set(device, [...(keys.get(device) ?? []), key]);
    }
    // Without a key nobody could call, not even the operator.
    return keys.size > 0 ? keys : refuse('it has no key');
  },
  show: (keys) => `(keys of ${keys.size})`,
};

/** An `Authorization` header. */
const authorization: TextKind<string> = {
  parse(text) {
    const found = text.trim();
    return /^[A-Za-z][\w-]* [\x21-\x7e]+$/.test(found)
      ? found
      : refuse('it does not hold a scheme and its credentials, like Bearer abc');
  },
  show: () => '(hidden)',
};

/** The origins of the members of an etcd: `etcd:https://a:2379,https://b:2379`. */
const etcdStore: Kind<readonly string[]> = {
  allowed:
    '`etcd:` and https:// URLs of its members, separated by commas (http:// only to this machine itself)',
  parse(text) {
    const list = /^etcd:(.+)$/.exec(text)?.[1] ?? refuse('it does not begin with etcd:');
    return items(list).map((item) => {
      const url = parseUrl(item);
      return url.pathname === '/' && url.search === '' ? url.origin : refuse('a URL of a member has no path');
    });
  },
  show: (endpoints) => `etcd:${endpoints.join(',')}`,
};

/** The beginning of all keys in etcd. */
const etcdPrefix = shown('visible ASCII of at most 100 characters', (text) =>
  /^[\x21-\x7e]{1,100}$/.test(text) ? text : refuse('it has blanks or other characters, or it is too long'),
);

/** Every setting by its member of CloudConfig. */
export const CLOUD_ROWS = {
  cloudServerListen: given({
    key: 'FIELDPOST_CLOUD_SERVER_LISTEN',
    kind: listeners,
    fallback: '127.0.0.1:43780',
    about:
      'Where the reference cloud listens (`fieldpost-cloud`). Anything but loopback and unix sockets needs keys.',
  }),
  /** The keys of each device, and the operator's under `*`. Null: any device is let in, with any key. */
  cloudServerKeys: inFile({
    key: 'FIELDPOST_CLOUD_SERVER_KEYS_FILE',
    kind: deviceKeys,
    none: 'none: any device is let in, with any key',
    follows: 'live',
    about:
      'On each line a device and its key; `*` in place of a device is the operator, who may call for all, and `*:read` is who may only read.',
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
  /** Where news of devices are posted for the operator's own tools; null: nowhere. */
  cloudServerHook: optional({
    key: 'FIELDPOST_CLOUD_SERVER_HOOK',
    kind: webhookUrl,
    none: 'none: no tool is told',
    about:
      "Where the reference cloud posts news of devices for the operator's own tools, such as those for rotas and alarms.",
    isSecret: true,
  }),
  cloudServerHookAuth: inFile({
    key: 'FIELDPOST_CLOUD_SERVER_HOOK_AUTH_FILE',
    kind: authorization,
    about: 'What the hook wants in `Authorization`, such as `Bearer abc` or `Basic dTpw`.',
    isSecret: true,
  }),
  cloudServerHourlyLimit: given({
    key: 'FIELDPOST_CLOUD_SERVER_HOURLY_LIMIT',
    kind: integer(1, 1_000_000),
    fallback: '60',
    about: 'SMS and phone calls that the reference cloud takes of one device in an hour.',
  }),
  /** Null: mails of devices are not taken. */
  cloudServerMails: optional({
    key: 'FIELDPOST_CLOUD_SERVER_MAILS',
    kind: integer(1, 1_000_000),
    none: 'none: mails of devices are not taken',
    about:
      'Mails that the reference cloud takes of one device in a day, each recipient counted. Their sender is that of `FIELDPOST_FROM`. Needs `FIELDPOST_RELAY`.',
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
    none: 'none: mails have no such line, and drills no link',
    about:
      'A page about the devices. The mails of the reference cloud end with a line with this URL. The links of drills begin with its scheme and host, so it must be a host that leads to the cloud.',
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
    kind: plainText('the name of a user of etcd'),
    about: 'The user at etcd.',
  }),
  cloudServerStorePassword: inFile({
    key: 'FIELDPOST_CLOUD_SERVER_STORE_PASSWORD_FILE',
    kind: secretText('the password itself; better a file'),
    about: "The etcd user's password.",
    isSecret: true,
  }),
  ...RELAY_SETTINGS,
  ...DELIVERY_SETTINGS,
  ...SERVICE_SETTINGS,
  ...STORE_SETTINGS,
};

/** Every setting, checked; and what several of them make together. */
export interface CloudConfig extends ValuesOf<typeof CLOUD_ROWS>, MailConfig {}

/** Settings that mean nothing without an etcd: then its state would go to files, unnoticed. */
const OF_ETCD = [
  ...(['cloudServerStoreCa', 'cloudServerStoreCert', 'cloudServerStoreKey'] as const),
  ...(['cloudServerStoreUser', 'cloudServerStorePassword'] as const),
];

/** Credentials, and the URL that they are for. */
const CREDENTIALS = [
  ['cloudServerWebhookAuth', 'cloudServerWebhook'],
  ['cloudServerHookAuth', 'cloudServerHook'],
] as const;

/** Reports settings of a cloud that do not fit together, beside those of the mail engine. */
export function checkCloud(check: Check<typeof CLOUD_ROWS, CloudConfig>): void {
  const { config } = check;
  const { cloudServerKeys, cloudServerListen, cloudServerStoreUser, cloudServerStorePassword } = config;
  check.order('cloudServerDelayMs', 'cloudServerStopDelayMs');
  check.certificate('cloudServerStoreCert', 'cloudServerStoreKey');
  const open = cloudServerListen.find(needsToken);
  if (cloudServerKeys === null && open !== undefined && !check.isBad('cloudServerKeys'))
    check.problem(
      'cloudServerListen',
      `${showListener(open)} can be reached from other machines: that needs ${check.keyOf('cloudServerKeys')}`,
    );
  for (const [auth, url] of CREDENTIALS)
    if (config[auth] !== null && config[url] === null && !check.isBad(url))
      check.problem(auth, `it needs ${check.keyOf(url)}`);
  if (cloudServerStoreUser !== null)
    check.needs('cloudServerStorePassword', `${check.keyOf('cloudServerStoreUser')} needs it`);
  if (cloudServerStorePassword !== null)
    check.needs('cloudServerStoreUser', `${check.keyOf('cloudServerStorePassword')} needs it`);
  for (const member of OF_ETCD)
    if (config[member] !== null) check.needs('cloudServerStore', `${check.keyOf(member)} needs it`);
  if (config.cloudServerMails !== null && config.relays.length === 0 && !check.isBad('relayUrls'))
    check.problem('cloudServerMails', `it needs ${check.keyOf('relayUrls')}`);
  check.tokens('cloudServerKeys', [...(cloudServerKeys?.values() ?? [])].flat());
  check.warn(...clearTextAdvice(check.keyOf('cloudServerListen'), cloudServerListen));
}

/** The settings that only a device has, which may stand in the same file. A test holds them against those of the device. */
export const DEVICE_KEYS: readonly string[] =
  `LISTEN ALLOWED_HOSTS API_TOKEN API_TOKEN_FILE SEND_TOKEN SEND_TOKEN_FILE SMTP_LISTEN SMTP_CERT_FILE SMTP_KEY_FILE
  CLOUD CLOUD_KEY CLOUD_KEY_FILE CLOUD_CA_FILE CLOUD_CERT_FILE CLOUD_CERT_KEY_FILE CLOUD_PROXY CLOUD_PROXY_FILE
  DEVICE_ID HEARTBEAT FROM_ALLOWED FROM_HEADER LOCAL_MAIL URGENT_HEADERS FAILURES_TO RETURN_REPORT LATE_NOTE
  MAX_BATCH MAX_ATTACHMENTS MAX_MESSAGE MAX_SHARE`
    .split(/\s+/)
    .map((name) => `FIELDPOST_${name}`);

/** The settings of the reference cloud. */
export const CLOUD_SETTINGS = new Settings<CloudConfig>({
  rows: CLOUD_ROWS,
  complete: (values: ValuesOf<typeof CLOUD_ROWS>) => ({ ...values, ...completeMail(values) }),
  live: completeMail,
  check(check: Check<typeof CLOUD_ROWS, CloudConfig>) {
    checkMail(check);
    checkCloud(check);
    if (check.config.relays.includes(CLOUD))
      check.problem('relayUrls', 'cloud is a relay of devices; name one that speaks SMTP');
    // In the development program any key may open everything.
    if (check.config.cloudServerKeys === null)
      check.warn(
        `any key opens every call of this machine, and of a proxy that does not tell of itself: set ${check.keyOf('cloudServerKeys')}`,
      );
    check.owner(check.config.stateDir);
  },
  effective: effectiveMail,
  others: {
    program: 'fieldpost',
    keys: new RegExp(`^(?:${DEVICE_KEYS.join('|')})$`),
    list: DEVICE_KEYS,
  },
});
