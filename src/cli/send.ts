/**
 * `fieldpost send`: gives a message to the daemon.
 */
import { duration } from '../base/config/values.js';
import { EXIT, wordsOf } from '../base/errors.js';
import { IDEMPOTENCY_KEY_CHARS_MAX, SECOND_MS } from '../base/limits.js';
import { bytesInWords } from '../base/sizes.js';
import type { Output } from '../base/system/process.js';
import { visible } from '../base/text.js';
import { parseAddress } from '../mail/message/address.js';
import { parseMailbox } from '../mail/message/mailbox.js';
import { openForm } from './attach.js';
import { type Answer, type Call, connect } from './client.js';
import { type Command, type CommandContext, CommandError, type CommandInput, textOption } from './command.js';
import { outcomeLine, outcomeOf } from './final.js';
import { textOf } from './send-text.js';
import { json, TYPE_NAMES } from './words.js';

export const send: Command = {
  name: 'send',
  summary: 'send a mail, an SMS, a call or a push message',
  help: `fieldpost send --to ADDRESS [--subject TEXT] [--body TEXT | -] [--html TEXT]
               [--attach FILE]... [OPTION]...
fieldpost send --type sms|phone|push --to RECIPIENT --body TEXT [OPTION]...

Hands a message to the daemon and prints its id. Exit status 0: the daemon has
stored it and delivers it as soon as the network allows. fieldpost queue show
ID shows its status.

  --type TYPE            email (the default), sms, phone or push
  --to ADDRESS           also 'Name <address>'; may be repeated. All get the same
                         mail, and see each other in it
  --each                 each --to gets a mail of its own, and sees no other.
                         Without --attach the daemon accepts all or none. With
                         it they go one after the other; the first fault ends it
  --cc, --bcc ADDRESS    further recipients, who are shown (Cc) or not (Bcc);
                         may be repeated
  --from ADDRESS         the sender, if FIELDPOST_FROM_ALLOWED allows it; also
                         'Name <address>'
  --reply-to ADDRESS     where answers go; may be repeated
  --body TEXT            the plain text, in UTF-8. - reads it from standard
                         input. Piped input is also read if neither --body nor
                         --html is given.
  --html TEXT            the text as HTML, with the plain text or alone
  --attach FILE          may be repeated. The file name extension decides the
                         media type.
  --title TEXT           the title of a push message
  --priority high        goes before all that is not
  --expires-in DURATION  is of no use after this long, such as 10m
  --wait DURATION        then waits for the outcome and prints it, at most this
                         long, such as 30s
  --idempotency-key KEY  a repeated command with the same key sends nothing
                         twice (for 24 hours)
  --json                 prints the answer of the daemon

Exit status: 0 stored (with --wait: sent), 65 refused (with --wait: failed,
expired or cancelled), 66 a file cannot be read, 69 no daemon answers, 75 full
or stopping: try later (with --wait: not final yet), 77 not allowed.`,
  options: {
    type: { type: 'string' },
    to: { type: 'string', multiple: true },
    each: { type: 'boolean' },
    cc: { type: 'string', multiple: true },
    bcc: { type: 'string', multiple: true },
    from: { type: 'string' },
    'reply-to': { type: 'string', multiple: true },
    title: { type: 'string' },
    priority: { type: 'string' },
    'expires-in': { type: 'string' },
    wait: { type: 'string' },
    subject: { type: 'string' },
    body: { type: 'string' },
    html: { type: 'string' },
    attach: { type: 'string', multiple: true },
    'idempotency-key': { type: 'string' },
    json: { type: 'boolean' },
  },
  takesWords: true,
  asksService: true,
  async run(input, context) {
    if (input.options.to === undefined && input.options.cc === undefined && input.options.bcc === undefined)
      throw new CommandError(EXIT.usage, 'the address is missing: --to ADDRESS', 'fieldpost send --help');
    if (input.options.each === true && (input.options.cc ?? input.options.bcc) !== undefined)
      throw new CommandError(EXIT.usage, '--each takes no --cc and no --bcc', 'fieldpost send --help');
    const waitMs = spanOption(input, 'wait');
    const fields = fieldsOf(input);
    const text = { ...given(input, 'subject'), ...(await textOf(input, context)) };
    if (Object.keys(text).length === 0) {
      throw new CommandError(
        EXIT.usage,
        'nothing to send: give --subject, --body (or -) or --html',
        'fieldpost send --help',
      );
    }
    const call = connect(context.env, context);
    const answers = await post({ ...fields, ...text }, input, context, call);
    const entries = answers.flatMap(entriesOf);
    const isJson = input.options.json === true;
    // Before the wait: whoever ends it with Ctrl-C needs the ids.
    if (!isJson) for (const line of answers.flatMap(tell)) context.stdout.write(`${line}\n`);
    if (waitMs !== null) return await waitFor(entries, waitMs, isJson, call, context);
    if (isJson) context.stdout.write(json(entries));
    return EXIT.ok;
  },
};

/** Waits for the outcome of what the daemon has stored, and prints it; gives the exit status. */
async function waitFor(
  entries: readonly Entry[],
  ms: number,
  isJson: boolean,
  call: Call,
  { clock, pause, stdout, stderr }: CommandContext,
): Promise<number> {
  const warn = (words: string) => stderr.write(`fieldpost: ${visible(words)}\n`);
  const ids = entries.map(({ id }) => id);
  const { messages, fault, code } = await outcomeOf(ids, ms, { call, clock, pause, tell: warn });
  const byId = new Map(messages.map((message) => [message.id, message]));
  // As the daemon accepted it, if it tells no more.
  if (isJson) stdout.write(json(entries.map((entry) => ({ ...entry, ...byId.get(entry.id) }))));
  else for (const message of messages) stdout.write(`${visible(outcomeLine(message))}\n`);
  if (fault !== null) warn(`the daemon has stored the message, but the outcome is not known: ${fault}`);
  return code;
}

/** What the options say beside recipients and texts, as the daemon names it. */
function fieldsOf(input: CommandInput): Record<string, unknown> {
  const type = typeOf(input);
  const expiresInMs = spanOption(input, 'expires-in');
  const lists = {
    cc: listOption(input, 'cc'),
    bcc: listOption(input, 'bcc'),
    reply_to: listOption(input, 'reply-to'),
  };
  const own = { ...given(input, 'from'), ...given(input, 'title'), ...given(input, 'priority') };
  return {
    type,
    ...own,
    ...Object.fromEntries(Object.entries(lists).filter(([, list]) => list.length > 0)),
    ...(expiresInMs !== null && { expires_in_s: Math.ceil(expiresInMs / SECOND_MS) }),
  };
}

function typeOf(input: CommandInput): number {
  const text = textOption(input, 'type') ?? 'email';
  const index = TYPE_NAMES.findIndex((name, i) => name === text || String(i + 1) === text);
  if (index >= 0) return index + 1;
  throw new CommandError(EXIT.usage, `there is no type ${text}: it is ${TYPE_NAMES.join(', ')}`);
}

function listOption(input: CommandInput, name: string): readonly string[] {
  const list = input.options[name];
  return Array.isArray(list) ? (list as string[]) : [];
}

/** A duration in milliseconds; null if it is not given. Throws CommandError (64). */
function spanOption(input: CommandInput, name: string): number | null {
  const text = textOption(input, name);
  const kind = duration('1s', '30d');
  try {
    return text === null ? null : kind.parse(text);
  } catch (error) {
    throw new CommandError(EXIT.usage, `--${name} ${text}: ${wordsOf(error)}; it takes ${kind.allowed}`);
  }
}

/** Posts the message; one for each recipient if that is asked for, or if it is no mail. */
async function post(
  fields: Readonly<Record<string, unknown>>,
  input: CommandInput,
  context: CommandContext,
  call: Call,
): Promise<Answer[]> {
  const to = listOption(input, 'to');
  const isEach = to.length > 0 && (input.options.each === true || fields.type !== 1);
  const groups = isEach ? to.map((one) => [one]) : [to];
  const messages = groups.map((group) => ({ ...fields, ...addressed(group, fields) }));
  const key = textOption(input, 'idempotency-key');
  const headersOf = (at: number): Record<string, string> =>
    key === null ? {} : { 'idempotency-key': checkKey(at === 0 ? key : `${key}/${at + 1}`) };
  const paths = input.options.attach;
  if (!Array.isArray(paths)) {
    const json = messages.map(asShort);
    return [await call('POST', '/api/internal/messages', { json, headers: headersOf(0) })];
  }
  // Each mail is a request, with a key of its own.
  const requests = messages.map((message, at) => ({ message, headers: headersOf(at) }));
  const answers: Answer[] = [];
  for (const [at, { message, headers }] of requests.entries()) {
    try {
      answers.push(await postForm(message, paths as string[], headers, context, call));
    } catch (error) {
      if (at === 0 || !(error instanceof CommandError)) throw error;
      const hint = [...answers.flatMap(tell), error.hint].join('\n').trim();
      throw new CommandError(error.exitCode, `the mail to ${to[at]}: ${error.message}`, hint);
    }
  }
  return answers;
}

async function postForm(
  message: Readonly<Record<string, unknown>>,
  paths: readonly string[],
  headers: Readonly<Record<string, string>>,
  { open, stderr }: CommandContext,
  call: Call,
): Promise<Answer> {
  const progress = progressOn(stderr);
  const form = await openForm(textsOf(message), paths, open, progress.show);
  try {
    return await call('POST', '/api/internal/messages', { body: form, headers });
  } finally {
    progress.end();
    await form.close();
  }
}

/** The fields of --to. `destination`, the field of the first, takes no name beside an address. */
function addressed(to: readonly string[], { type }: Readonly<Record<string, unknown>>): object {
  const [destination, ...others] = to;
  const isNamed = type === 1 && to.some((one) => parseAddress(one) === null && parseMailbox(one) !== null);
  if (isNamed) return { to };
  return { ...(destination !== undefined && { destination }), ...(others.length > 0 && { to: others }) };
}

/** The text of an SMS, a call or a push message is its `message`. */
function asShort(message: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  if (message.type === 1 || message.plain === undefined) return message;
  const { plain, ...rest } = message;
  return { ...rest, message: plain };
}

/** The fields of a form, each text once. Priority comes first: it decides whether a full queue takes the files. */
function textsOf({ priority, ...fields }: Readonly<Record<string, unknown>>): [name: string, text: string][] {
  return Object.entries({ ...(priority !== undefined && { priority }), ...fields }).flatMap(([name, value]) =>
    [value].flat().map((text): [string, string] => [name, String(text)]),
  );
}

/** Shows the progress on one line of a terminal; `end` clears the line. */
function progressOn({ isTTY, write }: Output): { show(done: number, of: number): void; end(): void } {
  let shown = '';
  const put = (text: string) => {
    if (!isTTY || text === shown) return;
    write(`\r${text.padEnd(shown.length)}${text === '' ? '\r' : ''}`);
    shown = text;
  };
  return {
    show: (done, of) => put(`sending ${bytesInWords(of)}: ${Math.floor((done / of) * 100)} %`),
    end: () => put(''),
  };
}

function given(input: CommandInput, name: string): Record<string, string> {
  const text = textOption(input, name);
  return text === null ? {} : { [name]: text };
}

/** Throws CommandError (64) for a key that a header cannot hold; the daemon checks the rest. */
function checkKey(key: string): string {
  if (/^[\x21-\x7e]+$/.test(key) && key.length <= IDEMPOTENCY_KEY_CHARS_MAX) return key;
  const words = `--idempotency-key takes up to ${IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters without blanks`;
  throw new CommandError(EXIT.usage, `${words}; --each adds /2 and so on`);
}

interface Entry {
  readonly id: string;
  readonly destination: string;
  readonly ignored?: readonly string[];
}

/** One for each recipient. */
function entriesOf({ body }: Answer): Entry[] {
  return Array.isArray(body) ? body : [];
}

function tell(answer: Answer): string[] {
  const done = answer.replayed ? 'was queued before' : 'is queued';
  return entriesOf(answer).map(({ id, destination, ignored = [] }) => {
    // An older daemon does not know all fields.
    const without = ignored.length === 0 ? '' : `, without ${ignored.join(', ')}`;
    return visible(`${id} ${done} for ${destination}${without}`);
  });
}
