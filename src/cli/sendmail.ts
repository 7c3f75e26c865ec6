/**
 * `fieldpost sendmail`, `mailq` and `newaliases`: the commands by which programs of every Unix send mail. The command line
 * is read as Postfix reads it. The mail is read to its end first, because the job whose output cron mails may write for
 * hours. While no way to the daemon works, it is tried again for a while, because the daemon may be restarting.
 */
import { Buffer } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { Octets } from '../base/collections.js';
import type { Environment, ListenConfig } from '../base/config/types.js';
import { EXIT, wordsOf } from '../base/errors.js';
import { KIB, MIB, MINUTE_MS, SECOND_MS } from '../base/limits.js';
import { hasControl, visible } from '../base/text.js';
import { parseMailbox } from '../mail/message/mailbox.js';
import {
  type Body,
  type Call,
  CallError,
  callFirst,
  INPUT_BYTES_MAX,
  isPassing,
  isShut,
  type Purpose,
  waysOver,
} from './client.js';
import { type Command, type CommandContext, CommandError, helpText } from './command.js';
import { hasOwnSettings, tolerantEnvironment } from './environment.js';

/** A mail of this size is kept in memory until the daemon has it; a larger one is kept in a file. */
export const INPUT_MEMORY_BYTES = MIB;
/** How long it tries to reach a daemon, with this pause between two tries. */
export const SENDMAIL_TRY_MS = 10 * SECOND_MS;
const SENDMAIL_PAUSE_MS = SECOND_MS / 4;
/** How long it waits for a daemon behind an open socket: a start may take as long (TimeoutStartSec=). */
const SENDMAIL_ANSWER_MS = 10 * MINUTE_MS;
const READ_BYTES = 256 * KIB;

/** The names of the program, and the options that each stands for. */
const NAMES = { sendmail: [], mailq: ['-bp'], newaliases: ['-bi'] } as const;

/** The command `name`. */
export function sendmailAs(name: keyof typeof NAMES): Command {
  return {
    name,
    group: 'Service',
    summary: 'send a ready-made mail, as cron and other programs do it',
    ...TEXT,
    options: {},
    readsArguments: true,
    asksService: false,
    readsEnvFile: true,
    async run({ words }, context) {
      if (words[0] === '--help') {
        context.stdout.write(helpText(TEXT));
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

const TEXT: Pick<Command, 'help' | 'examples'> = {
  help: `fieldpost sendmail [-t] [-i] [-f SENDER] [RECIPIENT]... < MAIL
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
no daemon answers: try later, 77 not allowed.`,
  examples: [
    [
      "printf 'Subject: Hi\\n\\nText.\\n' | fieldpost sendmail ops@example.com",
      'a mail as a shell script writes it',
    ],
    ['fieldpost sendmail -t < mail.eml', 'a whole mail, to the recipients in its header'],
  ],
};

async function carryOut(asked: SendmailCall, context: CommandContext): Promise<number> {
  if (asked.mode === 'list')
    context.stdout.write(await (await import('./queue.js')).mailqText(told('operate', context)));
  if (asked.mode === 'flush') await told('operate', context)('POST', '/api/internal/queue/flush');
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

/**
 * Reads the mail, to its end or to a line with a dot; it can be sent more than once, until `close`. Throws CommandError (65,
 * 75).
 */
async function keepMail(
  dotEnds: boolean,
  { stdin, scratch }: Pick<CommandContext, 'stdin' | 'scratch'>,
): Promise<Body & { close(): Promise<void> }> {
  const kept = new Octets();
  let length = 0;
  let file: Scratch | null = null;
  try {
    for await (const chunk of dotEnds ? upToDot(stdin()) : stdin()) {
      if (file === null) kept.push(chunk);
      else await file.write(Buffer.from(chunk), length).catch(unkept);
      length += chunk.length;
      if (length > INPUT_BYTES_MAX)
        throw new CommandError(EXIT.data, `the mail is larger than ${INPUT_BYTES_MAX / MIB} MiB`);
      if (file !== null || length <= INPUT_MEMORY_BYTES) continue;
      file = await scratch().catch(unkept);
      await file.write(kept.take(), 0).catch(unkept);
    }
  } catch (error) {
    await closed(file);
    throw error;
  }
  const type = 'message/rfc822';
  const chunks = file === null ? kept.take() : contentOf(file, length);
  return { type, length, chunks, close: () => closed(file) };
}

type Scratch = Awaited<ReturnType<CommandContext['scratch']>>;

async function closed(file: Scratch | null): Promise<void> {
  await file?.close();
}

/** Each loop over it reads the file from its beginning. */
function contentOf(file: Scratch, length: number): AsyncIterable<Buffer> {
  return {
    async *[Symbol.asyncIterator]() {
      for (let at = 0; at < length; at += READ_BYTES) {
        yield await file.read(at, Math.min(READ_BYTES, length - at)).catch(unkept);
      }
    },
  };
}

function unkept(error: unknown): never {
  throw new CommandError(EXIT.tempFail, `the mail could not be kept in a temporary file: ${wordsOf(error)}`);
}

const LF = 10;
const DOT = 46;
const DOT_LINE = /^\.\r?\n/;
/** The beginning of what may become such a line. */
const OPEN_LINE = /^\.\r?$/;

/** The input before a line with a single dot, which ends a mail for sendmail; what follows that line is not read. */
async function* upToDot(input: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, void> {
  let rest = Buffer.alloc(0);
  let previous = LF;
  for await (const chunk of input) {
    const bytes = Buffer.concat([rest, chunk]);
    rest = Buffer.alloc(0);
    let end = bytes.length;
    for (let at = dotIn(bytes, 0, previous); at >= 0; at = dotIn(bytes, at + 1, DOT)) {
      const line = bytes.toString('latin1', at, at + 3);
      const isOver = DOT_LINE.test(line);
      if (isOver || OPEN_LINE.test(line)) end = at;
      if (!isOver) continue;
      yield bytes.subarray(0, end);
      return;
    }
    rest = Buffer.from(bytes.subarray(end));
    if (end > 0) {
      yield bytes.subarray(0, end);
      previous = bytes[end - 1] as number;
    }
  }
  // The end of the input ends the line as well: then `rest` is a single dot.
}

/** Where the next line with a dot in front begins, from `from`; `previous` is the octet before that. -1: nowhere. */
function dotIn(bytes: Buffer, from: number, previous: number): number {
  if (previous === LF && bytes[from] === DOT) return from;
  const found = bytes.indexOf('\n.', from, 'latin1');
  return found < 0 ? -1 : found + 1;
}

/**
 * A function that calls the daemon. Repeat a call only if it is safe: with an Idempotency-Key. Throws CommandError: 75 if no
 * daemon answers in time, 77 if this user may use no way.
 */
function reach(purpose: Purpose, context: CommandContext): Call {
  const env = tolerantEnvironment(context);
  const { listeners, token } = settingsOf(env, context);
  const ways = waysOver(listeners, purpose, token, { ...context, env });
  return async (...request) => {
    const endMs = context.clock.bootMs() + SENDMAIL_TRY_MS;
    for (;;) {
      const { answer, faults } = await callFirst(ways, request, (fault) => isShut(fault) || isPassing(fault));
      if (answer !== null) return answer;
      if (!faults.some(isPassing))
        throw faults.at(-1) ?? new CommandError(EXIT.config, 'FIELDPOST_LISTEN names no listener');
      if (context.clock.bootMs() >= endMs)
        throw new CommandError(EXIT.tempFail, faults.map(({ message }) => message).join('; '));
      await context.pause(SENDMAIL_PAUSE_MS);
    }
  };
}

/** The listeners of the service's settings, as far as this user can read them, and those of its units. */
function settingsOf(
  env: Environment,
  context: CommandContext,
): { listeners: readonly ListenConfig[]; token: string | null } {
  const isAsked = hasOwnSettings(context.env);
  const { FIELDPOST_LISTEN, FIELDPOST_API_TOKEN, FIELDPOST_API_TOKEN_FILE, CREDENTIALS_DIRECTORY } = env;
  const token = { FIELDPOST_API_TOKEN, FIELDPOST_API_TOKEN_FILE, CREDENTIALS_DIRECTORY };
  // This user may have no permission to read the token, and a setting may have a fault: then it does without.
  const tries: Environment[] = [{ FIELDPOST_LISTEN, ...token }, { FIELDPOST_LISTEN }, {}];
  for (const one of tries) {
    const parsed = context.settings.parse(one, context.read, context);
    if ('problems' in parsed) continue;
    const { listen, apiToken } = parsed.config;
    const sockets = isAsked ? [] : context.sockets;
    return { listeners: [...sockets, ...listen], token: apiToken ?? sendTokenOf(env, context) };
  }
  return { listeners: context.sockets, token: null };
}

/** The token for senders; null if there is none, or if this user cannot read it. */
function sendTokenOf(env: Environment, { read }: CommandContext): string | null {
  const { FIELDPOST_SEND_TOKEN, FIELDPOST_SEND_TOKEN_FILE } = env;
  if (FIELDPOST_SEND_TOKEN_FILE === undefined) return FIELDPOST_SEND_TOKEN ?? null;
  try {
    const token = read(FIELDPOST_SEND_TOKEN_FILE).trim();
    return /^[\x21-\x7e]+$/.test(token) ? token : null;
  } catch {
    return null;
  }
}
