/**
 * Commands with verbs, such as `fieldpost queue retry ID...`: finds the verb, and repeats it for each id.
 */
import { guessOf } from '../base/config/nearest.js';
import { EXIT } from '../base/errors.js';
import { visible } from '../base/text.js';
import type { Call } from './client.js';
import { type CommandContext, CommandError, type CommandInput } from './command.js';
import { json } from './words.js';

/** Carries out a verb; `words` are those after it. */
export type Action = (
  words: readonly string[],
  input: CommandInput,
  call: Call,
  context: CommandContext,
) => Promise<void>;

/** The action of that name. Throws CommandError (64), with a guess of what was meant. */
export function findAction(actions: Readonly<Record<string, Action>>, verb: string, command: string): Action {
  const action = Object.hasOwn(actions, verb) ? actions[verb] : undefined;
  if (action !== undefined) return action;
  const guess = guessOf(verb, Object.keys(actions));
  throw new CommandError(EXIT.usage, `there is no ${command} ${verb}${guess}`, `fieldpost ${command} --help`);
}

/**
 * Does `work` for each id, even after a refusal, and prints each that is `done`; with --json their ids at the end. Throws
 * the last refusal then.
 */
export async function forEachId(
  ids: readonly string[],
  done: string,
  { options }: CommandInput,
  context: CommandContext,
  work: (id: string) => Promise<void>,
): Promise<void> {
  let refusal: CommandError | null = null;
  const isJson = options.json === true;
  const worked: string[] = [];
  for (const id of ids) {
    try {
      await work(id);
      worked.push(decodeURIComponent(id));
      if (!isJson) context.stdout.write(`${visible(id)} ${done}\n`);
    } catch (error) {
      if (!(error instanceof CommandError) || error.exitCode !== EXIT.data) throw error;
      if (refusal !== null) context.stderr.write(`fieldpost: ${visible(refusal.message, '\n')}\n`);
      refusal = error;
    }
  }
  if (isJson) context.stdout.write(json(worked.map((id) => ({ id, done }))));
  if (refusal !== null) throw refusal;
}

/** The ids on the command line, encoded for a path. Throws CommandError (64) with `which` if there is none. */
export function idsIn(words: readonly string[], which: string): string[] {
  if (words.length === 0) throw new CommandError(EXIT.usage, which);
  return words.map((word) => encodeURIComponent(word));
}

/** Throws CommandError (64) if anything is left on the command line. */
export function noMore(words: readonly string[]): void {
  if (words[0] !== undefined)
    throw new CommandError(EXIT.usage, `unexpected word on the command line: ${words[0]}`);
}
