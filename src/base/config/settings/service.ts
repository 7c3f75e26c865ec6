/**
 * The settings of every service: where it keeps what, what it logs, and its limits.
 */
import { given } from '../row.js';
import { directory, duration, integer, oneOf, size } from '../values.js';

export const SERVICE_SETTINGS = {
  stateDir: given({
    key: 'FIELDPOST_STATE_DIR',
    kind: directory,
    // parseConfig puts the directory of systemd before it.
    fallback: './.fieldpost',
    words: '`$STATE_DIRECTORY`, else `./.fieldpost`',
    about: 'Where messages and the address book are kept.',
  }),
  logLevel: given({
    key: 'FIELDPOST_LOG',
    kind: oneOf(['debug', 'info', 'warn', 'error']),
    fallback: 'info',
    follows: 'live',
    about: 'The least level that is logged.',
  }),
  maxBodyBytes: given({
    key: 'FIELDPOST_MAX_BODY',
    kind: size('1KiB', '16MiB'),
    fallback: '1MiB',
    follows: 'live',
    about: 'The largest JSON body of a request.',
  }),
  maxBatch: given({
    key: 'FIELDPOST_MAX_BATCH',
    kind: integer(1, 1000),
    fallback: '100',
    follows: 'live',
    about: 'Messages in one request.',
  }),
  maxAttachments: given({
    key: 'FIELDPOST_MAX_ATTACHMENTS',
    kind: integer(0, 100),
    fallback: '10',
    follows: 'live',
    about: 'Attachments of one message.',
  }),
  maxMessageBytes: given({
    key: 'FIELDPOST_MAX_MESSAGE',
    kind: size('1KiB', '1GiB'),
    fallback: '25MiB',
    follows: 'live',
    about: 'One message with its attachments.',
  }),
  maxQueue: given({
    key: 'FIELDPOST_MAX_QUEUE',
    kind: integer(1, 1_000_000),
    fallback: '10000',
    follows: 'live',
    about: 'Messages waiting at the same time.',
  }),
  maxSpoolBytes: given({
    key: 'FIELDPOST_MAX_SPOOL',
    kind: size('4MiB', '1024GiB'),
    fallback: '256MiB',
    follows: 'live',
    about: 'The space that the state directory may take.',
  }),
  minFreeBytes: given({
    key: 'FIELDPOST_MIN_FREE',
    // A start with the disk full of our own messages needs room for a segment or two, or it delivers none.
    kind: size('4MiB', '1024GiB'),
    fallback: '16MiB',
    follows: 'live',
    about: 'The space that stays free on the file system.',
  }),
  keepFailedMs: given({
    key: 'FIELDPOST_KEEP_FAILED',
    kind: duration('0s', '365d'),
    fallback: '7d',
    about: 'How long the content of failed messages is kept for a retry.',
  }),
  history: given({
    key: 'FIELDPOST_HISTORY',
    kind: integer(0, 100_000),
    fallback: '1000',
    about: 'Finished messages that stay readable, without their content.',
  }),
};
