/**
 * What the commands of every program take of their process. It loads nothing of the engine.
 */
import { fileSystemBytes, listNames, readText, statOf, systemDisk } from '../base/system/disk.js';
import type { Process } from '../base/system/process.js';
import type { OpenMailWay, RelayTrial } from './serve.js';
import type { Relay } from './settings.js';

/** The outside of a command of this process; `version` is the program's. `openMailWay`: to the cloud that is a relay. */
export function contextOf(self: Process, version: string, openMailWay?: OpenMailWay) {
  const { env, stdout, stderr } = self;
  return {
    ...{ env, stdout, stderr, version, statOf },
    read: readText,
    list: listNames,
    fileSystemBytes: (path: string) => fileSystemBytes(systemDisk(), path),
    hostname: self.hostname(),
    async tryRelay(relay: Relay, trial: RelayTrial) {
      // Loaded when it is called: no command waits for the engine.
      const { trialOf } = await import('./serve.js');
      return trialOf(relay, trial, self, version, openMailWay);
    },
  };
}
