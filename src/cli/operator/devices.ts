/**
 * `fieldpost-cloud devices`: the list of devices.
 */
import { EXIT } from '../../base/errors.js';
import {
  ATTENTION,
  DEVICE_STATES,
  type FleetCounts,
  type FleetDevice,
  fleetHeadline,
  troubleOf,
} from '../../base/fleet-lines.js';
import type { Call } from '../client.js';
import {
  type Command,
  CommandError,
  type CommandInput,
  type OperatorContext,
  textOption,
} from '../command.js';
import { choiceIn, noMore } from '../verbs.js';
import { columns, json, LOCAL, timesFor, widthOf } from '../words.js';
import { connectCloud } from './client.js';

/** Devices of one call. */
const PAGE = 1000;

/** The answer of `GET /devices`. */
interface Page {
  readonly devices: readonly FleetDevice[];
  readonly next: string | null;
  readonly total: number;
  readonly counts: FleetCounts;
  readonly refused: number;
}

export const devices: Command<OperatorContext> = {
  name: 'devices',
  group: '',
  summary: 'list the devices: who is offline, and who needs attention',
  help: `fieldpost-cloud devices [TEXT] [--site SITE] [--tag TAG]
                        [--offline | --state STATE] [--attention]
                        [--limit N] [--local] [--json]

Lists the devices: those that are quiet, those that are offline, those that
need attention, and the others, each by their ids; and says below how many there
are. TEXT: those with it in their id, name, site or tags. --site: those of the
site SITE. --tag: those with the tag TAG. --offline: those that are offline.
--state: those in this state, one of ${DEVICE_STATES.join(', ')}.
--attention: those whose relay is failing or refusing, with failed messages, or
with a program that gives no sign. --limit: at most N. --local: times in the
time zone of this machine, not in UTC.

Exit status: 0 listed, 69 no cloud answers, 77 it refuses the operator's key.`,
  examples: [
    ['fieldpost-cloud devices --offline', 'who is offline, and since when?'],
    ['fieldpost-cloud devices --site North', 'how are the devices of a site?'],
    ['fieldpost-cloud devices --json | jq -r ".[].id"', 'all ids, for a script'],
  ],
  options: {
    offline: { type: 'boolean' },
    state: { type: 'string' },
    site: { type: 'string' },
    tag: { type: 'string' },
    attention: { type: 'boolean' },
    limit: { type: 'string' },
    json: { type: 'boolean' },
    ...LOCAL,
  },
  takesWords: true,
  asksService: true,
  async run(input, context) {
    const { stdout } = context;
    const query = queryOf(input);
    const { limit } = choiceIn(input);
    const { found, last } = await listed(connectCloud(context), query, limit);
    if (input.options.json === true) stdout.write(json(found));
    else stdout.write(tableOf(found, last, input, widthOf(stdout)));
    return EXIT.ok;
  },
};

function queryOf(input: CommandInput): URLSearchParams {
  const { options } = input;
  const [text = '', ...more] = input.words;
  noMore(more);
  const state = textOption(input, 'state');
  if (state !== null && options.offline === true)
    throw new CommandError(EXIT.usage, '--offline is --state offline: give one of them');
  if (state !== null && !(DEVICE_STATES as readonly string[]).includes(state))
    throw new CommandError(EXIT.usage, `--state is one of ${DEVICE_STATES.join(', ')}`);
  const wanted = options.offline === true ? 'offline' : state;
  const [site, tag] = [textOption(input, 'site'), textOption(input, 'tag')];
  return new URLSearchParams({
    order: ATTENTION,
    ...(site !== null && { site }),
    ...(tag !== null && { tag }),
    ...(text !== '' && { q: text }),
    ...(wanted !== null && { state: wanted }),
    ...(options.attention === true && { attention: 'true' }),
  });
}

/** The first `limit` devices of all pages, and the last page. */
async function listed(call: Call, query: URLSearchParams, limit: number) {
  const found: FleetDevice[] = [];
  for (;;) {
    query.set('limit', String(Math.min(limit - found.length, PAGE)));
    const last = (await call('GET', `/devices?${query}`)).body as Page;
    found.push(...last.devices);
    if (last.next === null || found.length >= limit) return { found, last };
    query.set('after', last.next);
  }
}

function tableOf(
  found: readonly FleetDevice[],
  { counts, refused, total }: Page,
  input: CommandInput,
  cells: number,
): string {
  const { zone, moment } = timesFor(input);
  const rows = found.map((device) => [
    device.id,
    device.state,
    device.since === null ? '' : moment(device.since),
    device.version ?? '',
    noteOf(device, moment),
    device.name ?? '',
    device.site ?? '',
  ]);
  const heads = ['ID', 'STATE', `SINCE (${zone})`, 'VERSION', 'TROUBLE', 'NAME', 'SITE'];
  const table = rows.length === 0 ? [] : [...columns([heads, ...rows], { cells, elastic: [4, 5, 6] }), ''];
  const shown = rows.length === total ? '' : `${rows.length} of ${total} shown. `;
  const [, words] = fleetHeadline(counts, refused);
  return `${[...table, `${rows.length === 0 ? 'No such device is found. ' : shown}In all: ${words}.`].join('\n')}\n`;
}

/** Why it needs a person, or why nobody is told of it. */
function noteOf(device: FleetDevice, moment: (iso: string) => string): string {
  const { quiet } = device;
  const words = quiet && `quiet until ${moment(quiet.until)}${quiet.why === null ? '' : ` (${quiet.why})`}`;
  return [words ?? [], troubleOf(device) ?? []].flat().join(', ');
}
