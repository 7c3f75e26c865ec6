/**
 * What becomes of a message when a conversation with a relay has ended, and who is to blame: the table of
 * delivery.md. Pure; the loop acts on it.
 *
 * Three rules stand behind the rows. Nothing fails because we are misconfigured: what a relay says about us is
 * the relay's trouble and waits. Nothing is charged to a message for what the relay or the network did. And what
 * might be the message's own doing moves that message out of the way of the others.
 */
import { faultOf, remedyOf } from './about-us.js';
import type { Ending, Phase, Reply, Trouble } from './reply.js';

/** What an attempt came to, and whose trouble it is. */
export interface Outcome {
  readonly kind: 'sent' | 'failed' | 'deferred';
  /**
   * Whose trouble it is: `relay` charges the message nothing; `message` says that the relay is well; `both`
   * cannot tell; `us`: the relay refuses this device or its sender, and other messages show whether it refuses all
   * of them or this one alone (refusals.ts). Null when sent.
   */
  readonly blame: 'relay' | 'message' | 'both' | 'us' | null;
  /** For lastReply: what the relay said, or we. */
  readonly reply: string;
}

const BEFORE_MAIL: readonly Phase[] = ['resolve', 'connect', 'tls', 'greeting', 'ehlo', 'starttls', 'auth'];
/** RFC 3463 X.3.4 and RFC 5321 §4.2.3: the relay will never take a mail of this size. */
const TOO_BIG = '5.3.4';
/** RFC 6531 §3.5: an address beyond ASCII is not permitted. */
const NON_ASCII_ADDRESS = '5.6.7';

/** The one row of the table that the ending falls in. `smtpUtf8`: the envelope holds an address beyond ASCII. */
export function outcomeOf(ending: Ending, smtpUtf8: boolean): Outcome {
  if ('trouble' in ending) return afterTrouble(ending.phase, ending.trouble);
  const { phase, reply } = ending;
  const verdict = afterReply(phase, reply, smtpUtf8);
  return { ...verdict, reply: reply.text };
}

function afterTrouble(phase: Phase, { kind, words }: Trouble): Outcome {
  switch (kind) {
    case 'too-large':
    case 'no-smtputf8':
      return { kind: 'failed', blame: 'message', reply: words };
    case 'source':
      return { kind: 'deferred', blame: 'message', reply: words };
    case 'no-starttls':
    case 'no-auth':
      return { kind: 'deferred', blame: 'relay', reply: words };
    default: {
      const blame = BEFORE_MAIL.includes(phase) ? 'relay' : 'both';
      // The relay may have taken it and died before it could say so.
      const reply = phase === 'dot' ? `${words} (after the whole message: it may arrive twice)` : words;
      return { kind: 'deferred', blame, reply };
    }
  }
}

type Judgement = Omit<Outcome, 'reply'>;
const SENT: Judgement = { kind: 'sent', blame: null };
const RELAY: Judgement = { kind: 'deferred', blame: 'relay' };
const US: Judgement = { kind: 'deferred', blame: 'us' };
const MESSAGE: Judgement = { kind: 'deferred', blame: 'message' };
const BOTH: Judgement = { kind: 'deferred', blame: 'both' };
const FAILED: Judgement = { kind: 'failed', blame: 'message' };

function afterReply(phase: Phase, reply: Reply, smtpUtf8: boolean): Judgement {
  const { code } = reply;
  if (phase === 'dot' && isClass(reply, 2)) return SENT;
  // 421: the relay closes the connection, whatever we had asked.
  if (code === 421 || BEFORE_MAIL.includes(phase)) return RELAY;
  // A success where it is none: neither side can go on, and we cannot tell whose fault it is.
  if (!isClass(reply, 4) && !isClass(reply, 5)) return BOTH;
  if (phase === 'mail') return afterMail(reply, smtpUtf8);
  return phase === 'rcpt' ? afterRecipient(reply) : afterData(reply);
}

/** MAIL names our own address: a refusal speaks of us, unless of the size or the script of this one mail. */
function afterMail(reply: Reply, smtpUtf8: boolean): Judgement {
  const { code, enhanced } = reply;
  if (code === 552 || enhanced === TOO_BIG) return FAILED;
  if (smtpUtf8 && (code === 553 || enhanced === NON_ASCII_ADDRESS)) return FAILED;
  return faultOf('mail', reply) === null ? RELAY : US;
}

function afterRecipient(reply: Reply): Judgement {
  if (faultOf('rcpt', reply) !== null) return US;
  // 552: the mailbox is full, which passes (RFC 5321 §4.5.3.1.10).
  return isClass(reply, 4) || reply.code === 552 ? MESSAGE : FAILED;
}

function afterData(reply: Reply): Judgement {
  const { code, enhanced } = reply;
  // A mail too big for the system must not be uploaded again and again in the name of the system's trouble.
  if (enhanced === TOO_BIG) return FAILED;
  if (code === 452 || enhanced?.split('.')[1] === '3') return RELAY;
  if (faultOf('dot', reply) !== null) return US;
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
  mail: 'our sender address',
  rcpt: 'a recipient',
  data: 'DATA',
  content: 'a message',
  dot: 'a message',
};

/** Why the relay counts as failing, in a sentence for the state and the log: first what to mend, if that is known. */
export function reasonOf(ending: Ending): string {
  if ('trouble' in ending) return ending.trouble.words;
  const { phase, reply } = ending;
  const remedy = remedyOf(phase, reply);
  const words = `it answered ${COMMANDS[phase]} with "${reply.text}"`;
  return remedy === '' ? words : `${remedy}; ${words}`;
}

/** True for a refusal of one message or of us over it, after which the relay goes on; 421 closes the connection. */
export function isRefusal(ending: Ending): boolean {
  return 'reply' in ending && ending.reply.code !== 421 && !BEFORE_MAIL.includes(ending.phase);
}
