/**
 * `fieldpost report`: all that a support desk asks for, in one text, without secrets and without who writes to whom.
 */
import { join } from 'node:path';
import { namedStateDirectory, type Parsed } from '../base/config/settings.js';
import type { Environment, ReadText } from '../base/config/types.js';
import { EXIT, systemCodeOf, wordsOf } from '../base/errors.js';
import { LIST_LIMIT_MAX } from '../base/limits.js';
import { type DaemonState, headline, stateLines } from '../base/state-lines.js';
import { bytesInWords, counted, isoOf, span, visible } from '../base/text.js';
import type { Destination } from '../mail/book/destination.js';
import { CLOUD } from '../mail/settings.js';
import { allWarnings } from '../mail/settings-rules.js';
import { type Call, connect } from './client.js';
import {
  type ClientConfig,
  type Command,
  type CommandContext,
  CommandError,
  type CommandInput,
  textOption,
} from './command.js';
import { lenientEnvironment, serviceEnvironment, withEnvFile } from './environment.js';
import type { ShownMessage } from './queue.js';
import { HIDDEN, StandIns } from './stand-ins.js';
import { columns, moment, typeName, utc } from './words.js';

const JOURNAL_LINES = 200;
/** Of a directory with more files only their number and size are told. */
const FILES_SHOWN_MAX = 20;
const LINKS_SHOWN = 20;
const ATTEMPTS_SHOWN = 20;
const SUBJECT_CHARS_MIN = 8;
/** Settings whose values name a person, an account or this device. */
const PRIVATE_KEYS: readonly string[] = [
  'FIELDPOST_RELAY_USER',
  'FIELDPOST_RELAY_OAUTH_CLIENT_ID',
  'FIELDPOST_FROM',
  'FIELDPOST_FROM_ALLOWED',
  'FIELDPOST_LOCAL_MAIL',
  'FIELDPOST_HELO_NAME',
  'FIELDPOST_ALLOWED_HOSTS',
];

/** Those that a relay may repeat, or a log line. */
const ACCOUNT_KEYS: readonly string[] = ['FIELDPOST_RELAY_USER', 'FIELDPOST_RELAY_OAUTH_CLIENT_ID'];

export const report: Command = {
  name: 'report',
  group: 'Looking closer',
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
  examples: [
    ['fieldpost report | less', 'read it first'],
    ['sudo fieldpost report --out report.txt', 'all of it in a file, for the support desk'],
  ],
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
  const env = settingsFor(input, given, notes);
  const context: CommandContext = { ...given, env };
  const parsed = context.settings.parse(env, context.read, context);
  const standIns = standInsFor(parsed, env);
  standIns.learn(privateTexts(parsed, context));
  const call = await reachable(context);
  if ('config' in parsed && parsed.config.from !== null) standIns.learnNames([parsed.config.from.name]);
  const messages = typeof call === 'string' ? [] : await latest(call);
  if (typeof call !== 'string') standIns.learnPeople(await namesOf(call, messages, standIns));
  const hidden = (lines: readonly string[]) => lines.map((line) => standIns.text(line));
  const away = typeof call === 'string' ? hidden([call]) : null;
  const sections: [title: string, lines: readonly string[]][] = [
    ['device', machineLines(context)],
    ['settings', [...hidden(notes), ...settingLines(parsed, context, standIns)]],
    ['findings of check', hidden(await findingLines(parsed, context))],
    ['state', away ?? (await stateSection(call as Call, standIns))],
    ['latest attempts without success', away ?? messageLines(messages, standIns)],
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
function settingsFor(input: CommandInput, context: CommandContext, notes: string[]): Environment {
  const file = textOption(input, 'env-file');
  const stderr = {
    write: (text: string) => void notes.push(text.trim().replace(/^fieldpost: /, '')),
    isTTY: false,
  };
  try {
    return (file === null ? serviceEnvironment({ ...context, stderr }) : withEnvFile(file, context)).env;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    notes.push(...error.message.split('\n'));
    return lenientEnvironment(file, context);
  }
}

/** A function that calls the daemon, or why there is none, in a sentence. */
async function reachable(context: CommandContext): Promise<Call | string> {
  try {
    const call = connect(context);
    await call('GET', '/api/internal/state');
    return call;
  } catch (error) {
    if (error instanceof CommandError) return `(not known: ${error.message.replaceAll('\n', '; ')})`;
    throw error;
  }
}

/** Versions, memory, and who makes the report. */
function machineLines({ version, machine, clock }: CommandContext): string[] {
  const { node, os, kernel, arch, cores, memoryBytes, freeMemoryBytes, uptimeMs, uid } = machine();
  return columns([
    ['Fieldpost', version],
    ['Node.js', node],
    ['system', `${os}; Linux ${kernel}, ${arch}`],
    ['processors', String(cores)],
    ['memory', `${bytesInWords(memoryBytes)}, ${bytesInWords(freeMemoryBytes)} free`],
    ['up', span(uptimeMs)],
    ['time', `${isoOf(clock.wallMs())} (of this device's clock)`],
    ['user', uid === 0 ? 'root' : 'not root'],
  ]);
}

/** The sizes of what the store keeps; no name that somebody else has chosen. */
async function storageLines(
  env: Environment,
  { disk }: CommandContext,
  standIns: StandIns,
): Promise<string[]> {
  const directory = namedStateDirectory(env);
  const space = await disk.space(directory).then(
    ({ freeBytes, sizeBytes, freeInodes }) =>
      `${bytesInWords(freeBytes)} of ${bytesInWords(sizeBytes)} free, ${freeInodes === Number.POSITIVE_INFINITY ? 'inodes not counted' : `${counted(freeInodes, 'inode')} free`}`,
    (error) => standIns.text(`(free space not known: ${wordsOf(error)})`),
  );
  const files = await filesIn(directory, '', disk, standIns);
  return [`${standIns.text(directory)}: ${space}`, ...files];
}

async function filesIn(
  directory: string,
  prefix: string,
  disk: CommandContext['disk'],
  standIns: StandIns,
): Promise<string[]> {
  let names: readonly string[];
  try {
    names = await disk.list(directory);
  } catch (error) {
    return [standIns.text(`(${prefix || 'the directory'} cannot be read: ${wordsOf(error)})`)];
  }
  const rows: string[][] = [];
  const below: string[] = [];
  let bytes = 0;
  for (const name of names) {
    const found = await disk.look(join(directory, name)).catch(() => null);
    if (found === null) continue;
    if (found.kind === 'directory' && prefix === '')
      below.push(...(await filesIn(join(directory, name), `${shownName(name)}/`, disk, standIns)));
    bytes += found.kind === 'file' ? found.bytes : 0;
    if (found.kind === 'file') rows.push([`${prefix}${shownName(name)}`, bytesInWords(found.bytes)]);
  }
  const total = `${prefix === '' ? 'files' : prefix} ${counted(rows.length, 'file')}, ${bytesInWords(bytes)}`;
  return [...(rows.length > FILES_SHOWN_MAX ? [total] : columns(rows)), ...below];
}

/** The name of a file of the store; any other may be a person's, or a mail's. */
function shownName(name: string): string {
  return /^(?:lock|synced|(?:store|settings|relay-token)\.json|[0-9a-f]+|\d+\.log|journal|spool|damaged|cloud|mail)(?:\.(?:new|newer|damaged|old))*$/.test(
    name,
  )
    ? name
    : '(another name)';
}

/** The last lines of the service's journal, or why there are none. */
async function journalLines({ outputOf }: CommandContext, standIns: StandIns): Promise<string[]> {
  const args = `-u fieldpost -n ${JOURNAL_LINES} --no-pager --no-hostname -o short-iso`.split(' ');
  try {
    const lines = (await outputOf('journalctl', args)).trimEnd().split('\n');
    return lines.map((line) => standIns.line(line));
  } catch (error) {
    return [`(skipped: ${standIns.text(wordsOf(error).replaceAll('\n', '; '))})`];
  }
}

/** The stand-ins of a report with these settings: it may show the hosts that they name, and the device's id. */
function standInsFor(parsed: Parsed<ClientConfig>, env: Environment): StandIns {
  if ('problems' in parsed) {
    const isBad = parsed.problems.some(({ key }) => key === 'FIELDPOST_DEVICE_ID');
    const id = isBad ? '' : env.FIELDPOST_DEVICE_ID?.trim();
    return new StandIns(hostsIn(env.FIELDPOST_RELAY ?? ''), id);
  }
  const { relays, cloud, cloudProxy, relayTokenUrl } = parsed.config;
  const urls = [cloud?.url, relayTokenUrl].flatMap((url) => (url ? hostsIn(url) : []));
  const proxy = cloudProxy === null || cloudProxy === 'none' ? [] : [cloudProxy.host];
  return new StandIns(
    [...relays.flatMap((relay) => (relay === CLOUD ? [] : [relay.host])), ...urls, ...proxy],
    parsed.config.deviceId ?? '',
  );
}

/** The hosts of the URLs in a text that may have a fault. */
function hostsIn(text: string): string[] {
  return entriesOf(text).flatMap((url) => (URL.canParse(url) ? [new URL(url).hostname] : []));
}

function entriesOf(list: string): string[] {
  return list.split(',').map((entry) => entry.trim());
}

/** Every secret in the settings and the files that they name: a text of somebody else may repeat it. */
function privateTexts(parsed: Parsed<ClientConfig>, { env, read, settings }: CommandContext): string[] {
  const faulty = new Set('problems' in parsed ? parsed.problems.map(({ key }) => key) : []);
  const secrets = Object.entries(env).flatMap(([key, value = '']) => {
    if (!key.startsWith('FIELDPOST_')) return /^(?:https?|no|all)_proxy$/i.test(key) ? loginsIn(value) : [];
    // A fault may quote the value, and an unknown key may be a mistyped one of a secret.
    if (faulty.has(key)) return [value, ...entriesOf(value)];
    const isHidden = settings.secretByKey.get(key) ?? true;
    if ((isHidden || ACCOUNT_KEYS.includes(key)) && !key.endsWith('_FILE')) return [value];
    return loginsIn(value);
  });
  const files = [
    `${namedStateDirectory(env)}/relay-token.json`,
    env.FIELDPOST_RELAY_TOKEN_FILE,
    ...settings.rows.flatMap(([, { key, credential, isSecret }]) => [
      isSecret ? env[credential === null ? key : `${key}_FILE`] : undefined,
      credential !== null && env.CREDENTIALS_DIRECTORY
        ? `${env.CREDENTIALS_DIRECTORY}/${credential}`
        : undefined,
    ]),
  ];
  const all = [...secrets, ...files.flatMap((path) => contentOf(path, read))].map((text) => text.trim());
  // The name of an account, perhaps, but also that of this program.
  return all.filter((text) => text !== 'fieldpost');
}

/** User and password of each URL in a text. */
function loginsIn(text: string): string[] {
  return [...text.matchAll(/\/\/([^/\s]*)@/g)].flatMap(([, login = '']) => {
    const parts = [login, ...login.split(':')];
    return parts.flatMap((part) => [part, decoded(part)]);
  });
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function contentOf(path: string | undefined, read: ReadText): string[] {
  if (path === undefined || path === '') return [];
  try {
    const text = read(path);
    // Of a URL the host may be shown.
    if (/^http:\/\//i.test(text)) return [text, ...loginsIn(text)];
    return [text, ...(text.match(/[A-Za-z0-9+/._~=-]{8,}/g) ?? [])];
  } catch {
    // Who cannot read it cannot show it.
    return [];
  }
}

/** Each setting with its effective value; of settings with a fault only their names. */
function settingLines(
  parsed: Parsed<ClientConfig>,
  { env, hostname, settings }: CommandContext,
  standIns: StandIns,
): string[] {
  if ('problems' in parsed) {
    const set = Object.keys(env).filter((key) => settings.secretByKey.has(key) && env[key]?.trim());
    return [`(not in effect: see the findings) set: ${set.sort().join(', ') || 'nothing'}`];
  }
  return Object.entries(settings.describe(parsed.config, hostname)).map(([key, value]) => {
    if (value === '') return `${key}=`;
    if (key === 'FIELDPOST_FROM')
      return `${key}=${parsed.config.from === null ? '(of the host name)' : HIDDEN}`;
    return `${key}=${PRIVATE_KEYS.includes(key) ? HIDDEN : standIns.text(value)}`;
  });
}

/** What `fieldpost check` finds: problems, or warnings. No value is shown, and not what is allowed. */
async function findingLines(
  parsed: Parsed<ClientConfig>,
  { fileSystemBytes, hostname, settings }: CommandContext,
): Promise<string[]> {
  if ('problems' in parsed) {
    return parsed.problems.map(({ key, detail }) => {
      const name = settings.secretByKey.has(key) ? key : 'an unknown setting';
      return `${name}: ${detail.replace(/ \(allowed: .*$/s, '')}`;
    });
  }
  const all = [...allWarnings(parsed, hostname, await fileSystemBytes(parsed.config.stateDir))];
  return all.length === 0 ? ['none'] : all;
}

/** The names in the address book. `standIns` learns who gets messages. */
async function namesOf(call: Call, messages: readonly ShownMessage[], standIns: StandIns): Promise<string[]> {
  const book = await bodyOf<Destination[]>(call, '/api/internal/offline_notification_destinations');
  standIns.learnRecipients([...(book ?? []), ...messages].map(({ destination }) => destination));
  // A short one is an ordinary word.
  standIns.learn(
    messages.flatMap(({ subject }) => (subject && subject.length >= SUBJECT_CHARS_MIN ? subject : [])),
  );
  return (book ?? []).map(({ name }) => name);
}

/** The state, as `fieldpost status` shows it, and the latest states of the link. */
async function stateSection(call: Call, standIns: StandIns): Promise<string[]> {
  const state = await bodyOf<DaemonState>(call, '/api/internal/state');
  if (state === null) return ['(the daemon does not tell it)'];
  const rows = stateLines(state, utc).map(([topic, , words]) => [topic, standIns.text(words)]);
  const said = headline(state, utc);
  const history = (state.link?.history ?? [])
    .slice(0, LINKS_SHOWN)
    .map(({ since, state: was, durationMs, reason }) => [
      `${utc(since)} for ${span(durationMs)}`,
      was,
      standIns.text(reason ?? ''),
    ]);
  return [
    `version ${state.version ?? '(not told)'}, up ${span(state.uptimeMs ?? 0)}`,
    ...(said === null ? [] : [standIns.text(said[1])]),
    ...columns(rows),
    ...(history.length === 0 ? [] : ['earlier states of the link:', ...columns(history)]),
  ];
}

/** The messages whose last attempt was no success, the latest first: never their subjects. */
function messageLines(messages: readonly ShownMessage[], standIns: StandIns): string[] {
  const bad = messages.filter(({ status, lastReply }) => lastReply !== null && status !== 'sent');
  const shown = bad.slice(0, ATTEMPTS_SHOWN);
  const rows = shown.map(({ id, type, status, acceptedAt, attempts, destination, lastReply }) => [
    id,
    typeName(type),
    moment(acceptedAt),
    status,
    counted(attempts, 'attempt'),
    standIns.recipient(destination),
    standIns.reply(lastReply ?? ''),
  ]);
  return rows.length === 0 ? ['none'] : columns(rows);
}

async function latest(call: Call): Promise<readonly ShownMessage[]> {
  const path = `/api/internal/messages?limit=${LIST_LIMIT_MAX}`;
  return (await bodyOf<{ messages?: readonly ShownMessage[] }>(call, path))?.messages ?? [];
}

/** Null if the daemon refuses. */
async function bodyOf<T>(call: Call, path: string): Promise<T | null> {
  try {
    return (await call('GET', path)).body as T;
  } catch (error) {
    if (error instanceof CommandError) return null;
    throw error;
  }
}
