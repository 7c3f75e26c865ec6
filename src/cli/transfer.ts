/**
 * `fieldpost-cloud export` and `import`: a backup of the cloud's state, and its way to another store.
 */
import type { Environment } from '../base/config/types.js';
import { type ErrorCode, EXIT, FieldpostError } from '../base/errors.js';
import { counted, visible } from '../base/text.js';
import { type Command, CommandError, type ProgramContext, textOption } from './command.js';

/** How many records of each kind. */
interface Counts {
  readonly document: number;
  readonly keys: number;
  readonly presence: number;
}

/** The process and the outside, for a command of the cloud. */
export interface CloudContext extends ProgramContext {
  /** Exports the state of the store in these settings to a file; null: to standard output. Rejects with FieldpostError. */
  readonly exportState: (env: Environment, out: string | null) => Promise<Counts>;
  /** Imports a file into that store. Rejects with FieldpostError. */
  readonly importState: (env: Environment, path: string) => Promise<Counts>;
}

export const exportCommand: Command<CloudContext> = {
  name: 'export',
  group: '',
  summary: 'write the state of the cloud into a file, as a backup or for another store',
  help: `fieldpost-cloud export [--out FILE] [--env-file FILE]

Writes the documents, the digests of the keys that calls made, and the presence
of all devices, as lines of JSON. It reads the store that the settings name:
files, or etcd. The cloud may run meanwhile.

  --out FILE   writes FILE.new, which only this user can read, and then gives
               it the name FILE; without it, to standard output

Exit status: 0 the export is whole, 66 there is no state, 69 etcd cannot be
reached, 73 FILE is no regular file, 74 something cannot be read or written, 77
the files of the state belong to another user, 78 the settings of the store have
a fault.`,
  examples: [
    ['fieldpost-cloud export --out /var/backups/fieldpost-cloud', 'a backup, in place of the one before'],
  ],
  options: { out: { type: 'string' } },
  asksService: true,
  async run(input, { env, stderr, exportState }) {
    const counts = await orCommandError(exportState(env, textOption(input, 'out')));
    stderr.write(`Exported: ${inWords(counts)}.\n`);
    return EXIT.ok;
  },
};

export const importCommand: Command<CloudContext> = {
  name: 'import',
  group: '',
  summary: 'read an export into an empty store: a restore, or a move to another store',
  help: `fieldpost-cloud import FILE [--env-file FILE]

Reads a file of fieldpost-cloud export into the store that the settings name:
files, or etcd. The store must be empty, and no cloud may use it. It checks the
whole file before it writes anything. If it ends early, run it again with the
same file; until it has ended, no cloud starts over this store.

Exit status: 0 done, 65 the file is no whole export, 66 there is no such file,
69 etcd cannot be reached, 73 the store is not empty or too small, 74 it cannot
be written, 75 a cloud uses it, 77 its files belong to another user, 78 the
settings of the store have a fault.`,
  examples: [['sudo -u fieldpost-cloud fieldpost-cloud import backup', 'restore a backup']],
  options: {},
  takesWords: true,
  asksService: true,
  async run({ words }, { env, stdout, importState }) {
    const [path, ...rest] = words;
    if (path === undefined || rest.length > 0)
      throw new CommandError(EXIT.usage, 'import takes one file', 'fieldpost-cloud import --help');
    const counts = await orCommandError(importState(env, path));
    stdout.write(`Imported: ${inWords(counts)}. The cloud can be started.\n`);
    return EXIT.ok;
  },
};

function inWords({ document, keys, presence }: Counts): string {
  return `${counted(document, 'document')}, keys of ${counted(keys, 'device')}, presence of ${counted(presence, 'device')}`;
}

const EXIT_BY_CODE: Partial<Record<ErrorCode, number>> = {
  'bad-config': EXIT.config,
  invalid: EXIT.data,
  'not-found': EXIT.noInput,
  unavailable: EXIT.unavailable,
  conflict: EXIT.cantCreate,
  'too-large': EXIT.cantCreate,
  'already-running': EXIT.tempFail,
  forbidden: EXIT.noPermission,
};

async function orCommandError<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof FieldpostError)) throw error;
    const { code, message, hint } = error;
    throw new CommandError(EXIT_BY_CODE[code] ?? EXIT.inputOutput, visible(message, '\n'), hint);
  }
}
