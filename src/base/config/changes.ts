/**
 * What a reload changes: which settings of a running service follow a new configuration, and which wait for a
 * restart.
 */

import type { Follower } from './row.js';
import type { Config } from './settings.js';
import { type Member, ROWS, SETTINGS } from './settings.js';

/** The differences of a new configuration. */
export interface Changes {
  /** The new values that need no restart. */
  readonly values: Partial<Config>;
  /** True: some of them need a new delivery. */
  readonly renewsDelivery: boolean;
  /** The changed keys: those that hold at once, and those that wait for a restart. */
  readonly taken: readonly string[];
  readonly waiting: readonly string[];
}

/** What changes from `before` to `after`. `follows` is what takes up each setting in this service; the rows by default. */
export function changesBetween(
  before: Config,
  after: Config,
  follows: (member: Member) => Follower = (member) => SETTINGS[member].follows,
): Changes {
  const changed = ROWS.map(([member]) => member).filter(
    (member) => asText(before[member]) !== asText(after[member]),
  );
  const taken = changed.filter((member) => follows(member) !== 'restart');
  const keyOf = (member: Member) => SETTINGS[member].key;
  const { relays, maxAgeMs } = after;
  return {
    values: { ...Object.fromEntries(taken.map((member) => [member, after[member]])), relays, maxAgeMs },
    renewsDelivery: taken.some((member) => follows(member) === 'delivery'),
    taken: taken.map(keyOf),
    waiting: changed.filter((member) => !taken.includes(member)).map(keyOf),
  };
}

function asText(value: unknown): string {
  return JSON.stringify(value, (_, part) => (part instanceof Map ? [...part] : part));
}
