/**
 * The settings of a device.
 */
import type { Config } from '../base/config/settings.js';
import type { Environment } from '../base/config/types.js';
import type { System } from '../mail/engine.js';

/** Sockets from systemd replace the default of FIELDPOST_LISTEN; listeners that are set there are opened as well. */
export function withSockets(config: Config, env: Environment, handed: System['handed']): Config {
  const isSet = (env.FIELDPOST_LISTEN ?? '').trim() !== '';
  const isOpen = handed?.some(({ use }) => use !== 'smtp') ?? false;
  return isOpen && !isSet ? { ...config, listen: [] } : config;
}
