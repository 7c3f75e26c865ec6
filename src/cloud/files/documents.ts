/**
 * The destinations documents of all devices, each in a file of its own: `documents/<device id>.json`.
 */
import { join } from 'node:path';
import { DurableFile } from '../../base/durable-file.js';
import { busyOf, FieldpostError, wordsOf } from '../../base/errors.js';
import { type Conditions, checkPrecondition, etagOf } from '../../base/http/etag.js';
import { isJsonObject } from '../../base/json.js';
import { MIB } from '../../base/limits.js';
import type { Disk } from '../../base/system/disk.js';
import type { Log, LogFields } from '../../base/system/log.js';
import { Turns } from '../../base/turns.js';
import {
  type AboutDocument,
  type Document,
  factsOf,
  isDocument,
  type People,
  parseDocument,
  peopleOf,
} from '../document.js';
import type { FleetDocuments, StoredDocument } from '../fleet-store.js';

/** All documents together: they are kept in memory. */
export const DOCUMENTS_CHARS_MAX = 64 * MIB;

/** A document in memory. */
interface Held extends StoredDocument, AboutDocument {
  /** Counts its PUTs. */
  readonly revision: number;
}

/** The name of a document's file. */
export const DOCUMENT_FILE = /^(.+)\.json$/;

/** All documents, in memory and on the disk. */
export class Documents implements FleetDocuments {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #log: Pick<Log, 'error'>;
  readonly #people: Pick<People, 'set'>;
  readonly #stored = new Map<string, Held>();
  /** Characters of all documents together. */
  #chars = 0;
  /** Writes under way, by device: one device does not wait for another. */
  readonly #writes = new Map<string, Turns>();

  /** Reads all documents in `directory`; makes it if it is missing. Tells `people` whom each document names. */
  static async open(
    disk: Disk,
    directory: string,
    log: Pick<Log, 'error'>,
    people: Pick<People, 'set'>,
  ): Promise<Documents> {
    const documents = new Documents(disk, directory, log, people);
    await disk.makeDirectory(directory);
    for (const name of await disk.list(directory)) {
      const id = DOCUMENT_FILE.exec(name)?.[1];
      if (id === undefined) continue;
      const kept = await documents.#fileOf(id).read();
      if (kept !== null) documents.#keep(id, heldOf(kept));
    }
    return documents;
  }

  private constructor(disk: Disk, directory: string, log: Pick<Log, 'error'>, people: Pick<People, 'set'>) {
    this.#disk = disk;
    this.#directory = directory;
    this.#log = log;
    this.#people = people;
  }

  /** The devices with a document. */
  get ids(): Iterable<string> {
    return this.#stored.keys();
  }

  about(id: string): AboutDocument | null {
    return this.#stored.get(id) ?? null;
  }

  async read(id: string): Promise<StoredDocument | null> {
    return this.#stored.get(id) ?? null;
  }

  /** Throws busy, too. After storage-failed a restart finds the old document or the new one. */
  async put(id: string, body: unknown, conditions: Conditions): Promise<string> {
    const document = parseDocument(body);
    return await this.#inTurn(id, () => this.#replace(id, document, conditions));
  }

  async remove(id: string): Promise<void> {
    await this.#inTurn(id, async () => {
      if (!this.#stored.has(id)) return;
      await orStorageFailed('The document cannot be removed', async () => {
        await this.#disk.remove(this.#pathOf(id));
        await this.#disk.syncDirectory(this.#directory);
      });
      this.#keep(id, null);
    });
  }

  /** Runs the writes of one device one after another. */
  async #inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    const writes = this.#writes.get(id) ?? new Turns();
    this.#writes.set(id, writes);
    try {
      return await writes.do(work);
    } finally {
      if (writes.isFree) this.#writes.delete(id);
    }
  }

  async #replace(id: string, document: Document, conditions: Conditions): Promise<string> {
    const replaced = this.#stored.get(id);
    checkPrecondition(conditions, replaced?.etag ?? null, true);
    const kept: Kept = { revision: (replaced?.revision ?? 0) + 1, document };
    const stored = heldOf(kept);
    if (this.#chars - (replaced?.text.length ?? 0) + stored.text.length > DOCUMENTS_CHARS_MAX) {
      throw new FieldpostError('storage-full', 'The documents of all devices together would be too large');
    }
    await orStorageFailed('The document cannot be stored', () => this.#fileOf(id).write(kept));
    this.#keep(id, stored);
    return stored.etag;
  }

  #keep(id: string, stored: Held | null): void {
    this.#chars += (stored?.text.length ?? 0) - (this.#stored.get(id)?.text.length ?? 0);
    if (stored === null) this.#stored.delete(id);
    else this.#stored.set(id, stored);
    this.#people.set(id, stored && peopleOf(stored.document));
  }

  #fileOf(id: string): DurableFile<Kept> {
    const onDamage = (paths: LogFields) => this.#log.error('cloud file damaged', paths);
    return new DurableFile({ disk: this.#disk, path: this.#pathOf(id), parse: keptIn, onDamage });
  }

  #pathOf(id: string): string {
    return join(this.#directory, `${id}.json`);
  }
}

/** Turns a failure of the disk into busy, or into storage-failed with `what` in front of the reason. */
export async function orStorageFailed(what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    throw (
      busyOf(error) ?? new FieldpostError('storage-failed', `${what}: ${wordsOf(error)}`, { cause: error })
    );
  }
}

/** The content of the file. */
export type Kept = Pick<Held, 'revision' | 'document'>;

/** The content of the file; null if the value has another shape. */
export function keptIn(value: unknown): Kept | null {
  const { revision, document } = isJsonObject(value) ? value : {};
  return typeof revision === 'number' && isDocument(document) ? { revision, document } : null;
}

/** The revision makes the ETag of every PUT new, so a PUT with an older ETag fails. After a removal it is 1 again. */
function heldOf({ revision, document }: Kept): Held {
  const text = JSON.stringify(document);
  return { revision, document, text, etag: etagOf(`${revision} ${text}`), ...factsOf(document) };
}
