/**
 * `fieldpost quiet`: for a while nobody is told that this device is offline.
 */
import { duration } from '../base/config/values.js';
import { EXIT, wordsOf } from '../base/errors.js';
import { SECOND_MS } from '../base/limits.js';
import { visible } from '../base/text.js';
import { connect } from './client.js';
import { type Command, CommandError, type CommandInput, textOption } from './command.js';
import { noMore } from './verbs.js';
import { json, LOCAL, timesFor } from './words.js';

const PATH = '/api/internal/quiet';
const LENGTH = duration('1s', '7d');

/** What the daemon answers. `reason`: why the cloud does not know it yet; left out: nobody has tried just now. */
interface Shown {
  readonly until: string | null;
  readonly why: string | null;
  readonly by: string | null;
  readonly known_to_cloud: boolean;
  readonly reason?: string | null;
}

export const quiet: Command = {
  name: 'quiet',
  group: 'Every day',
  summary: 'tell nobody for a while that this device is offline',
  help: `fieldpost quiet [--local] [--json]
fieldpost quiet DURATION [--why TEXT] [--local] [--json]
fieldpost quiet off [--local] [--json]

Before you work at the device: for DURATION, such as 30m or 2h and at most 7d,
nobody is told that it is offline. It outlasts restarts and the battery. A
device that is still silent at the end is reported then. --why: the reason, up
to 120 characters; people read it. Without DURATION: is this device quiet, and
until when?

  off        ends it; also one that the operator of the cloud has begun

--local: times in the time zone of this device, not in UTC.

Exit status: 0 done, and the cloud knows it; 65 refused, or no cloud is
configured; 69 no daemon answers; 75 the cloud does not know it yet: it is told
as soon as the link is back, so wait with the work until then.`,
  examples: [
    ['fieldpost quiet 2h --why "battery swap"', 'work at the device without an alarm'],
    ['fieldpost quiet', 'is this device quiet?'],
    ['fieldpost quiet off', 'the work is done'],
  ],
  options: { why: { type: 'string' }, json: { type: 'boolean' }, ...LOCAL },
  verbs: ['off'],
  takesWords: true,
  asksService: true,
  async run(input, context) {
    const [word, ...more] = input.words;
    noMore(more);
    const why = textOption(input, 'why');
    if (why !== null && (word === undefined || word === 'off'))
      throw new CommandError(EXIT.usage, '--why needs a duration: fieldpost quiet 2h --why TEXT');
    const request = requestOf(word, why);
    const { body } = await connect(context)(...request);
    const shown = body as Shown;
    const isAsked = word === undefined;
    if (input.options.json === true) context.stdout.write(json(shown));
    else context.stdout.write(`${wordsFor(shown, isAsked, input)}\n`);
    return isAsked || shown.known_to_cloud ? EXIT.ok : EXIT.tempFail;
  },
};

function requestOf(word: string | undefined, why: string | null): [string, string, { json?: unknown }] {
  if (word === undefined) return ['GET', PATH, {}];
  if (word === 'off') return ['DELETE', PATH, {}];
  try {
    const forS = Math.ceil(LENGTH.parse(word) / SECOND_MS);
    return ['PUT', PATH, { json: { for_s: forS, ...(why !== null && { why }) } }];
  } catch (error) {
    const words = `fieldpost quiet ${word}: ${wordsOf(error)}; it takes off, or ${LENGTH.allowed}`;
    throw new CommandError(EXIT.usage, words, 'fieldpost quiet --help');
  }
}

function wordsFor(shown: Shown, isAsked: boolean, input: CommandInput): string {
  const { until, why, by, known_to_cloud: isKnown, reason } = shown;
  const time = timesFor(input).full;
  const because = why === null ? '' : `: ${visible(why)}`;
  const who = isAsked && by !== null ? `, begun by ${visible(by)}` : '';
  const what =
    until === null
      ? `This device is ${isAsked ? 'not quiet' : 'no longer quiet'}`
      : `Quiet until ${time(until)}${because}${who}`;
  if (isKnown) return `${what}.`;
  const cause = reason ? `: ${visible(reason)}` : '';
  return `${what}.\nThe cloud does not know that yet${cause}. It is told as soon as the link is back.`;
}
