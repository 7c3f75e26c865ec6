/**
 * A reload: reads the settings again and gives them to the running service.
 */

import { formatProblem } from '../base/config/config.js';
import type { Config } from '../base/config/settings.js';
import type { Environment } from '../base/config/types.js';
import { wordsOf } from '../base/errors.js';
import type { LogLevel } from '../base/system/log.js';
import type { SettingsFault } from '../base/views.js';
import type { Settings } from '../cli/command.js';
import type { System } from '../mail/system.js';
import type { Daemon } from './daemon.js';
import type { LastSettings } from './last-settings.js';
import type { Warnings } from './warnings.js';

/** State of the process that a reload changes. */
export interface Running {
  level: LogLevel;
  fault: SettingsFault | null;
}

interface ReloadParts {
  readonly service: Pick<Daemon, 'reload'>;
  readonly settings: Pick<Settings, 'reread'>;
  readonly last: LastSettings;
  readonly running: Running;
  readonly system: Pick<System, 'clock' | 'log' | 'handed'>;
  readonly warnings: Warnings;
  readonly fileSystemBytes: (path: string) => Promise<number>;
}

/** Reads the settings again and gives them to the service. Settings with a fault change nothing. */
export async function reload(parts: ReloadParts): Promise<void> {
  const { service, settings, last, running, system, warnings, fileSystemBytes } = parts;
  const { clock, log, handed } = system;
  try {
    const env = settings.reread();
    const parsed = last.parse(env);
    if ('problems' in parsed) throw new Error(parsed.problems.map(formatProblem).join('; '));
    const { taken, waiting } = await service.reload(withSockets(parsed.config, env, handed));
    running.level = parsed.config.logLevel;
    running.fault = null;
    await last.keep(env);
    const needsRestart = waiting.join(',') || undefined;
    log.info('reloaded', { taken: taken.join(',') || 'nothing', needsRestart });
    warnings.tell(parsed, await fileSystemBytes(parsed.config.stateDir));
  } catch (error) {
    const reason = wordsOf(error);
    running.fault = { reason, sinceMs: running.fault?.sinceMs ?? clock.wallMs() };
    log.error('reload refused', { reason });
  }
}

/** The settings that the next start will find; undefined if they cannot be read or used. */
export function nextConfig(settings: Pick<Settings, 'reread'>, last: LastSettings): Config | undefined {
  try {
    const parsed = last.parse(settings.reread());
    return 'problems' in parsed ? undefined : parsed.config;
  } catch {
    return undefined;
  }
}

/** Sockets from systemd replace the default of FIELDPOST_LISTEN; listeners that are set there are opened as well. */
export function withSockets(config: Config, env: Environment, handed: System['handed']): Config {
  const isSet = (env.FIELDPOST_LISTEN ?? '').trim() !== '';
  const isOpen = handed?.some(({ use }) => use !== 'smtp') ?? false;
  return isOpen && !isSet ? { ...config, listen: [] } : config;
}
