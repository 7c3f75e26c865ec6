/**
 * The cloud's state in files of one machine, below `cloud/` in the state directory.
 */
import { dirname, join } from 'node:path';
import type { System } from '../mail/engine.js';
import type { ShortDraft } from '../mail/message/message.js';
import { syncAbove } from '../mail/store/disk-error.js';
import type { Accepted, KeyedContent } from '../mail/store/store.js';
import { Documents } from './documents.js';
import type { FleetStore } from './fleet-store.js';
import { FileKeys } from './keys.js';
import type { NewsBatch, Telling } from './news.js';
import type { People } from './people.js';
import type { Delays } from './presence.js';
import { Watch } from './watch.js';

/** What the files' store needs. */
export interface FileFleetOptions {
  readonly system: Pick<System, 'disk' | 'clock' | 'log' | 'randomBytes'>;
  /** Its parent is the state directory. */
  readonly directory: string;
  readonly delays: Delays;
  readonly people: People;
  /** Messages of devices are accepted for delivery at once. */
  readonly accept: (
    draft: ShortDraft,
    keyed: KeyedContent,
    admit?: () => void,
  ) => Promise<Pick<Accepted, 'replayed'>>;
  readonly tell: (batch: NewsBatch, isClosed: boolean) => Promise<Telling>;
}

/** Reads the files. Rejects with the disk's error. */
export async function openFileFleet(options: FileFleetOptions): Promise<FleetStore> {
  const { system, directory, delays, people, accept, tell } = options;
  const { disk, clock, log, randomBytes } = system;
  const documents = await Documents.open(disk, join(directory, 'documents'), log, people);
  const keys = await FileKeys.open({ disk, directory, randomBytes });
  await keepNames(disk, directory);
  const watch = await Watch.open({ disk, directory, clock, log, randomBytes, delays, tell });
  return {
    documents,
    watch,
    keys,
    takeMessage: async (_device, draft, keyed, admit) => !(await accept(draft, keyed, admit)).replayed,
    mayTell: () => true,
    assertServing: () => undefined,
    start: async () => watch.start(),
    async stop() {
      await watch.stop();
      await keys.stop();
    },
  };
}

/** Syncs the directories above: without their names the files in them are lost. */
async function keepNames(disk: System['disk'], directory: string): Promise<void> {
  const stateDir = dirname(directory);
  await disk.syncDirectory(directory);
  await disk.syncDirectory(stateDir);
  await syncAbove(disk, dirname(stateDir));
}
