/**
 * `fieldpost version`.
 */
import { type Command, EXIT } from './command.js';
import { json } from './words.js';

export const version: Command = {
  name: 'version',
  summary: 'show the version of this program',
  help: `fieldpost version [--json]

Shows the version of this program. fieldpost status shows the version of the
running daemon.`,
  options: { json: { type: 'boolean' } },
  asksService: false,
  async run({ options }, { version, stdout }) {
    stdout.write(options.json === true ? json({ version }) : `fieldpost ${version}\n`);
    return EXIT.ok;
  },
};
