/**
 * The kinds of value that settings have: how one is parsed, what is allowed, and how it is shown. parse() throws a
 * FieldpostError `bad-config` that says in a few words what is wrong.
 */

import { FieldpostError } from '../errors.js';
import { DAY_MS, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS } from '../limits.js';
import { hasControl } from '../text.js';
import type { RateWindow } from '../views.js';

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

const RATES_MAX = 4;
const rateLimit = integer(1, 100_000);
const rateWindow = duration('1s', '31d');

/** `30/1m,500/1d`: at most so many in any time of that length. */
export const rates: Kind<readonly RateWindow[]> = {
  allowed: `up to ${RATES_MAX} limits such as 30/1m or 500/1d, separated by commas: a number from 1 to 100000, and a duration from 1s to 31d`,
  parse(text) {
    const list = items(text).map((item) => {
      const [count = '', window, ...rest] = item.split('/').map((part) => part.trim());
      if (window === undefined || rest.length > 0)
        return refuse('a limit is a number, a slash and a duration: 500/1d');
      return { limit: rateLimit.parse(count), windowMs: rateWindow.parse(window) };
    });
    if (list.length > RATES_MAX) refuse(`more than ${RATES_MAX} limits`);
    if (new Set(list.map(({ windowMs }) => windowMs)).size < list.length)
      refuse('there are two limits for one duration');
    return list;
  },
  show: (list) => list.map(({ limit, windowMs }) => `${limit}/${rateWindow.show(windowMs)}`).join(','),
};

/** `50%`; in percent. */
export function percent(min: number, max: number): Kind<number> {
  return ranged({}, 'a percentage such as 50%', '%', `${min}%`, `${max}%`);
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
    const found = /^(\d+)([A-Za-z%]*)$/.exec(text);
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

/** A name or the like: one line that people see. */
export function plainText(allowed: string): Kind<string> {
  return shown(allowed, (text) => (hasControl(text) ? refuse('it has a control character') : text));
}

/** A password or the like: one line that people never see. */
export function secretText(allowed: string): Kind<string> {
  const parse = (text: string) =>
    hasControl(text) ? refuse('it has a control character or line break') : text;
  return { allowed, parse, show: () => '(hidden)' };
}

export const directory = shown('the path of a directory', (text) => text);

export const certificatesPath = shown('the path of a file with PEM certificates', (text) => text);

export const secretPath = shown('the path of a file (with a slash in it) that holds the secret', (text) =>
  // Without a slash it may be the secret itself, and a path is shown.
  text.includes('/') ? text : refuse('not a path with a slash in it'),
);

export const certificates = pem(
  'CERTIFICATE',
  (text) => `(${text.split('-----BEGIN CERTIFICATE-----').length - 1} certificates)`,
);

export const privateKey = pem('PRIVATE KEY', () => '(hidden)');

function pem(what: string, show: (text: string) => string): TextKind<string> {
  const marker = new RegExp(`-----BEGIN [A-Z ]*\\b${what}-----`);
  const none = `it holds no PEM ${what.toLowerCase()} (-----BEGIN ${what}-----)`;
  return { parse: (text) => (marker.test(text) ? text : refuse(none)), show };
}

/** A token in an Authorization header. */
export const bearer: Kind<string> = {
  allowed: 'visible ASCII without blanks; better a file',
  parse: (text) =>
    /^[\x21-\x7e]+$/.test(text) ? text : refuse('it has blanks or characters beyond visible ASCII'),
  show: () => '(hidden)',
};

/** A name that fits one segment of a URL. */
export const deviceId = shown(
  'up to 128 letters, digits, dots, hyphens, underscores or colons, starting with a letter or digit',
  (text) => (/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/.test(text) ? text : refuse('not such a name')),
);

/** True for a text that the kind takes as it is. */
export function fits(kind: Kind<string>, text: string): boolean {
  try {
    return kind.parse(text) === text;
  } catch {
    return false;
  }
}

/** A URL by which nothing leaves this machine unencrypted. */
export function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : refuse('not a URL');
  if (url.username !== '' || url.password !== '') refuse('a user or password does not belong here');
  if (url.hash !== '') refuse('it has a fragment');
  const inClear = url.protocol === 'http:' && isLoopback(unbracket(url.hostname));
  if (url.protocol !== 'https:' && !inClear) refuse(`${url.protocol}// is not allowed to this host`);
  return url;
}

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

/** True for an IPv6 address without brackets. */
export function isIpv6(text: string): boolean {
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

/** `proxy.example:3128`, `[::1]:25`; the host has no brackets. */
export function placeOf({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/**
 * Splits a list of URLs, one of which may be the word `cloud`, only before these, so that a comma in a password does not
 * show its second half.
 */
export function splitUrls(text: string): string[] {
  return text
    .split(/,\s*(?=[a-z]+:\/\/|cloud\s*(?:,\s*[a-z]+:\/\/|,?\s*$)|,|$)/i)
    .map((url) => url.trimEnd());
}

/** `text` without anything that may be a password of a URL, however badly the URLs are written. */
export function maskPasswords(text: string): string {
  const masked = splitUrls(text).map((url) => {
    const [, scheme = '', rest = ''] = /^([a-z]*:\/\/)?(.*)$/is.exec(url) ?? [];
    const at = rest.lastIndexOf('@');
    const colon = rest.indexOf(':');
    return colon >= 0 && colon < at ? `${scheme}${rest.slice(0, colon)}:***${rest.slice(at)}` : url;
  });
  return masked.join(',');
}
