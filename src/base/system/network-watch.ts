/**
 * Notices that the network of this device has changed. Network managers write files: every DHCP client writes resolv.conf,
 * others write links and leases below /run. The kernel reports each write, so nothing is polled while all is well. A path
 * that does not exist at the start is watched from the next change on. Static addresses, PPP and routes write no file, so
 * the kernel's tables are compared every 5 s while something is offline.
 */
import { type FSWatcher, readlinkSync, realpathSync, watch } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { SECOND_MS } from '../limits.js';
import { Alarm } from '../retry/alarm.js';
import type { Clock } from './clock.js';

/** Network changes come in bursts: wait 2 s for the rest, then retry relays and cloud, at most every 10 s. */
export const NETWORK_QUIET_MS = 2 * SECOND_MS;
export const NETWORK_EVERY_MS = 10 * SECOND_MS;
/** How often routes and links are compared while something is offline. */
export const NETWORK_LOOK_MS = 5 * SECOND_MS;

const RESOLVER = '/etc/resolv.conf';
/** Where systemd-networkd, NetworkManager, connman and ifupdown keep the state of links. */
const STATE = ['/run/systemd/netif/links', '/run/NetworkManager/devices', '/run/connman', '/run/network'];

/** Calls `onChange` 2 to 4 s after a change, at most every 10 s, until it is closed. */
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
  let watchers: readonly FSWatcher[] = [];
  const watchAgain = () => {
    for (const watcher of watchers) watcher.close();
    watchers = watchAll(resolver, state, changed);
  };
  let toldMs = Number.NEGATIVE_INFINITY;
  const change = new Alarm(clock, () => {
    toldMs = clock.bootMs();
    // A place that did not exist at the start may exist now.
    watchAgain();
    onChange();
  });
  const changed = () => {
    // Draw one random delay for all events of a burst: the smallest of many random delays is about the same on all
    // devices of a switch.
    if (change.isSet) return;
    // DNS and routes change one after another, and all are needed before a retry can succeed.
    const quietMs = NETWORK_QUIET_MS * (1 + random());
    change.at(Math.max(clock.bootMs() + quietMs, toldMs + NETWORK_EVERY_MS));
  };
  // A start tries everything by itself, so the watch can wait.
  const begin = new Alarm(clock, watchAgain);
  // The network at the last look; null while nothing is offline.
  let seen: string | null = null;
  const compare = new Alarm(clock, async () => {
    const now = isOffline() ? await look() : null;
    if (seen !== null && now !== null && now !== seen) changed();
    seen = now;
    compare.in(NETWORK_LOOK_MS);
  });
  begin.in(NETWORK_QUIET_MS);
  compare.in(NETWORK_LOOK_MS);
  return {
    close() {
      for (const alarm of [begin, compare, change]) alarm.end();
      for (const watcher of watchers) watcher.close();
    },
  };
}

function watchAll(resolver: string, directories: readonly string[], changed: () => void): FSWatcher[] {
  const files = new Set([resolver, targetOf(resolver)]);
  const opened = [...files].flatMap((path) => [
    // A manager replaces the file, or writes it in place, as in a container where it is mounted.
    watched(dirname(path), (name) => name === basename(path) && changed()),
    watched(path, changed),
  ]);
  for (const directory of directories) opened.push(watched(directory, changed));
  return opened.filter((watcher) => watcher !== null);
}

/** The target of a link, which may not exist yet; else the path itself. */
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

/** Null if there is no such file or directory, or the kernel has no watch left. */
function watched(path: string, onEvent: (name: string | null) => void): FSWatcher | null {
  try {
    const watcher = watch(path, { persistent: false }, (_, name) => onEvent(name));
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    return null;
  }
}

/** The kernel's files, because os.networkInterfaces() fails in the unit's sandbox. */
interface NetworkTables {
  /** Its files `route`, `ipv6_route`, `fib_trie` and `if_inet6`: see proc(5). */
  readonly net: string;
  /** One directory for each link. */
  readonly links: string;
}

const TABLES: NetworkTables = { net: '/proc/self/net', links: '/sys/class/net' };
/** The columns that count the uses of a route. */
const COUNTERS: Readonly<Record<string, readonly number[]>> = { route: [4, 5], ipv6_route: [6, 7] };

/**
 * The routes, the addresses, and which links have a carrier, as one text. Equal texts mean an equal network. What cannot be
 * read is left out.
 */
export async function lookAtNetwork({ net, links } = TABLES): Promise<string> {
  const tables = ['route', 'ipv6_route', 'fib_trie', 'if_inet6'].map(async (name) => {
    const counters = COUNTERS[name] ?? [];
    const rows = (await textOf(join(net, name))).split('\n').map((line) => line.trim().split(/\s+/));
    return rows.map((row) => row.filter((_, index) => !counters.includes(index)).join(' ')).join('\n');
  });
  const names = await readdir(links).catch(() => []);
  const states = names.sort().map(async (name) => `${name} ${await textOf(join(links, name, 'operstate'))}`);
  return (await Promise.all([...tables, ...states])).join('\n');
}

async function textOf(path: string): Promise<string> {
  return await readFile(path, 'latin1').catch(() => '');
}
