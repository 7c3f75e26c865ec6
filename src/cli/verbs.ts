/**
 * Commands with verbs, such as `fieldpost queue retry ID...`: finds the verb, and repeats it for each id.
 */
import { guessOf } from '../base/config/nearest.js';
import { EXIT } from '../base/errors.js';
import { visible } from '../base/text.js';
import type { Call } from './client.js';
import {
  type CommandContext,
  CommandError,
  type CommandInput,
  type ProgramContext,
  textOption,
} from './command.js';
import { json, TYPE_NAMES, typeNumber } from './words.js';

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
  context: Pick<ProgramContext, 'stdout' | 'stderr' | 'service'>,
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
      if (refusal !== null) context.stderr.write(`${context.service}: ${visible(refusal.message, '\n')}\n`);
      refusal = error;
    }
  }
  if (isJson) context.stdout.write(json(worked.map((id) => ({ id, done }))));
  if (refusal !== null) throw refusal;
}

/** The ids on the command line, encoded for a path. Throws CommandError (64) with `which` if one is missing. */
export function idsIn(words: readonly string[], which: string): string[] {
  // A variable of a script may be empty.
  if (words.length === 0 || words.includes('')) throw new CommandError(EXIT.usage, which);
  return words.map((word) => encodeURIComponent(word));
}

/** The options of lists. */
export const CHOICE_OPTIONS: readonly string[] = ['limit', 'to', 'type'];

/** What --limit, --to and --type choose of a list. */
interface Choice {
  /** Infinite without --limit. */
  readonly limit: number;
  /** True: --to or --type is given. */
  readonly isPart: boolean;
  readonly has: (entry: { readonly type: number; readonly destination: string }) => boolean;
}

/** What the options choose. Throws CommandError (64) for one that cannot be. */
export function choiceIn(input: CommandInput): Choice {
  const [limit, to, type] = CHOICE_OPTIONS.map((name) => textOption(input, name) ?? null);
  if (typeof limit === 'string' && !/^[1-9]\d{0,8}$/.test(limit))
    throw new CommandError(EXIT.usage, '--limit is a whole number from 1');
  const number = typeof type === 'string' ? typeOf(type) : 0;
  const address = to?.toLowerCase();
  return {
    limit: typeof limit === 'string' ? Number(limit) : Number.POSITIVE_INFINITY,
    isPart: number !== 0 || address !== undefined,
    has: (entry) =>
      (number === 0 || entry.type === number) &&
      (address === undefined || entry.destination.toLowerCase() === address),
  };
}

/** The number of the type that --type names. Throws CommandError (64) if there is none. */
export function typeOf(word: string): number {
  const type = typeNumber(word);
  if (type === 0) throw new CommandError(EXIT.usage, `--type is one of ${TYPE_NAMES.join(', ')}`);
  return type;
}

/** Throws CommandError (64) if anything is left on the command line. */
export function noMore(words: readonly string[]): void {
  if (words[0] !== undefined)
    throw new CommandError(EXIT.usage, `unexpected word on the command line: ${words[0]}`);
}
