/**
 * `fieldpost send`: gives a message to the daemon. Used by cli.ts.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import { duration } from '../config/values.js';
import { wordsOf } from '../errors.js';
import { INPUT_BYTES_MAX, MIB, SECOND_MS } from '../limits.js';
import { bytesInWords } from '../sizes.js';
import { visible } from '../text.js';
import { openForm } from './attach.js';
import { type Answer, type Call, connect } from './client.js';
import {
  type Command,
  type CommandContext,
  CommandError,
  type CommandInput,
  EXIT,
  type Output,
  textOption,
} from './command.js';
import { outcomeLine, outcomeOf } from './final.js';
import { json, TYPE_NAMES } from './words.js';

/** After this long without input from a socket the mail is sent without it. */
const SOCKET_MS = 2 * SECOND_MS;

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
  --to ADDRESS           may be repeated. Each gets a mail of its own; with --cc,
                         --bcc or --attach all get the same mail. The daemon
                         accepts all of them or none.
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
  --wait DURATION        waits for the outcome, at most this long, such as 30s
  --idempotency-key KEY  a repeated command with the same key sends nothing
                         twice (for 24 hours)
  --json                 prints the answer of the daemon

Exit status: 0 stored (with --wait: sent), 65 refused (with --wait: failed,
expired or cancelled), 66 a file cannot be read, 69 no daemon answers, 75 full
or stopping: try later (with --wait: not final yet), 77 not allowed.`,
  options: {
    type: { type: 'string' },
    to: { type: 'string', multiple: true },
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
    const waitMs = spanOption(input, 'wait');
    const fields = fieldsOf(input);
    const words = { ...(await plain(input, context)), ...given(input, 'html') };
    const isBare = Object.keys(words).length === 0;
    const text = { ...given(input, 'subject'), ...(isBare ? await piped(context) : words) };
    if (Object.keys(text).length === 0) {
      throw new CommandError(
        EXIT.usage,
        'nothing to send: give --subject, --body (or -) or --html',
        'fieldpost send --help',
      );
    }
    const call = connect(context.env, context);
    const answer = await post({ ...fields, ...text }, input, context, call);
    const isJson = input.options.json === true;
    const print = (line: string) => context.stdout.write(`${visible(line)}\n`);
    if (waitMs === null) {
      if (isJson) context.stdout.write(json(answer.body));
      else for (const line of tell(answer.body, answer.replayed)) print(line);
      return EXIT.ok;
    }
    const ids = entriesOf(answer.body).map(({ id }) => id);
    const { messages, code } = await outcomeOf(ids, waitMs, call, context.clock);
    if (isJson) context.stdout.write(json(messages));
    else for (const message of messages) print(outcomeLine(message));
    return code;
  },
};

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

async function post(
  fields: Readonly<Record<string, unknown>>,
  input: CommandInput,
  context: CommandContext,
  call: Call,
): Promise<Answer> {
  const key = textOption(input, 'idempotency-key');
  const headers: Record<string, string> = key === null ? {} : { 'idempotency-key': checkKey(key) };
  const to = listOption(input, 'to');
  const [destination, ...others] = to;
  const toAll = {
    ...(destination !== undefined && { destination }),
    ...(others.length > 0 && { to: others }),
  };
  const paths = input.options.attach;
  if (!Array.isArray(paths)) {
    const isOne = 'cc' in fields || 'bcc' in fields;
    const json = isOne ? [{ ...fields, ...toAll }] : to.map((destination) => ({ ...fields, destination }));
    return await call('POST', '/api/internal/messages', { json: json.map(asShort), headers });
  }
  const progress = progressOn(context.stderr);
  const form = await openForm(
    textsOf({ ...fields, ...toAll }),
    paths as string[],
    context.open,
    progress.show,
  );
  try {
    return await call('POST', '/api/internal/messages', { body: form, headers });
  } finally {
    progress.end();
    await form.close();
  }
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

/** The plain text of --body, or of standard input for `-`. */
async function plain(input: CommandInput, context: CommandContext): Promise<{ plain?: string }> {
  const body = textOption(input, 'body');
  const fromInput = body === '-' || input.words.includes('-');
  const [stranger] = input.words.filter((word) => word !== '-');
  if (stranger !== undefined) {
    throw new CommandError(
      EXIT.usage,
      `unknown word ${stranger}: put the text into --body, or use - for standard input`,
    );
  }
  if (fromInput && body !== null && body !== '-')
    throw new CommandError(EXIT.usage, 'either --body or -, not both');
  if (fromInput) return { plain: await readAll(context.stdin()) };
  return body === null ? {} : { plain: body };
}

/**
 * The text of `echo text | fieldpost send`, without `-`. A terminal and /dev/null are not read. A socket may stay open
 * without input.
 */
async function piped({ stdin, stdinKind, clock }: CommandContext): Promise<{ plain?: string }> {
  const kind = stdinKind();
  if (kind === 'none') return {};
  const chunks = stdin()[Symbol.asyncIterator]();
  const first = chunks.next();
  const silent = new Promise<null>((resolve) => {
    if (kind === 'socket') clock.after(SOCKET_MS, () => resolve(null));
  });
  const begun = await Promise.race([first, silent]);
  if (begun === null) return {};
  const text = await readAll(behind(begun, chunks));
  return text === '' ? {} : { plain: text };
}

async function* behind(
  first: IteratorResult<Uint8Array>,
  chunks: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, void> {
  for (let next = first; !next.done; next = await chunks.next()) yield next.value;
}

async function readAll(stdin: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of stdin) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > INPUT_BYTES_MAX)
      throw new CommandError(EXIT.data, `standard input is longer than ${INPUT_BYTES_MAX / MIB} MiB`);
  }
  const input = Buffer.concat(chunks);
  if (isUtf8(input)) return input.toString();
  throw new CommandError(EXIT.data, 'standard input is not UTF-8', 'iconv -f latin1 -t utf8 may help.');
}

/** Throws CommandError (64) for a key that a header cannot hold; the daemon checks the rest. */
function checkKey(key: string): string {
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new CommandError(EXIT.usage, '--idempotency-key takes visible ASCII characters without blanks');
}

/** One for each recipient. */
function entriesOf(body: unknown): { id: string; destination: string; ignored?: readonly string[] }[] {
  return Array.isArray(body) ? body : [];
}

function tell(body: unknown, replayed: boolean): string[] {
  const done = replayed ? 'was queued before' : 'is queued';
  return entriesOf(body).map(({ id, destination, ignored = [] }) => {
    // An older daemon does not know all fields.
    const without = ignored.length === 0 ? '' : `, without ${ignored.join(', ')}`;
    return `${id} ${done} for ${destination}${without}`;
  });
}
