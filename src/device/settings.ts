/**
 * The settings of a device: those of the mail engine, senders, the local API, the SMTP server and the link to the cloud.
 */
import {
  clearTextAdvice,
  listeners,
  needsToken,
  showListener,
  tcpListeners,
} from '../base/config/endpoints.js';
import { cloudProxy, environmentProxy } from '../base/config/proxy.js';
import { following, given, inFile, optional, secret, type ValuesOf } from '../base/config/row.js';
import { type Check, type Findings, Settings } from '../base/config/settings.js';
import type { Environment, ListenConfig } from '../base/config/types.js';
import {
  bearer,
  certificates,
  deviceId,
  duration,
  integer,
  isHost,
  items,
  type Kind,
  oneOf,
  parseUrl,
  percent,
  privateKey,
  refuse,
  shown,
  size,
} from '../base/config/values.js';
import { JOURNAL_BYTES_MIN } from '../base/limits.js';
import { type Address, isUserName, parseAddress, recipientKey } from '../mail/message/address.js';
import { type LocalMail, PEOPLE } from '../mail/names.js';
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

const address = shown(
  'one email address such as gateway@example.com',
  (text) => parseAddress(text) ?? refuse('not an email address'),
);

/** One reader for all, or `USER=READER` with commas between them. */
const localMail: Kind<LocalMail> = {
  allowed: 'one email address, or users with their readers such as root=a@example.com,*=people',
  parse: (text) => {
    const readers = new Map<string, Address | typeof PEOPLE>();
    for (const item of items(text)) {
      const [, user = '*', reader = item] = /^([^=@"]+)=(.*)$/.exec(item) ?? [];
      if (user !== '*' && !isUserName(user)) refuse(`not the name of a user: ${user}`);
      if (readers.has(user.toLowerCase()))
        refuse(user === '*' ? 'all other users have two readers' : `${user} has two readers`);
      const isPeople = reader === PEOPLE;
      const home = isPeople ? PEOPLE : (parseAddress(reader) ?? refuse(`not an email address: ${reader}`));
      readers.set(user.toLowerCase(), home);
    }
    return readers;
  },
  show: (value) => [...value].map(([user, reader]) => `${user}=${reader}`).join(','),
};

/** Comma-separated addresses and domains; a domain has an `@` in front. */
const senders: Kind<readonly string[]> = {
  allowed: 'addresses or domains, separated by commas',
  parse: (text) => (text === '' ? [] : items(text)).map(sender),
  show: (value) => value.map((one) => one.replace(/^@/, '')).join(','),
};

function sender(text: string): string {
  const domain = text.replace(/^@/, '');
  if (parseAddress(`x@${domain}`) !== null) return `@${domain.toLowerCase()}`;
  return recipientKey(parseAddress(text) ?? refuse(`neither an address nor a domain: ${text}`));
}

/** Comma-separated; the empty text is an empty list. */
const hosts: Kind<readonly string[]> = {
  allowed: 'host names or addresses without a port, separated by commas',
  parse: (text) =>
    (text === '' ? [] : items(text)).map((host) =>
      isHost(host) ? host.toLowerCase() : refuse(`not a host: ${host}`),
    ),
  show: (value) => value.join(','),
};

/** The base URL of a cloud, without a slash at its end. */
const cloudUrl = shown(
  'an https:// URL (http:// only to this device itself) without user, query or fragment',
  (text) => {
    const url = parseUrl(text);
    if (url.search !== '') refuse('it has a query');
    return url.href.replace(/(?<!\/)\/+$/, '');
  },
);

/** When a report is mailed after an outage, and to whom. */
export interface ReturnReport {
  /** It lasted for so long. */
  readonly afterMs: number;
  /** Null: to the address of FIELDPOST_FAILURES_TO. */
  readonly to: Address | null;
}

const outage = duration('1m', '365d');
const returnReport: Kind<ReturnReport> = {
  allowed: 'a length of time from 1m to 365d, and perhaps an address: 1h,ops@example.com',
  parse(text) {
    const [length = '', to, ...more] = items(text);
    if (more.length > 0) refuse('more than a length of time and one address');
    return { afterMs: outage.parse(length), to: to === undefined ? null : address.parse(to) };
  },
  show: ({ afterMs, to }) => `${outage.show(afterMs)}${to === null ? '' : `,${to}`}`,
};

/** Every setting by its member of DeviceConfig. */
export const DEVICE_ROWS = {
  ...RELAY_SETTINGS,
  ...following('live', {
    fromAllowed: given({
      key: 'FIELDPOST_FROM_ALLOWED',
      kind: senders,
      fallback: '',
      words: 'only that of `FIELDPOST_FROM`',
      about:
        'Further senders that a message may have: addresses, or domains such as `example.com`, separated by commas. A ready-made mail of any other sender is sent with that of `FIELDPOST_FROM`.',
    }),
    failuresTo: optional({
      key: 'FIELDPOST_FAILURES_TO',
      kind: address,
      none: 'none: nobody is told',
      about:
        'Who gets a mail about messages that failed or expired: at most one an hour, with the reply and what to do. See *Mails of the daemon itself* in fieldpost(1).',
    }),
    returnReport: optional({
      key: 'FIELDPOST_RETURN_REPORT',
      kind: returnReport,
      about:
        'After no relay could be reached for this long, one mail says for how long, and what became of the mails that waited. Without an address it goes to that of `FIELDPOST_FAILURES_TO`.',
    }),
    lateNote: given({
      key: 'FIELDPOST_LATE_NOTE',
      kind: oneOf(['no', 'yes']),
      fallback: 'no',
      about:
        'Whether the text of a mail that waited for an hour or more begins with a line that says so: `Waited 21 days on the device`. A ready-made mail stays as it is. All of them have the header `X-Fieldpost-Waited`.',
    }),
    fromHeader: given({
      key: 'FIELDPOST_FROM_HEADER',
      kind: oneOf(['fix', 'keep']),
      fallback: 'fix',
      about:
        'What becomes of a `From` or `Sender` header that is not allowed in a mail that `sendmail` or SMTP brings. `fix`: it becomes `"root on pump-3" <address of FIELDPOST_FROM>`, and the old one stays as `X-Original-From`. `keep`: it stays. A signed mail keeps it.',
    }),
    localMail: optional({
      key: 'FIELDPOST_LOCAL_MAIL',
      kind: localMail,
      none: 'none: such a mail is refused, but left to the relay if it is for a full name',
      about:
        'Who reads the mail to users of this device: `root`, `root@localhost`, `root@pump-3` if that is the host name, and `root@pump-3.example.com` if that full name stands beside it in `/etc/hosts` or is `FIELDPOST_HELO_NAME`. A name that is the domain of `FIELDPOST_FROM` or of one of these addresses is not meant. One address is for all of them. `root=a@example.com,backup=b@example.com,*=c@example.com` tells them apart, and `*` is everybody else. `people` in place of an address stands for the email addresses of the address book; a mail to more than 100 of them is refused.',
    }),
    urgentHeaders: given({
      key: 'FIELDPOST_URGENT_HEADERS',
      kind: oneOf(['yes', 'no']),
      fallback: 'no',
      about:
        'Whether a mail from `sendmail` or SMTP with `X-Priority: 1` or `Importance: high` is urgent: it goes before all that are not.',
    }),
  }),

  ...DELIVERY_SETTINGS,

  // The local API. Its listeners are opened with these, so they wait for a restart.
  listen: given({
    key: 'FIELDPOST_LISTEN',
    kind: listeners,
    fallback: '127.0.0.1:43770',
    about:
      'Where the local API listens. Anything but loopback and unix sockets needs a token. Clients of `unix-send:/path` may send, and nothing else. Port 0 takes any free one. Sockets of systemd stand in for the default.',
  }),
  allowedHosts: given({
    key: 'FIELDPOST_ALLOWED_HOSTS',
    kind: hosts,
    fallback: '',
    words: 'none',
    about: 'Names besides `localhost`, `127.0.0.1` and `[::1]` by which clients may call the API.',
  }),
  apiToken: secret({
    key: 'FIELDPOST_API_TOKEN',
    kind: bearer,
    credential: 'api-token',
    about: 'The token that clients of the API must bring.',
  }),
  sendToken: secret({
    key: 'FIELDPOST_SEND_TOKEN',
    kind: bearer,
    credential: 'send-token',
    about:
      'A second token, for programs that may send and ask after what they sent, and nothing else. They share half of the queue. Needs `FIELDPOST_API_TOKEN_FILE`.',
  }),

  // The SMTP server. A renewed certificate needs no restart.
  smtpListen: given({
    key: 'FIELDPOST_SMTP_LISTEN',
    kind: tcpListeners,
    fallback: '',
    words: 'none',
    about:
      'Where programs and devices that speak SMTP bring their mails. Anything but loopback needs a token, which is the password of any user. Ports below 1024 need `fieldpost-smtp.socket`.',
  }),
  smtpCert: inFile({
    key: 'FIELDPOST_SMTP_CERT_FILE',
    kind: certificates,
    follows: 'live',
    about:
      "The SMTP server's certificate, with its chain. With it, clients beyond loopback must use STARTTLS before they log in.",
  }),
  smtpKey: inFile({
    key: 'FIELDPOST_SMTP_KEY_FILE',
    kind: privateKey,
    follows: 'live',
    about: "That certificate's private key: PEM, without a passphrase.",
    isSecret: true,
  }),

  // The link to the cloud.
  cloudUrl: optional({
    key: 'FIELDPOST_CLOUD',
    kind: cloudUrl,
    none: 'none: no cloud link',
    about: 'The base URL of the cloud. Needs a device id and a key.',
  }),
  deviceId: optional({
    key: 'FIELDPOST_DEVICE_ID',
    kind: deviceId,
    about: 'The name of this device in the cloud.',
  }),
  cloudKey: secret({
    key: 'FIELDPOST_CLOUD_KEY',
    kind: bearer,
    credential: 'cloud-key',
    about: "This device's key to the cloud.",
  }),
  cloudCa: inFile({
    key: 'FIELDPOST_CLOUD_CA_FILE',
    kind: certificates,
    none: "the system's",
    about: "The private CA of the cloud's certificate.",
  }),
  cloudCert: inFile({
    key: 'FIELDPOST_CLOUD_CERT_FILE',
    kind: certificates,
    about:
      'The certificate, with its chain, by which the cloud knows this device (mutual TLS). The cloud asks for the key all the same.',
  }),
  cloudCertKey: inFile({
    key: 'FIELDPOST_CLOUD_CERT_KEY_FILE',
    kind: privateKey,
    about: "That certificate's private key: PEM, without a passphrase.",
    isSecret: true,
  }),
  /** The configuration has the proxy of the environment here if the setting is absent. */
  cloudProxy: secret({
    key: 'FIELDPOST_CLOUD_PROXY',
    kind: cloudProxy,
    credential: 'cloud-proxy',
    also: ['https_proxy', 'HTTPS_PROXY'],
    none: '`HTTPS_PROXY` of the environment, unless `NO_PROXY` excepts the cloud; else none',
    follows: 'live',
    about:
      'The HTTP proxy on the way to the cloud. The port is 80 if the URL names none; user and password may have `%` escapes. `none` ignores the environment.',
  }),
  heartbeatMs: given({
    key: 'FIELDPOST_HEARTBEAT',
    kind: duration('5s', '1h'),
    fallback: '30s',
    about: 'How often the cloud is told that this device is alive.',
  }),

  ...SERVICE_SETTINGS,
  ...following('live', {
    maxBatch: given({
      key: 'FIELDPOST_MAX_BATCH',
      kind: integer(1, 1000),
      fallback: '100',
      about: 'Messages in one request.',
    }),
    maxAttachments: given({
      key: 'FIELDPOST_MAX_ATTACHMENTS',
      kind: integer(0, 100),
      fallback: '10',
      about: 'Attachments of one message.',
    }),
    maxMessageBytes: given({
      key: 'FIELDPOST_MAX_MESSAGE',
      kind: size('1KiB', '1GiB'),
      fallback: '25MiB',
      about: 'One message with its attachments.',
    }),
    maxShare: given({
      key: 'FIELDPOST_MAX_SHARE',
      kind: percent(1, 100),
      fallback: '100%',
      about:
        'The part of the queue that the messages of one caller may take: of `FIELDPOST_MAX_QUEUE`, of `FIELDPOST_MAX_SPOOL` and of the memory. What waits counts, urgent messages too. A caller is a unix socket; over TCP the user of a program on this device, else the token that it brings, else its address. A message counts for nobody if it came while this was `100%`.',
    }),
  }),
  ...STORE_SETTINGS,
};

type DeviceValues = ValuesOf<typeof DEVICE_ROWS>;

/** The link to the cloud. */
export interface LinkConfig {
  /** Without a slash at its end. */
  readonly url: string;
  readonly deviceId: string;
  readonly key: string;
  /** PEM of a private CA, or null for the system's. */
  readonly ca: string | null;
  /** PEM of the device's certificate for mutual TLS, or null. */
  readonly clientCertificate: { readonly cert: string; readonly key: string } | null;
}

/** Every setting, checked; and what several of them make together. */
export interface DeviceConfig extends DeviceValues, MailConfig {
  /** Null: no cloud, the link is disabled. */
  readonly cloud: LinkConfig | null;
}

/** Adds what several values make together. */
export function completeDevice(values: DeviceValues, env: Environment, findings: Findings): DeviceConfig {
  return {
    ...values,
    ...completeMail(values),
    cloud: cloudOf(values),
    cloudProxy: values.cloudProxy ?? proxyOf(values, env, findings),
  };
}

function cloudOf(values: DeviceValues): LinkConfig | null {
  const { cloudUrl: url, deviceId, cloudKey: key, cloudCa: ca, cloudCert: cert, cloudCertKey } = values;
  if (url === null || deviceId === null || key === null) return null;
  const clientCertificate = cert === null || cloudCertKey === null ? null : { cert, key: cloudCertKey };
  return { url, deviceId, key, ca, clientCertificate };
}

/** The proxy of the environment; null for a cloud on this device. */
function proxyOf(
  { cloudUrl }: DeviceValues,
  env: Environment,
  findings: Findings,
): DeviceValues['cloudProxy'] {
  if (!cloudUrl?.startsWith('https:') || findings.isBad('FIELDPOST_CLOUD_PROXY')) return null;
  return environmentProxy(env, cloudUrl, (warning) => findings.warnings.push(warning));
}

/** Reports settings of a device that do not fit together, beside those of the mail engine. */
export function checkDevice(check: Check<typeof DEVICE_ROWS, DeviceConfig>): void {
  const { apiToken, sendToken, cloudKey, cloudUrl } = check.config;
  check.order('maxMessageBytes', 'maxSpoolBytes', JOURNAL_BYTES_MIN);
  for (const door of ['listen', 'smtpListen'] as const) {
    const open = check.config[door].find(needsToken);
    if (open === undefined || apiToken !== null || check.isBad('apiToken')) continue;
    const words = `${showListener(open)} can be reached from other devices: that needs a token in FIELDPOST_API_TOKEN_FILE`;
    check.problem(door, words);
  }
  if (sendToken !== null && sendToken === apiToken)
    check.problem('sendToken', 'it is the same token as in FIELDPOST_API_TOKEN_FILE');
  if (sendToken !== null && apiToken === null && !check.isBad('apiToken'))
    check.problem(
      'sendToken',
      'it needs FIELDPOST_API_TOKEN_FILE: without that token any program may do everything',
    );
  if (cloudUrl !== null) {
    check.needs('deviceId', 'FIELDPOST_CLOUD needs it: the name of this device in the cloud');
    check.needs(
      'cloudKey',
      "FIELDPOST_CLOUD needs it: the file with this device's key (or the systemd credential cloud-key, which a restart reads)",
    );
  }
  const { relays, failuresTo, returnReport } = check.config;
  if (relays.includes(CLOUD) && cloudUrl === null && !check.isBad('cloudUrl'))
    check.problem('relayUrls', 'the relay cloud needs FIELDPOST_CLOUD, a device id and a key');
  if (returnReport?.to === null && failuresTo === null && !check.isBad('failuresTo'))
    check.problem('returnReport', 'it has no address: add one behind a comma, or set FIELDPOST_FAILURES_TO');
  check.certificate('cloudCert', 'cloudCertKey');
  check.certificate('smtpCert', 'smtpKey');
  check.tokens('apiToken', [apiToken]);
  check.tokens('sendToken', [sendToken]);
  check.tokens('cloudKey', [cloudKey]);
  for (const door of ['listen', 'smtpListen'] as const)
    check.warn(...exposedAdvice(door, check.config[door], check.config));
}

/** A sentence for each of these listeners over which tokens travel in clear text between devices. */
export function exposedAdvice(
  door: 'listen' | 'smtpListen',
  addresses: readonly ListenConfig[],
  { smtpCert }: Pick<DeviceConfig, 'smtpCert'>,
): readonly string[] {
  const { key } = DEVICE_ROWS[door];
  if (door === 'listen') return clearTextAdvice(key, addresses);
  return smtpCert === null ? clearTextAdvice(key, addresses, `set ${DEVICE_ROWS.smtpCert.key}`) : [];
}

/** The settings of a device. */
export const DEVICE_SETTINGS = new Settings<DeviceConfig>({
  rows: DEVICE_ROWS,
  complete: completeDevice,
  live: completeMail,
  check(check: Check<typeof DEVICE_ROWS, DeviceConfig>) {
    checkMail(check);
    checkDevice(check);
    check.owner(check.config.stateDir);
  },
  effective: effectiveMail,
  others: { program: 'fieldpost-cloud', keys: /^FIELDPOST_CLOUD_SERVER_/ },
});
