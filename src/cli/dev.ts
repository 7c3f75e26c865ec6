/**
 * The command line of `fieldpost dev`: its options alone.
 */
import type { Program } from './cli.js';
import type { ProgramContext } from './command.js';
import { serviceCommand } from './service.js';

const dev = serviceCommand('fieldpost dev', {
  summary: 'run daemon, mail catcher and cloud together, to try them',
  detail: `It prints the addresses, a curl line to try, and every mail as it arrives. It
keeps its state in ./.fieldpost.`,
});

/** The development program. Its one command is `dev`. */
export const DEV_PROGRAM: Program<ProgramContext> = {
  name: 'fieldpost',
  commands: { dev: async () => dev },
  guide: '',
};
