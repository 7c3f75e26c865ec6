/**
 * The command line: finds the command, reads its options, gives it the world, and turns what it throws into
 * words and an exit status. Called by main.
 */
import { parseArgs } from 'node:util';
import { nearest } from '../config/nearest.js';
import type { Environment } from '../config.js';
import { wordsOf } from '../errors.js';
import { check } from './check.js';
import { type Command, type CommandContext, CommandError, type CommandInput, EXIT } from './command.js';
import { serviceEnvironment, withEnvFile } from './environment.js';
import { queue } from './queue.js';
import { send } from './send.js';
import { service } from './service.js';
import { status } from './status.js';
import { version } from './version.js';
import { columns, printable } from './words.js';

const COMMANDS: readonly Command[] = [
  service('run'),
  service('dev'),
  service('cloud'),
  check,
  status,
  queue,
  send,
  version,
];

const COMMON = { help: { type: 'boolean', short: 'h' }, 'env-file': { type: 'string' } } as const;

/**
 * Carries out `argv` (without node and the script) and gives the exit status, one of sysexits(3). Never
 * throws but for a bug.
 */
export async function runCommand(argv: readonly string[], context: CommandContext): Promise<number> {
  try {
    return await dispatch(argv, context);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    // Whatever it holds, a path, an argument, a relay's reply, must not steer the terminal.
    const lines = error.message.split('\n').map(printable);
    context.stderr.write(`fieldpost: ${lines.join('\n')}\n`);
    if (error.hint !== '') context.stderr.write(`${error.hint}\n`);
    return error.exitCode;
  }
}

async function dispatch(argv: readonly string[], context: CommandContext): Promise<number> {
  const [name, ...rest] = argv;
  if (name === undefined) {
    context.stderr.write(overview());
    return EXIT.usage;
  }
  if (name === '--help' || name === '-h' || name === 'help') return help(rest[0], context);
  if (name === '--version' || name === '-V') return version.run({ options: {}, words: [] }, context);
  const command = find(name);
  const input = readArguments(command, rest);
  if (input.options.help === true) {
    context.stdout.write(`${command.help}\n`);
    return EXIT.ok;
  }
  return command.run(input, { ...context, env: environmentFor(command, input, context) });
}

function environmentFor(command: Command, input: CommandInput, context: CommandContext): Environment {
  const file = input.options['env-file'];
  if (typeof file === 'string') return withEnvFile(file, context);
  return command.asksService ? serviceEnvironment(context) : context.env;
}

function help(name: string | undefined, context: CommandContext): number {
  context.stdout.write(name === undefined ? overview() : `${find(name).help}\n`);
  return EXIT.ok;
}

function find(name: string): Command {
  const found = COMMANDS.find((command) => command.name === name);
  if (found !== undefined) return found;
  const meant = nearest(
    name,
    COMMANDS.map((command) => command.name),
  );
  const guess = meant === null ? '' : `; did you mean ${meant}?`;
  throw new CommandError(EXIT.usage, `there is no command ${name}${guess}`, 'fieldpost --help lists them.');
}

function overview(): string {
  const rows = columns(COMMANDS.map(({ name, summary }) => [`  ${name}`, summary]));
  return `fieldpost <command> [options]

${rows.join('\n')}

fieldpost <command> --help tells more. Settings come from the environment or from --env-file FILE; where
neither says anything, status, queue, send and check take those of the service (/etc/fieldpost/fieldpost.env).
`;
}

function readArguments(command: Command, args: readonly string[]): CommandInput {
  const options = { ...COMMON, ...command.options };
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
    return { options: values, words: positionals };
  } catch (error) {
    const code = (error as { code?: unknown }).code;
    if (typeof code !== 'string' || !code.startsWith('ERR_PARSE_ARGS')) throw error;
    throw new CommandError(
      EXIT.usage,
      sayWrongOption(error, Object.keys(options)),
      `fieldpost ${command.name} --help`,
    );
  }
}

/** parseArgs' own words, but for an unknown option, where ours may know better. */
function sayWrongOption(error: unknown, known: readonly string[]): string {
  const words = wordsOf(error).replace(/\.\s.*$/s, '');
  const unknown = /^Unknown option '--?(.+?)'/.exec(words)?.[1];
  if (unknown === undefined) return words;
  const meant = nearest(unknown, known);
  return `there is no option --${unknown}${meant === null ? '' : `; did you mean --${meant}?`}`;
}
