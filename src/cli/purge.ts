/**
 * `fieldpost purge`: makes sure that nobody can read finished messages from the disk. Used by cli.ts.
 */
import { connect } from './client.js';
import { type Command, EXIT } from './command.js';
import { noMore } from './verbs.js';

export const purge: Command = {
  name: 'purge',
  summary: 'overwrite what the disk still holds of mails that are done with',
  help: `fieldpost purge [--damaged]

Overwrites what is left in the state directory of the text of messages that were sent, were cancelled, have expired, or
failed and had their content deleted. What waits is kept, and so is what is kept for a retry: fieldpost queue cancel
deletes that. --damaged: the copies of what could not be read (damaged/) go as well.
It takes a while where much waits. Status, destination and the relay's last reply of the messages last done with stay.

Exit status: 0 done, 69 no daemon answers, 75 the disk refuses: some may be left, run it again.`,
  options: { damaged: { type: 'boolean' } },
  takesWords: true,
  asksService: true,
  async run(input, context) {
    noMore(input.words);
    const query = input.options.damaged === true ? '?damaged=true' : '';
    await connect(context.env, context)('POST', `/api/internal/queue/purge${query}`, { isLong: true });
    context.stdout.write('What was done with is overwritten.\n');
    return EXIT.ok;
  },
};
