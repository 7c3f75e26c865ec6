/**
 * What a command is, what it is given, and how it ends. Used by every command and by main.ts, which gives the process's
 * own streams.
 */
import type { ParseArgsConfig } from 'node:util';
import type { Environment, ReadText } from '../config.js';
import type { Clock } from '../system/clock.js';
import type { DiskFile } from '../system/disk.js';

/** Exit statuses, as sysexits(3) has them. */
export const EXIT = {
  ok: 0,
  usage: 64,
  data: 65,
  noInput: 66,
  unavailable: 69,
  inputOutput: 74,
  tempFail: 75,
  noPermission: 77,
  config: 78,
} as const;

/** A stream that a command writes to. */
export interface Output {
  write(text: string): void;
  readonly isTTY: boolean;
}

/** Where a service takes its settings from. */
export interface Settings {
  /** The settings at the start. */
  readonly env: Environment;
  /** Why the env file could not be read at the start; null if it could, or if there is none. */
  readonly fault: string | null;
  /** The present settings: an env file may have changed. Throws CommandError if it cannot be used. */
  reread(): Environment;
}

/** The daemon's own commands, which main carries out. */
export type ServiceName = 'run' | 'cloud' | 'dev';

/** Everything that a command is given of the process and the outside. */
export interface CommandContext {
  readonly env: Environment;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly stdin: () => AsyncIterable<Uint8Array>;
  /** The kind of standard input; `none`: a terminal or /dev/null, which is not read unless `-` asks for it. */
  readonly stdinKind: () => 'piped' | 'socket' | 'none';
  /** Reads a text file; throws what node:fs throws. */
  readonly read: ReadText;
  /** Opens a file to be read piece by piece; rejects with what node:fs says. */
  readonly open: (path: string) => Promise<Pick<DiskFile, 'read' | 'size' | 'close'>>;
  /** The size of the file system of this path; infinite if it is not known. */
  readonly fileSystemBytes: (path: string) => Promise<number>;
  readonly hostname: string;
  readonly version: string;
  readonly clock: Clock;
  /** True if systemd has started this very process, and read the service's env file for it. */
  readonly isUnit: boolean;
  /** Runs a service with these settings until it ends; gives its exit status. */
  readonly serve: (name: ServiceName, settings: Settings) => Promise<number>;
}

/** The command line after the command's name. */
export interface CommandInput {
  readonly options: Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>;
  readonly words: readonly string[];
}

/** One command of the command line. */
export interface Command {
  readonly name: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** What `--help` prints: usage first, then whatever one needs to know. */
  readonly help: string;
  /** Every command takes `--help` and `--env-file` as well. */
  readonly options: NonNullable<ParseArgsConfig['options']>;
  /** True: words may follow its options. */
  readonly takesWords?: true;
  /** True: without --env-file it takes the settings of the service on this device. */
  readonly asksService: boolean;
  /** True: it reads the env file by itself, again and again. */
  readonly readsEnvFile?: true;
  /** Gives the exit status. Throws CommandError; anything else is a bug. */
  run(input: CommandInput, context: CommandContext): Promise<number>;
}

/** Ends a command with a sentence on standard error, a hint under it where there is one, and an exit status. */
export class CommandError extends Error {
  readonly exitCode: number;
  readonly hint: string;

  constructor(exitCode: number, message: string, hint = '') {
    super(message);
    this.exitCode = exitCode;
    this.hint = hint;
  }
}

/** The option's text, or null if it was not given. */
export function textOption(input: CommandInput, name: string): string | null {
  const value = input.options[name];
  return typeof value === 'string' ? value : null;
}
