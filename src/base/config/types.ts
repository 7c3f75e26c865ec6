/**
 * What settings are read from and what they become. These types import nothing, so that every file can use them.
 */

/** Where a service listens; a tcp host has no brackets. */
export type ListenConfig =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | {
      readonly kind: 'unix';
      readonly path: string;
      /** Clients may send messages and read them by id, and nothing else. */
      readonly sendOnly?: true;
    };

/** One thing that is wrong with the configuration. */
export interface ConfigProblem {
  readonly key: string;
  /** As it was given; null if it may be a secret. */
  readonly value: string | null;
  readonly detail: string;
}

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A line of a file, counted from 1. */
export interface EnvLine {
  readonly file: string;
  readonly line: number;
}

/** Where env files have their keys. */
export type EnvLines = ReadonlyMap<string, EnvLine>;

/** Reads a text file; throws what node:fs throws. */
export type ReadText = (path: string) => string;

/** The owner and the mode of what stands at a path, links followed; null if that is not known. */
export type StatOf = (path: string) => { readonly uid: number; readonly mode: number } | null;

/** The settings of a service. */
export interface SettingsSource {
  readonly env: Environment;
  /** Why the env file could not be read at the start; null if it could, or if there is none. */
  readonly fault: string | null;
  /** The settings now, with the env file read again. Throws if that file cannot be used. */
  reread(): Environment;
}
