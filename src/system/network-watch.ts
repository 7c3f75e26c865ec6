/**
 * Notices that the network of this device has changed. Network managers write what they find: name servers in resolv.conf
 * (every DHCP client does), links and leases below /run. The kernel tells of such a write, so nothing is polled while all is
 * well. A place that does not exist at the start is watched from the next change on. Static addresses, PPP and routes leave
 * no file: while something is offline, the kernel's own tables are compared every 5 s. Main makes it, daemon.ts says what
 * follows from it.
 */
import { type FSWatcher, readlinkSync, realpathSync, watch } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { NETWORK_EVERY_MS, NETWORK_LOOK_MS, NETWORK_QUIET_MS } from '../limits.js';
import type { Clock, Timer } from './clock.js';
import { lookAtNetwork } from './network-look.js';

const RESOLVER = '/etc/resolv.conf';
/** Where systemd-networkd, NetworkManager, connman and ifupdown keep the state of links. */
const STATE = ['/run/systemd/netif/links', '/run/NetworkManager/devices', '/run/connman', '/run/network'];

/** Calls `onChange` a little after a change, and not too often; from a moment after the start until it is closed. */
export function watchNetwork(
  onChange: () => void,
  world: {
    readonly clock: Pick<Clock, 'after' | 'bootMs'>;
    /** In [0, 1). */
    readonly random: () => number;
    /** True while a relay or the cloud cannot be reached. */
    readonly isOffline: () => boolean;
  },
  { resolver = RESOLVER, state = STATE, look = lookAtNetwork } = {},
): { close(): void } {
  const { clock, random, isOffline } = world;
  let timer: Timer | null = null;
  let isClosed = false;
  let lastMs = Number.NEGATIVE_INFINITY;
  const changed = () => {
    if (timer !== null || isClosed) return;
    // Names and routes come one after another: the first is no use without the last. And what hangs on one switch
    // shall not come back in one moment.
    const quietMs = NETWORK_QUIET_MS * (1 + random());
    timer = clock.after(Math.max(quietMs, lastMs + NETWORK_EVERY_MS - clock.bootMs()), () => {
      timer = null;
      lastMs = clock.bootMs();
      // What was not there at the start may be there now.
      for (const watcher of watchers) watcher.close();
      watchers = watchAll();
      onChange();
    });
  };
  const watchAll = () => {
    const files = new Set([resolver, targetOf(resolver)]);
    const opened = [...files].flatMap((path) => [
      // One that is replaced, and one that is mounted there, as in a container.
      watched(dirname(path), (name) => name === basename(path) && changed()),
      watched(path, changed),
    ]);
    for (const directory of state) opened.push(watched(directory, changed));
    return opened.filter((watcher) => watcher !== null);
  };
  let watchers: readonly FSWatcher[] = [];
  // A start has other things to do, and tries everything by itself.
  const begin = clock.after(NETWORK_QUIET_MS, () => {
    watchers = watchAll();
  });
  // What the network was at the last look; null while all is well, and nobody looks.
  let seen: string | null = null;
  const compare = async () => {
    if (!isOffline()) seen = null;
    else {
      const now = await look();
      if (seen !== null && now !== seen) changed();
      seen = now;
    }
    if (!isClosed) next = clock.after(NETWORK_LOOK_MS, compare);
  };
  let next = clock.after(NETWORK_LOOK_MS, compare);
  return {
    close() {
      isClosed = true;
      begin.stop();
      next.stop();
      timer?.stop();
      for (const watcher of watchers) watcher.close();
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
