/**
 * The outcome of an offer to a relay, and who is to blame: the table of delivery.md. Pure.
 *
 * The rows follow three rules. If the relay refuses this device, the message waits. A fault of the relay or the network
 * is not charged to a message. If the message may be at fault itself, it moves to the end.
 */

import type { Outcome } from '../transport.js';
import { complaintOf, remedyOf } from './about-us.js';
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
/** RFC 3463 X.3.4 and RFC 5321 §4.2.3: the relay will never take a mail of this size. */
const TOO_BIG = '5.3.4';
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
  };
}

type Row = readonly [Outcome['kind'], Outcome['suspect']];
const SENT: Row = ['sent', null];
const FAILED: Row = ['failed', 'message'];
const MESSAGE: Row = ['deferred', 'message'];
const RELAY: Row = ['deferred', 'peer'];
const RELAY_HERE: Row = ['deferred', 'peer here'];
const US: Row = ['deferred', 'us'];
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

function afterReply({ phase, reply }: { phase: Phase; reply: Reply }, smtpUtf8: boolean): Row {
  const { code } = reply;
  if (phase === 'dot' && isClass(reply, 2)) return SENT;
  // 421: the relay closes the connection, after any command.
  if (code === 421 || BEFORE_MAIL.includes(phase)) return RELAY;
  // A reply that the protocol does not allow here: the session cannot go on, and it is unknown whose fault that is.
  if (!isClass(reply, 4) && !isClass(reply, 5)) return EITHER;
  if (phase === 'mail') return afterMail(reply, smtpUtf8);
  return phase === 'rcpt' ? afterRecipient(reply) : afterData(reply);
}

/** A refusal of MAIL concerns our sender, except for the size or the non-ASCII address of this mail. */
function afterMail(reply: Reply, smtpUtf8: boolean): Row {
  const { code, enhanced } = reply;
  if (code === 552 || enhanced === TOO_BIG) return FAILED;
  if (smtpUtf8 && (code === 553 || enhanced === NON_ASCII_ADDRESS)) return FAILED;
  return complaintOf('mail', reply) === null ? RELAY_HERE : US;
}

function afterRecipient(reply: Reply): Row {
  if (complaintOf('rcpt', reply) !== null) return US;
  // 552: the mailbox is full, which passes (RFC 5321 §4.5.3.1.10).
  return isClass(reply, 4) || reply.code === 552 ? MESSAGE : FAILED;
}

function afterData(reply: Reply): Row {
  const { code, enhanced } = reply;
  // 5.3.4: the mail is too big for this relay. The other 5.3.x mean a fault of the relay.
  if (enhanced === TOO_BIG) return FAILED;
  if (code === 452 || enhanced?.split('.')[1] === '3') return RELAY_HERE;
  if (complaintOf('dot', reply) !== null) return US;
  return isClass(reply, 4) ? MESSAGE : FAILED;
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
  const remedy = remedyOf(phase, reply);
  const words = `it answered ${COMMANDS[phase]} with "${reply.text}"`;
  return remedy === '' ? words : `${remedy}; ${words}`;
}
