/**
 * `fieldpost purge`: overwrites the content of finished messages on the disk.
 */

import { EXIT } from '../base/errors.js';
import { HOUR_MS } from '../base/limits.js';
import { connect } from './client.js';
import type { Command } from './command.js';
import { noMore } from './verbs.js';
import { json } from './words.js';

/** Overwriting a whole slow disk takes long. */
const ANSWER_MS = HOUR_MS;

export const purge: Command = {
  name: 'purge',
  group: 'Service',
  summary: 'overwrite the content of finished messages on the disk',
  help: `fieldpost purge [--damaged] [--json]

Overwrites the content of finished messages in the state directory: those that
were sent, cancelled or replaced, have expired, or have failed and lost their
content. Waiting messages stay, and so do failed messages that can be retried:
fieldpost queue cancel deletes their content. --damaged also deletes the copies
of damaged data (damaged/). It takes a while if many messages wait. Status,
destination and last reply of the latest finished messages stay.

Exit status: 0 done, 69 no daemon answers, 75 the disk failed: some content may
be left, run it again.`,
  examples: [['fieldpost purge', 'leave no content of sent mails on the disk']],
  options: { damaged: { type: 'boolean' }, json: { type: 'boolean' } },
  takesWords: true,
  asksService: true,
  async run(input, context) {
    noMore(input.words);
    const query = input.options.damaged === true ? '?damaged=true' : '';
    const call = connect(context);
    await call('POST', `/api/internal/queue/purge${query}`, { answerMs: ANSWER_MS });
    const done = 'The content of finished messages is overwritten.\n';
    context.stdout.write(input.options.json === true ? json({ done: 'purge' }) : done);
    return EXIT.ok;
  },
};
