/**
 * `fieldpost sendmail`, `mailq` and `newaliases`: the commands by which programs of every Unix send mail.
 */
import { randomUUID } from 'node:crypto';
import { EXIT } from '../base/errors.js';
import { SENDMAIL_ANSWER_MS } from '../base/limits.js';
import { visible } from '../base/text.js';
import { type Call, CallError, type Purpose } from './client.js';
import { type Command, type CommandContext, CommandError } from './command.js';
import { mailqText } from './mailq.js';
import { keepMail } from './sendmail-input.js';
import { readSendmailCall, type SendmailCall } from './sendmail-options.js';
import { reach } from './ways.js';

/** The names of the program, and the options that each stands for. */
const NAMES = { sendmail: [], mailq: ['-bp'], newaliases: ['-bi'] } as const;

/** The command `name`. */
export function sendmailAs(name: keyof typeof NAMES): Command {
  return {
    name,
    summary: 'send a ready-made mail, as cron and other programs do it',
    help: HELP,
    options: {},
    readsArguments: true,
    takesWords: true,
    asksService: false,
    readsEnvFile: true,
    async run({ words }, context) {
      if (words[0] === '--help') {
        context.stdout.write(`${HELP}\n`);
        return EXIT.ok;
      }
      try {
        return await carryOut(readSendmailCall([...NAMES[name], ...words]), context);
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
        // One line: cron and other callers log it.
        context.stderr.write(`${name}: ${visible(sentenceOf(error))}\n`);
        return error.exitCode;
      }
    },
  };
}

/** All of an error in one line. The faults of a mail say all: what stands above them announces or repeats them. */
function sentenceOf({ message, hint }: CommandError): string {
  const [head = '', ...faults] = message.split('\n').map((one) => one.trim());
  const details = faults.map((fault) => fault.replace(/^[\w/]+: /, ''));
  const isTold =
    details.length > 0 && (/; see errors$/.test(head) || details.some((one) => head.endsWith(one)));
  return [...(isTold ? [] : [head]), ...details, hint].filter((one) => one !== '').join('; ');
}

const HELP = `fieldpost sendmail [-t] [-i] [-f SENDER] [RECIPIENT]... < MAIL
fieldpost sendmail -bp (mailq)        print the queue as Postfix does
fieldpost sendmail -q                 try all messages now
fieldpost sendmail -bi (newaliases)   do nothing: there are no aliases

Hands a ready-made mail (RFC 5322) to the daemon. Exit status 0: the daemon has
stored the mail. A recipient without a domain, such as root, stands for the
address in FIELDPOST_LOCAL_MAIL.

  -t         take the recipients from To, Cc and Bcc as well
  -i, -oi    a line with a single dot does not end the mail
  -f, -r     the envelope's sender, if FIELDPOST_FROM_ALLOWED allows it

The other options of sendmail are accepted and do nothing: -F and -B, for
example.

Exit status: 0 stored, 64 wrong usage, 65 refused, 67 no such user, 75 full or
no daemon answers: try later, 77 not allowed.`;

async function carryOut(asked: SendmailCall, context: CommandContext): Promise<number> {
  if (asked.mode === 'list') context.stdout.write(await mailqText(operator(context)));
  if (asked.mode === 'flush') await operator(context)('POST', '/api/internal/queue/flush');
  if (asked.mode === 'send') await send(asked, context);
  return EXIT.ok;
}

async function send(asked: SendmailCall, context: CommandContext): Promise<void> {
  const body = await keepMail(asked.dotEnds, context);
  try {
    // With one key for all tries the mail is stored once, whichever answer was lost.
    const headers = { 'idempotency-key': randomUUID() };
    const content = { body, headers, answerMs: SENDMAIL_ANSWER_MS };
    await told('send', context)('POST', pathOf(asked), content);
  } finally {
    await body.close();
  }
}

function pathOf({ sender, recipients, readsHeader }: SendmailCall): string {
  // Without its brackets a user of this name would stand for the header.
  const named = recipients.map((one) => (one === 'headers' ? '<headers>' : one));
  const to = readsHeader ? ['headers', ...named] : named;
  const query = [...to.map((one) => `to=${encodeURIComponent(one)}`), 'repair=yes'];
  if (sender !== null) query.push(`from=${encodeURIComponent(sender)}`);
  return `/api/internal/messages?${query.join('&')}`;
}

const operator = (context: CommandContext) => told('operate', context);

/** A function that calls the daemon; its CommandErrors have the exit statuses and words that callers of sendmail expect. */
function told(purpose: Purpose, context: CommandContext): Call {
  const call = reach(purpose, context);
  return async (...request) => {
    try {
      return await call(...request);
    } catch (error) {
      throw error instanceof CallError ? asSendmailTells(error, purpose) : error;
    }
  };
}

function asSendmailTells({ exitCode, message, hint }: CallError, purpose: Purpose): CommandError {
  if (exitCode === EXIT.noPermission) {
    const group = purpose === 'send' ? 'fieldpost-send' : 'fieldpost-api';
    const whose = purpose === 'send' ? 'this socket' : 'the queue';
    return new CommandError(exitCode, `${message}; root and members of the group ${group} may use ${whose}`);
  }
  if (exitCode === EXIT.data && message.includes('FIELDPOST_LOCAL_MAIL'))
    return new CommandError(EXIT.noUser, message, hint);
  return new CommandError(exitCode === EXIT.unavailable ? EXIT.tempFail : exitCode, message);
}
