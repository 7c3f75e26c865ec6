/**
 * What settings are made of. These types import nothing, so that every file of config/ can use them.
 */

/** One relay of FIELDPOST_RELAY. */
export interface RelayConfig {
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  /** `implicit`: smtps. `starttls`: required. `offered`: STARTTLS if the relay has it. `never`: clear text. */
  readonly tls: 'implicit' | 'starttls' | 'offered' | 'never';
  /** Null: no authentication. */
  readonly user: string | null;
}

/** Where the local API listens; a tcp host has no brackets. */
export type ListenConfig =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | {
      readonly kind: 'unix';
      readonly path: string;
      /** Clients may send messages and read them by id, and nothing else. */
      readonly sendOnly?: true;
    };

/** The link to the cloud. */
export interface CloudConfig {
  /** Without a slash at its end. */
  readonly url: string;
  readonly deviceId: string;
  readonly key: string;
  /** PEM of a private CA, or null for the system's. */
  readonly ca: string | null;
  /** PEM of the device's certificate for mutual TLS, or null. */
  readonly clientCertificate: { readonly cert: string; readonly key: string } | null;
}

/** One thing that is wrong with the configuration. */
export interface ConfigProblem {
  readonly key: string;
  /** As it was given; null if it may be a secret. */
  readonly value: string | null;
  readonly detail: string;
}

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

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
