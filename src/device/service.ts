/**
 * The daemon as the service of a process. main.ts loads it for `run` alone, so that no command waits for it.
 */
import type { SettingsSource } from '../base/config/types.js';
import type { Process } from '../base/system/process.js';
import { type Service, serve } from '../mail/serve.js';
import { createDaemon, withSockets } from './daemon.js';
import { DEVICE_SETTINGS, type DeviceConfig } from './settings.js';

/** Runs the daemon until a signal; gives the exit status. */
export function serveDaemon(settings: SettingsSource, self: Process, version: string): Promise<number> {
  return serve(daemonOf(version), settings, self);
}

function daemonOf(version: string): Service<DeviceConfig> {
  return {
    program: 'fieldpost',
    version,
    sendsMail: true,
    endsWithTerminal: false,
    sparesMemory: true,
    settings: DEVICE_SETTINGS,
    fallsBack: true,
    async start(config, system, env) {
      const daemon = await createDaemon(withSockets(config, env, system.handed), system);
      return {
        status: daemon.status,
        reload: (next, nextEnv) => daemon.reload(withSockets(next, nextEnv, system.handed)),
        stop: daemon.stop,
      };
    },
  };
}
