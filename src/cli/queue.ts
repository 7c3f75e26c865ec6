/**
 * `fieldpost queue`: shows the queue, and lets an operator change it; and the queue as Postfix's mailq prints it, because
 * people and monitoring plugins read that.
 */
import { EXIT } from '../base/errors.js';
import { KIB, LIST_LIMIT_MAX } from '../base/limits.js';
import { type DaemonState, headline } from '../base/state-lines.js';
import { bytesInWords, counted, span, visible } from '../base/text.js';
import { isRelayDown, STATUSES } from '../base/views.js';
import { type Call, CallError, connect } from './client.js';
import { type Command, type CommandContext, CommandError, type CommandInput, textOption } from './command.js';
import { type Action, CHOICE_OPTIONS, choiceIn, findAction, forEachId, idsIn, noMore } from './verbs.js';
import { columns, json, LOCAL, TYPE_NAMES, terms, timesFor, typeName, widthOf, wrapped } from './words.js';

const WHICH = 'the id is missing: fieldpost queue list shows the ids';

/** A reply stands so far below its message. */
const NOTE_AT = ' '.repeat(4);

// The format of Postfix for long queue ids.
const MAILQ_HEAD = '----Queue ID----- --Size-- ---Arrival Time---- --Sender/Recipient------';
const ID_CHARS = 17;
const SIZE_CHARS = 8;
/** Recipients begin here, as the sender above does. */
const ADDRESSES_AT = 47;
/** A reason ends here if it is short. */
const REASON_END = 78;

/** A message as the API shows it. */
export interface ShownMessage {
  readonly id: string;
  readonly type: number;
  readonly destination: string;
  readonly status: string;
  readonly acceptedAt: string;
  readonly attempts: number;
  readonly lastReply: string | null;
  readonly nextAttemptAt: string | null;
  /** Empty: the null sender. */
  readonly from?: string | null;
  readonly size?: number;
  readonly subject?: string | null;
  readonly priority?: string;
}

/** The statuses of the messages in the queue. */
const WAITING = ['sending', 'queued', 'deferred'] as const;

const ACTIONS: Readonly<Record<string, Action>> = {
  list,
  show,
  retry: each('POST', (id) => `/api/internal/messages/${id}/retry`, 'is due now'),
  cancel: each('DELETE', (id) => `/api/internal/messages/${id}`, 'will not be sent'),
  flush: whole('flush', 'Everything is due now.'),
  hold: whole('hold', 'Delivery is on hold; messages are still accepted. fieldpost queue release ends it.'),
  release: whole('release', 'Delivery goes on.'),
};

const MORE = `--to, --type: only those to this recipient, or of this type (${TYPE_NAMES.join(', ')}). --limit: the newest N. --local: times in the time zone of this device, not in UTC. STATUS is one of ${STATUSES.join(', ')}.`;

const LIST_OPTIONS = ['status', ...CHOICE_OPTIONS];

export const queue: Command = {
  name: 'queue',
  group: 'Every day',
  summary: 'show the queue; retry, cancel, hold messages',
  help: `fieldpost queue [list] [--status STATUS] [--to ADDRESS] [--type TYPE]
                [--limit N] [--local] [--json]
fieldpost queue VERB [ID...] [--local] [--json]
fieldpost queue retry|cancel --status failed [--json]

  list           waiting messages, newest first; or those with STATUS. A ! marks
                 one of high priority. Below it the last reply of the relay.
  show ID...     all that is known of a message
  retry ID...    try again now; a failed message is queued again; with --status
                 failed all failed ones
  cancel ID...   do not send the message; if it has failed, delete its content;
                 with --status failed that of all failed ones
  flush          try all messages now
  hold           stop delivery, even after a restart
  release        resume delivery

${wrapped(MORE, 80).join('\n')}
Exit status: 0 done, 65 no such message, or its status does not allow this, 69
no daemon answers.`,
  examples: [
    ['fieldpost queue', 'what waits, and why'],
    ['fieldpost queue list --status failed', 'what has failed, with the replies of the relay'],
    ['fieldpost queue retry ID', 'try one message again, for example after a failure'],
    ['fieldpost queue hold', 'send nothing until fieldpost queue release'],
  ],
  options: {
    json: { type: 'boolean' },
    ...Object.fromEntries(LIST_OPTIONS.map((name) => [name, { type: 'string' }])),
    ...LOCAL,
  },
  verbs: Object.keys(ACTIONS),
  takesWords: true,
  asksService: true,
  async run(input, context) {
    const [verb = 'list', ...words] = input.words;
    const action = findAction(ACTIONS, verb, 'queue');
    if ((verb === 'retry' || verb === 'cancel') && textOption(input, 'status') === 'failed') {
      await allFailed(verb, words, input, context);
      return EXIT.ok;
    }
    const given = LIST_OPTIONS.find((name) => textOption(input, name) !== null);
    if (action !== list && given !== undefined)
      throw new CommandError(
        EXIT.usage,
        verb === 'retry' || verb === 'cancel'
          ? `queue ${verb} accepts ids, or --status failed`
          : `only queue list accepts --${given}`,
      );
    await action(words, input, connect(context), context);
    return EXIT.ok;
  },
};

async function list(...[words, input, call, context]: Parameters<Action>): Promise<void> {
  noMore(words);
  const given = textOption(input, 'status');
  const status = STATUSES.find((one) => one === given) ?? null;
  if (given !== status) throw new CommandError(EXIT.usage, `--status is one of ${STATUSES.join(', ')}`);
  const choice = choiceIn(input);
  const messages = await messagesWith(status === null ? WAITING : [status], call, choice);
  if (input.options.json === true) return context.stdout.write(json(messages));
  if (messages.length > 0) context.stdout.write(table(messages, input, context));
  context.stdout.write(`${totalOf(messages.length, status, choice)}\n`);
  if (status === null) context.stdout.write(await standing(call, input, context));
}

/** Why messages wait, and what stands in their way, in a line; empty if the daemon does not tell. */
async function standing(call: Call, input: CommandInput, { stdout }: CommandContext): Promise<string> {
  const state = await call('GET', '/api/internal/state').then(
    ({ body }) => body as DaemonState | null,
    (error) => {
      if (error instanceof CallError) return null;
      throw error;
    },
  );
  const said = headline(state ?? {}, timesFor(input).full);
  const hint = state?.queue?.held ? '; fieldpost queue release ends that' : '';
  if (said === null || said[0] === 'good') return '';
  return `${wrapped(`${visible(said[1])}${hint}`, widthOf(stdout)).join('\n')}\n`;
}

/** A line for each message, and below it, indented, the relay's last reply. */
function table(
  messages: readonly ShownMessage[],
  input: CommandInput,
  { clock, stdout }: CommandContext,
): string {
  const { zone, moment } = timesFor(input);
  const cells = widthOf(stdout);
  const rows = messages.map((message) => [
    message.id,
    typeName(message.type),
    moment(message.acceptedAt),
    `${message.status}${message.priority === 'high' ? ' !' : ''}`,
    message.destination,
    message.subject ?? '',
  ]);
  const heads = ['ID', 'TYPE', `ACCEPTED (${zone})`, 'STATUS', 'DESTINATION', 'SUBJECT'];
  const [head = '', ...lines] = columns([heads, ...rows], { cells, elastic: [4, 5] });
  const told = lines.flatMap((line, index) => {
    const note = noteOn(messages[index], clock.wallMs());
    if (note === '') return line;
    const shown = wrapped(`(${visible(note)})`, cells - NOTE_AT.length);
    return [line, ...shown.map((one) => NOTE_AT + one)];
  });
  return `${[head, ...told, ''].join('\n')}\n`;
}

function totalOf(
  count: number,
  status: string | null,
  { limit, isPart }: ReturnType<typeof choiceIn>,
): string {
  if (count === 0 && isPart) return 'No such message is found.';
  if (count === 0) return status === null ? 'The queue is empty.' : `No message is ${status}.`;
  const total = counted(count, status === null ? 'message' : `${status} message`);
  return count < limit ? `${total}.` : `The newest ${total}.`;
}

function noteOn(message: ShownMessage | undefined, nowMs: number): string {
  if (message === undefined) return '';
  const parts = [
    message.lastReply ?? '',
    message.attempts > 0 ? counted(message.attempts, 'attempt') : '',
    message.nextAttemptAt === null ? '' : `next ${whenIs(message.nextAttemptAt, nowMs)}`,
  ];
  return parts.filter((part) => part !== '').join('; ');
}

function whenIs(iso: string, nowMs: number): string {
  const inMs = Date.parse(iso) - nowMs;
  return inMs > 0 ? `in ${span(inMs)}` : 'now';
}

async function show(...[words, input, call, context]: Parameters<Action>): Promise<void> {
  const shown: unknown[] = [];
  for (const id of idsIn(words, WHICH)) shown.push((await call('GET', `/api/internal/messages/${id}`)).body);
  if (input.options.json === true) return context.stdout.write(json(shown.length === 1 ? shown[0] : shown));
  const blocks = shown.map((message) => {
    const facts = Object.entries(message as Record<string, unknown>).filter(([, value]) => value !== null);
    const rows = facts.map(([key, value]) => [key, factOf(key, value, input)] as const);
    return terms(rows, widthOf(context.stdout)).join('\n');
  });
  context.stdout.write(`${blocks.join('\n\n')}\n`);
}

function factOf(key: string, value: unknown, input: CommandInput): string {
  if (key.endsWith('At') && input.options.local === true) return timesFor(input).full(String(value));
  if (key === 'type') return typeName(Number(value));
  if (key === 'attachments' && Array.isArray(value)) {
    const files = value.map(({ name, type, size }) => `${name} (${type}, ${bytesInWords(size)})`);
    return files.join(', ') || 'none';
  }
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** `queue retry --status failed` and `queue cancel --status failed`. */
async function allFailed(
  verb: 'retry' | 'cancel',
  words: readonly string[],
  { options }: CommandInput,
  context: CommandContext,
): Promise<void> {
  noMore(words);
  const isRetry = verb === 'retry';
  const [method, path] = isRetry
    ? ['POST', '/api/internal/queue/retry']
    : ['DELETE', '/api/internal/messages'];
  const { body } = await connect(context)(method, `${path}?status=failed`);
  const { count = 0 } = (body ?? {}) as { count?: number };
  const done = isRetry
    ? `${counted(count, 'failed message')} queued again.`
    : 'The content of all failed messages is deleted.';
  context.stdout.write(options.json === true ? json({ done: verb, ...(isRetry && { count }) }) : `${done}\n`);
}

function each(method: string, path: (id: string) => string, done: string): Action {
  return (words, input, call, context) =>
    forEachId(idsIn(words, WHICH), done, input, context, async (id) => void (await call(method, path(id))));
}

function whole(name: string, done: string): Action {
  return async (words, input, call, context) => {
    noMore(words);
    await call('POST', `/api/internal/queue/${name}`);
    context.stdout.write(input.options.json === true ? json({ done: name }) : `${done}\n`);
  };
}

/** The messages with one of these statuses, newest first. */
async function messagesWith(
  statuses: readonly (typeof STATUSES)[number][],
  call: Call,
  { limit, isPart, has }: ReturnType<typeof choiceIn>,
): Promise<ShownMessage[]> {
  // By id, because a message may change its status between two calls; ids sort by acceptance.
  const found = new Map<string, ShownMessage>();
  for (const status of statuses) {
    let count = 0;
    for await (const message of pages(status, isPart ? LIST_LIMIT_MAX : limit, call)) {
      if (!has(message)) continue;
      found.set(message.id, message);
      if (++count >= limit) break;
    }
  }
  return [...found.values()].sort((a, b) => (a.id > b.id ? -1 : 1)).slice(0, limit);
}

/** All pages of the API, which has the newest first; each with at most so many messages. */
async function* pages(status: string, limit: number, call: Call): AsyncGenerator<ShownMessage, void, void> {
  let after = '';
  const query = `status=${status}&limit=${Math.min(limit, LIST_LIMIT_MAX)}`;
  do {
    const page = (await call('GET', `/api/internal/messages?${query}${after}`)).body as {
      messages: ShownMessage[];
      next: string | null;
    };
    yield* page.messages;
    after = page.next === null ? '' : `&after=${encodeURIComponent(page.next)}`;
  } while (after !== '');
}

/** The text that mailq prints. */
export async function mailqText(call: Call): Promise<string> {
  const messages = (await messagesWith(WAITING, call, choiceIn({ options: {}, words: [] }))).reverse();
  if (messages.length === 0) return 'Mail queue is empty\n';
  const { queue, relay } = (await call('GET', '/api/internal/state')).body as Required<DaemonState>;
  // Why the relays take no mail at all.
  const reason = isRelayDown(relay.state) ? relay.reason : null;
  const bytes = messages.reduce((sum, { size = 0 }) => sum + size, 0);
  const blocks = messages.map((message) => blockOf(message, queue.held, reason));
  const total = `-- ${Math.floor(bytes / KIB)} Kbytes in ${counted(messages.length, 'Request')}.`;
  return `${MAILQ_HEAD}\n${blocks.join('\n')}\n${total}\n`;
}

function blockOf(message: ShownMessage, isHeld: boolean, relayReason: string | null): string {
  const { id, type, status, size = 0, acceptedAt, from, lastReply, destination } = message;
  // As Postfix marks a message: with a star while it is delivered, with an exclamation mark while it is held.
  const mark = status === 'sending' ? '*' : isHeld ? '!' : ' ';
  const name = `${id}${mark}`.padEnd(ID_CHARS);
  const sender = from === '' ? 'MAILER-DAEMON' : (from ?? '-');
  const reason = lastReply ?? (typeName(type) === 'email' ? relayReason : null);
  const lines = [
    `${name} ${String(size).padStart(SIZE_CHARS)} ${timeOf(acceptedAt)} ${sender}`,
    ...(reason === null ? [] : [`(${reason})`.padStart(REASON_END)]),
    `${' '.repeat(ADDRESSES_AT)}${destination}`,
  ];
  return lines.map((line) => `${visible(line)}\n`).join('');
}

/** A time of the API as asctime(3) writes it, in local time, without the year. */
function timeOf(iso: string): string {
  const date = new Date(iso);
  const [weekday = '', month = ''] = date.toString().split(' ');
  const two = (value: number) => String(value).padStart(2, '0');
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':');
  return `${weekday} ${month} ${String(date.getDate()).padStart(2)} ${time}`;
}
