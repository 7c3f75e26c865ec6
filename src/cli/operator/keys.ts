/**
 * `fieldpost-cloud key` and `fieldpost-cloud remove`: which devices may call.
 */
import { EXIT } from '../../base/errors.js';
import { joiningSteps } from '../../base/fleet-lines.js';
import type { Command, OperatorContext } from '../command.js';
import { forEachId, idsIn } from '../verbs.js';
import { json } from '../words.js';
import { connectCloud, NO_ID, oneId, pathOf } from './client.js';

/** Stands in the steps for what the cloud does not know: the address that its proxy has. */
const CLOUD_URL = 'https://CLOUD';

export const key: Command<OperatorContext> = {
  name: 'key',
  group: '',
  summary: 'make a key for a device, which may be a new one',
  help: `fieldpost-cloud key ID [--json]

Makes a random key for a device, prints it, and says what to do with it on the
device. The key is shown only now. An earlier key that was made so stays valid
until the new one is first used; one that was never used is replaced. A line of
the device in FIELDPOST_CLOUD_SERVER_KEYS_FILE stays valid, too.

Exit status: 0 made, 65 this cannot be an id, or the cloud checks no keys, 69 no
cloud answers, 75 it cannot store the key now, or has too many devices, 77 it
refuses the operator's key.`,
  examples: [
    ['fieldpost-cloud key pump-4', 'add the device pump-4'],
    ['fieldpost-cloud key pump-4 --json | jq -r .key', 'only the key, for a script'],
  ],
  options: { json: { type: 'boolean' } },
  takesWords: true,
  asksService: true,
  async run({ words, options }, context) {
    const id = oneId(words);
    const made = (await connectCloud(context)('POST', `${pathOf(id)}/key`)).body as { readonly key: string };
    if (options.json === true) context.stdout.write(json(made));
    else {
      const steps = joiningSteps(CLOUD_URL, id).map(([step, text]) => `${step}\n\n${indented(text)}`);
      const all = [`The key of ${id}, which is shown only now:`, indented(made.key), ...steps];
      context.stdout.write(
        `${all.join('\n\n')}\n\n${CLOUD_URL} is the address at which devices reach this cloud.\n`,
      );
    }
    return EXIT.ok;
  },
};

function indented(text: string): string {
  return text.replace(/^/gm, '  ');
}

export const remove: Command<OperatorContext> = {
  name: 'remove',
  group: '',
  summary: 'forget devices, their address books and their keys',
  help: `fieldpost-cloud remove ID... [--json]

Forgets each device, its address book, and the keys that were made for it. A
device that has a line in FIELDPOST_CLOUD_SERVER_KEYS_FILE may call again, and
is known again then: remove its line, too.

Exit status: 0 removed, 65 there is no such device (the others are removed), 69
no cloud answers, 75 it cannot store that now, 77 it refuses the operator's key.`,
  examples: [['fieldpost-cloud remove pump-3', 'pump-3 is gone for good: tell nobody that it is offline']],
  options: { json: { type: 'boolean' } },
  takesWords: true,
  asksService: true,
  async run(input, context) {
    const ids = idsIn(input.words, NO_ID);
    const call = connectCloud(context);
    await forEachId(
      ids,
      'is removed',
      input,
      context,
      async (id) => void (await call('DELETE', `/devices/${id}`)),
    );
    return EXIT.ok;
  },
};
