/**
 * The command line of sendmail, as Postfix reads it: options may be clustered (`-ti`), their values may be attached or the
 * next word, and the first word that is no option ends them.
 */

import { EXIT } from '../base/errors.js';
import { hasControl } from '../base/text.js';
import { parseMailbox } from '../mail/message/mailbox.js';
import { CommandError } from './command.js';

/** What a call of sendmail asks for. */
export interface SendmailCall {
  readonly mode: 'send' | 'list' | 'flush' | 'nothing';
  /** The envelope's sender; '' is the null sender, null the device's own. */
  readonly sender: string | null;
  /** Each an address list as in a header; a local name such as `root` is an address, too. */
  readonly recipients: readonly string[];
  /** True: the recipients in the header count as well. */
  readonly readsHeader: boolean;
  /** True: a line with a single dot ends the input. */
  readonly dotEnds: boolean;
}

const VALUED = 'ABCDFLMNORVXbefhopr';
/** Their value, if there is one, is attached. */
const OPTIONAL = 'dq';
const FLAGS = 'EGIUcimnstvx';

/** Why a mode of other mailers is refused. */
const REFUSED: Readonly<Record<string, string>> = {
  s: '-bs is not supported: programs that speak SMTP use the port of FIELDPOST_SMTP_LISTEN',
  d: '-bd is not supported: fieldpost.service is the daemon',
  D: '-bD is not supported: fieldpost.service is the daemon',
};

/** Reads the command line. Throws CommandError (64). */
export function readSendmailCall(args: readonly string[]): SendmailCall {
  let call: SendmailCall = { mode: 'send', sender: null, recipients: [], readsHeader: false, dotEnds: true };
  const words = [...args];
  for (let word = words[0]; word !== undefined; word = words[0]) {
    if (!/^-./.test(word)) break;
    words.shift();
    if (word === '--') break;
    for (let at = 1; at < word.length; at++) {
      const name = word.charAt(at);
      if (FLAGS.includes(name)) {
        call = withOption(call, name, '');
        continue;
      }
      const attached = word.slice(at + 1);
      call = withOption(call, name, takeValue(name, attached, words));
      break;
    }
  }
  const recipients = words.filter((word) => word.trim() !== '');
  const bad = recipients.find(hasControl);
  if (bad !== undefined) throw new CommandError(EXIT.data, `${JSON.stringify(bad)} is not an email address`);
  if (call.mode !== 'send' || recipients.length > 0 || call.readsHeader) return { ...call, recipients };
  throw new CommandError(
    EXIT.usage,
    'name the recipients on the command line, or use -t to take those of the header',
  );
}

function takeValue(name: string, attached: string, words: string[]): string {
  if (OPTIONAL.includes(name)) return attached;
  if (!VALUED.includes(name)) throw new CommandError(EXIT.usage, `there is no option -${name}`);
  const value = attached === '' ? words.shift() : attached;
  if (value === undefined) throw new CommandError(EXIT.usage, `-${name} needs a value`);
  return value;
}

function withOption(call: SendmailCall, name: string, value: string): SendmailCall {
  if (name === 't') return { ...call, readsHeader: true };
  if (name === 'i' || (name === 'o' && value === 'i')) return { ...call, dotEnds: false };
  if (name === 'I') return { ...call, mode: 'nothing' };
  if (name === 'q') return { ...call, mode: 'flush' };
  if (name === 'b') return { ...call, mode: modeOf(value) };
  if (name === 'f' || name === 'r') return { ...call, sender: senderIn(value) };
  // All others say how sendmail itself would work.
  return call;
}

function modeOf(letter: string): SendmailCall['mode'] {
  if (letter === 'm') return 'send';
  if (letter === 'p') return 'list';
  if (letter === 'i') return 'nothing';
  throw new CommandError(EXIT.usage, REFUSED[letter] ?? `there is no mode -b${letter}`);
}

/** Null for a local name such as `www-data`: no relay would take it, so the device's own sender is used. */
function senderIn(text: string): string | null {
  if (text === '' || text === '<>') return '';
  return parseMailbox(text)?.address ?? null;
}
