/**
 * The commands that run a service until a signal.
 */
import { type Command, type ProgramContext, textOption } from './command.js';
import { settingsFor } from './environment.js';

/** The command for the service that this call runs. */
export function serviceCommand(
  call: string,
  { summary, detail }: { readonly summary: string; readonly detail: string },
): Command<ProgramContext> {
  return {
    name: call.replace(/^.* /, ''),
    summary,
    help: `${call} [--env-file FILE]

${detail}`,
    options: {},
    asksService: false,
    readsEnvFile: true,
    async run(input, context) {
      return context.serve(settingsFor(textOption(input, 'env-file'), context));
    },
  };
}
