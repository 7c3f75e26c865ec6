/**
 * What a report tells of the device without the daemon: machine, files, journal.
 */
import { join } from 'node:path';
import { namedStateDirectory } from '../../base/config/config.js';
import type { Environment } from '../../base/config/types.js';
import { wordsOf } from '../../base/errors.js';
import { bytesInWords, counted, span } from '../../base/sizes.js';
import type { CommandContext } from '../command.js';
import { columns } from '../words.js';
import type { StandIns } from './stand-ins.js';

const JOURNAL_LINES = 200;
/** Of a directory with more files only their number and size are told. */
const FILES_SHOWN_MAX = 20;

/** Versions, memory, and who makes the report. */
export function machineLines({ version, machine, clock }: CommandContext): string[] {
  const { node, os, kernel, arch, cores, memoryBytes, freeMemoryBytes, uptimeMs, uid } = machine();
  return columns([
    ['Fieldpost', version],
    ['Node.js', node],
    ['system', `${os}; Linux ${kernel}, ${arch}`],
    ['processors', String(cores)],
    ['memory', `${bytesInWords(memoryBytes)}, ${bytesInWords(freeMemoryBytes)} free`],
    ['up', span(uptimeMs)],
    ['time', `${new Date(clock.wallMs()).toISOString()} (of this device's clock)`],
    ['user', uid === 0 ? 'root' : 'not root'],
  ]);
}

/** The sizes of what the store keeps; no name that somebody else has chosen. */
export async function storageLines(
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
export async function journalLines({ outputOf }: CommandContext, standIns: StandIns): Promise<string[]> {
  const args = [
    '-u',
    'fieldpost',
    '-n',
    String(JOURNAL_LINES),
    '--no-pager',
    '--no-hostname',
    '-o',
    'short-iso',
  ];
  try {
    const lines = (await outputOf('journalctl', args)).trimEnd().split('\n');
    return lines.map((line) => standIns.line(line));
  } catch (error) {
    return [`(skipped: ${standIns.text(wordsOf(error).replaceAll('\n', '; '))})`];
  }
}
