/**
 * `fieldpost run`, `cloud` and `dev`: their names and help. Used by cli.ts.
 */
import { type Command, type ServiceName, textOption } from './command.js';
import { settingsFor } from './environment.js';

const SUMMARY: Record<ServiceName, string> = {
  run: 'run the daemon (what the systemd service does)',
  cloud: 'run the reference cloud: devices report to it, and it tells people when one is offline',
  dev: 'run the daemon with a mail catcher and the reference cloud, all on this machine',
};

const DETAIL: Record<ServiceName, string> = {
  run: 'It runs until SIGTERM or Ctrl-C; SIGHUP has it read its settings again. A configuration with problems ends it\nwith exit status 78; fieldpost check shows the same.',
  cloud:
    'It runs until SIGTERM or Ctrl-C. Devices set FIELDPOST_CLOUD to where it listens (FIELDPOST_CLOUD_SERVER_LISTEN); TLS\nis for a reverse proxy in front of it. State is kept in cloud/ below FIELDPOST_STATE_DIR.',
  dev: 'It prints the addresses, a curl line to try, and every mail as it arrives. State is kept in ./.fieldpost.',
};

/** The command for this service. */
export function service(name: ServiceName): Command {
  return {
    name,
    summary: SUMMARY[name],
    help: `fieldpost ${name} [--env-file FILE]

${DETAIL[name]}`,
    options: {},
    asksService: false,
    readsEnvFile: true,
    async run(input, context) {
      return context.serve(name, settingsFor(textOption(input, 'env-file'), context));
    },
  };
}
