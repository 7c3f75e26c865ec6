/**
 * `fieldpost check`: shows all problems of the configuration, or the effective settings with secrets hidden. Used by cli.ts.
 */
import { diskAdvice, mailAdvice } from '../config/advice.js';
import { type Config, describeConfig, formatProblem, parseConfig } from '../config.js';
import { visible } from '../text.js';
import { type Command, type CommandContext, EXIT } from './command.js';
import { counted, json, painter } from './words.js';

export const check: Command = {
  name: 'check',
  summary: 'check the configuration and show the effective settings',
  help: `fieldpost check [--env-file FILE] [--json]

Reads the configuration as the daemon does. Prints every setting with its effective value, secrets hidden;
or every problem. Exit status 78: the daemon refuses these settings. A start then uses the last good ones, if
there are any.`,
  options: { json: { type: 'boolean' } },
  asksService: true,
  async run(input, context) {
    const { stdout, stderr, env, hostname } = context;
    const parsed = parseConfig(env, context.read, context);
    const warnings = 'problems' in parsed ? [] : await warningsOf(parsed, context);
    if (input.options.json === true) {
      const told =
        'problems' in parsed ? parsed : { config: describeConfig(parsed.config, hostname), warnings };
      stdout.write(json(told));
      return 'problems' in parsed ? EXIT.config : EXIT.ok;
    }
    if ('problems' in parsed) {
      for (const problem of parsed.problems) stderr.write(`${visible(formatProblem(problem))}\n`);
      const verdict = `${counted(parsed.problems.length, 'problem')}: the daemon refuses these settings.`;
      stderr.write(`${painter(stderr, env)('bad', verdict)}\n`);
      return EXIT.config;
    }
    for (const [key, value] of Object.entries(describeConfig(parsed.config, hostname)))
      stdout.write(`${visible(`${key}=${value}`)}\n`);
    for (const warning of warnings) stderr.write(`warning: ${visible(warning)}\n`);
    return EXIT.ok;
  },
};

/** The warnings that a start logs about these settings. */
async function warningsOf(
  { config, warnings }: { readonly config: Config; readonly warnings: readonly string[] },
  { fileSystemBytes, hostname }: CommandContext,
): Promise<readonly string[]> {
  const sizeBytes = await fileSystemBytes(config.stateDir);
  return [...warnings, ...mailAdvice(config, hostname), ...diskAdvice(config, sizeBytes)];
}
