/**
 * The cloud's state in files of one machine, below `cloud/` in the state directory.
 */
import { dirname, join } from 'node:path';
import { FieldpostError } from '../../base/errors.js';
import type { Disk } from '../../base/system/disk.js';
import type { ShortDraft } from '../../mail/message/message.js';
import { syncAbove } from '../../mail/store/disk-error.js';
import type { Accepted, KeyedContent } from '../../mail/store/store.js';
import type { FleetOptions, FleetStore, Office } from '../fleet-store.js';
import { NewsDesk } from '../news.js';
import { Watch, type Watched } from '../watch.js';
import { Documents } from './documents.js';
import { FileKeys } from './keys.js';
import { FileLedger } from './ledger.js';

/** What the files' store needs. */
export interface FileFleetOptions extends FleetOptions {
  readonly disk: Disk;
  /** Its parent is the state directory. */
  readonly directory: string;
  /** Messages of devices are accepted for delivery at once. */
  readonly accept: (
    draft: ShortDraft,
    keyed: KeyedContent,
    admit?: () => void,
  ) => Promise<Pick<Accepted, 'replayed'>>;
}

/** There are no others. */
const OFFICE: Office = {
  ...{ id: '', isServing: true, mayDecide: true, isLeader: true },
  answersFor: () => true,
};

/** Reads the files. Rejects with the disk's error. */
export async function openFileFleet(options: FileFleetOptions): Promise<FleetStore> {
  const { disk, directory, clock, log, randomBytes, delays, people, accept, tell } = options;
  await assertImported(disk, directory);
  const newId = () => Buffer.from(randomBytes(8)).toString('hex');
  const devices = new Map<string, Watched>();
  const desk: NewsDesk = new NewsDesk({ clock, log, office: OFFICE, tell, ledger: () => ledger });
  const documents = await Documents.open(disk, join(directory, 'documents'), log, {
    set(id, all) {
      people.set(id, all);
      desk.changed(id);
    },
  });
  const keys = await FileKeys.open({ disk, directory, log, randomBytes });
  await keepNames(disk, directory);
  const ledger: FileLedger = await FileLedger.open({ disk, clock, log, directory, devices, desk });
  const delayMsOf = (id: string) => documents.about(id)?.delayMs ?? null;
  const watch = new Watch({
    ...{ clock, log, delays, delayMsOf, devices, office: OFFICE, ledger, desk, newId },
  });
  return {
    office: OFFICE,
    documents,
    watch,
    keys,
    takeMessage: async (_device, draft, keyed, admit) => !(await accept(draft, keyed, admit)).replayed,
    taken: null,
    async start() {
      watch.start();
      desk.start();
    },
    async stop() {
      watch.stop();
      await desk.stop();
      await ledger.stop();
      await keys.stop();
    },
  };
}

/** The name of the file that is there during an import: a durable file of `{sha256}`, the digest of the export. */
export const IMPORT_FILE = 'import.json';

/** Rejects with storage-damaged if an import has not ended: a part of the devices would be refused. */
export async function assertImported(disk: Disk, directory: string): Promise<void> {
  if ((await disk.look(join(directory, IMPORT_FILE))) === null) return;
  throw new FieldpostError('storage-damaged', `An import into ${directory} has not ended`, {
    hint: 'run it again: fieldpost-cloud import, the same file',
  });
}

/** Syncs the directories above: without their names the files in them are lost. */
export async function keepNames(disk: Disk, directory: string): Promise<void> {
  const stateDir = dirname(directory);
  await disk.syncDirectory(directory);
  await disk.syncDirectory(stateDir);
  await syncAbove(disk, dirname(stateDir));
}
