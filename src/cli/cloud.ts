/**
 * The command line of the reference cloud.
 */
import { checkOf } from './check.js';
import type { Program } from './cli.js';
import type { OperatorContext } from './command.js';
import { serviceCommand, versionOf } from './service.js';
import type { CloudContext } from './transfer.js';

const NAME = 'fieldpost-cloud';

const serve = serviceCommand(`${NAME} serve`, {
  summary: 'run the reference cloud, which tells people of offline devices',
  detail: `It runs until SIGTERM or Ctrl-C. It listens on FIELDPOST_CLOUD_SERVER_LISTEN;
devices set FIELDPOST_CLOUD to its URL. For TLS put a reverse proxy in front of
it. It keeps its state in cloud/ below FIELDPOST_STATE_DIR. On SIGHUP it reads
its settings again.`,
});

/** The program of the reference cloud. */
export const CLOUD_PROGRAM: Program<OperatorContext & CloudContext> = {
  name: NAME,
  commands: {
    serve: async () => serve,
    check: async () => checkOf(NAME, 'cloud'),
    status: async () => (await import('./operator/status.js')).status,
    devices: async () => (await import('./operator/devices.js')).devices,
    device: async () => (await import('./operator/device.js')).device,
    quiet: async () => (await import('./operator/quiet.js')).quiet,
    drill: async () => (await import('./operator/quiet.js')).drill,
    key: async () => (await import('./operator/keys.js')).key,
    remove: async () => (await import('./operator/keys.js')).remove,
    export: async () => (await import('./transfer.js')).exportCommand,
    import: async () => (await import('./transfer.js')).importCommand,
    help: async () => (await import('./help.js')).helpOf(CLOUD_PROGRAM),
    version: async () => versionOf(NAME),
  },
  guide: `${NAME} help WORD searches commands and settings; ${NAME}
<command> --help tells more. Settings come from the environment or from
--env-file FILE. Without either, all commands but serve use those of the
service: /etc/${NAME}/${NAME}.env, then conf.d/*.env beside it.
`,
};
