/**
 * The settings of the machines of a simulated world, and where they keep what.
 */

import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { DevConfig } from '../../src/dev/settings.js';
import { configOf } from '../support/system.js';

const DEVICE_ID = 'pump-3';
/** Where the device keeps its state. */
export const STATE_DIR = '/var/lib/fieldpost';
/** Where the cloud keeps the device's address book: its path, and its file. */
export const DOCUMENT = `/devices/${DEVICE_ID}/destinations`;
export const DOCUMENT_FILE = `/var/lib/cloud/cloud/documents/${DEVICE_ID}.json`;
/** After a planned stop people are told only after this. */
export const STOP_DELAY = '2d';

/** The cloud's URL; a number makes it another spelling of the same. */
export function cloudUrl(spelling: number): string {
  return `https://cloud${spelling > 0 ? spelling : ''}.example`;
}

/** What the device is set to. `cloud`: its URL; null: it has none. */
export function deviceConfig(device: {
  readonly settings: Readonly<Record<string, string>>;
  /** The numbers of its relays, in the order in which they are tried. */
  readonly relays: readonly number[];
  readonly sender: number;
  readonly cloud: string | null;
}): DevConfig {
  const { settings, relays, sender, cloud } = device;
  return configOf({
    FIELDPOST_STATE_DIR: STATE_DIR,
    FIELDPOST_RELAY: relays.map((i) => `smtp://relay${i}.example`).join(','),
    FIELDPOST_FROM: `device${sender}@example.com`,
    FIELDPOST_MIN_FREE: '4MiB',
    ...(cloud !== null && {
      FIELDPOST_CLOUD: cloud,
      FIELDPOST_DEVICE_ID: DEVICE_ID,
      FIELDPOST_CLOUD_KEY: 'key',
    }),
    ...settings,
  });
}

/** What the cloud is set to. */
export function cloudConfig(delay: string): DevConfig {
  return configOf({
    FIELDPOST_STATE_DIR: '/var/lib/cloud',
    FIELDPOST_RELAY: 'smtp://people.example',
    FIELDPOST_FROM: 'cloud@example.com',
    FIELDPOST_CLOUD_SERVER_DELAY: delay,
    FIELDPOST_CLOUD_SERVER_STOP_DELAY: STOP_DELAY,
    FIELDPOST_MIN_FREE: '4MiB',
  });
}

/** A duration as settings have it. */
export function durationMs(text = '0s'): number {
  const unit = { s: SECOND_MS, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS }[text.at(-1) as 's' | 'm' | 'h' | 'd'];
  return Number.parseInt(text, 10) * unit;
}
