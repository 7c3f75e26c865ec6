/**
 * The machine below this process.
 */
import { arch, cpus, freemem, hostname, release, totalmem, uptime } from 'node:os';
import { readText } from './disk.js';

/**
 * The names of this machine: the host name, and the full names that hosts(5) and /etc/mailname give it. Programs that send
 * mail address its users by any of them.
 */
export function machineNames(): readonly string[] {
  const name = hostname();
  const lines = textOf('/etc/hosts')
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim().split(/\s+/).slice(1));
  const full = lines.filter((names) => names.includes(name)).flat();
  const [mailName = ''] = textOf('/etc/mailname').trim().split('\n');
  return [...new Set([name, ...full, ...(mailName === '' ? [] : [mailName])])];
}

function textOf(path: string): string {
  try {
    return readText(path);
  } catch {
    return '';
  }
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
