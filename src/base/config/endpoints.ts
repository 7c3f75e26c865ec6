/**
 * Relays and listeners: the URLs of FIELDPOST_RELAY, and the addresses of FIELDPOST_LISTEN,
 * FIELDPOST_SMTP_LISTEN and FIELDPOST_CLOUD_SERVER_LISTEN.
 */
import { Buffer } from 'node:buffer';
import { hasControl } from '../text.js';
import type { ListenConfig, RelayConfig } from './types.js';
import { isHost, isIpv4, isLoopback, items, type Kind, refuse, unbracket } from './values.js';

/** A relay as its URL describes it. FIELDPOST_RELAY_USER may still change its port and TLS. */
export interface RelayUrl {
  readonly scheme: 'smtp' | 'smtps';
  readonly host: string;
  readonly port: number | null;
  readonly user: string | null;
  readonly clear: boolean;
}

const PORT_RELAY = 25;
const PORT_SUBMISSION = 587;
const PORT_SUBMISSIONS = 465;
// sockaddr_un holds 108 bytes, the last of them a zero.
const UNIX_PATH_BYTES_MAX = 107;

/** Comma-separated relay URLs, tried in order. */
export const relays: Kind<readonly RelayUrl[]> = {
  allowed: 'smtp://[user@]host[:port][?tls=never] or smtps://…, separated by commas',
  parse: (text) => splitRelays(text).map(parseRelay),
  show: (value) => value.map((relay) => relay.host).join(','),
};

/** The relay of a URL, with `defaultUser` (null: none) if the URL names no user. */
export function completeRelay(url: RelayUrl, defaultUser: string | null): RelayConfig {
  const user = url.user ?? defaultUser;
  const port =
    url.port ?? (url.scheme === 'smtps' ? PORT_SUBMISSIONS : user === null ? PORT_RELAY : PORT_SUBMISSION);
  // Credentials, and mail that leaves the device, go in clear text only with ?tls=never.
  const needed = user !== null || !isLoopback(url.host);
  const tls = url.scheme === 'smtps' ? 'implicit' : url.clear ? 'never' : needed ? 'starttls' : 'offered';
  return { host: url.host, port, tls, user };
}

/** A relay as somebody would write it, with its port and TLS. */
export function showRelay(relay: RelayConfig): string {
  const user = relay.user === null ? '' : `${encodeURIComponent(relay.user)}@`;
  const scheme = relay.tls === 'implicit' ? 'smtps' : 'smtp';
  return `${scheme}://${user}${showHost(relay.host)}:${relay.port}${relay.tls === 'never' ? '?tls=never' : ''}`;
}

/** `text` without anything that may be a password, however badly the URLs are written. */
export function maskPasswords(text: string): string {
  const masked = splitRelays(text).map((url) => {
    const [, scheme = '', rest = ''] = /^([a-z]*:\/\/)?(.*)$/is.exec(url) ?? [];
    const at = rest.lastIndexOf('@');
    const colon = rest.indexOf(':');
    return colon >= 0 && colon < at ? `${scheme}${rest.slice(0, colon)}:***${rest.slice(at)}` : url;
  });
  return masked.join(',');
}

/** Splits only before a scheme, so that a comma in a password does not show its second half. */
function splitRelays(text: string): string[] {
  return text.split(/,\s*(?=[a-z]+:\/\/|,|$)/i).map((url) => url.trimEnd());
}

function parseRelay(text: string): RelayUrl {
  if (text === '') refuse('there is an empty entry in the list');
  if (!/^smtps?:\/\//.test(text)) refuse('a relay starts with smtp:// or smtps://');
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

/** Comma-separated listeners. */
export const listeners: Kind<readonly ListenConfig[]> = {
  allowed: '127.0.0.1:43770, [::1]:43770, unix:/path, unix-send:/path, or several separated by commas',
  parse(text) {
    const parts = items(text);
    if (new Set(parts).size < parts.length) refuse('the same twice');
    return parts.map(parseListener);
  },
  show: (value) => value.map(showListener).join(','),
};

/** The same without unix sockets; the empty text is an empty list. */
export const tcpListeners: Kind<readonly ListenConfig[]> = {
  allowed: '127.0.0.1:25, [::1]:25, or several separated by commas',
  parse(text) {
    const parsed = text === '' ? [] : listeners.parse(text);
    return parsed.some(({ kind }) => kind === 'unix') ? refuse('a unix socket') : parsed;
  },
  show: listeners.show,
};

function parseListener(text: string): ListenConfig {
  const scheme = /^unix(?:-send)?:/.exec(text)?.[0];
  if (scheme !== undefined) {
    const path = text.slice(scheme.length);
    if (!path.startsWith('/')) refuse('the path of a unix socket starts with a slash');
    if (Buffer.byteLength(path) > UNIX_PATH_BYTES_MAX)
      refuse(`a unix socket's path has at most ${UNIX_PATH_BYTES_MAX} bytes`);
    return { kind: 'unix', path, ...(scheme === 'unix-send:' && { sendOnly: true }) };
  }
  const [, host = '', port = ''] = /^(.*):(\d{1,5})$/.exec(text) ?? refuse('not an address with a port');
  const bare = unbracket(host);
  const known = host === 'localhost' || isIpv4(host) || (host.startsWith('[') && isHost(host));
  if (!known) refuse('the address must be an IPv4 address, an IPv6 address in brackets, or localhost');
  if (Number(port) > 65535) refuse('a port is at most 65535');
  return { kind: 'tcp', host: bare, port: Number(port) };
}

/** A listener as FIELDPOST_LISTEN has it. */
export function showListener(listener: ListenConfig): string {
  if (listener.kind === 'unix') return `${listener.sendOnly ? 'unix-send' : 'unix'}:${listener.path}`;
  return `${showHost(listener.host)}:${listener.port}`;
}

/** Where a listener listens: `127.0.0.1:43770`, `[::1]:43770`, or a socket's path. */
export function addressOf(listener: ListenConfig): string {
  return listener.kind === 'unix' ? listener.path : showListener(listener);
}

function showHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
