/**
 * The table of settings: each FIELDPOST_ key once, with its kind, default, purpose, and what takes up a new value.
 * The type Config, a reload, `fieldpost check` and the page fieldpost.env(5) follow it.
 */
import type { Row } from './row.js';
import { API_SETTINGS } from './settings/api.js';
import { CLOUD_SETTINGS } from './settings/cloud.js';
import { CLOUD_SERVER_SETTINGS } from './settings/cloud-server.js';
import { OAUTH_SETTINGS } from './settings/oauth.js';
import { RELAY_SETTINGS } from './settings/relay.js';
import { SERVICE_SETTINGS } from './settings/service.js';
import { SMTP_SETTINGS } from './settings/smtp.js';
import type { CloudConfig, RelayConfig } from './types.js';

/** Every setting by its member of Config, in the order in which people read of them. */
export const SETTINGS = {
  ...RELAY_SETTINGS,
  ...OAUTH_SETTINGS,
  ...API_SETTINGS,
  ...SMTP_SETTINGS,
  ...CLOUD_SETTINGS,
  ...CLOUD_SERVER_SETTINGS,
  ...SERVICE_SETTINGS,
};

/** A member of Config that one setting gives. */
export type Member = keyof typeof SETTINGS;

/** The value of every setting. */
export type Values = { readonly [M in Member]: (typeof SETTINGS)[M] extends Row<infer T> ? T : never };

/** The settings as [member, row]. */
export const ROWS: readonly (readonly [Member, Row<unknown>])[] = Object.entries(SETTINGS) as never;

/** The keys that give a setting: KEY_FILE and KEY for a secret, else KEY. */
function keysOf({ key, credential }: Row<unknown>): readonly string[] {
  return credential === null ? [key] : [`${key}_FILE`, key];
}

/** True: no message shows the value of each key. */
export const SECRET_BY_KEY: ReadonlyMap<string, boolean> = new Map(
  ROWS.flatMap(([, row]) => keysOf(row).map((key) => [key, row.isSecret])),
);

/** Every setting, checked; and three values that several of them make together. */
export interface Config extends Values {
  readonly relays: readonly RelayConfig[];
  /** By message type: 1 email, 2 SMS, 3 phone, 4 push. */
  readonly maxAgeMs: Readonly<Record<1 | 2 | 3 | 4, number>>;
  /** Null: no cloud, the link is disabled. */
  readonly cloud: CloudConfig | null;
}
