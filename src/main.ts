#!/usr/bin/env -S node --
/**
 * The program of a device: the daemon and the commands.
 */
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import about from '../package.json' with { type: 'json' };
import type { ListenConfig } from './base/config/types.js';
import { EXIT } from './base/errors.js';
import { pause } from './base/system/clock.js';
import { openScratch, stdinKind, systemDisk, writeNew } from './base/system/disk.js';
import { machineNow } from './base/system/machine.js';
import { listenerUids } from './base/system/peer.js';
import { type Process, runProcess } from './base/system/process.js';
import { outputOf } from './base/system/program.js';
import { runCommand } from './cli/cli.js';
import { DEVICE_PROGRAM, wordsOfCall } from './cli/device.js';
import { isUnitOf } from './cli/environment.js';
import { DEVICE_SETTINGS, type DeviceConfig } from './device/settings.js';
import { contextOf } from './mail/context.js';

const { version } = about;

const SERVICE = 'fieldpost';

/** The sockets of the systemd units. */
const SOCKETS: readonly ListenConfig[] = [
  { kind: 'unix', path: '/run/fieldpost/send.sock', sendOnly: true },
  { kind: 'unix', path: '/run/fieldpost/api.sock' },
];

/** Programs of their own, which were commands of this one: their words to the other program, and where it is. */
const OTHERS: Readonly<Record<string, { readonly words: string[]; readonly place: string }>> = {
  cloud: { words: ['serve'], place: 'the cloud is a program of its own: fieldpost-cloud' },
  dev: {
    words: [],
    place: 'the development program is a program of its own: npm start in the source of Fieldpost',
  },
};

/** Gives this process to the program `name`, if its file lies beside this one; else says where it is. */
function become(name: string, { argv, stderr }: Process): Promise<number> | number {
  const { words, place } = OTHERS[name] as (typeof OTHERS)[string];
  const require = createRequire(import.meta.url);
  const path = join(import.meta.dirname, `${name}-main.cjs`);
  try {
    require.resolve(path);
  } catch {
    stderr.write(`fieldpost: ${place}\n`);
    return EXIT.usage;
  }
  const asksHelp = argv[2] !== name;
  argv.splice(1, asksHelp ? 3 : 2, path, ...words, ...(asksHelp ? ['--help'] : []));
  require(path);
  // It ends the process itself.
  return new Promise<never>(() => undefined);
}

void runProcess(async (self) => {
  const words = wordsOfCall(self.argv);
  const [first = '', second = ''] = words;
  const name = /^(?:help|--help|-h)$/.test(first) ? second : first;
  if (Object.hasOwn(OTHERS, name)) return become(name, self);
  return runCommand(DEVICE_PROGRAM, words, {
    ...contextOf(self, version, async (config) => {
      const [{ openHttps }, { openClient }] = await Promise.all([
        import('./base/system/https.js'),
        import('./device/link/client.js'),
      ]);
      const { client, close } = openClient(config as DeviceConfig, { ...self, version, openHttps });
      return { sendMail: (...mail) => client.sendMail(...mail), close };
    }),
    settings: DEVICE_SETTINGS,
    stdin: self.stdin,
    stdinKind,
    listenerUids,
    sockets: SOCKETS,
    open: (path) => systemDisk().open(path, 'read'),
    scratch: () => openScratch(systemDisk(), tmpdir()),
    pause,
    machine: () => ({ ...machineNow(), node: self.node, uid: self.uid() }),
    disk: systemDisk(),
    writeNew: (path, text) => writeNew(systemDisk(), path, text),
    outputOf,
    clock: self.clock,
    service: SERVICE,
    isUnit: isUnitOf(SERVICE, self),
    async serve(settings) {
      const { serveDaemon } = await import('./device/service.js');
      return serveDaemon(settings, self, version);
    },
  });
});
