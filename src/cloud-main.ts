#!/usr/bin/env -S node --
/**
 * The program of the reference cloud.
 */
import about from '../package.json' with { type: 'json' };
import { systemDisk } from './base/system/disk.js';
import { systemLock } from './base/system/lock.js';
import { listenerUids } from './base/system/peer.js';
import { runProcess } from './base/system/process.js';
import { runCommand } from './cli/cli.js';
import { CLOUD_PROGRAM } from './cli/cloud.js';
import { isUnitOf } from './cli/environment.js';
import { createCloud } from './cloud/cloud.js';
import { CLOUD_SETTINGS, type CloudConfig } from './cloud/settings.js';
import { exportCloud, importCloud } from './cloud/transfer.js';
import { contextOf } from './mail/context.js';
import { type Service, serve } from './mail/serve.js';

const { version } = about;
const { name } = CLOUD_PROGRAM;

const CLOUD: Service<CloudConfig> = {
  program: name,
  version,
  sendsMail: true,
  endsWithTerminal: false,
  sparesMemory: false,
  settings: CLOUD_SETTINGS,
  fallsBack: true,
  start: (config, system) => createCloud(config, system),
};

void runProcess((self) => {
  const context = contextOf(self, version);
  const outside = { ...self, ...context, disk: systemDisk(), takeLock: systemLock };
  return runCommand(CLOUD_PROGRAM, self.argv.slice(2), {
    ...context,
    settings: CLOUD_SETTINGS,
    clock: self.clock,
    listenerUids,
    service: name,
    isUnit: isUnitOf(name, self),
    serve: (settings) => serve(CLOUD, settings, self),
    exportState: (env, out) => exportCloud(env, outside, out),
    importState: (env, path) => importCloud(env, outside, path),
  });
});
