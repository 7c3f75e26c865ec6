/**
 * The mail on sendmail's standard input, kept until the daemon has it: a small one in memory, a large one in a file. It is
 * read to its end first, because the job whose output cron mails may write for hours.
 */
import { Buffer } from 'node:buffer';
import { EXIT, wordsOf } from '../base/errors.js';
import { INPUT_BYTES_MAX, INPUT_MEMORY_BYTES, KIB, MIB } from '../base/limits.js';
import { Octets } from '../base/octets.js';
import type { Body } from './client.js';
import { type CommandContext, CommandError } from './command.js';
import { upToDot } from './dot.js';

const READ_BYTES = 256 * KIB;

/**
 * Reads the mail, to its end or to a line with a dot; it can be sent more than once, until `close`. Throws CommandError (65,
 * 75).
 */
export async function keepMail(
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
