/**
 * The settings of delivery: relays, what they are told, pauses and ages.
 */
import { relays } from '../endpoints.js';
import { certificates } from '../file-kinds.js';
import { given, inFile, optional, secret } from '../row.js';
import {
  address,
  duration,
  heloName,
  integer,
  mailbox,
  oneOf,
  password,
  senders,
  userName,
} from '../values.js';

const maxAge = duration('1m', '365d');

export const RELAY_SETTINGS = {
  relayUrls: optional({
    key: 'FIELDPOST_RELAY',
    kind: relays,
    none: 'none: messages are held',
    follows: 'delivery',
    about:
      'The relays for mail, in the order to try. The port is 465 for `smtps`, else 587 with a user and 25 without. `smtp` insists on STARTTLS when there is a user or the relay is not on this device, unless `?tls=never` allows clear text.',
  }),
  relayUser: optional({
    key: 'FIELDPOST_RELAY_USER',
    kind: userName,
    follows: 'delivery',
    about: 'The user at every relay whose URL names none.',
  }),
  relayPassword: secret({
    key: 'FIELDPOST_RELAY_PASSWORD',
    kind: password,
    credential: 'relay-password',
    follows: 'delivery',
    about: "The relay user's password.",
  }),
  relayCa: inFile({
    key: 'FIELDPOST_RELAY_CA_FILE',
    kind: certificates,
    none: "the system's",
    follows: 'delivery',
    about: "The private CA of the relays' certificates.",
  }),
  relayConnections: given({
    key: 'FIELDPOST_RELAY_CONNECTIONS',
    kind: integer(1, 4),
    fallback: '1',
    follows: 'delivery',
    about: 'Connections to the relay at the same time.',
  }),
  smtpTimeoutMs: given({
    key: 'FIELDPOST_SMTP_TIMEOUT',
    kind: duration('1s', '10m'),
    fallback: '60s',
    follows: 'delivery',
    about: 'How long to wait for each answer of the relay (10 minutes after the final dot).',
  }),
  // A new delivery offers a new sender or name at once to a relay that has refused the old one.
  /** Null: one of the device's host name (config/names.ts). */
  from: optional({
    key: 'FIELDPOST_FROM',
    kind: mailbox,
    none: '`fieldpost@<hostname>`',
    follows: 'delivery',
    about:
      'The sender of the mails, as an address or as `Name <address>`. Many relays refuse a sender without a full domain, or of a domain that is not theirs.',
  }),
  fromAllowed: given({
    key: 'FIELDPOST_FROM_ALLOWED',
    kind: senders,
    fallback: '',
    words: 'only that of `FIELDPOST_FROM`',
    follows: 'live',
    about:
      'Further senders that a message may have: addresses, or domains such as `example.com`, separated by commas. A ready-made mail of any other sender is sent with that of `FIELDPOST_FROM`.',
  }),
  fromHeader: given({
    key: 'FIELDPOST_FROM_HEADER',
    kind: oneOf(['fix', 'keep']),
    fallback: 'fix',
    follows: 'live',
    about:
      'What becomes of a `From` or `Sender` header that is not allowed in a mail that `sendmail` or SMTP brings. `fix`: it becomes `"root on pump-3" <address of FIELDPOST_FROM>`, and the old one stays as `X-Original-From`. `keep`: it stays. A signed mail keeps it.',
  }),
  localMail: optional({
    key: 'FIELDPOST_LOCAL_MAIL',
    kind: address,
    none: 'none: such a mail is refused, but left to the relay if it is for a full name',
    follows: 'live',
    about:
      'Who reads the mail to users of this device: `root`, `root@localhost`, `root@pump-3` if that is the host name, and `root@pump-3.example.com` if that full name stands beside it in `/etc/hosts` or is `FIELDPOST_HELO_NAME`. A name that is the domain of `FIELDPOST_FROM` or of this address is not meant.',
  }),
  /** What EHLO says; null: the device's host name. */
  heloName: optional({
    key: 'FIELDPOST_HELO_NAME',
    kind: heloName,
    none: 'the host name of the device',
    follows: 'delivery',
    about: 'What this device calls itself towards relays (EHLO). Some take mail only from a full name.',
  }),
  backoffMinMs: given({
    key: 'FIELDPOST_BACKOFF_MIN',
    kind: duration('100ms', '1h'),
    fallback: '1s',
    follows: 'live',
    about: 'The longest first pause after a failure of a relay or the cloud; it doubles each time.',
  }),
  backoffMaxMs: given({
    key: 'FIELDPOST_BACKOFF_MAX',
    kind: duration('1s', '1d'),
    fallback: '5m',
    follows: 'live',
    about: 'The longest such pause.',
  }),
  retryMinMs: given({
    key: 'FIELDPOST_RETRY_MIN',
    kind: duration('1s', '1d'),
    fallback: '1m',
    follows: 'live',
    about: "The shortest pause before a deferred message's next attempt.",
  }),
  retryMaxMs: given({
    key: 'FIELDPOST_RETRY_MAX',
    kind: duration('1s', '7d'),
    fallback: '1h',
    follows: 'live',
    about: 'The longest such pause.',
  }),
  maxAgeEmailMs: given({
    key: 'FIELDPOST_MAX_AGE_EMAIL',
    kind: maxAge,
    fallback: '5d',
    follows: 'live',
    about: 'An email expires after this much time with a relay in reach.',
  }),
  maxAgeSmsMs: given({
    key: 'FIELDPOST_MAX_AGE_SMS',
    kind: maxAge,
    fallback: '24h',
    follows: 'live',
    about: 'The age at which an SMS expires.',
  }),
  maxAgePhoneMs: given({
    key: 'FIELDPOST_MAX_AGE_PHONE',
    kind: maxAge,
    fallback: '1h',
    follows: 'live',
    about: 'The age at which a phone call expires.',
  }),
  maxAgePushMs: given({
    key: 'FIELDPOST_MAX_AGE_PUSH',
    kind: maxAge,
    fallback: '24h',
    follows: 'live',
    about: 'The age at which a push message expires.',
  }),
};
