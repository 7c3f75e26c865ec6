/**
 * The command line of a program: finds the command, reads its options and runs it. A CommandError becomes a sentence and an
 * exit status.
 */
import { parseArgs } from 'node:util';
import { guessOf } from '../base/config/nearest.js';
import { EXIT, wordsOf } from '../base/errors.js';
import { visible } from '../base/text.js';
import { type Command, CommandError, type CommandInput, helpText, type ProgramContext } from './command.js';
import { type Given, hasOwnSettings, serviceEnvironment, withEnvFile } from './environment.js';

/** A program with commands. */
export interface Program<C extends ProgramContext> {
  readonly name: string;
  /** Every command by its name. A command is loaded when it is called, so that the daemon does not keep the others in memory. */
  readonly commands: Readonly<Record<string, () => Promise<Command<C>>>>;
  /** Names by which other programs call. */
  readonly aliases?: Readonly<Record<string, () => Promise<Command<C>>>>;
  /** The end of the overview. */
  readonly guide: string;
}

/** The options of every command. */
export const COMMON = { help: { type: 'boolean', short: 'h' }, 'env-file': { type: 'string' } } as const;

/**
 * Carries out `argv` (without node and the script) and returns the exit status, one of sysexits(3). Throws only for a
 * bug.
 */
export async function runCommand<C extends ProgramContext>(
  program: Program<C>,
  argv: readonly string[],
  context: C,
): Promise<number> {
  try {
    return await dispatch(program, argv, context);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    context.stderr.write(`${program.name}: ${visible(error.message, '\n')}\n`);
    if (error.hint !== '') context.stderr.write(`${error.hint}\n`);
    return error.exitCode;
  }
}

/** The commands that people also give as options. */
const FLAGS = new Map([
  ['--help', 'help'],
  ['-h', 'help'],
  ['--version', 'version'],
  ['-V', 'version'],
]);

async function dispatch<C extends ProgramContext>(
  program: Program<C>,
  argv: readonly string[],
  context: C,
): Promise<number> {
  const [name, ...rest] = argv;
  if (name === undefined) {
    await dispatch(program, ['help'], { ...context, stdout: context.stderr });
    return EXIT.usage;
  }
  const command = await find(program, FLAGS.get(name) ?? name);
  const input = command.readsArguments ? { options: {}, words: rest } : readArguments(program, command, rest);
  if (input.options.help === true) {
    context.stdout.write(helpText(command));
    return EXIT.ok;
  }
  const given = givenTo(command, input, context);
  const ofService =
    command.asksService && input.options['env-file'] === undefined && !hasOwnSettings(context.env);
  return command.run(input, { ...context, ...given, ofService });
}

function givenTo<C extends ProgramContext>(command: Command<C>, input: CommandInput, context: C): Given {
  const file = input.options['env-file'];
  if (command.readsEnvFile) return context;
  if (typeof file === 'string') return withEnvFile(file, context);
  return command.asksService ? serviceEnvironment(context) : context;
}

async function find<C extends ProgramContext>(program: Program<C>, name: string): Promise<Command<C>> {
  const { commands, aliases = {} } = program;
  const load = [commands, aliases].find((some) => Object.hasOwn(some, name))?.[name];
  if (load !== undefined) return load();
  const guess = guessOf(name, Object.keys(commands));
  const hint = `${program.name} --help lists them.`;
  throw new CommandError(EXIT.usage, `there is no command ${name}${guess}`, hint);
}

function readArguments<C extends ProgramContext>(
  program: Program<C>,
  command: Command<C>,
  args: readonly string[],
): CommandInput {
  const wrongUse = (words: string) =>
    new CommandError(EXIT.usage, words, `${program.name} ${command.name} --help`);
  const options: Command['options'] = { ...COMMON, ...command.options };
  try {
    const { values, positionals, tokens } = parseArgs({
      args: [...args],
      options,
      allowPositionals: true,
      tokens: true,
    });
    const given = tokens.flatMap((token) => (token.kind === 'option' ? token : []));
    // parseArgs would silently take the last one.
    const twice = given.find(
      ({ name }, at) => given.findIndex((one) => one.name === name) < at && !options[name]?.multiple,
    );
    if (twice !== undefined) throw wrongUse(`${twice.rawName} is given more than once`);
    if (!command.takesWords && positionals.length > 0) {
      throw wrongUse(`${program.name} ${command.name} takes no ${JSON.stringify(positionals[0])}`);
    }
    return { options: values, words: positionals };
  } catch (error) {
    const code = (error as { code?: unknown }).code;
    if (typeof code !== 'string' || !code.startsWith('ERR_PARSE_ARGS')) throw error;
    throw wrongUse(sayWrongOption(error, Object.keys(options)));
  }
}

function sayWrongOption(error: unknown, known: readonly string[]): string {
  const words = wordsOf(error).replace(/\.\s.*$/s, '');
  const [, open] = /^Option '(--\S+)' argument is ambiguous$/.exec(words) ?? [];
  if (open !== undefined) return `${open} needs a value; one that begins with - is given as ${open}=VALUE`;
  const [, dashes, unknown] = /^Unknown option '(--?)(.+?)'/.exec(words) ?? [];
  if (unknown === undefined) return words;
  return `there is no option ${dashes}${unknown}${guessOf(unknown, known, '--')}`;
}
