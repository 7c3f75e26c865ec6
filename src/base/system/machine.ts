/**
 * The machine below this process, and what it lets the process have.
 */
import { arch, cpus, freemem, hostname, release, totalmem, uptime } from 'node:os';
import { MINUTE_MS } from '../limits.js';
import type { Clock } from './clock.js';
import { listNames, readText } from './disk.js';

/** The file that names it is read again after this time: each recipient of each message asks. */
const NAMES_KEPT_MS = MINUTE_MS;

/**
 * Gives the names of this machine: the host name, and the full names that begin with it in its lines of hosts(5). Other
 * names there, and that in /etc/mailname, may be domains with a mail server elsewhere.
 */
export function machineNames(
  clock: Pick<Clock, 'bootMs'>,
  read: (path: string) => string = readText,
): () => readonly string[] {
  let names: readonly string[] = [];
  let untilMs = 0;
  return () => {
    const nowMs = clock.bootMs();
    if (names.length > 0 && nowMs < untilMs) return names;
    untilMs = nowMs + NAMES_KEPT_MS;
    names = readNames((path) => {
      try {
        return read(path);
      } catch {
        return '';
      }
    });
    return names;
  };
}

function readNames(read: (path: string) => string): readonly string[] {
  const name = hostname();
  const begin = `${name.toLowerCase().split('.', 1)[0]}.`;
  const lines = read('/etc/hosts')
    .toLowerCase()
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim().split(/\s+/).slice(1));
  const full = lines.filter((names) => names.includes(name.toLowerCase())).flat();
  return [...new Set([name, ...full.filter((one) => one.startsWith(begin))])];
}

/** Its system, memory and time, as they are now. */
export function machineNow() {
  return {
    os: osName(),
    kernel: release(),
    arch: arch(),
    cores: cpus().length,
    memoryBytes: totalmem(),
    freeMemoryBytes: freemem(),
    uptimeMs: uptime() * 1000,
  };
}

/** The name in os-release(5). */
function osName(): string {
  try {
    return /^PRETTY_NAME="?(.*?)"?$/m.exec(readText('/etc/os-release'))?.[1] ?? 'unknown';
  } catch {
    return 'unknown';
  }
}

/** For what the daemon opens later: a segment, a checkpoint, relays, the cloud. */
const OWN_COUNT = 10;

/**
 * How many more files this process may open for its clients (RLIMIT_NOFILE). Infinity if there is no limit, or no /proc.
 * libuv resets a connection that finds no free descriptor, unread.
 */
export function freeDescriptors(): number {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readText('/proc/self/limits'))?.[1];
    if (limit !== undefined) return Number(limit) - listNames('/proc/self/fd').length - OWN_COUNT;
  } catch {
    // The lock tells of a missing /proc.
  }
  return Number.POSITIVE_INFINITY;
}
