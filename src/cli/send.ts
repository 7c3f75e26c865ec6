/**
 * `fieldpost send`: gives a mail to the daemon. Used by cli.ts.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import { INPUT_BYTES_MAX, MIB, SECOND_MS } from '../limits.js';
import { bytesInWords } from '../sizes.js';
import { visible } from '../text.js';
import { openForm } from './attach.js';
import { type Answer, connect } from './client.js';
import {
  type Command,
  type CommandContext,
  CommandError,
  type CommandInput,
  EXIT,
  type Output,
  textOption,
} from './command.js';
import { json } from './words.js';

/** After this long without input from a socket the mail is sent without it. */
const SOCKET_MS = 2 * SECOND_MS;

export const send: Command = {
  name: 'send',
  summary: 'send a mail',
  help: `fieldpost send --to ADDRESS [--subject TEXT] [--body TEXT | -] [--html TEXT]
               [--attach FILE]... [--idempotency-key KEY] [--json]

Hands a mail to the daemon and prints its id. Exit status 0: the daemon has stored the mail and delivers it as
soon as the network allows. fieldpost queue show ID shows its status.

  --to ADDRESS           may be repeated, but not with --attach. Each address gets its own mail. The daemon
                         accepts all of them or none.
  --body TEXT            the plain text, in UTF-8. - reads it from standard input. Piped input is also read if
                         neither --body nor --html is given.
  --html TEXT            the text as HTML, with the plain text or alone
  --attach FILE          may be repeated. The file name extension decides the media type.
  --idempotency-key KEY  a repeated command with the same key sends nothing twice (for 24 hours)

Exit status: 0 stored, 65 refused, 66 a file cannot be read, 69 no daemon answers, 75 full or stopping: try later, 77 not allowed.`,
  options: {
    to: { type: 'string', multiple: true },
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
    const destinations = input.options.to;
    if (!Array.isArray(destinations))
      throw new CommandError(EXIT.usage, 'the address is missing: --to ADDRESS', 'fieldpost send --help');
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
    const answer = await post(destinations as string[], text, input, context);
    if (input.options.json === true) context.stdout.write(json(answer.body));
    else for (const line of tell(answer.body, answer.replayed)) context.stdout.write(`${visible(line)}\n`);
    return EXIT.ok;
  },
};

async function post(
  destinations: readonly string[],
  text: Readonly<Record<string, string>>,
  input: CommandInput,
  context: CommandContext,
): Promise<Answer> {
  const key = textOption(input, 'idempotency-key');
  const headers: Record<string, string> = key === null ? {} : { 'idempotency-key': checkKey(key) };
  const call = connect(context.env, context);
  const paths = input.options.attach;
  if (!Array.isArray(paths)) {
    const json = destinations.map((destination) => ({ type: 1, destination, ...text }));
    return await call('POST', '/api/internal/messages', { json, headers });
  }
  const [destination = '', ...others] = destinations;
  if (others.length > 0) {
    throw new CommandError(
      EXIT.usage,
      '--attach allows only one --to: run the command once for each address',
    );
  }
  const progress = progressOn(context.stderr);
  const form = await openForm({ destination, ...text }, paths as string[], context.open, progress.show);
  try {
    return await call('POST', '/api/internal/messages', { body: form, headers });
  } finally {
    progress.end();
    await form.close();
  }
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

function tell(body: unknown, replayed: boolean): string[] {
  const entries = (Array.isArray(body) ? body : []) as { id: string; destination: string }[];
  const done = replayed ? 'was queued before' : 'is queued';
  return entries.map(({ id, destination }) => `${id} ${done} for ${destination}`);
}
