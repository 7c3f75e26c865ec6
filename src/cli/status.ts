/**
 * `fieldpost status`: shows the state of the daemon in a few lines.
 */
import { EXIT } from '../base/errors.js';
import { type DaemonState, headline, stateLines } from '../base/state-lines.js';
import type { Output } from '../base/system/process.js';
import { span, visible } from '../base/text.js';
import { connect } from './client.js';
import type { Command } from './command.js';
import { json, LOCAL, painter, terms, timesFor, widthOf, wrapped } from './words.js';

export const status: Command = {
  name: 'status',
  group: 'Every day',
  summary: 'show the state of the daemon',
  help: `fieldpost status [--local] [--env-file FILE] [--json]

Shows the state of the running daemon: relay, queue, cloud link, destinations,
storage, clock, settings. --local: times in the time zone of this device, not in
UTC. --json prints the daemon's answer unchanged.

Exit status: 0 the daemon accepts messages (a missing network is no error), 75
it does not, because its queue is full or its storage fails, 69 no daemon
answers.`,
  examples: [
    ['fieldpost status', 'is all well, and what waits?'],
    ['fieldpost status --json | jq .relay', 'the state of the relay, for a script'],
  ],
  options: { json: { type: 'boolean' }, ...LOCAL },
  asksService: true,
  async run(input, context) {
    const { body } = await connect(context)('GET', '/api/internal/state');
    const state = (body ?? {}) as DaemonState;
    if (input.options.json === true) context.stdout.write(json(body));
    else print(state, timesFor(input).full, painter(context.stdout, context.env), context.stdout);
    const accepts = (state.storage?.state ?? 'ok') === 'ok' && state.queue?.full !== true;
    return accepts ? EXIT.ok : EXIT.tempFail;
  },
};

function print(
  state: DaemonState,
  time: (iso: string) => string,
  paint: ReturnType<typeof painter>,
  out: Output,
): void {
  const cells = widthOf(out);
  const said = headline(state, time);
  const start = `Fieldpost ${visible(state.version ?? '')}, up ${span(state.uptimeMs ?? 0)}`;
  const first = wrapped(`${start}${said === null ? '' : `: ${visible(said[1])}`}`, cells);
  const shown = first.map((line, index) => {
    const at = index === 0 ? start.length + 2 : 0;
    return said === null ? line : `${line.slice(0, at)}${paint(said[0], line.slice(at))}`;
  });
  const lines = stateLines(state, time);
  const below = terms(
    lines.map(([topic, , words]) => [topic, words]),
    cells,
    (line, row) => paint(lines[row]?.[1] ?? 'good', line),
  );
  out.write(`${[...shown, ...below].join('\n')}\n`);
}
