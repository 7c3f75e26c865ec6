/**
 * Where services listen: addresses with a port, and unix sockets.
 */
import { Buffer } from 'node:buffer';
import type { ListenConfig } from './types.js';
import { isHost, isIpv4, isLoopback, items, type Kind, placeOf, refuse, unbracket } from './values.js';

/** sockaddr_un holds 108 bytes, the last of them a zero. Node.js cuts a longer path. */
export const UNIX_PATH_BYTES_MAX = 107;

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

/** A listener as a setting has it. */
export function showListener(listener: ListenConfig): string {
  if (listener.kind === 'unix') return `${listener.sendOnly ? 'unix-send' : 'unix'}:${listener.path}`;
  return placeOf(listener);
}

/** Where a listener listens: `127.0.0.1:43770`, `[::1]:43770`, or a socket's path. */
export function addressOf(listener: ListenConfig): string {
  return listener.kind === 'unix' ? listener.path : showListener(listener);
}

/** True if other devices can reach this listener. */
export function needsToken(listener: ListenConfig): boolean {
  return listener.kind === 'tcp' && !isLoopback(listener.host);
}

/** A sentence for each of these listeners over which tokens travel in clear text between devices. */
export function clearTextAdvice(
  key: string,
  listeners: readonly ListenConfig[],
  remedy = 'listen on loopback, behind a reverse proxy with TLS',
): readonly string[] {
  return listeners
    .filter(needsToken)
    .map((one) => `tokens travel to ${showListener(one)} (${key}) in clear text: ${remedy}`);
}
