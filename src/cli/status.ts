/**
 * `fieldpost status`: shows the state of the daemon in a few lines.
 */
import { EXIT } from '../base/errors.js';
import { type DaemonState, headline, stateLines } from '../base/state-lines.js';
import type { Output } from '../base/system/process.js';
import { span, visible } from '../base/text.js';
import { connect } from './client.js';
import type { Command } from './command.js';
import { columns, json, painter, utc } from './words.js';

export const status: Command = {
  name: 'status',
  group: 'Every day',
  summary: 'show the state of the daemon',
  help: `fieldpost status [--env-file FILE] [--json]

Shows the state of the running daemon: relay, queue, cloud link, destinations,
storage, clock, settings. --json prints the daemon's answer unchanged.

Exit status: 0 the daemon accepts messages (a missing network is no error), 75
it does not, because its queue is full or its storage fails, 69 no daemon
answers.`,
  examples: [
    ['fieldpost status', 'is all well, and what waits?'],
    ['fieldpost status --json | jq .relay', 'the state of the relay, for a script'],
  ],
  options: { json: { type: 'boolean' } },
  asksService: true,
  async run(input, context) {
    const { body } = await connect(context)('GET', '/api/internal/state');
    const state = (body ?? {}) as DaemonState;
    if (input.options.json === true) context.stdout.write(json(body));
    else print(state, painter(context.stdout, context.env), context.stdout);
    const accepts = (state.storage?.state ?? 'ok') === 'ok' && state.queue?.full !== true;
    return accepts ? EXIT.ok : EXIT.tempFail;
  },
};

function print(state: DaemonState, paint: ReturnType<typeof painter>, out: Output): void {
  const said = headline(state, utc);
  const first = said === null ? '' : `: ${paint(said[0], visible(said[1]))}`;
  out.write(`Fieldpost ${visible(state.version ?? '')}, up ${span(state.uptimeMs ?? 0)}${first}\n`);
  const lines = stateLines(state, utc);
  const heads = columns(lines.map(([topic]) => [topic, '|']));
  lines.forEach(([, mood, words], index) => {
    out.write(`${heads[index]?.slice(0, -1)}${paint(mood, visible(words))}\n`);
  });
}
