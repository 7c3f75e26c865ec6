/**
 * `fieldpost-cloud quiet` and `fieldpost-cloud drill`: for a while tell nobody of a device, and try whether people would be
 * told.
 */
import { duration } from '../../base/config/values.js';
import { EXIT, wordsOf } from '../../base/errors.js';
import type { FleetDevice } from '../../base/fleet-lines.js';
import { visible } from '../../base/text.js';
import type { Call } from '../client.js';
import { type Command, CommandError, type OperatorContext, textOption } from '../command.js';
import { noMore } from '../verbs.js';
import { json, LOCAL, timesFor } from '../words.js';
import { connectCloud, NO_ID, oneId, pathOf } from './client.js';

const LENGTH = duration('1s', '7d');

export const quiet: Command<OperatorContext> = {
  name: 'quiet',
  group: '',
  summary: 'for a while tell nobody that a device is offline',
  help: `fieldpost-cloud quiet ID [DURATION | off] [--why TEXT] [--local] [--json]

For DURATION, such as 30m or 2h and at most 7d, nobody is told that the device
is offline. One that is still silent at the end is reported then. People hear
of it once. off: it ends now. Without both: is it quiet, and until when? --why:
the reason, up to 120 characters; people read it. --local: times in the time
zone of this machine, not in UTC.

Exit status: 0 done, 65 there is no such device, or it has never called, 69 no
cloud answers, 75 it cannot store that now, 77 it refuses the operator's key.`,
  examples: [
    ['fieldpost-cloud quiet pump-3 2h --why "battery swap"', 'somebody works at pump-3'],
    ['fieldpost-cloud quiet pump-3 off', 'the work is done'],
  ],
  options: { why: { type: 'string' }, json: { type: 'boolean' }, ...LOCAL },
  takesWords: true,
  asksService: true,
  async run(input, context) {
    const [id = '', word, ...more] = input.words;
    if (id === '') throw new CommandError(EXIT.usage, NO_ID);
    noMore(more);
    const why = textOption(input, 'why');
    const forMs = word === undefined ? null : lengthOf(word);
    if (why !== null && !forMs) throw new CommandError(EXIT.usage, '--why needs a duration');
    const call = connectCloud(context);
    if (forMs !== null) {
      await find(id, call);
      await call('PUT', `${pathOf(id)}/quiet`, { json: { quietMs: forMs, ...(why && { why }) } });
    }
    const { quiet: shown } = (await call('GET', pathOf(id))).body as Pick<FleetDevice, 'quiet'>;
    if (input.options.json === true) context.stdout.write(json(shown ?? { until: null, why: null }));
    else context.stdout.write(`${visible(id)} ${quietWords(shown, timesFor(input).full)}\n`);
    return EXIT.ok;
  },
};

/** Throws CallError (65) if there is no such device: a change of it would be refused as one with a wrong key. */
async function find(id: string, call: Call): Promise<void> {
  await call('GET', pathOf(id));
}

/** `is quiet until …: battery swap`, or that it is not. */
function quietWords(shown: FleetDevice['quiet'], full: (iso: string) => string): string {
  if (shown === null) return 'is not quiet: people are told of it';
  const why = shown.why === null ? '' : `: ${visible(shown.why)}`;
  return `is quiet until ${full(shown.until)}${why}`;
}

/** In ms; `off` is 0. Throws CommandError (64). */
function lengthOf(word: string): number {
  if (word === 'off') return 0;
  try {
    return LENGTH.parse(word);
  } catch (error) {
    throw new CommandError(EXIT.usage, `${word}: ${wordsOf(error)}; allowed: off, or ${LENGTH.allowed}`);
  }
}

export const drill: Command<OperatorContext> = {
  name: 'drill',
  group: '',
  summary: 'send the people of a device a test message',
  help: `fieldpost-cloud drill ID [--json]

Sends everybody in the address book of the device a test message, by the way by
which they would hear of an outage. Behind the link in it is a page with a
button; fieldpost-cloud device ID shows who has pressed it, and when. The link
needs FIELDPOST_CLOUD_SERVER_PUBLIC_URL.

Exit status: 0 sent, 65 there is no such device, it has never called, or nobody
would be told, 69 no cloud answers, 75 it cannot store that now, 77 it refuses
the operator's key.`,
  examples: [['fieldpost-cloud drill pump-3', 'would its people be told?']],
  options: { json: { type: 'boolean' } },
  takesWords: true,
  asksService: true,
  async run(input, context) {
    const id = oneId(input.words);
    const call = connectCloud(context);
    await find(id, call);
    const { body } = await call('POST', `${pathOf(id)}/drill`, { json: {} });
    const { people } = body as { readonly people: number };
    if (input.options.json === true) context.stdout.write(json(body));
    else if (people > 0)
      context.stdout.write(
        `A test message is on its way to ${people === 1 ? '1 person' : `${people} people`}.\n`,
      );
    if (people > 0) return EXIT.ok;
    throw new CommandError(
      EXIT.data,
      `nobody would be told of ${id}`,
      'Its address book names nobody whom this cloud can reach.',
    );
  },
};
