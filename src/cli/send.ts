/**
 * `fieldpost send`: gives a message to the daemon, and waits for its outcome if that is asked for. Files go as parts of a
 * form, whose exact length is known at once, and are read while they are sent.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { basename, extname } from 'node:path';
import { Octets } from '../base/collections.js';
import { duration } from '../base/config/values.js';
import { EXIT, systemCodeOf, wordsOf } from '../base/errors.js';
import { IDEMPOTENCY_KEY_CHARS_MAX, KIB, MIB, SECOND_MS } from '../base/limits.js';
import type { Output } from '../base/system/process.js';
import { bytesInWords, visible } from '../base/text.js';
import { parseAddress } from '../mail/message/address.js';
import { parseMailbox } from '../mail/message/mailbox.js';
import {
  type Answer,
  type Body,
  type Call,
  CallError,
  connect,
  INPUT_BYTES_MAX,
  isPassing,
} from './client.js';
import {
  type Command,
  type CommandContext,
  CommandError,
  type CommandInput,
  spanOption,
  textOption,
} from './command.js';
import { json, TYPE_NAMES, typeNumber } from './words.js';

/** One call waits this long: less than the time after which a silent daemon counts as dead. */
const SLICE_S = 20;
/** The least time between two calls: an older daemon does not know `wait`, and a stopped one may be restarting. */
const REPEAT_MS = SECOND_MS;

/** After this long without input from a socket the mail is sent without it. */
const SOCKET_MS = 2 * SECOND_MS;
const READ_BYTES = 256 * KIB;

const LIFE = duration('1s', '30d');

/** A message as the daemon shows it, when its outcome is awaited. */
interface Shown {
  readonly id: string;
  readonly destination: string;
  readonly status: string;
  readonly final: boolean;
  readonly lastReply: string | null;
}

export const send: Command = {
  name: 'send',
  group: 'Every day',
  summary: 'send a mail, an SMS, a call or a push message',
  help: `fieldpost send --to ADDRESS [--subject TEXT] [--body TEXT | -] [--html TEXT]
               [--attach FILE]... [OPTION]...
fieldpost send --type sms|phone|push --to RECIPIENT --body TEXT [OPTION]...

Hands a message to the daemon and prints its id. Exit status 0: the daemon has
stored it and delivers it as soon as the network allows. fieldpost queue show
ID shows its status.

  --type TYPE            email (the default), sms, phone or push
  --to ADDRESS           also 'Name <address>'; may be repeated. All get the
                         same mail, and see each other in it
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
  --collapse KEY         replaces messages of the same key to the same recipient
                         that still wait
  --collapse-count       the subject then says how many it replaced: (12 ×)
  --wait DURATION        then waits for the outcome and prints it, at most this
                         long, such as 30s
  --idempotency-key KEY  a repeated command with the same key sends nothing
                         twice (for 24 hours)
  --json                 prints the answer of the daemon

Exit status: 0 stored (with --wait: sent), 65 refused (with --wait: failed,
expired, cancelled or replaced), 66 a file cannot be read, 69 no daemon answers,
75 full or stopping: try later (with --wait: not final yet), 77 not allowed.`,
  examples: [
    ["fieldpost send --to ops@example.com --subject 'Door open' --body 'Door 7.'", 'a mail'],
    ['journalctl -n 50 | fieldpost send --to ops@example.com --subject Log', 'the text from another program'],
    ['fieldpost send --to ops@example.com --body See. --attach ./photo.jpg', 'a mail with a picture'],
    ["fieldpost send --type sms --to +4915112345678 --body 'Door 7 is open.'", 'an SMS'],
    ['fieldpost send --to ops@example.com --body Test --wait 30s', 'wait until the relay has taken the mail'],
  ],
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
    collapse: { type: 'string' },
    'collapse-count': { type: 'boolean' },
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
    const waitMs = spanOption(input, 'wait', LIFE);
    const fields = fieldsOf(input);
    const text = { ...given(input, 'subject'), ...(await textOf(input, context)) };
    if (Object.keys(text).length === 0) {
      const words = 'nothing to send: give --subject, --body (or -) or --html';
      throw new CommandError(EXIT.usage, words, 'fieldpost send --help');
    }
    const call = connect(context);
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

/**
 * Waits until all messages are final, or for `ms`, and prints what became of them. Gives the exit status: 0 if all were
 * sent, 65 if one was not and never will be, 75 if one waits still or its outcome is not known.
 */
async function waitFor(
  entries: readonly Entry[],
  ms: number,
  isJson: boolean,
  call: Call,
  context: CommandContext,
): Promise<number> {
  const { clock, stdout, stderr } = context;
  const warn = (words: string) => stderr.write(`fieldpost: ${visible(words)}\n`);
  const endMs = clock.bootMs() + ms;
  const byId = new Map<string, Shown>();
  let fault: string | null = null;
  for (const { id } of entries) {
    const found = await finalOf(id, endMs, call, context, warn);
    if (typeof found === 'string') fault = found;
    else byId.set(id, found);
  }
  const messages = [...byId.values()];
  // As the daemon accepted it, if it tells no more.
  if (isJson) stdout.write(json(entries.map((entry) => ({ ...entry, ...byId.get(entry.id) }))));
  else for (const message of messages) stdout.write(`${visible(outcomeLine(message))}\n`);
  if (fault !== null) warn(`the daemon has stored the message, but the outcome is not known: ${fault}`);
  else if (messages.every(({ status }) => status === 'sent')) return EXIT.ok;
  return messages.some(({ final, status }) => final && status !== 'sent') ? EXIT.data : EXIT.tempFail;
}

/** What the options say beside recipients and texts, as the daemon names it. */
function fieldsOf(input: CommandInput): Record<string, unknown> {
  const type = typeOf(input);
  const expiresInMs = spanOption(input, 'expires-in', LIFE);
  const collapseKey = textOption(input, 'collapse');
  const lists = ['cc', 'bcc', 'reply-to'].flatMap((name) => {
    const list = listOption(input, name);
    return list.length > 0 ? [[name.replace('-', '_'), list]] : [];
  });
  return {
    type,
    ...given(input, 'from'),
    ...given(input, 'title'),
    ...given(input, 'priority'),
    ...Object.fromEntries(lists),
    ...(expiresInMs !== null && { expires_in_s: Math.ceil(expiresInMs / SECOND_MS) }),
    ...(collapseKey !== null && { collapse_key: collapseKey }),
    ...(input.options['collapse-count'] === true && { collapse_count: true }),
  };
}

function typeOf(input: CommandInput): number {
  const text = textOption(input, 'type') ?? 'email';
  const type = typeNumber(text);
  if (type > 0) return type;
  throw new CommandError(EXIT.usage, `there is no type ${text}: it is ${TYPE_NAMES.join(', ')}`);
}

function listOption(input: CommandInput, name: string): readonly string[] {
  const list = input.options[name];
  return Array.isArray(list) ? (list as string[]) : [];
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

/** The message once it is final, or as it is at the end; a text says why the daemon does not show it. */
async function finalOf(
  id: string,
  endMs: number,
  call: Call,
  { clock, pause }: CommandContext,
  warn: (words: string) => void,
): Promise<Shown | string> {
  let wasAway = false;
  for (;;) {
    const startedMs = clock.bootMs();
    const leftS = Math.max(0, Math.ceil((endMs - startedMs) / SECOND_MS));
    const path = `/api/internal/messages/${encodeURIComponent(id)}?wait=${Math.min(leftS, SLICE_S)}`;
    let found: Shown | string;
    try {
      found = (await call('GET', path)).body as Shown;
      if (found.final) return found;
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      found = error.message;
      if (!isPassing(error)) return found;
      if (!wasAway) warn(`${found}; waiting for it`);
      wasAway = true;
    }
    const nowMs = clock.bootMs();
    if (nowMs >= endMs) return found;
    const restMs = Math.min(startedMs + REPEAT_MS, endMs) - nowMs;
    if (restMs > 0) await pause(restMs);
  }
}

/** `0000001… sent: john@example.com: 250 ok` */
function outcomeLine({ id, destination, status, final, lastReply }: Shown): string {
  if (!final && lastReply === null)
    return `${id} is still ${status} for ${destination}: fieldpost status tells what it waits for`;
  const words = final ? status : `${status}, and tried again`;
  return `${id} ${words}: ${destination}${lastReply === null ? '' : `: ${lastReply}`}`;
}

/** Plain text and HTML, from the options or from standard input. Throws CommandError (64, 65). */
async function textOf(input: CommandInput, context: CommandContext): Promise<Record<string, string>> {
  const html = textOption(input, 'html');
  const plain = await plainOf(input, context);
  if (plain === null && html === null) return piped(context);
  return { ...(plain !== null && { plain }), ...(html !== null && { html }) };
}

/** The plain text of --body, or of standard input for `-`; null if neither is given. */
async function plainOf(input: CommandInput, context: CommandContext): Promise<string | null> {
  const body = textOption(input, 'body');
  const fromInput = body === '-' || input.words.includes('-');
  const [stranger] = input.words.filter((word) => word !== '-');
  if (stranger !== undefined) {
    const words = `unknown word ${stranger}: put the text into --body, or use - for standard input`;
    throw new CommandError(EXIT.usage, words);
  }
  if (fromInput && body !== null && body !== '-')
    throw new CommandError(EXIT.usage, 'either --body or -, not both');
  return fromInput ? await readAll(context.stdin()) : body;
}

/**
 * The text of `echo text | fieldpost send`, without `-`. A terminal and /dev/null are not read. A socket may stay open
 * without input.
 */
async function piped({ stdin, stdinKind, clock }: CommandContext): Promise<Record<string, string>> {
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
async function openForm(
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
