/**
 * `fieldpost check --relay`: tries each configured relay, shows each step as it happens, and a verdict.
 */

import { EXIT } from '../base/errors.js';
import { visible } from '../base/text.js';
import type { TrialFault, TrialStep } from '../base/views.js';
import { type Address, parseAddress } from '../mail/message/address.js';
import { type MailConfig, showRelay } from '../mail/settings.js';
import { CommandError, type CommandInput, type ProgramContext } from './command.js';
import { painter } from './words.js';

/** The result for one relay; `fault` is null for a good one. */
interface RelayResult {
  readonly relay: string;
  readonly steps: readonly TrialStep[];
  readonly fault: TrialFault | null;
}

/** The exit status for each kind of fault. */
const EXIT_BY_BLAME: Readonly<Record<TrialFault['blame'], number>> = {
  relay: EXIT.unavailable,
  login: EXIT.noPermission,
  settings: EXIT.config,
  mail: EXIT.data,
};

const STEP_CHARS = 11;

/** The recipient of --to, or null. Throws CommandError (64) if it is no address, or without --relay. */
export function recipientOf({ options: { relay, to } }: CommandInput): Address | null {
  if (typeof to !== 'string') return null;
  if (relay !== true) throw new CommandError(EXIT.usage, '--to needs --relay', 'fieldpost check --help');
  const address = parseAddress(to);
  if (address === null) throw new CommandError(EXIT.usage, `--to: not an email address: ${to}`);
  return address;
}

/** Tries the relays one after another. `shows`: prints each step as it happens. */
export async function tryRelays(
  config: MailConfig,
  to: Address | null,
  context: ProgramContext,
  shows: boolean,
): Promise<{ readonly results: readonly RelayResult[]; readonly exitCode: number }> {
  const { stdout, env, tryRelay } = context;
  const paint = painter(stdout, env);
  const write = (line: string) => {
    if (shows) stdout.write(`${line}\n`);
  };
  const results: RelayResult[] = [];
  for (const relay of config.relays) {
    const name = showRelay(relay);
    const steps: TrialStep[] = [];
    write(`\nrelay ${visible(name)}`);
    const tell = (step: TrialStep) => {
      steps.push(step);
      write(lineOf(step));
    };
    const fault = await tryRelay(relay, { config, to, tell });
    if (fault !== null) write(paint('bad', lineOf(fault)));
    if (fault !== null && fault.hint !== '') write(lineOf({ step: '', words: fault.hint }));
    if (fault === null) write(paint('good', `  ${verdict(to)}`));
    results.push({ relay: name, steps, fault });
  }
  if (results.length === 0) write(paint('bad', '\nno relay is configured: set FIELDPOST_RELAY'));
  const fault = results.find((result) => result.fault !== null)?.fault;
  if (fault) return { results, exitCode: EXIT_BY_BLAME[fault.blame] };
  return { results, exitCode: results.length === 0 ? EXIT.config : EXIT.ok };
}

function lineOf({ step, words }: TrialStep): string {
  return `  ${step.padEnd(STEP_CHARS)}  ${visible(words)}`;
}

function verdict(to: Address | null): string {
  return to === null ? 'good' : `good: the relay has taken a test mail to ${visible(to)}`;
}
