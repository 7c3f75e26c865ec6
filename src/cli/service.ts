/**
 * The commands that every program has: its service, and its version.
 */
import { EXIT } from '../base/errors.js';
import { type Command, type Heading, type ProgramContext, textOption } from './command.js';
import { settingsFor } from './environment.js';
import { json } from './words.js';

/** The command for the service that this call runs. */
export function serviceCommand(
  call: string,
  more: { readonly group?: Heading; readonly summary: string; readonly detail: string },
): Command<ProgramContext> {
  return {
    name: call.replace(/^.* /, ''),
    group: more.group ?? '',
    summary: more.summary,
    help: `${call} [--env-file FILE]

${more.detail}`,
    examples: [[`${call} --env-file ./test.env`, 'run it with the settings of a file']],
    options: {},
    asksService: false,
    readsEnvFile: true,
    async run(input, context) {
      return context.serve(settingsFor(textOption(input, 'env-file'), context));
    },
  };
}

/** `version` of the program of that name. */
export function versionOf(program: string): Command<ProgramContext> {
  const isDevice = program === 'fieldpost';
  const running = isDevice ? ' fieldpost status shows the version of the\nrunning daemon.' : '';
  return {
    name: 'version',
    group: isDevice ? 'More' : '',
    summary: 'show the version of this program',
    help: `${program} version [--json]

Shows the version of this program.${running}`,
    examples: [[`${program} version --json`, 'the version, for a script']],
    options: { json: { type: 'boolean' } },
    asksService: false,
    async run({ options }, { version, stdout }) {
      stdout.write(options.json === true ? json({ version }) : `${program} ${version}\n`);
      return EXIT.ok;
    },
  };
}
