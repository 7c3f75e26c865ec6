/**
 * The settings of the mail engine, which a device and a cloud both have: relays and their login, pauses and ages, the store.
 */
import { following, given, inFile, optional, secret, type ValuesOf } from '../base/config/row.js';
import {
  bearer,
  certificates,
  directory,
  duration,
  integer,
  isHost,
  isIpv4,
  isIpv6,
  isLoopback,
  type Kind,
  oneOf,
  parseUrl,
  placeOf,
  plainText,
  privateKey,
  rates,
  refuse,
  secretPath,
  secretText,
  shown,
  size,
  splitUrls,
  unbracket,
} from '../base/config/values.js';
import { hasControl } from '../base/text.js';
import { type Mailbox, parseMailbox } from './message/mailbox.js';

/** The entry of FIELDPOST_RELAY that stands for the cloud of the link, and the name of that peer. */
export const CLOUD = 'cloud';

/** One entry of FIELDPOST_RELAY. */
export type Relay = RelayConfig | typeof CLOUD;

/** A relay that speaks SMTP. */
export interface RelayConfig {
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  /** `implicit`: smtps. `starttls`: required. `offered`: STARTTLS if the relay has it. `never`: clear text. */
  readonly tls: 'implicit' | 'starttls' | 'offered' | 'never';
  /** Null: no authentication. */
  readonly user: string | null;
}

/** A relay as its URL describes it. FIELDPOST_RELAY_USER may still change its port and TLS. */
interface RelayUrl {
  readonly scheme: 'smtp' | 'smtps';
  readonly host: string;
  readonly port: number | null;
  readonly user: string | null;
  readonly clear: boolean;
}

const PORT_RELAY = 25;
const PORT_SUBMISSION = 587;
const PORT_SUBMISSIONS = 465;

/** Comma-separated relay URLs, tried in order. */
const relays: Kind<readonly (RelayUrl | typeof CLOUD)[]> = {
  allowed: 'smtp://[user@]host[:port][?tls=never], smtps://… or cloud, separated by commas',
  parse: (text) => splitUrls(text).map((one) => (one === CLOUD ? CLOUD : parseRelay(one))),
  show: (value) => value.map((relay) => (relay === CLOUD ? CLOUD : relay.host)).join(','),
};

/** The relay of a URL, with `defaultUser` (null: none) if the URL names no user. */
function completeRelay(url: RelayUrl | typeof CLOUD, defaultUser: string | null): Relay {
  if (url === CLOUD) return CLOUD;
  const user = url.user ?? defaultUser;
  const port =
    url.port ?? (url.scheme === 'smtps' ? PORT_SUBMISSIONS : user === null ? PORT_RELAY : PORT_SUBMISSION);
  // Credentials, and mail that leaves the device, go in clear text only with ?tls=never.
  const needed = user !== null || !isLoopback(url.host);
  const tls = url.scheme === 'smtps' ? 'implicit' : url.clear ? 'never' : needed ? 'starttls' : 'offered';
  return { host: url.host, port, tls, user };
}

/** A relay as somebody would write it, with its port and TLS. */
export function showRelay(relay: Relay): string {
  if (relay === CLOUD) return CLOUD;
  const user = relay.user === null ? '' : `${encodeURIComponent(relay.user)}@`;
  const scheme = relay.tls === 'implicit' ? 'smtps' : 'smtp';
  return `${scheme}://${user}${placeOf(relay)}${relay.tls === 'never' ? '?tls=never' : ''}`;
}

/** The name of a relay in the log, the state and the tally. */
export function nameOf(relay: Relay): string {
  return relay === CLOUD ? CLOUD : `${relay.host}:${relay.port}`;
}

function parseRelay(text: string): RelayUrl {
  if (text === '') refuse('there is an empty entry in the list');
  if (!/^smtps?:\/\//.test(text)) refuse('a relay starts with smtp:// or smtps://, or is cloud');
  const url = URL.canParse(text) ? new URL(text) : refuse('not a URL');
  if (url.password !== '') {
    refuse(
      'a password does not belong here: put it into a file and name that in FIELDPOST_RELAY_PASSWORD_FILE',
    );
  }
  const scheme = url.protocol === 'smtps:' ? 'smtps' : 'smtp';
  if (!isHost(url.hostname)) refuse('the host is missing or not a host name');
  if (url.port === '0') refuse('port 0 is not a port');
  if (!/^\/?$/.test(url.pathname) || url.hash !== '')
    refuse('nothing but ?tls=never may follow the host and port');
  if (url.search !== '' && url.search !== '?tls=never') refuse('the only option is ?tls=never');
  const clear = url.search !== '';
  if (clear && scheme === 'smtps') refuse('smtps:// is TLS; ?tls=never contradicts it');
  return {
    scheme,
    host: unbracket(url.hostname.toLowerCase()),
    port: url.port === '' ? null : Number(url.port),
    user: url.username === '' ? null : decodeUser(url.username),
    clear,
  };
}

function decodeUser(text: string): string {
  let user: string;
  try {
    user = decodeURIComponent(text);
  } catch {
    return refuse('the user has a % that is not followed by two hex digits of UTF-8');
  }
  return hasControl(user) ? refuse('the user has a control character') : user;
}

const mailbox: Kind<Mailbox> = {
  allowed: 'one email address such as gateway@example.com, or Name <gateway@example.com>',
  parse: (text) => parseMailbox(text) ?? refuse('not an email address'),
  show: ({ name, address }) => (name === '' ? address : `${JSON.stringify(name)} <${address}>`),
};

/** RFC 6749 §3.3. */
const scope = shown('scopes, separated by blanks', (text) =>
  /^[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*$/.test(text)
    ? text
    : refuse('it has a quotation mark, a backslash, two blanks in a row, or characters beyond ASCII'),
);

/** The URL of a token endpoint. */
const tokenUrl = shown(
  'an https:// URL (http:// only to this device itself) without user or fragment',
  (text) => parseUrl(text).href,
);

/** A name for EHLO. */
const heloName = shown(
  'a host name such as pump-3.example.com, or an address in brackets such as [192.0.2.7]',
  (text) => {
    if (isIpv4(text) || isIpv6(text))
      refuse('an address stands in brackets: [192.0.2.7], [IPv6:2001:db8::7]');
    return isHeloName(text) ? text : refuse('neither a host name nor an address in brackets');
  },
);

/** True for a domain of ASCII, or an address literal (RFC 5321 §4.1.2 and §4.1.3). */
export function isHeloName(text: string): boolean {
  const literal = /^\[(IPv6:)?(.*)\]$/i.exec(text);
  if (literal !== null) return (literal[1] === undefined ? isIpv4 : isIpv6)(literal[2] ?? '');
  return isHost(text) && !text.includes('_') && !isIpv4(text);
}

const maxAge = duration('1m', '365d');

/**
 * Relays, the login there, and the sender. A new delivery offers a new sender at once to a relay that has refused the old
 * one.
 */
export const RELAY_SETTINGS = following('delivery', {
  relayUrls: optional({
    key: 'FIELDPOST_RELAY',
    kind: relays,
    none: 'none: messages are held',
    about:
      'The relays for mail, in the order to try. `cloud` is the cloud of `FIELDPOST_CLOUD`. The port is 465 for `smtps`, else 587 with a user and 25 without. `smtp` insists on STARTTLS when there is a user or the relay is not on this device, unless `?tls=never` allows clear text.',
  }),
  relayUser: optional({
    key: 'FIELDPOST_RELAY_USER',
    kind: plainText('the name the relay knows this device by'),
    about: 'The user at every relay whose URL names none.',
  }),
  relayPassword: secret({
    key: 'FIELDPOST_RELAY_PASSWORD',
    kind: secretText('the password itself; better a file'),
    credential: 'relay-password',
    about: "The relay user's password.",
  }),
  relayCa: inFile({
    key: 'FIELDPOST_RELAY_CA_FILE',
    kind: certificates,
    none: "the system's",
    about: "The private CA of the relays' certificates.",
  }),
  relayCert: inFile({
    key: 'FIELDPOST_RELAY_CERT_FILE',
    kind: certificates,
    about: 'The certificate, with its chain, that this device shows to relays which ask for one.',
  }),
  relayKey: inFile({
    key: 'FIELDPOST_RELAY_KEY_FILE',
    kind: privateKey,
    about: "That certificate's private key: PEM, without a passphrase.",
    isSecret: true,
  }),
  relayConnections: given({
    key: 'FIELDPOST_RELAY_CONNECTIONS',
    kind: integer(1, 4),
    fallback: '1',
    about: 'Connections to the relay at the same time.',
  }),
  relayRate: optional({
    key: 'FIELDPOST_RELAY_RATE',
    kind: rates,
    none: 'no limit',
    about:
      'The most mails that each relay gets in any such time. With `30/1m,500/1d` it gets at most 30 in a minute and 500 in a day. The rest waits, and does not grow older meanwhile. Urgent mails go first; 5 % of each limit, at least one mail of two, is kept for them. The count goes on after a restart. A kill or a power cut loses from it the mails under way, and those of the last second. Up to 3 % of the mails may count longer than the window.',
  }),
  smtpTimeoutMs: given({
    key: 'FIELDPOST_SMTP_TIMEOUT',
    kind: duration('1s', '10m'),
    fallback: '60s',
    about: 'How long to wait for each answer of the relay (10 minutes after the final dot).',
  }),
  /** Null: one of the device's host name (names.ts). */
  from: optional({
    key: 'FIELDPOST_FROM',
    kind: mailbox,
    none: '`fieldpost@<hostname>`',
    about:
      'The sender of the mails, as an address or as `Name <address>`. Many relays refuse a sender without a full domain, or of a domain that is not theirs.',
  }),
});

const HELO_SETTINGS = following('delivery', {
  /** What EHLO says; null: the device's host name. */
  heloName: optional({
    key: 'FIELDPOST_HELO_NAME',
    kind: heloName,
    none: 'the host name of the device',
    about: 'What this device calls itself towards relays (EHLO). Some take mail only from a full name.',
  }),
});

const RETRY_SETTINGS = following('live', {
  backoffMinMs: given({
    key: 'FIELDPOST_BACKOFF_MIN',
    kind: duration('100ms', '1h'),
    fallback: '1s',
    about: 'The longest first pause after a failure of a relay or the cloud; it doubles each time.',
  }),
  backoffMaxMs: given({
    key: 'FIELDPOST_BACKOFF_MAX',
    kind: duration('1s', '1d'),
    fallback: '5m',
    about: 'The longest such pause.',
  }),
  retryMinMs: given({
    key: 'FIELDPOST_RETRY_MIN',
    kind: duration('1s', '1d'),
    fallback: '1m',
    about: "The shortest pause before a deferred message's next attempt.",
  }),
  retryMaxMs: given({
    key: 'FIELDPOST_RETRY_MAX',
    kind: duration('1s', '7d'),
    fallback: '1h',
    about: 'The longest such pause.',
  }),
  maxAgeEmailMs: given({
    key: 'FIELDPOST_MAX_AGE_EMAIL',
    kind: maxAge,
    fallback: '5d',
    about: 'An email expires after this much time with a relay in reach.',
  }),
  maxAgeSmsMs: given({
    key: 'FIELDPOST_MAX_AGE_SMS',
    kind: maxAge,
    fallback: '24h',
    about: 'The age at which an SMS expires.',
  }),
  maxAgePhoneMs: given({
    key: 'FIELDPOST_MAX_AGE_PHONE',
    kind: maxAge,
    fallback: '1h',
    about: 'The age at which a phone call expires.',
  }),
  maxAgePushMs: given({
    key: 'FIELDPOST_MAX_AGE_PUSH',
    kind: maxAge,
    fallback: '24h',
    about: 'The age at which a push message expires.',
  }),
});

/** Where access tokens for relays come from. */
const OAUTH_SETTINGS = following('delivery', {
  relayTokenUrl: optional({
    key: 'FIELDPOST_RELAY_OAUTH_TOKEN_URL',
    kind: tokenUrl,
    about:
      "The token endpoint that gives the relay user's access tokens (OAuth 2.0), in place of a password. Needs a client id.",
  }),
  relayClientId: optional({
    key: 'FIELDPOST_RELAY_OAUTH_CLIENT_ID',
    kind: plainText("the application's id"),
    about: 'The id by which the token endpoint knows the application.',
  }),
  relayClientSecret: secret({
    key: 'FIELDPOST_RELAY_OAUTH_CLIENT_SECRET',
    kind: secretText('the secret itself; better a file'),
    credential: 'relay-client-secret',
    about: "The application's secret.",
  }),
  relayScope: optional({
    key: 'FIELDPOST_RELAY_OAUTH_SCOPE',
    kind: scope,
    about: 'What the tokens are for.',
  }),
  relayRefreshToken: secret({
    key: 'FIELDPOST_RELAY_OAUTH_REFRESH_TOKEN',
    kind: bearer,
    credential: 'relay-refresh-token',
    about:
      'The refresh token. With it the grant is `refresh_token`, else `client_credentials`. A newer one that the endpoint sends is kept in the state directory, until another one is given here.',
  }),
  relayTokenCa: inFile({
    key: 'FIELDPOST_RELAY_OAUTH_CA_FILE',
    kind: certificates,
    none: "that of `FIELDPOST_RELAY_CA_FILE`, else the system's",
    about: "The private CA of the token endpoint's certificate.",
  }),
  relayTokenFile: optional({
    key: 'FIELDPOST_RELAY_TOKEN_FILE',
    kind: secretPath,
    about:
      'In place of a token endpoint: a file with an access token that another program renews. It is read for each connection.',
    // Somebody may give the token itself.
    isSecret: true,
  }),
});

/** What every service has. */
export const SERVICE_SETTINGS = {
  stateDir: given({
    key: 'FIELDPOST_STATE_DIR',
    kind: directory,
    // The directory of systemd comes before it: see namedStateDirectory.
    fallback: './.fieldpost',
    words: '`$STATE_DIRECTORY`, else `./.fieldpost`',
    also: ['STATE_DIRECTORY'],
    about: 'Where messages and the address book are kept.',
  }),
  logLevel: given({
    key: 'FIELDPOST_LOG',
    kind: oneOf(['debug', 'info', 'warn', 'error']),
    fallback: 'info',
    follows: 'live',
    about: 'The least level that is logged.',
  }),
  maxBodyBytes: given({
    key: 'FIELDPOST_MAX_BODY',
    kind: size('1KiB', '16MiB'),
    fallback: '1MiB',
    follows: 'live',
    about: 'The largest JSON body of a request.',
  }),
};

/** The store. */
export const STORE_SETTINGS = {
  maxQueue: given({
    key: 'FIELDPOST_MAX_QUEUE',
    kind: integer(1, 1_000_000),
    fallback: '10000',
    follows: 'live',
    about: 'Messages waiting at the same time.',
  }),
  maxSpoolBytes: given({
    key: 'FIELDPOST_MAX_SPOOL',
    kind: size('4MiB', '1024GiB'),
    fallback: '256MiB',
    follows: 'live',
    about: 'The space that the state directory may take.',
  }),
  minFreeBytes: given({
    key: 'FIELDPOST_MIN_FREE',
    // A start with the disk full of our own messages needs room for a segment or two, or it delivers none.
    kind: size('4MiB', '1024GiB'),
    fallback: '16MiB',
    follows: 'live',
    about: 'The space that stays free on the file system.',
  }),
  keepFailedMs: given({
    key: 'FIELDPOST_KEEP_FAILED',
    kind: duration('0s', '365d'),
    fallback: '7d',
    about: 'How long the content of failed messages is kept for a retry.',
  }),
  history: given({
    key: 'FIELDPOST_HISTORY',
    kind: integer(0, 100_000),
    fallback: '1000',
    about: 'Finished messages that stay readable, without their content.',
  }),
};

/** The rest of delivery: our name, pauses, ages, access tokens. */
export const DELIVERY_SETTINGS = { ...HELO_SETTINGS, ...RETRY_SETTINGS, ...OAUTH_SETTINGS };

/** Every setting of the mail engine. */
export type MailRows = typeof RELAY_SETTINGS &
  typeof DELIVERY_SETTINGS &
  typeof SERVICE_SETTINGS &
  typeof STORE_SETTINGS;

/** The value of each of these settings. */
export type MailValues = ValuesOf<MailRows>;

/** The same, and what several of them make together. */
export interface MailConfig extends MailValues {
  readonly relays: readonly Relay[];
  /** By message type: 1 email, 2 SMS, 3 phone, 4 push. */
  readonly maxAgeMs: Readonly<Record<1 | 2 | 3 | 4, number>>;
}

/** What several values make together. */
export function completeMail(values: MailValues): Pick<MailConfig, 'relays' | 'maxAgeMs'> {
  return {
    relays: (values.relayUrls ?? []).map((url) => completeRelay(url, values.relayUser)),
    maxAgeMs: {
      1: values.maxAgeEmailMs,
      2: values.maxAgeSmsMs,
      3: values.maxAgePhoneMs,
      4: values.maxAgePushMs,
    },
  };
}
