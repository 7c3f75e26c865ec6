/**
 * The interface of a command: its input from the process, and its exit status.
 */
import type { ParseArgsConfig } from 'node:util';
import type { CloudProxy } from '../base/config/proxy.js';
import type { Settings } from '../base/config/settings.js';
import type {
  Environment,
  EnvLines,
  ListenConfig,
  ReadText,
  SettingsSource,
  StatOf,
} from '../base/config/types.js';
import type { Kind } from '../base/config/values.js';
import { EXIT, wordsOf } from '../base/errors.js';
import type { Clock } from '../base/system/clock.js';
import type { Disk, DiskFile } from '../base/system/disk.js';
import type { Output } from '../base/system/process.js';
import type { TrialFault } from '../base/views.js';
import type { RelayTrial } from '../mail/serve.js';
import type { MailConfig, Relay } from '../mail/settings.js';

/** What runs a process. */
export interface Machine {
  readonly node: string;
  /** As /etc/os-release names it. */
  readonly os: string;
  readonly kernel: string;
  readonly arch: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly freeMemoryBytes: number;
  readonly uptimeMs: number;
  /** Null: not known. */
  readonly uid: number | null;
}

/** What commands of a device need of its configuration. */
export interface ClientConfig extends MailConfig {
  readonly listen: readonly ListenConfig[];
  readonly apiToken: string | null;
  readonly deviceId: string | null;
  readonly cloud: { readonly url: string } | null;
  readonly cloudProxy: CloudProxy | 'none' | null;
}

/** The process and the outside, for the commands of every program. */
export interface ProgramContext {
  readonly env: Environment;
  /** Where the env files have the keys of `env`; those of the process are in none. */
  readonly places?: EnvLines;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly read: ReadText;
  readonly statOf?: StatOf;
  /** The names in a directory; throws the error of node:fs. */
  readonly list: (directory: string) => string[];
  /** The size of the file system of this path; infinite if it is not known. */
  readonly fileSystemBytes: (path: string) => Promise<number>;
  /** The settings of the program. */
  readonly settings: Settings<MailConfig>;
  readonly hostname: string;
  readonly version: string;
  /** The systemd service of the program: its env files, credentials and state directory have this name. */
  readonly service: string;
  /** True in its unit: systemd has read the service's env files for it. */
  readonly isUnit: boolean;
  /** Speaks with a relay as delivery does; gives the fault that it has met, or null. */
  readonly tryRelay: (relay: Relay, trial: RelayTrial) => Promise<TrialFault | null>;
  /** Runs the service of the program until it ends; gives its exit status. */
  readonly serve: (settings: SettingsSource) => Promise<number>;
}

/** What the operator's commands need of the configuration of the reference cloud. */
export interface OperatorConfig extends MailConfig {
  readonly cloudServerListen: readonly ListenConfig[];
  readonly cloudServerKeys: ReadonlyMap<string, readonly string[]> | null;
}

/** The process and the outside, for a command that calls the service of its program. */
export interface CallContext extends ProgramContext {
  /** The users that listen on this address of this device; none, or left out: not known. */
  readonly listenerUids?: (host: string, port: number) => Promise<readonly number[]>;
  readonly clock: Clock;
}

/** The process and the outside, for a command of the reference cloud. */
export interface OperatorContext extends CallContext {
  readonly settings: Settings<OperatorConfig>;
}

/** The process and the outside, for a command of the device. */
export interface CommandContext extends CallContext {
  readonly settings: Settings<ClientConfig>;
  readonly stdin: () => AsyncIterable<Uint8Array>;
  /** The kind of standard input. `none`: a terminal or /dev/null, which is read only if `-` asks for it. */
  readonly stdinKind: () => 'piped' | 'socket' | 'none';
  /** The sockets of the service on this device. */
  readonly sockets: readonly ListenConfig[];
  /** Opens a file for reading; rejects with the error of node:fs. */
  readonly open: (path: string) => Promise<Pick<DiskFile, 'read' | 'size' | 'close'>>;
  /** Makes a file without a name for temporary data; it is gone once it is closed. */
  readonly scratch: () => Promise<Pick<DiskFile, 'read' | 'write' | 'close'>>;
  /** Resolves after this long, and keeps the process alive meanwhile. */
  readonly pause: (ms: number) => Promise<void>;
  /** This process and its machine, for a report. */
  readonly machine: () => Machine;
  readonly disk: Pick<Disk, 'list' | 'look' | 'space'>;
  /** Writes a new file that only this user can read. Rejects with EEXIST if it is there. */
  readonly writeNew: (path: string, text: string) => Promise<void>;
  /** Runs another program and gives its output. Rejects if it is not there, fails, or takes too long. */
  readonly outputOf: (program: string, args: readonly string[]) => Promise<string>;
  /** True: the settings are those of the service on this device, and not of the environment or an env file. */
  readonly ofService?: boolean;
}

/** The command line after the command's name. */
export interface CommandInput {
  readonly options: Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>;
  readonly words: readonly string[];
}

/** The headings of the overview. */
export type Heading = 'Every day' | 'Looking closer' | 'Service' | 'More' | '';

/** One command of the command line, with the context that it needs. */
export interface Command<C extends ProgramContext = CommandContext> {
  readonly name: string;
  /** Its heading in the overview; '': none. */
  readonly group: Heading;
  readonly summary: string;
  /** The output of `--help` without the examples: usage first. */
  readonly help: string;
  /** Command lines to copy, and what each does. */
  readonly examples: readonly (readonly [call: string, what: string])[];
  /** Every command takes `--help` and `--env-file` as well. */
  readonly options: NonNullable<ParseArgsConfig['options']>;
  /** True: it reads all that follows its name itself, as `words`. */
  readonly readsArguments?: true;
  /** What the first word may be. */
  readonly verbs?: readonly string[];
  /** True: words may follow its options. */
  readonly takesWords?: true;
  /** True: without --env-file it uses the settings of the service on this device. */
  readonly asksService: boolean;
  /** True: it finds its settings itself. */
  readonly readsEnvFile?: true;
  /** Gives the exit status. Throws CommandError; anything else is a bug. */
  run(input: CommandInput, context: C): Promise<number>;
}

/** Ends a command with a sentence on standard error, a hint below it, and an exit status. */
export class CommandError extends Error {
  readonly exitCode: number;
  readonly hint: string;

  constructor(exitCode: number, message: string, hint = '') {
    super(message);
    this.exitCode = exitCode;
    this.hint = hint;
  }
}

/** The output of `--help`. */
export function helpText({ help, examples }: Pick<Command, 'help' | 'examples'>): string {
  return `${help}\n\nExamples:\n${examples.map(([call, what]) => `  # ${what}\n  ${call}\n`).join('')}`;
}

/** The option's duration in milliseconds, or null if it was not given. Throws CommandError (64). */
export function spanOption(input: CommandInput, name: string, kind: Kind<number>): number | null {
  const text = textOption(input, name);
  try {
    return text === null ? null : kind.parse(text);
  } catch (error) {
    throw new CommandError(EXIT.usage, `--${name} ${text}: ${wordsOf(error)}; it takes ${kind.allowed}`);
  }
}

/** The option's text, or null if it was not given. */
export function textOption(input: CommandInput, name: string): string | null {
  const value = input.options[name];
  return typeof value === 'string' ? value : null;
}
