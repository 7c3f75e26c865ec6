/**
 * Failure classification: what a reply of a relay, or trouble without one, means for the message and for the relay. TABLE has
 * a row for each kind of reply.
 *
 * The rows follow three rules. A refusal is final only if it clearly speaks of the recipient or the content: all others are
 * confirmed (blame.ts). A fault of the relay or the network is not charged to a message. If the message may be at fault
 * itself, it moves to the end.
 *
 * A refusal (4xx or 5xx) may speak of the account or the identity of this device, of its recipient, or of its content.
 * Relays refuse a device as late as RCPT (Postfix by default), or after the content (Exchange Online), and with any code.
 * Their words change every year, so the tables of words only make a verdict quicker and its explanation better: what they do
 * not know is `null`. Pure.
 */
import { HOUR_MS, MINUTE_MS } from '../../../base/limits.js';
import type { RefusalPauses } from '../peer.js';
import type { Outcome } from '../transport.js';
import { type Ending, PHASES, type Phase, type Reply, type Trouble } from './protocol.js';

type Finding = readonly [kind: Outcome['kind'], suspect: Outcome['suspect']];
const SENT: Finding = ['sent', null];
const FAILED: Finding = ['failed', 'message'];
const MESSAGE: Finding = ['deferred', 'message'];
const RELAY: Finding = ['deferred', 'peer'];
const RELAY_HERE: Finding = ['deferred', 'peer here'];
const DEVICE: Finding = ['deferred', 'device'];
const ENVELOPE: Finding = ['deferred', 'envelope'];
const UNCLEAR: Finding = ['deferred', 'unclear'];
const EITHER: Finding = ['deferred', 'either'];

/** A reply that ended a conversation. */
interface Said extends Reply {
  readonly phase: Phase;
  /** What a refusal speaks of; null if it does not tell. */
  readonly subject: Subject | null;
  /** The envelope holds an address beyond ASCII. */
  readonly smtpUtf8: boolean;
}

/** By phase and reply: the first row that fits decides. No condition: any reply. */
const TABLE: readonly (readonly [
  phase: Phase | 'before MAIL' | 'any',
  is: ((said: Said) => boolean) | null,
  Finding,
])[] = [
  ['dot', (said) => isClass(said, 2), SENT],
  // The relay closes the connection, after any command.
  ['any', ({ code }) => code === 421, RELAY],
  ['before MAIL', null, RELAY],
  // A reply that the protocol does not allow here: the session cannot go on, and it is unknown whose fault that is.
  ['any', (said) => !isClass(said, 4) && !isClass(said, 5), EITHER],
  [
    'mail',
    ({ smtpUtf8, code, enhanced }) => smtpUtf8 && (code === 553 || enhanced === NON_ASCII_ADDRESS),
    FAILED,
  ],
  // What its words speak of, or its enhanced code: a 552 5.3.4 speaks of the content.
  ['any', ({ subject }) => subject === 'mailbox', MESSAGE],
  ['any', (said) => isOfMessage(said) && isClass(said, 5), FAILED],
  ['any', isOfMessage, MESSAGE],
  ['any', ({ subject }) => meaningIn(subject)?.concernsAll === true, DEVICE],
  ['any', ({ subject }) => subject !== null, ENVELOPE],
  // MAIL contains only our sender, and the size and the non-ASCII address of this mail. 5.3.X: a fault of the relay.
  ['mail', (said) => isClass(said, 4) || isSystem(said), RELAY_HERE],
  ['mail', null, ENVELOPE],
  // 552: the mailbox is full, which passes (RFC 5321 §4.5.3.1.10).
  ['rcpt', (said) => isClass(said, 4) || said.code === 552, MESSAGE],
  ['rcpt', null, UNCLEAR],
  // After DATA, and after the content.
  ['any', (said) => said.code === 452 || isSystem(said), RELAY_HERE],
  ['any', (said) => isClass(said, 4), MESSAGE],
  ['any', null, UNCLEAR],
];

/** The same without a reply. Of a kind that is not here, the phase decides: the relay's fault before MAIL, else unknown. */
const TROUBLES: Partial<Record<Trouble['kind'], Finding>> = {
  'too-large': FAILED,
  'no-smtputf8': FAILED,
  source: MESSAGE,
  'no-starttls': RELAY,
  'no-auth': RELAY,
  'no-token': RELAY,
};

const SINCE_MAIL: readonly Phase[] = ['mail', 'rcpt', 'data', 'content', 'dot'];
/** RFC 6531 §3.5: an address beyond ASCII is not permitted. */
const NON_ASCII_ADDRESS = '5.6.7';

/** The outcome of an offer. `smtpUtf8`: the envelope holds an address beyond ASCII. */
export function outcomeOf(ending: Ending, smtpUtf8: boolean): Outcome {
  const [kind, suspect] = 'trouble' in ending ? afterTrouble(ending) : afterReply(ending, smtpUtf8);
  return {
    kind,
    suspect,
    // A refusal proves nothing: relays check in any order.
    isProof: kind === 'sent',
    reply: replyOf(ending),
    reason: kind === 'deferred' ? reasonOf(ending) : '',
    retryAfterMs: 0,
    ...('reply' in ending && pausesOf(ending, suspect)),
    // The relay may have taken the message before the connection broke.
    ...(ending.phase === 'dot' && suspect === 'either' && { isDoubtful: true }),
  };
}

/** A conversation that a reply ended. */
type Refusal = Extract<Ending, { reply: Reply }>;
type Broken = Extract<Ending, { trouble: Trouble }>;

function afterReply({ phase, reply }: Refusal, smtpUtf8: boolean): Finding {
  const said: Said = {
    ...reply,
    phase,
    smtpUtf8,
    subject: reply.code < 400 ? null : subjectOf(phase, reply),
  };
  const row = TABLE.find(
    ([at, is]) =>
      (at === 'any' || at === phase || (at === 'before MAIL' && !SINCE_MAIL.includes(phase))) &&
      (is === null || is(said)),
  );
  return (row as (typeof TABLE)[number])[2];
}

function afterTrouble({ phase, trouble }: Broken): Finding {
  return TROUBLES[trouble.kind] ?? (SINCE_MAIL.includes(phase) ? EITHER : RELAY);
}

function replyOf(ending: Ending): string {
  if ('reply' in ending) return ending.reply.text;
  const { words } = ending.trouble;
  // The relay may have taken the message before the connection broke.
  const isDoubtful = ending.phase === 'dot' && afterTrouble(ending) === EITHER;
  return isDoubtful ? `${words} (after the whole message: it may arrive twice)` : words;
}

/** Why the relay counts as failing, for the state and the log. It begins with what to correct, if that is known. */
export function reasonOf(ending: Ending): string {
  if ('trouble' in ending) return ending.trouble.words;
  const { phase, reply } = ending;
  const meaning = meaningOf(phase, reply);
  const words = `it answered ${PHASES[phase].answered} with "${reply.text}"`;
  return meaning === null ? words : `${meaning.words}; ${words}`;
}

/** The pauses if the relay refuses this device. After a 4xx only words of a quota or an account make them long. */
function pausesOf({ phase, reply }: Refusal, suspect: Outcome['suspect']): Pick<Outcome, 'pauses'> {
  if (suspect !== 'device' && suspect !== 'envelope' && suspect !== 'unclear') return {};
  const meaning = meaningOf(phase, reply);
  const isLong = isClass(reply, 5) || meaning?.isOfAccount === true;
  return isLong ? { pauses: meaning?.pauses ?? PAUSES } : {};
}

function isClass({ code }: Reply, digit: 2 | 4 | 5): boolean {
  return Math.floor(code / 100) === digit;
}

/** RFC 3463 §3.4: X.3.Y is the status of the relay's own system. */
function isSystem({ enhanced }: Reply): boolean {
  return enhanced?.split('.')[1] === '3';
}

function isOfMessage({ subject }: Said): boolean {
  return subject === 'recipient' || subject === 'content';
}

/**
 * What a refusal speaks of: the part of this device's identity, or of its account, that the relay refuses, or this message.
 * `mailbox`: that of the recipient is full, or takes no more for now.
 */
export type Subject =
  | 'daily'
  | 'quota'
  | 'full'
  | 'account'
  | 'sender'
  | 'name'
  | 'client'
  | 'login'
  | 'encryption'
  | 'relaying'
  | 'protocol'
  | 'recipient'
  | 'mailbox'
  | 'content';

/** What it means that this device is refused: the words for a person, and the pauses. */
interface Meaning {
  readonly words: string;
  /** True for a quota, or an account that may not send: no correction of a setting helps. */
  readonly isOfAccount: boolean;
  /** False: it may concern the sender or the recipient of this message alone. */
  readonly concernsAll: boolean;
  readonly pauses: RefusalPauses;
}

/** After a refusal of this device. */
export const PAUSES: RefusalPauses = { firstMs: 5 * MINUTE_MS, maxMs: HOUR_MS };
/** A quota of a day does not come back within minutes. */
const OF_A_DAY: RefusalPauses = { ...PAUSES, firstMs: 30 * MINUTE_MS };
/** The next message may be taken: a denied one in a quiet queue must not keep it for an hour. */
const OF_ONE: RefusalPauses = { ...PAUSES, maxMs: PAUSES.firstMs };

const ofAccount = (words: string, pauses = PAUSES): Meaning => ({
  ...{ words, isOfAccount: true, concernsAll: true, pauses },
});
const ofDevice = (words: string): Meaning => ({ ...ofAccount(words), isOfAccount: false });
const ofEnvelope = (words: string): Meaning => ({ ...ofDevice(words), concernsAll: false, pauses: OF_ONE });

const MEANINGS: Partial<Record<Subject, Meaning>> = {
  daily: ofAccount('it says that the daily limit is reached', OF_A_DAY),
  quota: ofAccount('it says that a sending limit is reached'),
  account: ofAccount('it does not let this account send: ask its provider'),
  full: ofEnvelope('it says that a quota is used up, of this account or of a mailbox'),
  sender: ofEnvelope('it does not take our sender address: set FIELDPOST_FROM to one that it takes'),
  name: ofDevice(
    'it does not take the name of this device: set FIELDPOST_HELO_NAME to a full host name, such as pump-3.example.com',
  ),
  client: ofDevice(
    'it takes no mail from the address of this device: log in (FIELDPOST_RELAY_USER), or ask the operator of the relay',
  ),
  login: ofEnvelope(
    'it wants another login: see FIELDPOST_RELAY_USER, and FIELDPOST_RELAY_PASSWORD_FILE or the settings of the access token',
  ),
  encryption: ofDevice('it wants TLS: take ?tls=never out of FIELDPOST_RELAY'),
  relaying: ofEnvelope(
    'it does not relay this for us: log in (FIELDPOST_RELAY_USER), or ask the operator of the relay',
  ),
  protocol: ofEnvelope('it does not follow our commands'),
};

/** Words and what they speak of, in the order in which they are tried. */
type Words = readonly (readonly [words: RegExp, subject: Subject])[];

/** Of mail servers, and where they come from. */
const SERVERS: Words = [
  // Postfix: smtpd_check.c, smtpd_check.h (SMTPD_NAME_*), smtpd_sasl_glue.c; postconf(5) rbl default reply.
  [/Helo command (?:rejected|\[[^\]]*\] blocked)/i, 'name'],
  [/Sender address rejected: not (?:logged in|owned by user)/i, 'login'],
  [/Sender address (?:rejected|\[[^\]]*\] blocked)/i, 'sender'],
  [/Client (?:host|certificate) (?:rejected|\[[^\]]*\] blocked)/i, 'client'],
  [/SASL login name rejected/i, 'login'],
  [/Relay access denied/i, 'relaying'],
  [/Must issue a STARTTLS command first|Session encryption is required/i, 'encryption'],
  [/Data command rejected/i, 'protocol'],
  [/access denied for \S+\[/i, 'client'],
  // Exim: acl.c, verify.c, smtp_in.c; configure.default (acl_check_rcpt).
  [/Sender verify failed|Could not complete sender verify|sender address must contain a domain/i, 'sender'],
  [/argument does not match calling host/i, 'name'],
  [/relay not permitted/i, 'relaying'],
  // Sendmail: cf/m4/proto.m4 (check_mail, check_rcpt, trust_auth), cf/feature/require_rdns.m4.
  [/domain of sender address|domain name required for sender address/i, 'sender'],
  [/Relaying (?:temporarily )?denied/i, 'relaying'],
  [/not allowed to act as/i, 'login'],
  [/Fix reverse DNS/i, 'client'],
  // OpenSMTPD: smtp_session.c. Its "Invalid recipient" means either, so it is not here.
  [/Sender rejected|Sender address syntax error/i, 'sender'],
  [/Must issue an AUTH command first/i, 'login'],
  // Exchange Online: "Email non-delivery reports in Exchange Online" and "Fix 5.7.700 through 5.7.750", learn.microsoft.com.
  [/STOREDRV\.(?:Submission|ClientSubmit)|continuous send as denied|exceeded threshold/i, 'quota'],
  [/SendAsDenied|permissions to send as this sender|bad outbound sender|unregistered domain/i, 'sender'],
  [/not pass DMARC|DMARC policy/i, 'sender'],
  [/Client was not authenticated/i, 'login'],
  [/Unable to relay|Tenant(?:Inbound)?Attribution/i, 'relaying'],
  [/traffic not accepted from this IP|banned sending IP/i, 'client'],
  // Words of several mail servers.
  [/authentication (?:is )?required|authenticate first/i, 'login'],
  [/reverse DNS|PTR record/i, 'client'],
];

/** One kind of the texts of providers: it has all of the words, and none of the others. */
interface Pattern {
  readonly subject: Subject;
  readonly has: readonly RegExp[];
  readonly hasNot?: RegExp;
}

const LIMIT = /\b(?:limit\w*|quota|exceed\w*|maximum|max|too many|sent too|credits)\b/i;
const A_DAY = /\b(?:daily|days?|today|24.?h\w*)\b/i;
const A_WHILE = /\b(?:hour\w*|minutes?|seconds?|monthly|months?|rate|frequency|peak)\b/i;
const SENDING =
  /\b(?:send\w*|sent|submi\w+|relay\w*|outgoing|outbound|outmail|smtp|messaging|you have|you've)\b/i;
const SIZE = /\b(?:size|length|large|big)\b/i;
const A_MAIL = /message|e?-?mail|header|content|attachment|nachricht/i;
/** A limit of many mails, not of this one. */
const IN_ALL = /\b(?:total|batch|bulk|volume|transfer|bandwidth|months?|trial|plan|account)\b/i;
const MAILBOX = /mailbox|inbox|storage|disk|\buser\b|tried to reach|destinataire|overquota|speicher/i;
const MAILBOX_OR_TIME = new RegExp(
  [MAILBOX, A_DAY, A_WHILE, IN_ALL, /quota|sending/].map(({ source }) => source).join('|'),
  'i',
);
const STOPPED =
  /suspen\w+|paus\w+|(?:not|n't)(?: yet)? activ\w+|activate your|disabled|deactivated|blocked|locked|restricted|sandbox|not allowed to send|unpaid|billing|expired/i;
const OUR_ACCOUNT = /\b(?:sending|send|smtp|sender|your|customer|tenant|sandbox|subscription|billing)\b/i;
const SENDER = /\b(?:sender|from|sending domain|identit\w+|email address)\b/i;
const NOT_OURS =
  /\bnot (?:\w+ ){0,2}(?:verified|allowed|authori[sz]ed|valid|registered|permitted|owned|match|meet|accepted)|unverified|unconfigured|unauthenticated|invalid|must (?:match|equal|be)|does not (?:match|exist)|blocked|local sender/i;

/** In the order in which they are tried: what all of them have in common, because their words differ and change. */
const PROVIDERS: readonly Pattern[] = [
  // The recipient gets too much: gmail.com, outlook.com, yandex.ru, icloud.com, comcast.net.
  {
    subject: 'mailbox',
    has: [
      /receiving mail|recipient (?:has exceeded|thread limit)|to this recipient per|deferred due to excessive|too many recent messages|messages on the server/i,
    ],
  },
  { subject: 'content', has: [A_MAIL, SIZE, LIMIT], hasNot: MAILBOX_OR_TIME },
  { subject: 'content', has: [/\btoo (?:big|large)\b/i], hasNot: MAILBOX_OR_TIME },
  { subject: 'daily', has: [LIMIT, A_DAY] },
  { subject: 'quota', has: [LIMIT, A_WHILE] },
  { subject: 'quota', has: [LIMIT, SENDING], hasNot: /tried to reach|recipient'?s mailbox/i },
  {
    subject: 'quota',
    has: [
      /throttl|rate.?limit|RefuseQuota|too many e-?mails|unusual (?:sending|rate|amount|activity)|unexpected volume/i,
    ],
  },
  { subject: 'account', has: [/quota|full\b|storage/i, /\b(?:sender'?s?|your) (?:mailbox|inbox|storage)/i] },
  {
    subject: 'mailbox',
    has: [/size|quota|full\b|exhausted|out of|exceeded|ueberschritten|pleine/i, MAILBOX],
  },
  { subject: 'account', has: [STOPPED, OUR_ACCOUNT], hasNot: /recipient|mailbox|tried to reach/i },
  { subject: 'sender', has: [SENDER, NOT_OURS], hasNot: /recipient/i },
  { subject: 'client', has: [/\b(?:your|this|sending) ip\b|dnsbl|ip reputation/i] },
];

/** Enhanced codes by their subject and detail: RFC 3463 §3.2 and §3.8, RFC 4954 §6, RFC 7372, RFC 7505. */
const DETAILS: Readonly<Record<string, Subject>> = {
  '1.7': 'sender',
  '1.8': 'sender',
  '7.8': 'login',
  '7.9': 'login',
  '7.10': 'encryption',
  '7.11': 'encryption',
  '7.13': 'login',
  '7.23': 'sender',
  '7.24': 'sender',
  '7.25': 'client',
  '7.26': 'sender',
  '7.27': 'sender',
};

/** Codes that never concern a recipient: RFC 4954 §6, RFC 5321 §4.2.4. */
const CODES: Readonly<Record<number, Subject>> = {
  502: 'protocol',
  503: 'protocol',
  530: 'login',
  535: 'login',
  538: 'encryption',
};

/** Enhanced codes that speak of a recipient: RFC 3463 §3.2 and §3.3; RFC 7505 §4. */
const RECIPIENT_CODES: ReadonlySet<string> = new Set(['1.1', '1.2', '1.3', '1.6', '1.10', '2.1']);
const GONE =
  /no such|unknown|not found|(?:does not|doesn't) (?:exist|have)|invalid|not a valid|RecipientNotFound|unrouteable/i;
const RECIPIENT = /user|recipient|addressee|mailbox|address|local part|person|destinataire/i;
/** Words that a refusal of a recipient alone does not have. Where one stands, it is confirmed before it is final. */
const OTHERS =
  /\b(?:sender|from|send\w*|sent|your (?:account|domain)|ip|client|host|server|policy|spam|listed|authenti\w+|password|login|credits?|pay\w*|paid|unpaid|billing|plan|upgrade|support|administrator|temporar\w+|later|outgoing|tenant|access|activate|suspend\w*|verif\w+|limit\w*|rate)\b/i;
const LATER = /\b(?:again|later|tomorrow|today|temporar\w+)\b/i;
const LINK = /\bhttps?:\S+/gi;
/** The mailbox of the recipient is full (RFC 3463 §3.3). */
const MAILBOX_FULL = '2.2';
/** The message is too big, for the relay or for the recipient (RFC 3463 §3.3, §3.4). */
const TOO_BIG: ReadonlySet<string> = new Set(['3.4', '2.3']);

/** What a refusal speaks of; null if it does not tell. */
export function subjectOf(phase: Phase, reply: Reply): Subject | null {
  const found = subjectIn(phase, reply);
  // At MAIL the relay knows no recipient and no content yet: a mailbox is our own.
  if (phase !== 'mail') return found;
  return found === 'mailbox' ? 'full' : found;
}

function subjectIn(phase: Phase, { code, enhanced, text }: Reply): Subject | null {
  for (const [words, subject] of SERVERS) if (words.test(text)) return subject;
  const detail = enhanced?.slice(2) ?? '';
  const complaint = DETAILS[detail];
  if (complaint !== undefined) return complaint;
  // X.3.Y: the relay's own system, such as its disk.
  if (detail.startsWith('3.') && !TOO_BIG.has(detail)) return null;
  // The words of a link say nothing.
  const said = text.replaceAll(LINK, '');
  for (const { subject, has, hasNot } of PROVIDERS)
    if (has.every((words) => words.test(said)) && !hasNot?.test(said))
      return subject === 'content' && detail === MAILBOX_FULL ? 'mailbox' : subject;
  if (detail === MAILBOX_FULL) return 'mailbox';
  if (/quota/i.test(said)) return 'full';
  if (TOO_BIG.has(detail) && !IN_ALL.test(said)) return 'content';
  // X.6.Y: the format of the content. X.6.0 is also used for all else.
  if (phase !== 'mail' && detail.startsWith('6.') && !(detail === '6.0' && LATER.test(said)))
    return 'content';
  if (isOfRecipient(phase, detail, said)) return 'recipient';
  if (code < 500 || (phase !== 'mail' && phase !== 'rcpt')) return null;
  return CODES[code] ?? null;
}

/**
 * At RCPT a code is enough, or words without another code; after the content, which may be refused with any code, only both
 * are.
 */
function isOfRecipient(phase: Phase, detail: string, said: string): boolean {
  if (phase === 'mail' || OTHERS.test(said)) return false;
  const hasWords = GONE.test(said) && RECIPIENT.test(said);
  const hasCode = RECIPIENT_CODES.has(detail);
  return phase === 'rcpt' ? hasCode || (detail === '' && hasWords) : hasCode && hasWords;
}

/** What a refusal means if it refuses this device or its account; null if it does not, or does not tell. */
export function meaningOf(phase: Phase, reply: Reply): Meaning | null {
  return meaningIn(subjectOf(phase, reply));
}

function meaningIn(subject: Subject | null): Meaning | null {
  return (subject && MEANINGS[subject]) ?? null;
}
