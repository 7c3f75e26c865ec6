#!/usr/bin/env -S node --
/**
 * The program of the reference cloud.
 */
import about from '../package.json' with { type: 'json' };
import { fileSystemBytes, listNames, readText, statOf, systemDisk } from './base/system/disk.js';
import { runProcess } from './base/system/process.js';
import { runCommand } from './cli/cli.js';
import { CLOUD_PROGRAM } from './cli/cloud.js';
import { createCloud } from './cloud/cloud.js';
import { CLOUD_SETTINGS, type CloudConfig } from './cloud/settings.js';
import { plainChoice, type Service, serve, trialOf } from './mail/serve.js';

const { version } = about;

function cloudOf(hostname: () => string): Service<CloudConfig> {
  return {
    program: CLOUD_PROGRAM.name,
    version,
    sendsMail: true,
    endsWithTerminal: false,
    openChoice: async () =>
      plainChoice((env) => CLOUD_SETTINGS.parse(env, readText, { hostname: hostname(), statOf })),
    async start(config, system) {
      const { reload, stop } = await createCloud(config, system);
      return { status: () => '', reload, stop };
    },
  };
}

void runProcess((self) => {
  const [, , ...words] = self.argv;
  const { env, stdout, stderr, hostname } = self;
  return runCommand(CLOUD_PROGRAM, words, {
    env,
    stdout,
    stderr,
    settings: CLOUD_SETTINGS,
    read: readText,
    statOf,
    list: listNames,
    fileSystemBytes: (path) => fileSystemBytes(systemDisk(), path),
    hostname: hostname(),
    version,
    tryRelay: (relay, trial) => trialOf(relay, trial, self, version),
    isUnit: false,
    serve: (settings) => serve(cloudOf(hostname), settings, self),
  });
});
