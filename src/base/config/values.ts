/**
 * The kinds of value that settings have: how one is parsed, what is allowed, and how it is shown. parse() throws a
 * FieldpostError `bad-config` that says in a few words what is wrong.
 */

import { parseAddress, recipientKey } from '../../mail/message/address.js';
import { type Mailbox, parseMailbox } from '../../mail/message/mailbox.js';
import { FieldpostError } from '../errors.js';
import { DAY_MS, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS } from '../limits.js';
import { hasControl } from '../text.js';

/** A kind of text, in a setting or in a file, whose parsed form is a T. */
export interface TextKind<T> {
  /** Takes the text without blanks around it, empty only where the default is. */
  parse(text: string): T;
  /** The value for people, as parse takes it; never a secret. */
  show(value: T): string;
  /** In a kind of secret: false for a value without one. Left out: each value is secret. */
  hides?(value: T): boolean;
}

/** A kind of value of a setting. */
export interface Kind<T> extends TextKind<T> {
  /** Completes "allowed: …". */
  readonly allowed: string;
}

/** What parse throws for a bad value. */
export function refuse(why: string): never {
  throw new FieldpostError('bad-config', why);
}

const DURATION_UNITS_MS = { d: DAY_MS, h: HOUR_MS, m: MINUTE_MS, s: SECOND_MS, ms: 1 };
const SIZE_UNITS_BYTES = { GiB: 1024 * MIB, MiB: MIB, KiB: KIB };

/** `500ms`, `30s`, `5m`, `24h`, `7d`; in milliseconds. */
export function duration(min: string, max: string): Kind<number> {
  const kind = ranged(DURATION_UNITS_MS, 'a duration such as 500ms, 30s, 5m, 24h or 7d', 'ms', min, max);
  return {
    ...kind,
    parse: (text) => (/^\d+$/.test(text) ? refuse('the unit is missing') : kind.parse(text)),
  };
}

/** `512KiB`, `25MiB`, `1GiB` or plain bytes; in bytes. */
export function size(min: string, max: string): Kind<number> {
  return ranged(SIZE_UNITS_BYTES, 'a size such as 65536, 512KiB, 25MiB or 1GiB', '', min, max);
}

/** A whole number. */
export function integer(min: number, max: number): Kind<number> {
  return ranged({}, 'a whole number', '', String(min), String(max));
}

/** A number with a unit, the largest first, or with `bare` as the unit of 1. */
function ranged(
  units: Readonly<Record<string, number>>,
  noun: string,
  bare: string,
  min: string,
  max: string,
): Kind<number> {
  const read = (text: string): number => {
    const found = /^(\d+)([A-Za-z]*)$/.exec(text);
    const unit = found?.[2] === bare ? 1 : units[found?.[2] ?? ''];
    if (found === null || unit === undefined) return refuse(`not ${noun.replace(/ such as.*/, '')}`);
    return Number(found[1]) * unit;
  };
  return {
    allowed: `${noun}, from ${min} to ${max}`,
    parse(text) {
      const value = read(text);
      if (value < read(min)) refuse(`less than ${min}`);
      if (value > read(max)) refuse(`more than ${max}`);
      return value;
    },
    show(value) {
      const unit = Object.entries(units).find(([, one]) => value >= one && value % one === 0);
      return unit === undefined ? `${value}${bare}` : `${value / unit[1]}${unit[0]}`;
    },
  };
}

/** One of `words`. */
export function oneOf<const T extends string>(words: readonly T[]): Kind<T> {
  return {
    allowed: words.join(', '),
    parse: (text) => words.find((word) => word === text) ?? refuse('not one of these'),
    show: (value) => value,
  };
}

/** A kind of text that people see as it is. */
export function shown<T extends string>(allowed: string, parse: (text: string) => T): Kind<T> {
  return { allowed, parse, show: (value) => value };
}

/** A kind of text that people never see. */
function hidden(allowed: string, parse: (text: string) => string): Kind<string> {
  return { allowed, parse, show: () => '(hidden)' };
}

export const directory = shown('the path of a directory', (text) => text);

export const certificatesPath = shown('the path of a file with PEM certificates', (text) => text);

export const secretPath = shown('the path of a file (with a slash in it) that holds the secret', (text) =>
  // Without a slash it may be the secret itself, and a path is shown.
  text.includes('/') ? text : refuse('not a path with a slash in it'),
);

export const address = shown(
  'one email address such as gateway@example.com',
  (text) => parseAddress(text) ?? refuse('not an email address'),
);

export const mailbox: Kind<Mailbox> = {
  allowed: 'one email address such as gateway@example.com, or Name <gateway@example.com>',
  parse: (text) => parseMailbox(text) ?? refuse('not an email address'),
  show: ({ name, address }) => (name === '' ? address : `${JSON.stringify(name)} <${address}>`),
};

/** Comma-separated addresses and domains; a domain has an `@` in front. */
export const senders: Kind<readonly string[]> = {
  allowed: 'addresses or domains, separated by commas',
  parse: (text) => (text === '' ? [] : items(text)).map(sender),
  show: (value) => value.map((one) => one.replace(/^@/, '')).join(','),
};

function sender(text: string): string {
  const domain = text.replace(/^@/, '');
  if (parseAddress(`x@${domain}`) !== null) return `@${domain.toLowerCase()}`;
  return recipientKey(parseAddress(text) ?? refuse(`neither an address nor a domain: ${text}`));
}

/** A name that fits one segment of a URL. */
export const deviceId = shown(
  'up to 128 letters, digits, dots, hyphens, underscores or colons, starting with a letter or digit',
  (text) => (/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/.test(text) ? text : refuse('not such a name')),
);

export const userName = shown('the name the relay knows this device by', (text) =>
  hasControl(text) ? refuse('it has a control character') : text,
);

export const password = hidden('the password itself; better a file', (text) =>
  hasControl(text) ? refuse('it has a control character or line break') : text,
);

export const clientId = shown("the application's id", (text) =>
  hasControl(text) ? refuse('it has a control character') : text,
);

export const clientSecret = hidden('the secret itself; better a file', (text) =>
  hasControl(text) ? refuse('it has a control character or line break') : text,
);

/** RFC 6749 §3.3. */
export const scope = shown('scopes, separated by blanks', (text) =>
  /^[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*$/.test(text)
    ? text
    : refuse('it has a quotation mark, a backslash, two blanks in a row, or characters beyond ASCII'),
);

/** A name for EHLO. */
export const heloName = shown(
  'a host name such as pump-3.example.com, or an address in brackets such as [192.0.2.7]',
  (text) => {
    if (isIpv4(text) || isIpv6(text))
      refuse('an address stands in brackets: [192.0.2.7], [IPv6:2001:db8::7]');
    return isHeloName(text) ? text : refuse('neither a host name nor an address in brackets');
  },
);

/** Comma-separated; the empty text is an empty list. */
export const hosts: Kind<readonly string[]> = {
  allowed: 'host names or addresses without a port, separated by commas',
  parse: (text) =>
    (text === '' ? [] : items(text)).map((host) =>
      isHost(host) ? host.toLowerCase() : refuse(`not a host: ${host}`),
    ),
  show: (value) => value.join(','),
};

/** The base URL of a cloud, without a slash at its end. */
export const cloudUrl = shown(
  'an https:// URL (http:// only to this device itself) without user, query or fragment',
  (text) => {
    const url = parseUrl(text);
    if (url.search !== '') refuse('it has a query');
    return url.href.replace(/(?<!\/)\/+$/, '');
  },
);

/** The URL of a token endpoint. */
export const tokenUrl = shown(
  'an https:// URL (http:// only to this device itself) without user or fragment',
  (text) => parseUrl(text).href,
);

/** A URL to post to; its path or query may be secret. */
export const webhookUrl: Kind<string> = {
  allowed: 'an https:// URL (http:// only to this machine itself) without user or fragment',
  parse: (text) => parseUrl(text).href,
  show: (value) => `${new URL(value).origin}/(hidden)`,
};

/** The URL of a page for people to open. */
export const pageUrl = shown('an https:// or http:// URL without user, of at most 500 characters', (text) => {
  const url = URL.canParse(text) ? new URL(text) : refuse('not a URL');
  if (!/^https?:$/.test(url.protocol)) refuse('neither https:// nor http://');
  if (url.username !== '' || url.password !== '') refuse('a user or password does not belong here');
  return url.href.length <= 500 ? url.href : refuse('longer than 500 characters');
});

/** A URL by which nothing leaves this machine unencrypted. */
export function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : refuse('not a URL');
  if (url.username !== '' || url.password !== '') refuse('a user or password does not belong here');
  if (url.hash !== '') refuse('it has a fragment');
  const inClear = url.protocol === 'http:' && isLoopback(unbracket(url.hostname));
  if (url.protocol !== 'https:' && !inClear) refuse(`${url.protocol}// is not allowed to this host`);
  return url;
}

export const timeZone = shown('UTC, or a name of the tz database such as Europe/Amsterdam', (text) => {
  // Intl takes memory, and most users have UTC.
  if (text === 'UTC') return text;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone;
  } catch {
    return refuse('not a time zone');
  }
});

/** The parts of a comma-separated list, without blanks around them. */
export function items(text: string): string[] {
  const parts = text.split(',').map((part) => part.trim());
  return parts.includes('') ? refuse('there is an empty entry in the list') : parts;
}

/** True for a host name, an IPv4 address, or an IPv6 address in brackets. */
export function isHost(text: string): boolean {
  if (text.startsWith('[')) return isIpv6(unbracket(text));
  const labels = text.split('.');
  if (text.length > 253) return false;
  return labels.every((label) => /^(?!-)[A-Za-z0-9_-]{1,63}(?<!-)$/.test(label));
}

/** True for a domain of ASCII, or an address literal (RFC 5321 §4.1.2 and §4.1.3). */
export function isHeloName(text: string): boolean {
  const literal = /^\[(IPv6:)?(.*)\]$/i.exec(text);
  if (literal !== null) return (literal[1] === undefined ? isIpv4 : isIpv6)(literal[2] ?? '');
  return isHost(text) && !text.includes('_') && !isIpv4(text);
}

function isIpv6(text: string): boolean {
  return /^[0-9A-Fa-f:.]+$/.test(text) && URL.canParse(`http://[${text}]/`);
}

/** True for an IPv4 address in dotted form. */
export function isIpv4(text: string): boolean {
  const parts = text.split('.');
  return parts.length === 4 && parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) <= 255);
}

/** `[::1]` → `::1`; anything else as it is. */
export function unbracket(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1');
}

/** True if data to this host (without brackets) never leaves the device. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIpv4(host) && host.startsWith('127.'));
}

/** A token in an Authorization header. */
export const bearer = hidden('visible ASCII without blanks; better a file', (text) =>
  /^[\x21-\x7e]+$/.test(text) ? text : refuse('it has blanks or characters beyond visible ASCII'),
);
