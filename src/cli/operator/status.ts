/**
 * `fieldpost-cloud status`: the state of the reference cloud in a few lines.
 */
import { EXIT } from '../../base/errors.js';
import { countOf, type FleetCounts, fleetHeadline } from '../../base/fleet-lines.js';
import { type DaemonState, type Mood, stateLines } from '../../base/state-lines.js';
import { counted, span, visible } from '../../base/text.js';
import type { Command, OperatorContext } from '../command.js';
import { json, LOCAL, painter, type Times, terms, timesFor, widthOf, wrapped } from '../words.js';
import { connectCloud } from './client.js';

/** The answer of `GET /status`. */
interface CloudState extends Pick<DaemonState, 'relay' | 'queue' | 'storage'> {
  readonly version: string;
  readonly uptimeMs: number;
  readonly fault: string | null;
  readonly devices: FleetCounts & { readonly refused: number };
  readonly people: { readonly named: number; readonly untold: number };
  readonly store: string;
  readonly settings: { readonly since: string | null; readonly reason: string } | null;
  readonly faults: readonly string[];
}

export const status: Command<OperatorContext> = {
  name: 'status',
  group: '',
  summary: 'show the state of the cloud, and its last faults',
  help: `fieldpost-cloud status [--local] [--json]

Shows the state of the running cloud: devices, people, relay, queue, storage,
settings, and the last warnings and errors of its log, whose times are in UTC.
In a fleet it asks the instance on this machine. --local: other times in the
time zone of this machine. --json prints the cloud's answer unchanged.

Exit status: 0 the cloud does its work (a device that is offline is no error),
75 it does not, because its outbox is full, its storage fails, or etcd cannot be
reached, 69 no cloud answers, 77 it refuses the operator's key.`,
  examples: [['fieldpost-cloud status', 'is all well, and what went wrong last?']],
  options: { json: { type: 'boolean' }, ...LOCAL },
  asksService: true,
  async run(input, context) {
    const { stdout, env } = context;
    const { body } = await connectCloud(context)('GET', '/status');
    const state = body as CloudState;
    if (input.options.json === true) stdout.write(json(body));
    else {
      const paint = painter(stdout, env);
      const cells = widthOf(stdout);
      const [mood, said] = headlineOf(state);
      const first = `Fieldpost cloud ${state.version}, up ${span(state.uptimeMs)}: ${said}`;
      const rows = rowsOf(state, timesFor(input));
      const below = terms(
        rows.map(([topic, , words]) => [topic, words]),
        cells,
        (line, row) => paint(rows[row]?.[1] ?? 'good', line),
      );
      const lines = [...wrapped(visible(first), cells).map((line) => paint(mood, line)), ...below];
      stdout.write(`${lines.join('\n')}\n`);
    }
    return state.fault === null ? EXIT.ok : EXIT.tempFail;
  },
};

function headlineOf({ fault, devices }: CloudState): readonly [mood: Mood, words: string] {
  if (fault !== null) return ['bad', fault];
  const [mood, words] = fleetHeadline(devices, devices.refused);
  return [mood === 'bad' || mood === 'uneasy' ? mood : 'good', words];
}

type Row = readonly [topic: string, mood: Mood, words: string];

function rowsOf(state: CloudState, { full }: Times): Row[] {
  const { devices, people, relay, queue, storage, settings, store, faults } = state;
  const { online, offline, moved, unheard, attention } = devices;
  const never = unheard === 0 ? '' : `, ${unheard} never called`;
  const counts = `${countOf(devices)}: ${online} online, ${offline} offline, ${moved} moved${never}`;
  const known = people.named === 1 ? '1 person' : `${people.named} people`;
  const untold = people.untold === 0 ? '' : `; not told yet of ${counted(people.untold, 'device')}`;
  const logged: Row[] = faults.map((line, index) => [index === 0 ? 'last faults' : '', 'uneasy', line]);
  return [
    ['devices', offline > 0 ? 'bad' : 'good', counts],
    ...(attention > 0
      ? [['', 'uneasy', `${attention} need attention: fieldpost-cloud devices --attention`] as const]
      : []),
    ['people', people.untold > 0 ? 'uneasy' : 'good', `${known} in address books${untold}`],
    ...stateLines(
      { ...(relay && { relay }), ...(queue && { queue }), ...(storage && { storage }) },
      full,
      true,
    ),
    ['store', 'good', store],
    ...(settings === null
      ? []
      : [['settings', 'bad', `refused: ${settings.reason} (the last good ones are used)`] as const]),
    ...(logged.length === 0 ? [['last faults', 'good', 'none since the start'] as const] : logged),
  ];
}
