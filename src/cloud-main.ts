#!/usr/bin/env -S node --
/**
 * The program of the reference cloud.
 */
import about from '../package.json' with { type: 'json' };
import { readText, statOf } from './base/system/disk.js';
import { type Process, runProcess } from './base/system/process.js';
import { runCommand } from './cli/cli.js';
import { CLOUD_PROGRAM } from './cli/cloud.js';
import { createCloud } from './cloud/cloud.js';
import { CLOUD_SETTINGS, type CloudConfig } from './cloud/settings.js';
import { contextOf } from './mail/context.js';
import { plainChoice, type Service, serve } from './mail/serve.js';

const { version } = about;

function cloudOf({ hostname }: Process): Service<CloudConfig> {
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

void runProcess((self) =>
  runCommand(CLOUD_PROGRAM, self.argv.slice(2), {
    ...contextOf(self, version),
    settings: CLOUD_SETTINGS,
    isUnit: false,
    serve: (settings) => serve(cloudOf(self), settings, self),
  }),
);
