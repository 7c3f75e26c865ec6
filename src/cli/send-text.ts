/**
 * The text of a message: from the options of the command line, or from standard input.
 */
import { isUtf8 } from 'node:buffer';
import { EXIT } from '../base/errors.js';
import { INPUT_BYTES_MAX, MIB, SECOND_MS } from '../base/limits.js';
import { Octets } from '../base/octets.js';
import { type CommandContext, CommandError, type CommandInput, textOption } from './command.js';

/** After this long without input from a socket the mail is sent without it. */
const SOCKET_MS = 2 * SECOND_MS;

interface MailTexts {
  readonly plain?: string;
  readonly html?: string;
}

/** Plain text and HTML, from the options or from standard input. Throws CommandError (64, 65). */
export async function textOf(input: CommandInput, context: CommandContext): Promise<MailTexts> {
  const html = textOption(input, 'html');
  const given = { ...(await plain(input, context)), ...(html !== null && { html }) };
  return Object.keys(given).length === 0 ? piped(context) : given;
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
  const octets = new Octets();
  for await (const chunk of stdin) {
    octets.push(chunk);
    if (octets.length > INPUT_BYTES_MAX)
      throw new CommandError(EXIT.data, `standard input is longer than ${INPUT_BYTES_MAX / MIB} MiB`);
  }
  const input = octets.take();
  if (isUtf8(input)) return input.toString();
  throw new CommandError(EXIT.data, 'standard input is not UTF-8', 'iconv -f latin1 -t utf8 may help.');
}
