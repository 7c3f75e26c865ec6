/**
 * The command line: finds the command, reads its options and runs it. A CommandError becomes a sentence and an exit
 * status.
 */
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { guessOf } from '../base/config/nearest.js';
import type { Environment } from '../base/config/types.js';
import { wordsOf } from '../base/errors.js';
import { visible } from '../base/text.js';
import { type Command, type CommandContext, CommandError, type CommandInput, EXIT } from './command.js';
import { hasOwnSettings, serviceEnvironment, withEnvFile } from './environment.js';
import { service } from './service.js';
import { columns } from './words.js';

/**
 * Every command by its name. A command is loaded when it is called, so that the daemon does not keep the others in memory.
 * The manual page and the completion of bash follow it.
 */
export const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  run: async () => service('run'),
  cloud: async () => service('cloud'),
  dev: async () => service('dev'),
  check: async () => (await import('./check.js')).check,
  status: async () => (await import('./status.js')).status,
  queue: async () => (await import('./queue.js')).queue,
  destinations: async () => (await import('./destinations.js')).destinations,
  send: async () => (await import('./send.js')).send,
  sendmail: async () => (await import('./sendmail.js')).sendmailAs('sendmail'),
  report: async () => (await import('./report.js')).report,
  purge: async () => (await import('./purge.js')).purge,
  version: async () => (await import('./version.js')).version,
};

/** Names by which other programs call. */
const ALIASES: typeof COMMANDS = {
  mailq: async () => (await import('./sendmail.js')).sendmailAs('mailq'),
  newaliases: async () => (await import('./sendmail.js')).sendmailAs('newaliases'),
};

/** The options of every command. */
export const COMMON = { help: { type: 'boolean', short: 'h' }, 'env-file': { type: 'string' } } as const;

/** The words of a command line: a link named `sendmail` to the program stands for `fieldpost sendmail`. */
export function wordsOfCall([, program = '', ...words]: readonly string[]): readonly string[] {
  const name = basename(program);
  return name === 'sendmail' || Object.hasOwn(ALIASES, name) ? [name, ...words] : words;
}

/**
 * Carries out `argv` (without node and the script) and returns the exit status, one of sysexits(3). Throws only for a
 * bug.
 */
export async function runCommand(argv: readonly string[], context: CommandContext): Promise<number> {
  try {
    return await dispatch(argv, context);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    context.stderr.write(`fieldpost: ${visible(error.message, '\n')}\n`);
    if (error.hint !== '') context.stderr.write(`${error.hint}\n`);
    return error.exitCode;
  }
}

async function dispatch(argv: readonly string[], context: CommandContext): Promise<number> {
  const [name, ...rest] = argv;
  if (name === undefined) {
    context.stderr.write(await overview());
    return EXIT.usage;
  }
  if (name === '--help' || name === '-h' || name === 'help') return help(rest[0], context);
  const command = await find(name === '--version' || name === '-V' ? 'version' : name);
  const input = command.readsArguments ? { options: {}, words: rest } : readArguments(command, rest);
  if (input.options.help === true) {
    context.stdout.write(`${command.help}\n`);
    return EXIT.ok;
  }
  const env = environmentFor(command, input, context);
  const ofService =
    command.asksService && input.options['env-file'] === undefined && !hasOwnSettings(context.env);
  return command.run(input, { ...context, env, ofService });
}

function environmentFor(command: Command, input: CommandInput, context: CommandContext): Environment {
  const file = input.options['env-file'];
  if (command.readsEnvFile) return context.env;
  if (typeof file === 'string') return withEnvFile(file, context);
  return command.asksService ? serviceEnvironment(context) : context.env;
}

async function help(name: string | undefined, context: CommandContext): Promise<number> {
  if (name === undefined) context.stdout.write(await overview());
  else if (/^FIELDPOST_/i.test(name)) context.stdout.write((await import('./explain.js')).explained(name));
  else context.stdout.write(`${(await find(name)).help}\n`);
  return EXIT.ok;
}

async function find(name: string): Promise<Command> {
  const load = [COMMANDS, ALIASES].find((some) => Object.hasOwn(some, name))?.[name];
  if (load !== undefined) return load();
  const guess = guessOf(name, Object.keys(COMMANDS));
  throw new CommandError(EXIT.usage, `there is no command ${name}${guess}`, 'fieldpost --help lists them.');
}

async function overview(): Promise<string> {
  const commands = await Promise.all(Object.values(COMMANDS).map((load) => load()));
  const rows = columns(commands.map(({ name, summary }) => [`  ${name}`, summary]));
  return `fieldpost <command> [options]

${rows.join('\n')}

fieldpost <command> --help tells more; fieldpost help FIELDPOST_LOG explains
that setting. Settings come from the environment or from --env-file FILE.
Without either, the commands that ask the daemon, and check, use those of the
service: /etc/fieldpost/fieldpost.env, then /etc/fieldpost/conf.d/*.env.
`;
}

function readArguments(command: Command, args: readonly string[]): CommandInput {
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
    if (twice !== undefined) throw wrongUse(command, `${twice.rawName} is given more than once`);
    if (!command.takesWords && positionals.length > 0) {
      throw wrongUse(command, `fieldpost ${command.name} takes no ${JSON.stringify(positionals[0])}`);
    }
    return { options: values, words: positionals };
  } catch (error) {
    const code = (error as { code?: unknown }).code;
    if (typeof code !== 'string' || !code.startsWith('ERR_PARSE_ARGS')) throw error;
    throw wrongUse(command, sayWrongOption(error, Object.keys(options)));
  }
}

function wrongUse({ name }: Command, words: string): CommandError {
  return new CommandError(EXIT.usage, words, `fieldpost ${name} --help`);
}

function sayWrongOption(error: unknown, known: readonly string[]): string {
  const words = wordsOf(error).replace(/\.\s.*$/s, '');
  const [, dashes, unknown] = /^Unknown option '(--?)(.+?)'/.exec(words) ?? [];
  if (unknown === undefined) return words;
  return `there is no option ${dashes}${unknown}${guessOf(unknown, known, '--')}`;
}
