/**
 * `fieldpost destinations`: the address book, which lists the people to notify when this device goes offline.
 */
import { EXIT } from '../base/errors.js';
import { LANGS } from '../base/langs.js';
import { counted, visible } from '../base/text.js';
import type { Destination } from '../mail/book/destination.js';
import { connect } from './client.js';
import { type Command, type CommandContext, CommandError, type CommandInput, textOption } from './command.js';
import { testPerson } from './telling.js';
import {
  type Action,
  CHOICE_OPTIONS,
  choiceIn,
  findAction,
  forEachId,
  idsIn,
  noMore,
  typeOf,
} from './verbs.js';
import { columns, json, TYPE_NAMES, typeName, widthOf } from './words.js';

/** An entry of the cloud's document that the device does not understand. */
interface ShownHidden {
  readonly id: string;
  readonly reason: string;
  readonly entry: unknown;
}

const PATH = '/api/internal/offline_notification_destinations';
const WHICH = 'the id is missing: fieldpost destinations list shows the ids';
const FIELD_OPTIONS = ['type', 'to', 'lang', 'name'];

const ACTIONS: Readonly<Record<string, Action>> = { list, add, update, remove, test: testPerson };

export const destinations: Command = {
  name: 'destinations',
  group: 'Looking closer',
  summary: 'show and edit who is told when this device goes offline',
  help: `fieldpost destinations [list] [--to DESTINATION] [--type TYPE] [--limit N]
                       [--hidden] [--json]
fieldpost destinations add --type TYPE --to DESTINATION --lang LANG --name NAME
                       [--json]
fieldpost destinations update ID [--type TYPE] [--to DESTINATION] [--lang LANG]
                       [--name NAME] [--json]
fieldpost destinations remove ID... [--json]
fieldpost destinations test ID [--json]

  list       who is told, and in which language, newest first. --to, --type:
             only these. --limit: the newest N. --hidden: the entries of the
             cloud that this version does not understand; remove accepts their
             ids, too.
  update     changes the given fields, and keeps the others
  test       a drill for this person alone: see fieldpost drill --help

TYPE is one of ${TYPE_NAMES.join(', ')}; LANG one of ${LANGS.join(', ')}.
DESTINATION is an email address; a number like +4915112345678 for sms and phone;
for push an email address or a placeholder like OWNER, which the cloud resolves.

A change takes effect at once. The cloud gets it as soon as the link allows.
Exit status: 0 done, 65 refused or no such destination, 69 no daemon answers, 75
the disk cannot store it.`,
  examples: [
    ['fieldpost destinations', 'who is told when this device goes offline'],
    ['fieldpost destinations add --type email --to a@x.example --lang en --name Ann', 'tell Ann, too'],
    ['fieldpost destinations update 3 --lang de', 'tell number 3 in German'],
  ],
  options: {
    json: { type: 'boolean' },
    hidden: { type: 'boolean' },
    limit: { type: 'string' },
    ...Object.fromEntries(FIELD_OPTIONS.map((name) => [name, { type: 'string' }])),
  },
  verbs: Object.keys(ACTIONS),
  takesWords: true,
  asksService: true,
  async run(input, context) {
    const [verb = 'list', ...words] = input.words;
    const action = findAction(ACTIONS, verb, 'destinations');
    const isWanted = (name: string) =>
      action === list
        ? CHOICE_OPTIONS.includes(name)
        : name !== 'limit' && (action === add || action === update);
    const given = [...FIELD_OPTIONS, 'limit'].find(
      (name) => textOption(input, name) !== null && !isWanted(name),
    );
    if (given !== undefined) throw new CommandError(EXIT.usage, `destinations ${verb} accepts no --${given}`);
    if (input.options.hidden === true && action !== list) {
      throw new CommandError(EXIT.usage, 'only destinations list accepts --hidden');
    }
    await action(words, input, connect(context), context);
    return EXIT.ok;
  },
};

async function list(...[words, input, call, { stdout }]: Parameters<Action>): Promise<void> {
  noMore(words);
  const isHidden = input.options.hidden === true;
  const { limit, isPart, has } = choiceIn(input);
  if (isHidden && isPart) throw new CommandError(EXIT.usage, '--hidden takes no --to and no --type');
  const { body } = await call('GET', isHidden ? `${PATH}?hidden=true` : PATH);
  const all = body as readonly (Destination & ShownHidden)[];
  const found = (isHidden ? all : all.filter(has).reverse()).slice(0, limit);
  if (input.options.json === true) return stdout.write(json(found));
  if (found.length === 0) {
    const none = isPart ? 'No such destination is found' : 'The address book is empty: nobody is told';
    return stdout.write(`${isHidden ? 'Nothing is hidden' : none}.\n`);
  }
  const rows = isHidden ? hiddenRows(found) : destinationRows(found);
  const elastic = isHidden ? [1, 2] : [3, 4];
  const total = isHidden ? `${found.length} hidden` : counted(found.length, 'destination');
  stdout.write(`${[...columns(rows, { cells: widthOf(stdout), elastic }), '', `${total}.`].join('\n')}\n`);
}

function destinationRows(found: readonly Destination[]): string[][] {
  const rows = found.map((one) => [String(one.id), typeName(one.type), one.lang, one.destination, one.name]);
  return [['ID', 'TYPE', 'LANG', 'DESTINATION', 'NAME'], ...rows];
}

function hiddenRows(found: readonly ShownHidden[]): string[][] {
  const rows = found.map(({ id, reason, entry }) => [id, reason, JSON.stringify(entry)]);
  return [['ID', 'REASON', 'ENTRY'], ...rows];
}

async function add(...[words, input, call, context]: Parameters<Action>): Promise<void> {
  noMore(words);
  const missing = FIELD_OPTIONS.filter((name) => textOption(input, name) === null);
  if (missing.length > 0) {
    const options = missing.map((name) => `--${name}`).join(', ');
    throw new CommandError(EXIT.usage, `missing: ${options}`, 'fieldpost destinations --help');
  }
  const answer = await call('POST', PATH, { json: fieldsIn(input) });
  tell(answer.body as Destination, 'is added', input, context);
}

async function update(...[words, input, call, context]: Parameters<Action>): Promise<void> {
  const [id = '', ...more] = idsIn(words, WHICH);
  noMore(more);
  const fields = fieldsIn(input);
  if (Object.keys(fields).length === 0) {
    throw new CommandError(EXIT.usage, 'nothing to change: give --type, --to, --lang or --name');
  }
  const before = (await call('GET', `${PATH}/${id}`)).body as Destination;
  const answer = await call('PUT', `${PATH}/${id}`, { json: { ...before, ...fields } });
  tell(answer.body as Destination, 'is changed', input, context);
}

async function remove(...[words, input, call, context]: Parameters<Action>): Promise<void> {
  const work = async (id: string) => void (await call('DELETE', `${PATH}/${id}`));
  await forEachId(idsIn(words, WHICH), 'is removed', input, context, work);
}

/** The given fields, as the API names them. The daemon checks them and names all faults at once. */
function fieldsIn(input: CommandInput): Record<string, unknown> {
  const [type, to, lang, name] = FIELD_OPTIONS.map((option) => textOption(input, option));
  return {
    ...(typeof type === 'string' && { type: typeOf(type) }),
    ...(typeof to === 'string' && { destination: to }),
    ...(typeof lang === 'string' && { lang }),
    ...(typeof name === 'string' && { name }),
  };
}

function tell(shown: Destination, done: string, input: CommandInput, context: CommandContext): void {
  if (input.options.json === true) context.stdout.write(json(shown));
  else context.stdout.write(`${shown.id} ${done}: ${visible(`${shown.name}, ${shown.destination}`)}\n`);
}
