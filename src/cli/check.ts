/**
 * `fieldpost check`, and that of the cloud: shows all problems of the configuration, or the settings with secrets hidden, and
 * where each stands. With --relay it tries each relay, shows each step as it happens, and a verdict.
 */
import type { Row } from '../base/config/row.js';
import { formatProblem } from '../base/config/settings.js';
import type { ConfigProblem, EnvLine, StatOf } from '../base/config/types.js';
import { EXIT } from '../base/errors.js';
import { counted, visible } from '../base/text.js';
import type { TrialFault, TrialStep } from '../base/views.js';
import { type Address, parseAddress } from '../mail/message/address.js';
import { type MailConfig, showRelay } from '../mail/settings.js';
import { allWarnings } from '../mail/settings-rules.js';
import { type Command, CommandError, type CommandInput, type ProgramContext } from './command.js';
import { stateDirectoryOf } from './environment.js';
import { json, painter } from './words.js';

/** The command of a program, for the settings of its service. */
export function checkOf(program: string, service: 'daemon' | 'cloud'): Command<ProgramContext> {
  return {
    name: 'check',
    group: service === 'daemon' ? 'Every day' : '',
    summary: 'check the settings; show what is set, and where',
    help: helpFor(program, service),
    examples: [
      [`${program} check`, 'what is set, and where; or every problem'],
      [`${program} check --relay --to you@example.com`, 'does the relay take a mail?'],
    ],
    options: {
      json: { type: 'boolean' },
      all: { type: 'boolean' },
      relay: { type: 'boolean' },
      to: { type: 'string' },
    },
    asksService: true,
    async run(input, context) {
      const { stdout, stderr, env, hostname } = context;
      const to = recipientOf(input, program);
      const inJson = input.options.json === true;
      const parsed = context.settings.parse(env, context.read, { hostname, statOf: statOfService(context) });
      if ('problems' in parsed) return refused(parsed.problems, service, inJson, context);
      const config = context.settings.describe(parsed.config, hostname);
      const all = context.settings.rows.map(([, row]) => settingOf(row, config[row.key] ?? '', context));
      const settings = input.options.all === true ? all : all.filter(({ source }) => source !== 'default');
      const sizeBytes = await context.fileSystemBytes(parsed.config.stateDir);
      const warnings = allWarnings(parsed, hostname, sizeBytes);
      if (!inJson) {
        stdout.write(listOf(settings, all.length, program));
        for (const warning of warnings) stderr.write(`warning: ${visible(warning)}\n`);
      }
      const tried =
        input.options.relay === true ? await tryRelays(parsed.config, to, context, !inJson) : null;
      if (inJson)
        stdout.write(
          json({
            config,
            settings: settings.map(({ by, ...one }) => one),
            warnings,
            ...(tried !== null && { relays: tried.results }),
          }),
        );
      return tried?.exitCode ?? EXIT.ok;
    },
  };
}

/** The settings of the service are used by its user, who owns its state directory. */
function statOfService({ env, service, statOf = () => null }: ProgramContext): StatOf {
  const own = stateDirectoryOf(service);
  return env.STATE_DIRECTORY === own ? (path) => statOf(path === '/proc/self' ? own : path) : statOf;
}

function helpFor(program: string, service: 'daemon' | 'cloud'): string {
  return `${program} check [--all] [--env-file FILE] [--json]
${program} check --relay [--to ADDRESS] [--env-file FILE] [--json]

Reads the settings as the ${service} does. Prints each that is set, secrets hidden,
with the file and line that set it; or every problem. --all: the others, too,
with their defaults. Exit status 78: the ${service} refuses these settings.
A start then uses the last good ones, if there are any.

--json prints all of them as config, and as settings those of the list, each
with its key, value and source: {file, line}, environment, credential or
default.

--relay then connects to each relay and logs in, as delivery does, and tells
each step. --to ADDRESS also sends a test mail, directly and not through the
queue. Each answer may take FIELDPOST_SMTP_TIMEOUT; Ctrl-C ends it.

Exit status with --relay, of the first relay that is not good: 69 it cannot be
reached, or has a fault of its own; 77 it refuses the login; 78 a setting is
wrong (its certificate cannot be verified, it has no STARTTLS, it refuses our
sender or name), or there is no relay; 65 it refuses the test mail or its
recipient.`;
}

/** Shows every problem, and where it stands. */
function refused(
  found: readonly ConfigProblem[],
  service: string,
  inJson: boolean,
  { stdout, stderr, env, places }: ProgramContext,
): number {
  const problems = found.map((one) => ({ ...one, source: places?.get(one.key) ?? ('environment' as const) }));
  if (inJson) {
    stdout.write(json({ problems }));
    return EXIT.config;
  }
  for (const { source, ...problem } of problems) {
    const place = source === 'environment' ? '' : `${inWords(source)}: `;
    stderr.write(`${visible(place + formatProblem(problem))}\n`);
  }
  const verdict = `${counted(problems.length, 'problem')}: the ${service} refuses these settings.`;
  stderr.write(`${painter(stderr, env)('bad', verdict)}\n`);
  return EXIT.config;
}

/** A setting with what gives its value; `by` is the variable, or the file of the credential. */
interface Sourced {
  readonly key: string;
  readonly value: string;
  readonly source: EnvLine | 'environment' | 'credential' | 'default';
  readonly by: string;
}

function settingOf(row: Row<unknown>, value: string, { env, places }: ProgramContext): Sourced {
  const { key, credential, also } = row;
  const isSet = (name: string) => (env[name] ?? '').trim() !== '';
  const own = credential === null ? [key] : [key, `${key}_FILE`];
  const by = own.find(isSet) ?? (value === '' ? undefined : also.find(isSet));
  if (by !== undefined) return { key, value, by, source: places?.get(by) ?? 'environment' };
  if (credential === null || value === '') return { key, value, by: '', source: 'default' };
  // The path says that it is the one of the running service, and not a later one that a restart reads.
  return { key, value, by: `${env.CREDENTIALS_DIRECTORY}/${credential}`, source: 'credential' };
}

/** `KEY=value`, and behind it what gives it. */
function listOf(settings: readonly Sourced[], count: number, program: string): string {
  const longest = Math.max(...settings.map(({ key, value }) => key.length + 1 + value.length));
  const chars = Math.min(longest, SETTING_CHARS_MAX);
  const lines = settings.map(({ key, value, source, by }) => {
    const via = by === key || by === '' ? '' : `${by}, `;
    const words = typeof source === 'string' ? source : inWords(source);
    return `${visible(`${key}=${value}`).padEnd(chars)}  ${visible(via + words)}`;
  });
  const others = count - settings.length;
  const which = settings.length === 0 ? `Nothing is set; all ${others}` : `The other ${others}`;
  const rest = `${which} have their defaults: ${program} check --all`;
  return `${[...lines, ...(others > 0 ? [rest] : [])].join('\n')}\n`;
}

function inWords({ file, line }: EnvLine): string {
  return `${file}:${line}`;
}

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
/** The sources of shorter settings stand below each other. */
const SETTING_CHARS_MAX = 60;

/** The recipient of --to, or null. Throws CommandError (64) if it is no address, or without --relay. */
function recipientOf({ options: { relay, to } }: CommandInput, program: string): Address | null {
  if (typeof to !== 'string') return null;
  if (relay !== true) throw new CommandError(EXIT.usage, '--to needs --relay', `${program} check --help`);
  const address = parseAddress(to);
  if (address === null) throw new CommandError(EXIT.usage, `--to: not an email address: ${to}`);
  return address;
}

/** Tries the relays one after another. `shows`: prints each step as it happens. */
async function tryRelays(
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
