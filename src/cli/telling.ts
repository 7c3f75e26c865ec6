/**
 * `fieldpost lastword`, `fieldpost drill` and `fieldpost destinations test`: by way of the cloud this device speaks to
 * people, or asks them whether they would hear it.
 */
import { EXIT } from '../base/errors.js';
import { type Call, CallError, connect } from './client.js';
import { type Command, type CommandContext, CommandError, type CommandInput } from './command.js';
import { type Action, idsIn, noMore } from './verbs.js';
import { json } from './words.js';

const DESTINATIONS = '/api/internal/offline_notification_destinations';

export const lastWord: Command = {
  name: 'lastword',
  group: 'Looking closer',
  summary: 'tell people at once why this device is about to go offline',
  help: `fieldpost lastword TEXT [--json]

For programs that know before anybody else: when the mains fail, the battery is
low, or a cover is opened. The cloud tells people at once, with TEXT in their
message, and again when the device is back. TEXT is one line of at most 120
characters. It is not kept: with status 75, try again.

Exit status: 0 the cloud has it, 65 refused, or no cloud is configured, 69 no
daemon answers, 75 the cloud has not heard it.`,
  examples: [['fieldpost lastword "mains failed, battery 10 min"', 'the UPS calls this']],
  options: { json: { type: 'boolean' } },
  takesWords: true,
  asksService: true,
  async run(input, context) {
    const text = input.words.join(' ');
    if (text.trim() === '')
      throw new CommandError(EXIT.usage, 'the text is missing', 'fieldpost lastword --help');
    const { body } = await connect(context)('PUT', '/api/internal/lastword', { json: { text } });
    const done = 'The cloud has it, and tells people now.\n';
    context.stdout.write(input.options.json === true ? json(body) : done);
    return EXIT.ok;
  },
};

export const drill: Command = {
  name: 'drill',
  group: 'Looking closer',
  summary: 'try whether people would hear of an outage',
  help: `fieldpost drill [--json]

Everybody in the address book gets a message marked as a test, as in an outage,
with a link. On the page behind it they confirm that they have seen it: then the
address book shows when. fieldpost destinations test ID is for one person.

Exit status: 0 people are told, 65 nobody is, or the cloud refuses, or no cloud
is configured, 69 no daemon answers, or this cloud has no drill, 75 the cloud
cannot be reached: try again.`,
  examples: [['fieldpost drill', 'would the people in the address book hear it?']],
  options: { json: { type: 'boolean' } },
  asksService: true,
  async run(input, context) {
    const people = await begun(connect(context), '/api/internal/drill', input, context);
    if (people > 0) return EXIT.ok;
    throw new CommandError(
      EXIT.data,
      'nobody is told: the cloud has nobody in its address book whom it can reach',
    );
  },
};

/** `fieldpost destinations test ID`. */
export async function testPerson(...[words, input, call, context]: Parameters<Action>): Promise<void> {
  const [id = '', ...more] = idsIn(words, 'the id is missing: fieldpost destinations list shows the ids');
  noMore(more);
  const people = await begun(call, `${DESTINATIONS}/${id}/test`, input, context);
  if (people === 0)
    throw new CommandError(
      EXIT.data,
      'nobody is told: the cloud does not have this destination, or cannot reach it',
    );
}

/** Begins a drill, and says so; gives the number of people. */
async function begun(
  call: Call,
  path: string,
  { options }: CommandInput,
  { stdout }: CommandContext,
): Promise<number> {
  const { body } = await call('POST', path).catch((error) => {
    // An older cloud stays as it is: another try would end the same way.
    if (!(error instanceof CallError) || error.status !== 501) throw error;
    throw new CommandError(EXIT.unavailable, error.message);
  });
  const { people } = body as { readonly people: number };
  if (options.json === true) stdout.write(json(body));
  else if (people > 0)
    stdout.write(`The cloud tells ${people === 1 ? '1 person' : `${people} people`} that this is a test.\n`);
  return people;
}
