/**
 * `fieldpost version`, and the same of the other programs.
 */
import { EXIT } from '../base/errors.js';
import type { Command, ProgramContext } from './command.js';
import { json } from './words.js';

/** The command of the program of that name. */
export function versionOf(program: string): Command<ProgramContext> {
  const running =
    program === 'fieldpost' ? ' fieldpost status shows the version of the\nrunning daemon.' : '';
  return {
    name: 'version',
    summary: 'show the version of this program',
    help: `${program} version [--json]

Shows the version of this program.${running}`,
    options: { json: { type: 'boolean' } },
    asksService: false,
    async run({ options }, { version, stdout }) {
      stdout.write(options.json === true ? json({ version }) : `${program} ${version}\n`);
      return EXIT.ok;
    },
  };
}
