/** The outside of a daemon or a reference cloud, for tests that start a whole one. */

import type { Environment } from '../../src/base/config/types.js';
import { createConnect } from '../../src/base/system/connect.js';
import { createLog, type Log } from '../../src/base/system/log.js';
import { DEV_SETTINGS, type DevConfig } from '../../src/dev/settings.js';
import type { System } from '../../src/mail/engine.js';
import { FakeClock } from './clock.js';
import { FaultyDisk } from './faulty-disk.js';
import { seededRandom } from './random.js';

/** A log that keeps its lines. */
export function keptLog(): { log: Log; lines: string[] } {
  const lines: string[] = [];
  const write = (line: string) => lines.push(line);
  return { log: createLog({ level: 'debug', priorities: true, write, wallMs: Date.now }), lines };
}

/** All randomness of a program, the same for the same seed. */
export function drawn(seed: number): Pick<System, 'random' | 'randomBytes'> {
  const random = seededRandom(seed);
  return {
    random,
    randomBytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(random() * 256)),
  };
}

/** A lock that is always free. */
export const freeLock: System['takeLock'] = async () => ({ release: async () => undefined });

/** A disk in memory, a clock that stands still, and real sockets; `parts` replace any of them. */
export function testSystem(parts: Partial<System> = {}): { system: System; lines: string[] } {
  const { log, lines } = keptLog();
  const { clock = new FakeClock() } = parts;
  const system: System = {
    disk: new FaultyDisk({ directories: ['/var/lib'] }),
    clock,
    log,
    ...drawn(1),
    takeLock: freeLock,
    hostname: () => 'device.example',
    connect: createConnect({ clock }),
    version: '1.2.3',
    ...parts,
  };
  return { system, lines };
}

/** Parses settings of a device or a cloud, on free ports by default. Throws if they are wrong. */
export function configOf(env: Environment, read: (path: string) => string = () => ''): DevConfig {
  const free = { FIELDPOST_LISTEN: '127.0.0.1:0', FIELDPOST_CLOUD_SERVER_LISTEN: '127.0.0.1:0' };
  const parsed = DEV_SETTINGS.parse({ ...free, ...env }, read, { hostname: 'device.example' });
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  return parsed.config;
}
