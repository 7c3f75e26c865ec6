/**
 * `fieldpost run`, `cloud` and `dev`: their names and help.
 */
import { type Command, type ServiceName, textOption } from './command.js';
import { settingsFor } from './environment.js';

const SUMMARY: Record<ServiceName, string> = {
  run: 'run the daemon, as the systemd service does',
  cloud: 'run the reference cloud, which tells people of offline devices',
  dev: 'run daemon, mail catcher and cloud together, to try them',
};

const DETAIL: Record<ServiceName, string> = {
  run: `It runs until SIGTERM or Ctrl-C. On SIGHUP it reads its settings again. Without
usable settings it ends with exit status 78; fieldpost check shows the problems.`,
  cloud: `It runs until SIGTERM or Ctrl-C. It listens on FIELDPOST_CLOUD_SERVER_LISTEN;
devices set FIELDPOST_CLOUD to its URL. For TLS put a reverse proxy in front of
it. It keeps its state in cloud/ below FIELDPOST_STATE_DIR.`,
  dev: `It prints the addresses, a curl line to try, and every mail as it arrives. It
keeps its state in ./.fieldpost.`,
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
      return context.serve(name, settingsFor(textOption(input, 'env-file'), name === 'run', context));
    },
  };
}
