/**
 * The settings of the reference cloud (`fieldpost cloud`), a part of the table in settings.ts.
 */
import { listeners } from './endpoints.js';
import { given, optional } from './setting.js';
import { duration, secretFile, timeZone, webhookUrl } from './values.js';

// What makes the address of a webhook hard to guess is its path.
const maskPath = (url: string | null) => (url === null ? '' : `${new URL(url).origin}/(hidden)`);

/** Those that a device does not need. */
export const CLOUD_SERVER_SETTINGS = {
  FIELDPOST_CLOUD_SERVER_LISTEN: given(
    listeners,
    '127.0.0.1:43780',
    (config) => config.cloudServer.listen,
    'Where the reference cloud listens (`fieldpost cloud`). Anything but loopback and unix sockets needs keys.',
  ),
  FIELDPOST_CLOUD_SERVER_KEYS_FILE: optional(
    secretFile,
    'none: any device is let in, with any key',
    ({ cloudServer: { keys } }) => (keys === null ? '' : `(keys of ${keys.size})`),
    'On each line a device and its key; `*` in place of a device is the operator, who may call for all.',
    { secret: true },
  ),
  FIELDPOST_CLOUD_SERVER_DELAY: given(
    duration('1s', '1d'),
    '90s',
    (config) => config.cloudServer.delayMs,
    'After so long a silence the reference cloud tells people that a device is offline.',
  ),
  FIELDPOST_CLOUD_SERVER_STOP_DELAY: given(
    duration('1s', '7d'),
    '15m',
    (config) => config.cloudServer.stopDelayMs,
    'The same for a device that has said that it was stopping.',
  ),
  FIELDPOST_CLOUD_SERVER_WEBHOOK: optional(
    webhookUrl,
    'none: such messages are not taken',
    (config) => maskPath(config.cloudServer.webhook),
    'Where the reference cloud posts SMS, phone and push messages.',
    { secret: true },
  ),
  FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE: optional(
    secretFile,
    'none',
    ({ cloudServer: { webhookAuth } }) => (webhookAuth === null ? '' : '(hidden)'),
    'What the webhook wants in `Authorization`, such as `Bearer abc` or `Basic dTpw`.',
    { secret: true },
  ),
  FIELDPOST_CLOUD_SERVER_TIME_ZONE: given(
    timeZone,
    'UTC',
    (config) => config.cloudServer.timeZone,
    'The zone in which the reference cloud tells people times.',
  ),
};
