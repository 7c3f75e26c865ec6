/**
 * `fieldpost events`: prints each change as the daemon tells it, and goes on after a restart of the daemon.
 */
import { EXIT } from '../base/errors.js';
import { EventParser } from '../base/event-stream.js';
import { isJsonObject } from '../base/json.js';
import { MINUTE_MS, SECOND_MS } from '../base/limits.js';
import { type DaemonState, headline } from '../base/state-lines.js';
import { counted, isoOf, visible } from '../base/text.js';
import { CallError, connect } from './client.js';
import { type Command, type CommandContext, CommandError, type CommandInput } from './command.js';
import type { ShownMessage } from './queue.js';
import { LOCAL, type Times, timesFor } from './words.js';

/** The daemon writes a comment every 30 s. */
const SILENT_MS = 2 * MINUTE_MS;
const AGAIN_MS = 2 * SECOND_MS;

export const events: Command = {
  name: 'events',
  group: 'Looking closer',
  summary: 'print each change as it happens',
  help: `fieldpost events [--local] [--json]

Prints a line for each change, until Ctrl-C: of a message its id, status,
recipient and the last reply of the relay; of the daemon its state in a
sentence; of the address book its size. After a restart of the daemon it goes
on. --local: times in the time zone of this device, not in UTC. --json prints
one JSON object a line: id, event, data.

Exit status: 69 no daemon answers at the start, 75 too many read the events.`,
  examples: [
    ['fieldpost events', 'watch what happens to a message'],
    ['fieldpost events --json | jq .data.status', 'each change of status, for a script'],
  ],
  options: { json: { type: 'boolean' }, ...LOCAL },
  asksService: true,
  async run(input, context) {
    const { stdout } = context;
    const following = follow(input, context);
    await Promise.race(stdout.closed ? [following, stdout.closed()] : [following]);
    return EXIT.ok;
  },
};

async function follow(input: CommandInput, context: CommandContext): Promise<never> {
  const call = connect(context);
  const print = printer(input.options.json === true, timesFor(input), context);
  let lastId = '';
  for (;;) {
    const onChunk = eventReader((id, event, data) => {
      lastId = id;
      print(id, event, data);
    });
    const headers: Record<string, string> = lastId === '' ? {} : { 'last-event-id': lastId };
    try {
      await call('GET', '/api/internal/events', { headers, answerMs: SILENT_MS, onChunk });
    } catch (error) {
      const isAway = error instanceof CallError && (error.status === 0 || error.status === 503);
      if (!isAway || lastId === '') throw error;
    }
    if (lastId === '') throw new CommandError(EXIT.unavailable, 'the daemon has told nothing');
    await context.pause(AGAIN_MS);
  }
}

/** Takes the chunks of an event stream, and gives its events that have an id. */
function eventReader(tell: (id: string, event: string, data: unknown) => void): (chunk: Buffer) => void {
  const decoder = new TextDecoder();
  const parser = new EventParser();
  return (chunk) => {
    for (const { id, event, data } of parser.push(decoder.decode(chunk, { stream: true })))
      if (id !== '') tell(id, event, JSON.parse(data));
  };
}

/** Prints an event for people, or as JSON. */
function printer(isJson: boolean, { full }: Times, { stdout, clock }: CommandContext) {
  let said = '';
  return (id: string, event: string, data: unknown): void => {
    if (isJson) {
      stdout.write(`${visible(JSON.stringify({ id, event, data }))}\n`);
      return;
    }
    const words = wordsOn(event, isJsonObject(data) ? data : {}, full);
    // The sentence on the state stays the same while its numbers change.
    if (event === 'state' && words === said) return;
    if (event === 'state') said = words;
    stdout.write(`${full(isoOf(clock.wallMs()))}  ${visible(words)}\n`);
  };
}

function wordsOn(event: string, data: object, full: Times['full']): string {
  if (event === 'state') return headline(data as DaemonState, full)?.[1] ?? 'the daemon runs';
  if (event === 'destinations')
    return `address book: ${counted((data as { count?: number }).count ?? 0, 'destination')}`;
  const { id, status, destination, lastReply } = data as ShownMessage;
  return `${id}  ${status}  ${destination}${lastReply === null ? '' : `  ${lastReply}`}`;
}
