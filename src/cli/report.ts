/**
 * `fieldpost report`: all that a support desk asks for, in one text, without secrets and without who writes to whom.
 */
import { parseConfig } from '../base/config/config.js';
import { EXIT, systemCodeOf, wordsOf } from '../base/errors.js';
import { isoOf } from '../base/instant.js';
import { visible } from '../base/text.js';
import { type Call, connect } from './client.js';
import { type Command, type CommandContext, CommandError, type CommandInput, textOption } from './command.js';
import { hasOwnSettings, lenientEnvironment, serviceEnvironment, withEnvFile } from './environment.js';
import { journalLines, machineLines, storageLines } from './report/device.js';
import { messageLines, namesOf, stateSection } from './report/of-daemon.js';
import { findingLines, privateTexts, settingLines, standInsFor } from './report/of-settings.js';

export const report: Command = {
  name: 'report',
  summary: 'write all that a support desk asks for, without secrets',
  help: `fieldpost report [--out FILE] [--env-file FILE]

Prints one text for a support desk: versions, machine, settings in effect and
their faults, state, queue, the latest failed attempts, files of the state
directory, and the last 200 lines of the journal. It works without a running
daemon, with settings that have a fault, and without root; then it says what it
could not read. Read it before you send it.

It shows no secret, no content, subject or name, and no user. Each address,
phone number and host of somebody else becomes a stand-in, such as address1,
which is the same wherever it stands. The hosts of the settings (relay, cloud,
proxy) and the device's id are shown. Of a reply it shows the codes, and only
words that are usual in replies.

  --out FILE   writes it into a new file that only you can read

Exit status: 0 the report is written, 73 FILE is there already or cannot be
made.`,
  options: { out: { type: 'string' } },
  asksService: true,
  readsEnvFile: true,
  async run(input, context) {
    const text = await reportOf(input, context);
    const out = textOption(input, 'out');
    if (out === null) {
      context.stdout.write(text);
      return EXIT.ok;
    }
    try {
      await context.writeNew(out, text);
    } catch (error) {
      const isThere = systemCodeOf(error) === 'EEXIST';
      const words = isThere ? `${out} is there already` : `${out} cannot be made: ${wordsOf(error)}`;
      throw new CommandError(EXIT.cantCreate, words, isThere ? 'A report replaces no file.' : '');
    }
    context.stderr.write(`The report is in ${visible(out)}. Read it before you send it.\n`);
    return EXIT.ok;
  },
};

async function reportOf(input: CommandInput, given: CommandContext): Promise<string> {
  const notes: string[] = [];
  const { env, ofService } = settingsFor(input, given, notes);
  const context: CommandContext = { ...given, env, ofService };
  const parsed = parseConfig(env, context.read, context);
  const standIns = standInsFor(parsed, env);
  standIns.learn(privateTexts(parsed, env, context.read));
  const call = await reachable(env, context);
  if ('config' in parsed && parsed.config.from !== null) standIns.learnNames([parsed.config.from.name]);
  if (typeof call !== 'string') standIns.learnPeople(await namesOf(call, standIns));
  const hidden = (lines: readonly string[]) => lines.map((line) => standIns.text(line));
  const away = typeof call === 'string' ? hidden([call]) : null;
  const sections: [title: string, lines: readonly string[]][] = [
    ['device', machineLines(context)],
    ['settings', [...hidden(notes), ...settingLines(parsed, context, standIns)]],
    ['findings of check', hidden(await findingLines(parsed, context))],
    ['state', away ?? (await stateSection(call as Call, standIns))],
    ['latest attempts without success', away ?? (await messageLines(call as Call, standIns))],
    ['files of the state directory', await storageLines(env, context, standIns)],
    ['journal', await journalLines(context, standIns)],
  ];
  const head = `Fieldpost report of ${isoOf(context.clock.wallMs())}`;
  const texts = sections.map(([title, lines]) => {
    const shown = lines.map((line) => `  ${line}`.trimEnd());
    return `${title}\n${shown.join('\n')}`;
  });
  return `${visible([head, ...texts].join('\n\n'), '\n')}\n`;
}

/** The settings as any command finds them; a file that cannot be used is a note. */
function settingsFor(input: CommandInput, context: CommandContext, notes: string[]) {
  const file = textOption(input, 'env-file');
  const stderr = {
    write: (text: string) => void notes.push(text.trim().replace(/^fieldpost: /, '')),
    isTTY: false,
  };
  const ofService = file === null && !hasOwnSettings(context.env);
  try {
    const env = file === null ? serviceEnvironment({ ...context, stderr }) : withEnvFile(file, context);
    return { env, ofService };
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    notes.push(...error.message.split('\n'));
    return { env: lenientEnvironment(file, context), ofService };
  }
}

/** A function that calls the daemon, or why there is none, in a sentence. */
async function reachable(env: CommandContext['env'], context: CommandContext): Promise<Call | string> {
  try {
    const call = connect(env, context);
    await call('GET', '/api/internal/state');
    return call;
  } catch (error) {
    if (error instanceof CommandError) return `(not known: ${error.message.replaceAll('\n', '; ')})`;
    throw error;
  }
}
