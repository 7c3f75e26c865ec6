/**
 * The HTTP proxy on the way to the cloud: from FIELDPOST_CLOUD_PROXY, else from HTTPS_PROXY and NO_PROXY of the
 * environment, which curl and other programs use, too.
 */
import { BlockList, isIP } from 'node:net';
import { FieldpostError } from '../errors.js';
import { hasControl } from '../text.js';
import type { Environment } from './types.js';
import { isHost, type Kind, placeOf, refuse, unbracket } from './values.js';

/** A proxy that connects to the cloud with CONNECT. */
export interface CloudProxy {
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  /** Null: it is called without a login. */
  readonly login: { readonly user: string; readonly password: string } | null;
}

const PORT_HTTP = 80;
const PORT_HTTPS = 443;

/** A proxy's URL; `none`: no proxy, whatever the environment says. */
export const cloudProxy: Kind<CloudProxy | 'none'> = {
  allowed: 'http://[user:password@]host[:port], or none',
  parse: (text) => (text === 'none' ? text : parseProxy(text)),
  show: (value) => (value === 'none' ? value : showProxy(value)),
  hides: (value) => value !== 'none' && !!value.login?.password,
};

function parseProxy(text: string): CloudProxy {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.exec(text)?.[0].toLowerCase() !== 'http://')
    refuse('a proxy starts with http://; proxies that speak TLS or SOCKS are not supported');
  const url = URL.canParse(text)
    ? new URL(text)
    : refuse('not a URL; in a password write / ? # @ : % as %2F %3F %23 %40 %3A %25');
  if (!isHost(url.hostname)) refuse('the host is missing or not a host name');
  if (url.port === '0') refuse('port 0 is not a port');
  if (!/^\/?$/.test(url.pathname) || url.search !== '' || url.hash !== '')
    refuse('nothing may follow the host and port; in a password write / ? # as %2F %3F %23');
  const [user, password] = [decoded(url.username), decoded(url.password)];
  // RFC 7617 §2: the first colon ends the user.
  if (user.includes(':')) refuse('the user has a colon');
  return {
    host: unbracket(url.hostname.toLowerCase()),
    port: url.port === '' ? PORT_HTTP : Number(url.port),
    login: user === '' && password === '' ? null : { user, password },
  };
}

function decoded(text: string): string {
  let found: string;
  try {
    found = decodeURIComponent(text);
  } catch {
    return refuse('the user or password has a % that is not followed by two hex digits of UTF-8');
  }
  return hasControl(found) ? refuse('the user or password has a control character') : found;
}

function showProxy({ host, port, login }: CloudProxy): string {
  const password = login?.password ? ':***' : '';
  const user = login === null ? '' : `${encodeURIComponent(login.user)}${password}@`;
  return `http://${user}${placeOf({ host, port })}`;
}

/**
 * The proxy that the environment names for this URL, or null. `warn` gets a sentence if the environment names one that
 * cannot be used. This is no fault: the variable may be meant for other programs.
 */
export function environmentProxy(
  env: Environment,
  cloudUrl: string,
  warn: (sentence: string) => void,
): CloudProxy | null {
  // As curl does: the name in lower case goes first.
  const key = ['https_proxy', 'HTTPS_PROXY'].find((name) => env[name]?.trim());
  if (key === undefined || isExcepted(cloudUrl, env.no_proxy?.trim() || (env.NO_PROXY ?? ''))) return null;
  const text = env[key]?.trim() ?? '';
  try {
    return parseProxy(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`);
  } catch (error) {
    if (!(error instanceof FieldpostError)) throw error;
    warn(`${key} is not used, so the cloud is called directly: ${error.message}; see FIELDPOST_CLOUD_PROXY`);
    return null;
  }
}

/** True if NO_PROXY excepts this URL, by the rules of curl: `*`, names with all below them, addresses, subnets, ports. */
function isExcepted(cloudUrl: string, noProxy: string): boolean {
  const url = new URL(cloudUrl);
  const host = bareName(unbracket(url.hostname));
  const port = url.port === '' ? PORT_HTTPS : Number(url.port);
  return noProxy
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
    .some((entry) => {
      if (entry === '*') return true;
      const [, place = '', ofPort] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(entry) ?? [null, entry];
      if (ofPort !== undefined && Number(ofPort) !== port) return false;
      const name = bareName(unbracket(place));
      if (isIP(host) !== 0) return host === name || isWithin(host, name);
      return name !== '' && (host === name || host.endsWith(`.${name}`));
    });
}

/** In lower case, without dots around it. */
function bareName(name: string): string {
  return name.toLowerCase().replace(/^\.|\.$/g, '');
}

/** True if the address is in the subnet, such as `10.0.0.0/8`. */
function isWithin(address: string, subnet: string): boolean {
  const [, net = '', bits = ''] = /^([^/]+)\/(\d{1,3})$/.exec(subnet) ?? [];
  const family = isIP(net) === 6 ? 'ipv6' : 'ipv4';
  if (isIP(net) === 0 || isIP(net) !== isIP(address) || Number(bits) > (family === 'ipv6' ? 128 : 32))
    return false;
  const list = new BlockList();
  list.addSubnet(net, Number(bits), family);
  return list.check(address, family);
}
