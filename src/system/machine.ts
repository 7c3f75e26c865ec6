/**
 * The machine below this process.
 */
import { arch, cpus, freemem, release, totalmem, uptime } from 'node:os';
import { readText } from './disk.js';

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
