/**
 * `fieldpost destinations`: the address book, which lists the people to notify when this device goes offline.
 */
import { duration } from '../base/config/values.js';
import { EXIT } from '../base/errors.js';
import { LANGS } from '../base/langs.js';
import { MINUTE_MS } from '../base/limits.js';
import { counted, visible } from '../base/text.js';
import type { Destination } from '../mail/book/destination.js';
import { AT_ONCE } from '../mail/book/rules.js';
import { connect } from './client.js';
import {
  type Command,
  type CommandContext,
  CommandError,
  type CommandInput,
  spanOption,
  textOption,
} from './command.js';
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
import { columns, json, TYPE_NAMES, typeName, utc, widthOf, wrapped } from './words.js';

/** An entry of the cloud's document that the device does not understand. */
interface ShownHidden {
  readonly id: string;
  readonly reason: string;
  readonly entry: unknown;
}

const PATH = '/api/internal/offline_notification_destinations';
const WHICH = 'the id is missing: fieldpost destinations list shows the ids';
const FIELD_OPTIONS = ['type', 'to', 'lang', 'name'];
const RULE_OPTIONS = ['after', 'hours', 'zone', 'night'];
const SWITCHES = ['weekly', 'no-weekly'];
const AFTER = duration('0s', '7d');

const plan: Action = async (...given) => (await import('./plan.js')).plan(...given);
const ACTIONS: Readonly<Record<string, Action>> = { list, add, update, remove, plan, test: testPerson };

export const destinations: Command = {
  name: 'destinations',
  group: 'Looking closer',
  summary: 'show and edit who is told when this device goes offline',
  help: `fieldpost destinations [list] [--to DESTINATION] [--type TYPE] [--limit N]
                       [--hidden] [--json]
fieldpost destinations add --type TYPE --to DESTINATION --lang LANG --name NAME
                       [RULE]... [--json]
fieldpost destinations update ID [--type TYPE] [--to DESTINATION] [--lang LANG]
                       [--name NAME] [RULE]... [--json]
fieldpost destinations remove ID... [--json]
fieldpost destinations test ID [--json]
fieldpost destinations plan [--at TIME] [--json]

  list       who is told, in which language and when, newest first. --to,
             --type: only these. --limit: the newest N. --hidden: the entries of
             the cloud that this version does not understand; remove accepts
             their ids, too.
  update     changes the given fields, and keeps the others
  test       a drill for this person alone: see fieldpost drill --help
  plan       who would hear what, when and how, if this device fell silent now;
             with --at 22:00 or --at "Sa 22:00": the next time that it is then

RULE says when this person is told:

  --after 60m      only if the device is still offline then; 0m: at once
  --hours HOURS    only then, such as "Mo-Fr 07:00-18:00, Sa 09:00-12:00";
                   always: at any hour
  --zone ZONE      of the hours, such as Europe/Amsterdam; cloud: the cloud's
  --night drop     not of what is over before the hours begin; line: in one line
  --weekly         and a report each Monday; --no-weekly: none

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
    [
      'fieldpost destinations update 3 --after 60m --hours "Mo-Fr 07:00-18:00"',
      'tell number 3 only if it lasts, and not at night',
    ],
    ['fieldpost destinations plan --at 22:00', 'who would be told at night?'],
  ],
  options: {
    json: { type: 'boolean' },
    hidden: { type: 'boolean' },
    limit: { type: 'string' },
    ...Object.fromEntries([...FIELD_OPTIONS, ...RULE_OPTIONS].map((name) => [name, { type: 'string' }])),
    ...Object.fromEntries(SWITCHES.map((name) => [name, { type: 'boolean' }])),
    at: { type: 'string' },
  },
  verbs: Object.keys(ACTIONS),
  takesWords: true,
  asksService: true,
  async run(input, context) {
    const [verb = 'list', ...words] = input.words;
    const action = findAction(ACTIONS, verb, 'destinations');
    const wanted = wantedBy(action);
    const given = Object.keys(input.options).find((name) => KNOWN.includes(name) && !wanted.includes(name));
    if (given !== undefined) throw new CommandError(EXIT.usage, `destinations ${verb} accepts no --${given}`);
    await action(words, input, connect(context), context);
    return EXIT.ok;
  },
};

/** The options that mean something to one verb or another. */
const KNOWN: readonly string[] = [...FIELD_OPTIONS, ...RULE_OPTIONS, ...SWITCHES, 'limit', 'hidden', 'at'];

function wantedBy(action: Action): readonly string[] {
  if (action === list) return [...CHOICE_OPTIONS, 'hidden'];
  if (action === plan) return ['at'];
  return action === remove || action === testPerson ? [] : [...FIELD_OPTIONS, ...RULE_OPTIONS, ...SWITCHES];
}

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
  const cells = widthOf(stdout);
  const lines = columns(rows, { cells, elastic }).flatMap((line, index) => {
    const one = found[index - 1];
    return isHidden || one === undefined ? line : [line, ...rulesBelow(one, cells)];
  });
  stdout.write(`${[...lines, '', `${total}.`].join('\n')}\n`);
}

const INDENT = '    ';

/** When this person is told, below their line; nothing of one without rules. */
function rulesBelow({ plan: words = AT_ONCE, confirmedAt }: Destination, cells: number): string[] {
  const drill = confirmedAt === undefined ? [] : [`a drill was confirmed ${utc(confirmedAt)}`];
  const said = [...(words === AT_ONCE ? [] : [words]), ...drill].join('; ');
  return said === '' ? [] : wrapped(visible(said), cells - INDENT.length).map((line) => `${INDENT}${line}`);
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
    throw new CommandError(EXIT.usage, 'nothing to change: give --type, --to, --lang, --name or a rule');
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
    ...rulesIn(input),
  };
}

/** The given rules, as the API names them; null removes one. */
function rulesIn(input: CommandInput): Record<string, unknown> {
  const afterMs = spanOption(input, 'after', AFTER);
  if (afterMs !== null && afterMs % MINUTE_MS !== 0) {
    throw new CommandError(EXIT.usage, '--after takes whole minutes, such as 60m');
  }
  const [hours, zone, night] = ['hours', 'zone', 'night'].map((name) => textOption(input, name));
  if (typeof night === 'string' && night !== 'drop' && night !== 'line') {
    throw new CommandError(EXIT.usage, '--night is drop or line');
  }
  const { weekly, 'no-weekly': none } = input.options;
  if (weekly === true && none === true) {
    throw new CommandError(EXIT.usage, '--weekly and --no-weekly exclude each other');
  }
  return {
    ...(afterMs !== null && { after_min: afterMs === 0 ? null : afterMs / MINUTE_MS }),
    ...(typeof hours === 'string' && { hours: hours === 'always' ? null : hours }),
    ...(typeof zone === 'string' && { zone: zone === 'cloud' ? null : zone }),
    ...(typeof night === 'string' && { night: night === 'line' ? null : night }),
    ...((weekly === true || none === true) && { weekly: none === true ? null : true }),
  };
}

function tell(shown: Destination, done: string, input: CommandInput, context: CommandContext): void {
  if (input.options.json === true) context.stdout.write(json(shown));
  else {
    const words = `${shown.name}, ${shown.destination}; ${shown.plan ?? AT_ONCE}`;
    context.stdout.write(`${shown.id} ${done}: ${visible(words)}\n`);
  }
}
