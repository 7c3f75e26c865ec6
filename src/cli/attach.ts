/**
 * A mail with files as a form. Its exact length is known at once; the files are read while they are sent.
 */
import { Buffer } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { basename, extname } from 'node:path';
import { EXIT, systemCodeOf, wordsOf } from '../base/errors.js';
import { KIB } from '../base/limits.js';
import type { Body } from './client.js';
import { type CommandContext, CommandError } from './command.js';

const READ_BYTES = 256 * KIB;

// Any other file is sent as application/octet-stream, which mail programs save unchanged.
const TYPES: Readonly<Record<string, string>> = {
  txt: 'text/plain',
  log: 'text/plain',
  csv: 'text/csv',
  html: 'text/html',
  htm: 'text/html',
  md: 'text/markdown',
  json: 'application/json',
  xml: 'application/xml',
  pdf: 'application/pdf',
  zip: 'application/zip',
  gz: 'application/gzip',
  tgz: 'application/gzip',
  tar: 'application/x-tar',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  png: 'image/png',
  gif: 'image/gif',
  webp: 'image/webp',
  svg: 'image/svg+xml',
  wav: 'audio/wav',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
  doc: 'application/msword',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  xls: 'application/vnd.ms-excel',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
};

interface OpenFile {
  readonly path: string;
  readonly file: Awaited<ReturnType<CommandContext['open']>>;
  readonly size: number;
  readonly head: Buffer;
}

/**
 * Opens the files and gives the form; `close` closes them. `progress` is called after every read. Throws CommandError (66)
 * for a file that cannot be read, also later, while its bytes are sent.
 */
export async function openForm(
  texts: readonly (readonly [name: string, text: string])[],
  paths: readonly string[],
  open: CommandContext['open'],
  progress: (doneBytes: number, ofBytes: number) => void,
): Promise<Body & { close(): Promise<void> }> {
  const boundary = `fieldpost-${randomUUID()}`;
  const files: OpenFile[] = [];
  const close = async () => void (await Promise.all(files.map(({ file }) => file.close())));
  const front = texts.map(([name, text]) => partHead(boundary, `name="${name}"`, text));
  const back = Buffer.from(`--${boundary}--\r\n`);
  try {
    for (const path of paths) {
      const file = await open(path).catch((error) => unreadable(path, error));
      const type = TYPES[extname(path).slice(1).toLowerCase()] ?? 'application/octet-stream';
      const name = `name="file"; filename="${escaped(basename(path))}"\r\nContent-Type: ${type}`;
      const head = partHead(boundary, name, null);
      const opened = { path, file, head, size: 0 };
      files.push(opened);
      opened.size = await sizeOf(opened).catch((error) => unreadable(path, error));
    }
  } catch (error) {
    await close();
    throw error;
  }
  const length =
    front.reduce((sum, { length }) => sum + length, back.length) +
    files.reduce((sum, { head, size }) => sum + head.length + size + 2, 0);
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    length,
    close,
    chunks: (async function* () {
      let done = 0;
      for (const chunk of front) yield chunk;
      for (const file of files) {
        yield file.head;
        for await (const chunk of contentOf(file)) {
          yield chunk;
          done += chunk.length;
          progress(done, length);
        }
        yield Buffer.from('\r\n');
      }
      yield back;
    })(),
  };
}

/** The size. Throws CommandError (66) for pipes and files of /proc, which have content although their size is 0. */
async function sizeOf({ file, path }: OpenFile): Promise<number> {
  const size = await file.size();
  if (size > 0) return size;
  const isEmpty = await file.read(0, 1).then(
    ({ length }) => length === 0,
    (error) => {
      if (systemCodeOf(error) === 'ESPIPE') return false;
      throw error;
    },
  );
  if (isEmpty) return 0;
  throw new CommandError(EXIT.noInput, `the size of ${path} is not known`, 'Attach a copy of it.');
}

async function* contentOf({ path, file, size }: OpenFile): AsyncGenerator<Buffer, void, void> {
  for (let at = 0; at < size; ) {
    const chunk = await file
      .read(at, Math.min(READ_BYTES, size - at))
      .catch((error) => unreadable(path, error));
    // Content-Length has been sent already.
    if (chunk.length === 0) throw new CommandError(EXIT.noInput, `${path} became shorter while it was read`);
    at += chunk.length;
    yield chunk;
  }
}

function partHead(boundary: string, disposition: string, text: string | null): Buffer {
  const rest = text === null ? '' : `${text}\r\n`;
  return Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${rest}`);
}

/** Escapes a file name in a header as browsers do. */
function escaped(name: string): string {
  return name.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

function unreadable(path: string, error: unknown): never {
  if (error instanceof CommandError) throw error;
  throw new CommandError(EXIT.noInput, `cannot read ${path}: ${wordsOf(error)}`);
}
