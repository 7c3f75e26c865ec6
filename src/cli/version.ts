/**
 * `fieldpost version`. Used by cli.ts.
 */
import { type Command, EXIT } from './command.js';

export const version: Command = {
  name: 'version',
  summary: 'say which version this is',
  help: 'fieldpost version\n\nSays which version this program is; fieldpost status says which one is running.',
  options: {},
  asksService: false,
  async run(_input, context) {
    context.stdout.write(`fieldpost ${context.version}\n`);
    return EXIT.ok;
  },
};
