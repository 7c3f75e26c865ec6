/**
 * `fieldpost alive`: a sign of a program (a dead man's switch), and the list of those that must give signs.
 */
import { duration } from '../base/config/values.js';
import { EXIT } from '../base/errors.js';
import { counted, visible } from '../base/text.js';
import { connect } from './client.js';
import { type Command, CommandError, type CommandInput, textOption } from './command.js';
import { noMore } from './verbs.js';
import { columns, json, LOCAL, timesFor, widthOf } from './words.js';

const PATH = '/api/internal/alive';
/** As the daemon takes it, which checks it. */
const WITHIN = duration('10s', '7d');

/** A program, as the daemon shows it. */
interface Shown {
  readonly name: string;
  readonly withinMs: number;
  readonly to: string | null;
  readonly late: boolean;
  readonly lastSignAt: string | null;
}

export const alive: Command = {
  name: 'alive',
  group: 'Looking closer',
  summary: 'tell people if a program on this device gives no sign any more',
  help: `fieldpost alive [--local] [--json]
fieldpost alive NAME --within DURATION [--to ADDRESS] [--json]
fieldpost alive NAME --off [--json]

With --within: the program NAME gives a sign. If it gives no other within
DURATION, from 10s to 7d, one urgent message goes to the people of the address
book, or with --to to this email address; and one more when the signs come
again. Each sign gives the limit and the address that hold from then on. After a
start of the daemon each program has its whole limit again. Without NAME: which
programs are watched, and which are late?

  --off      no more signs are expected; nobody is told

--local: times in the time zone of this device, not in UTC.

Exit status: 0 done, 65 refused or no such program, 69 no daemon answers, 75 the
disk cannot keep it, or 100 programs are watched already.`,
  examples: [
    ['fieldpost alive plc-reader --within 10m', 'in the loop of a program, or in a timer'],
    ['fieldpost alive backup --within 26h --to a@x.example', 'at the end of a daily job that went well'],
    ['fieldpost alive', 'which programs are late?'],
    ['fieldpost alive plc-reader --off', 'it was uninstalled'],
  ],
  options: {
    within: { type: 'string' },
    to: { type: 'string' },
    off: { type: 'boolean' },
    json: { type: 'boolean' },
    ...LOCAL,
  },
  takesWords: true,
  asksService: true,
  async run(input, context) {
    const [name, ...more] = input.words;
    noMore(more);
    const isOff = input.options.off === true;
    const [within, to] = [textOption(input, 'within'), textOption(input, 'to')];
    if (name === undefined) {
      if (isOff || within !== null || to !== null)
        throw new CommandError(EXIT.usage, 'the name of the program is missing', 'fieldpost alive --help');
      const { body } = await connect(context)('GET', PATH);
      context.stdout.write(listOf(body as { programs: readonly Shown[] }, input, widthOf(context.stdout)));
      return EXIT.ok;
    }
    if (isOff ? within !== null || to !== null : within === null)
      throw new CommandError(
        EXIT.usage,
        isOff ? '--off takes no --within and no --to' : 'give --within DURATION, or --off',
        'fieldpost alive --help',
      );
    const path = `${PATH}/${encodeURIComponent(name)}`;
    const query = new URLSearchParams({ within: within ?? '', ...(to !== null && { to }) });
    const { status } = await (isOff
      ? connect(context)('DELETE', path)
      : connect(context, 'send')('PUT', `${path}?${query}`));
    const done = isOff ? 'off' : status === 201 ? 'watched' : 'sign';
    if (input.options.json === true) context.stdout.write(json({ name, done }));
    else if (done !== 'sign') context.stdout.write(`${visible(name)} is ${SAID[done]}.\n`);
    return EXIT.ok;
  },
};

/** A further sign says nothing: it comes from a timer or a loop. */
const SAID = { off: 'no longer watched', watched: 'watched from now on' } as const;

function listOf(body: { programs: readonly Shown[] }, input: CommandInput, cells: number): string {
  if (input.options.json === true) return json(body.programs);
  const { programs } = body;
  if (programs.length === 0) return 'No program is watched.\n';
  const { moment, zone } = timesFor(input);
  const rows = programs.map(({ name, withinMs, to, late, lastSignAt }) => {
    const last = lastSignAt === null ? '-' : moment(lastSignAt);
    return [name, late ? 'late' : 'ok', WITHIN.show(withinMs), last, to ?? 'the address book'];
  });
  const head = ['NAME', 'STATE', 'WITHIN', `LAST SIGN (${zone})`, 'TELLS'];
  const late = programs.filter((one) => one.late).length;
  const total = `${counted(programs.length, 'program')}${late > 0 ? `, ${late} late` : ''}.`;
  return `${[...columns([head, ...rows], { cells, elastic: [0, 4] }), '', total].join('\n')}\n`;
}
