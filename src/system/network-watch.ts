/**
 * Notices that the network of this device has changed. Whoever manages it writes down what it has found: name servers
 * in resolv.conf (every DHCP client does), links and leases below /run. The kernel tells of such a write by itself, so
 * nothing is asked while nothing happens. Main makes it, daemon.ts says what follows from it.
 */
import { type FSWatcher, readlinkSync, realpathSync, watch } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { NETWORK_EVERY_MS, NETWORK_QUIET_MS } from '../limits.js';
import type { Clock, Timer } from './clock.js';

const RESOLVER = '/etc/resolv.conf';
/** Where systemd-networkd, NetworkManager, connman and ifupdown keep the state of links. */
const STATE = ['/run/systemd/netif/links', '/run/NetworkManager/devices', '/run/connman', '/run/network'];

/** Calls `onChange` a little after a change, and not too often; until it is closed. */
export function watchNetwork(
  clock: Pick<Clock, 'after' | 'bootMs'>,
  onChange: () => void,
  { resolver = RESOLVER, state = STATE } = {},
): { close(): void } {
  let timer: Timer | null = null;
  let lastMs = Number.NEGATIVE_INFINITY;
  const changed = () => {
    if (timer !== null) return;
    // Names and routes come one after another: the first is no use without the last.
    const inMs = Math.max(NETWORK_QUIET_MS, lastMs + NETWORK_EVERY_MS - clock.bootMs());
    timer = clock.after(inMs, () => {
      timer = null;
      lastMs = clock.bootMs();
      onChange();
    });
  };
  const files = new Set([resolver, targetOf(resolver)]);
  const watchers = [...files].flatMap((path) => [
    // One that is replaced, and one that is mounted there, as in a container.
    watched(dirname(path), (name) => name === basename(path) && changed()),
    watched(path, changed),
  ]);
  watchers.push(...state.map((directory) => watched(directory, changed)));
  return {
    close() {
      timer?.stop();
      for (const watcher of watchers) watcher?.close();
    },
  };
}

/** What the file is a link to, which may not be there yet; itself if it is none. */
function targetOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    try {
      return resolve(dirname(path), readlinkSync(path));
    } catch {
      return path;
    }
  }
}

/** Null where there is no such file or directory, or the kernel has no watch left for us: then nothing is noticed there. */
function watched(path: string, onEvent: (name: string | null) => void): FSWatcher | null {
  try {
    const watcher = watch(path, { persistent: false }, (_, name) => onEvent(name));
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    return null;
  }
}
