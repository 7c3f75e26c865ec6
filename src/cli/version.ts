/**
 * `fieldpost version`. Used by cli.ts.
 */
import { type Command, EXIT } from './command.js';

export const version: Command = {
  name: 'version',
  summary: 'show the version of this program',
  help: 'fieldpost version\n\nShows the version of this program; fieldpost status shows the version of the running daemon.',
  options: {},
  asksService: false,
  async run(_input, context) {
    context.stdout.write(`fieldpost ${context.version}\n`);
    return EXIT.ok;
  },
};
