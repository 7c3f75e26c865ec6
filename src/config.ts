/**
 * The settings of operations.md: the environment (and an env file) made into one complete Config, or into
 * the list of everything that is wrong with it.
 */
import type { Address } from './message/address.js';
import type { LogLevel } from './system/log.js';

/** One relay of FIELDPOST_RELAY. */
export interface RelayConfig {
  readonly host: string;
  readonly port: number;
  /** `implicit`: smtps. `starttls`: required. `offered`: STARTTLS if the relay has it. `never`: clear text. */
  readonly tls: 'implicit' | 'starttls' | 'offered' | 'never';
  /** Null: no authentication. */
  readonly user: string | null;
}

/** Where the local API listens. */
export type ListenConfig =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string };

export interface Config {
  readonly relays: readonly RelayConfig[];
  readonly relayPassword: string | null;
  /** PEM of a private CA, or null for the system's. */
  readonly relayCa: string | null;
  readonly relayConnections: number;
  readonly smtpTimeoutMs: number;
  readonly from: Address;
  readonly listen: readonly ListenConfig[];
  readonly allowedHosts: readonly string[];
  readonly apiToken: string | null;
  readonly stateDir: string;
  readonly logLevel: LogLevel;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  readonly retryMinMs: number;
  readonly retryMaxMs: number;
  /** By message type: 1 email, 2 SMS, 3 phone, 4 push. */
  readonly maxAgeMs: Readonly<Record<1 | 2 | 3 | 4, number>>;
  readonly maxBodyBytes: number;
  readonly maxBatch: number;
  readonly maxAttachments: number;
  readonly maxMessageBytes: number;
  readonly maxQueue: number;
  readonly maxSpoolBytes: number;
  readonly minFreeBytes: number;
  readonly keepFailedMs: number;
  readonly history: number;
}
