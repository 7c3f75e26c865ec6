/**
 * The outcome of an offer to a relay, and who is to blame: the table of delivery.md. Pure.
 *
 * The rows follow three rules. A refusal is final only if it clearly speaks of the recipient or the content: all others
 * are confirmed (blame.ts). A fault of the relay or the network is not charged to a message. If the message may be at fault
 * itself, it moves to the end.
 */

import type { Outcome, Suspect } from '../transport.js';
import { meaningOf, PAUSES, subjectOf } from './refusal.js';
import type { Ending, Phase, Reply, Trouble } from './reply.js';

const BEFORE_MAIL: readonly Phase[] = [
  'resolve',
  'connect',
  'tls',
  'greeting',
  'ehlo',
  'starttls',
  'auth',
  'token',
];
/** RFC 6531 §3.5: an address beyond ASCII is not permitted. */
const NON_ASCII_ADDRESS = '5.6.7';

/** The one row of the table that the ending falls in. `smtpUtf8`: the envelope holds an address beyond ASCII. */
export function outcomeOf(ending: Ending, smtpUtf8: boolean): Outcome {
  const found =
    'trouble' in ending ? afterTrouble(ending.phase, ending.trouble) : afterReply(ending, smtpUtf8);
  const [kind, suspect] = found;
  return {
    kind,
    suspect,
    // A refusal proves nothing: relays check in any order.
    isProof: kind === 'sent',
    reply: replyOf(ending),
    reason: kind === 'deferred' ? reasonOf(ending) : '',
    retryAfterMs: 0,
    ...('reply' in ending && pausesOf(ending, suspect)),
  };
}

/** A conversation that a reply ended. */
type Refusal = Extract<Ending, { reply: Reply }>;
type Row = readonly [Outcome['kind'], Outcome['suspect']];
const SENT: Row = ['sent', null];
const FAILED: Row = ['failed', 'message'];
const MESSAGE: Row = ['deferred', 'message'];
const RELAY: Row = ['deferred', 'peer'];
const RELAY_HERE: Row = ['deferred', 'peer here'];
const DEVICE: Row = ['deferred', 'device'];
const ENVELOPE: Row = ['deferred', 'envelope'];
const UNCLEAR: Row = ['deferred', 'unclear'];
const EITHER: Row = ['deferred', 'either'];

function replyOf(ending: Ending): string {
  if ('reply' in ending) return ending.reply.text;
  const { words } = ending.trouble;
  // The relay may have taken the message before the connection broke.
  const isDoubtful = ending.phase === 'dot' && afterTrouble(ending.phase, ending.trouble) === EITHER;
  return isDoubtful ? `${words} (after the whole message: it may arrive twice)` : words;
}

function afterTrouble(phase: Phase, { kind }: Trouble): Row {
  switch (kind) {
    case 'too-large':
    case 'no-smtputf8':
      return FAILED;
    case 'source':
      return MESSAGE;
    case 'no-starttls':
    case 'no-auth':
    case 'no-token':
      return RELAY;
    default:
      return BEFORE_MAIL.includes(phase) ? RELAY : EITHER;
  }
}

function afterReply({ phase, reply }: Refusal, smtpUtf8: boolean): Row {
  const { code } = reply;
  if (phase === 'dot' && isClass(reply, 2)) return SENT;
  // 421: the relay closes the connection, after any command.
  if (code === 421 || BEFORE_MAIL.includes(phase)) return RELAY;
  // A reply that the protocol does not allow here: the session cannot go on, and it is unknown whose fault that is.
  if (!isClass(reply, 4) && !isClass(reply, 5)) return EITHER;
  if (phase === 'mail') return afterMail(reply, smtpUtf8);
  return phase === 'rcpt' ? afterRecipient(reply) : afterData(phase, reply);
}

/** MAIL contains only our sender, and the size and the non-ASCII address of this mail. */
function afterMail(reply: Reply, smtpUtf8: boolean): Row {
  const { code, enhanced } = reply;
  if (smtpUtf8 && (code === 553 || enhanced === NON_ASCII_ADDRESS)) return FAILED;
  // 5.3.X: a fault of the relay.
  const isItsOwn = isClass(reply, 4) || isSystem(reply);
  return afterRefusal('mail', reply) ?? (isItsOwn ? RELAY_HERE : ENVELOPE);
}

function afterRecipient(reply: Reply): Row {
  // 552: the mailbox is full, which passes (RFC 5321 §4.5.3.1.10).
  return afterRefusal('rcpt', reply) ?? (isClass(reply, 4) || reply.code === 552 ? MESSAGE : UNCLEAR);
}

function afterData(phase: Phase, reply: Reply): Row {
  const row = afterRefusal(phase, reply);
  if (row !== null) return row;
  if (reply.code === 452 || isSystem(reply)) return RELAY_HERE;
  return isClass(reply, 4) ? MESSAGE : UNCLEAR;
}

/** The row by what the refusal speaks of; null if it does not tell. */
function afterRefusal(phase: Phase, reply: Reply): Row | null {
  const subject = subjectOf(phase, reply);
  if (subject === null) return null;
  if (subject === 'mailbox') return MESSAGE;
  if (subject === 'recipient' || subject === 'content') return isClass(reply, 5) ? FAILED : MESSAGE;
  return meaningOf(phase, reply)?.concernsAll ? DEVICE : ENVELOPE;
}

/** RFC 3463 §3.4: X.3.Y is the status of the relay's own system. */
function isSystem({ enhanced }: Reply): boolean {
  return enhanced?.split('.')[1] === '3';
}

/** The pauses if the relay refuses this device. After a 4xx only words of a quota or an account make them long. */
function pausesOf({ phase, reply }: Refusal, suspect: Suspect | null): Pick<Outcome, 'pauses'> {
  if (suspect !== 'device' && suspect !== 'envelope' && suspect !== 'unclear') return {};
  const meaning = meaningOf(phase, reply);
  const isLong = isClass(reply, 5) || meaning?.isOfAccount === true;
  return isLong ? { pauses: meaning?.pauses ?? PAUSES } : {};
}

function isClass({ code }: Reply, digit: 2 | 4 | 5): boolean {
  return Math.floor(code / 100) === digit;
}

const COMMANDS: Record<Phase, string> = {
  resolve: 'the look-up of its name',
  connect: 'the connection',
  tls: 'TLS',
  greeting: 'the connection',
  ehlo: 'EHLO',
  starttls: 'STARTTLS',
  auth: 'our user name and password',
  token: 'our access token',
  mail: 'our sender address',
  rcpt: 'a recipient',
  data: 'DATA',
  content: 'a message',
  dot: 'a message',
};

/** Why the relay counts as failing, for the state and the log. It begins with what to correct, if that is known. */
export function reasonOf(ending: Ending): string {
  if ('trouble' in ending) return ending.trouble.words;
  const { phase, reply } = ending;
  const meaning = meaningOf(phase, reply);
  const words = `it answered ${COMMANDS[phase]} with "${reply.text}"`;
  return meaning === null ? words : `${meaning.words}; ${words}`;
}
