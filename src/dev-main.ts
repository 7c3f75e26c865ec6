#!/usr/bin/env -S node --
/**
 * The development program: device, mail catcher and cloud in one process.
 */
import about from '../package.json' with { type: 'json' };
import { addressOf } from './base/config/endpoints.js';
import type { Environment, ListenConfig } from './base/config/types.js';
import { type Process, runProcess } from './base/system/process.js';
import { runCommand } from './cli/cli.js';
import { DEV_PROGRAM } from './cli/dev.js';
import { createCloud } from './cloud/cloud.js';
import { startDev } from './dev/dev.js';
import { DEV_SETTINGS, type DevConfig } from './dev/settings.js';
import { createDaemon } from './device/daemon.js';
import { contextOf } from './mail/context.js';
import { type Service, serve } from './mail/serve.js';

const { version } = about;

/** Shorter defaults, so that a developer sees the effects of an outage soon. */
const DEFAULTS: Environment = {
  FIELDPOST_CLOUD_SERVER_DELAY: '15s',
  FIELDPOST_CLOUD_SERVER_STOP_DELAY: '60s',
};

/** The port of the inbox, next to those of the local API and the reference cloud. */
const INBOX_PORT = 43790;

function devOf({ stdout }: Process): Service<DevConfig> {
  return {
    program: DEV_PROGRAM.name,
    version,
    sendsMail: false,
    endsWithTerminal: true,
    sparesMemory: false,
    settings: DEV_SETTINGS,
    defaults: DEFAULTS,
    fallsBack: false,
    async start(config, system) {
      const { stop } = await startDev({
        config,
        ...system,
        print: stdout.write,
        inboxPort: INBOX_PORT,
        startDaemon: async (devConfig) => inDev(await createDaemon(devConfig, system)),
        startCloud: async (devConfig, send) => inDev(await createCloud(devConfig, system, send)),
      });
      return { status: () => '', stop };
    },
  };
}

function inDev({
  addresses: [address],
  stop,
}: {
  addresses: readonly ListenConfig[];
  stop(): Promise<void>;
}) {
  return { address: address ? addressOf(address) : '', stop };
}

void runProcess((self) =>
  runCommand(DEV_PROGRAM, ['dev', ...self.argv.slice(2)], {
    ...contextOf(self, version),
    settings: DEV_SETTINGS,
    service: 'fieldpost',
    isUnit: false,
    serve: (settings) => serve(devOf(self), settings, self),
  }),
);
