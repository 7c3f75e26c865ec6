/**
 * The command line of a device.
 */
import { basename } from 'node:path';
import type { Program } from './cli.js';
import type { CommandContext } from './command.js';
import { serviceCommand, versionOf } from './service.js';

const run = serviceCommand('fieldpost run', {
  group: 'Service',
  summary: 'run the daemon, as the systemd service does',
  detail: `It runs until SIGTERM or Ctrl-C. On SIGHUP it reads its settings again. Without
usable settings it ends with exit status 78; fieldpost check shows the problems.`,
});

/** In the order of the overview, which has each behind those of its group. */
const COMMANDS: Program<CommandContext>['commands'] = {
  send: async () => (await import('./send.js')).send,
  status: async () => (await import('./status.js')).status,
  queue: async () => (await import('./queue.js')).queue,
  quiet: async () => (await import('./quiet.js')).quiet,
  events: async () => (await import('./events.js')).events,
  history: async () => (await import('./history.js')).history,
  check: async () => (await import('./check.js')).checkOf('fieldpost', 'daemon'),
  report: async () => (await import('./report.js')).report,
  destinations: async () => (await import('./destinations.js')).destinations,
  drill: async () => (await import('./telling.js')).drill,
  lastword: async () => (await import('./telling.js')).lastWord,
  alive: async () => (await import('./alive.js')).alive,
  run: async () => run,
  sendmail: async () => (await import('./sendmail.js')).sendmailAs('sendmail'),
  purge: async () => (await import('./purge.js')).purge,
  help: async () => (await import('./help.js')).helpOf(DEVICE_PROGRAM),
  version: async () => versionOf('fieldpost'),
};

const ALIASES: Program<CommandContext>['commands'] = {
  mailq: async () => (await import('./sendmail.js')).sendmailAs('mailq'),
  newaliases: async () => (await import('./sendmail.js')).sendmailAs('newaliases'),
};

/** The program of a device. The manual page and the completions of shells follow its commands. */
export const DEVICE_PROGRAM: Program<CommandContext> = {
  name: 'fieldpost',
  commands: COMMANDS,
  aliases: ALIASES,
  guide: `fieldpost help WORD searches commands and settings; fieldpost <command> --help
tells more. Settings come from the environment or from --env-file FILE. Without
either, the commands that ask the daemon, and check, use those of the service:
/etc/fieldpost/fieldpost.env, then /etc/fieldpost/conf.d/*.env. The reference
cloud is a program of its own, fieldpost-cloud.
`,
};

/** The words of a command line: a link named `sendmail` to the program stands for `fieldpost sendmail`. */
export function wordsOfCall([, program = '', ...words]: readonly string[]): readonly string[] {
  const name = basename(program);
  return name === 'sendmail' || Object.hasOwn(ALIASES, name) ? [name, ...words] : words;
}
