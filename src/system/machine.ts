/**
 * The machine below this process.
 */
import { arch, cpus, freemem, hostname, release, totalmem, uptime } from 'node:os';
import { MINUTE_MS } from '../limits.js';
import type { Clock } from './clock.js';
import { readText } from './disk.js';

/** The files that name it are read again after this time: each recipient of each message asks. */
const NAMES_KEPT_MS = MINUTE_MS;

/**
 * Gives the names of this machine: the host name, and the full names that hosts(5) and /etc/mailname give it. Programs that
 * send mail address its users by any of them.
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
  const lines = read('/etc/hosts')
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim().split(/\s+/).slice(1));
  const full = lines.filter((names) => names.includes(name)).flat();
  const [mailName = ''] = read('/etc/mailname').trim().split('\n');
  return [...new Set([name, ...full, ...(mailName === '' ? [] : [mailName])])];
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
