/**
 * The destinations documents of a fleet in etcd. A PUT is one transaction that compares the revision. Memory has only what
 * heartbeats and notifications need of each document; its text is read when it is asked for.
 */
import { createHash } from 'node:crypto';
import { FieldpostError } from '../../base/errors.js';
import { type Conditions, checkPrecondition } from '../../base/http/etag.js';
import { CLOUD_DOCUMENT_BYTES_MAX } from '../../base/limits.js';
import { isDocument, nameOf, parseDocument, peopleOf } from '../document.js';
import type { AboutDocument, FleetDocuments, StoredDocument } from '../fleet-store.js';
import type { People } from '../people.js';
import type { Etcd, KeyValue } from './etcd.js';
import { objectIn, type Shelf } from './mirror.js';
import { orUnavailable } from './unavailable.js';

interface EtcdDocumentsOptions {
  readonly etcd: Pick<Etcd, 'get' | 'txn'>;
  /** See Mirror.isBehind. */
  readonly isBehind: (revision: number) => boolean;
  readonly people: Pick<People, 'set'>;
}

interface Held extends AboutDocument {
  readonly revision: number;
}

/** Tries of a PUT that others overtake: `If-Match: *` may still hold. */
const PUT_TRIES = 3;

/** All documents of the fleet. */
export class EtcdDocuments implements FleetDocuments {
  readonly #options: EtcdDocumentsOptions;
  readonly #held = new Map<string, Held>();
  readonly shelf: Shelf;

  constructor(options: EtcdDocumentsOptions) {
    this.#options = options;
    const held = this.#held;
    this.shelf = {
      get names() {
        return held.keys();
      },
      put: (id, { value, modRevision }) => this.#keep(id, value, modRevision),
      deleted: (id, revision) => this.#forget(id, revision),
    };
  }

  get ids(): Iterable<string> {
    return this.#held.keys();
  }

  about(id: string): AboutDocument | null {
    return this.#held.get(id) ?? null;
  }

  async read(id: string): Promise<StoredDocument | null> {
    const { found } = await orUnavailable(this.#options.etcd.get(`doc/${id}`));
    return found && readable(found);
  }

  async put(id: string, body: unknown, conditions: Conditions): Promise<string> {
    const text = JSON.stringify(parseDocument(body));
    if (Buffer.byteLength(text) > CLOUD_DOCUMENT_BYTES_MAX) {
      throw new FieldpostError('too-large', `A document has at most ${CLOUD_DOCUMENT_BYTES_MAX} bytes`);
    }
    const key = `doc/${id}`;
    let { found } = await orUnavailable(this.#options.etcd.get(key));
    for (let tries = 1; ; tries++) {
      checkPrecondition(conditions, found && (readable(found)?.etag ?? null), true);
      const compares = [{ key, modRevision: found?.modRevision ?? 0 }];
      const put = this.#options.etcd.txn(compares, [{ put: key, value: text }], key);
      const { succeeded, revision, current } = await orUnavailable(put);
      if (succeeded) {
        if (this.#options.isBehind(revision)) this.#keep(id, text, revision);
        return etagOf({ value: text, modRevision: revision });
      }
      if (tries === PUT_TRIES)
        throw new FieldpostError('unavailable', 'Others change this document all the time');
      found = current;
    }
  }

  async remove(id: string): Promise<void> {
    const { revision } = await orUnavailable(this.#options.etcd.txn([], [{ delete: `doc/${id}` }]));
    this.#forget(id, revision);
  }

  #keep(id: string, text: string, revision: number): void {
    if ((this.#held.get(id)?.revision ?? 0) >= revision) return;
    const { document, etag } = storedOf({ value: text, modRevision: revision });
    const destinations = document.destinations.length;
    this.#held.set(id, { etag, destinations, name: nameOf(document), revision });
    this.#options.people.set(id, peopleOf(document));
  }

  #forget(id: string, revision: number): void {
    if ((this.#held.get(id)?.revision ?? 0) > revision) return;
    this.#held.delete(id);
    this.#options.people.set(id, null);
  }
}

type Kept = Pick<KeyValue, 'value' | 'modRevision'>;

/** Throws SyntaxError for a value that is no document. */
function storedOf(found: Kept): StoredDocument {
  const document = objectIn(found.value);
  if (!isDocument(document)) throw new SyntaxError('no document');
  return { document, text: found.value, etag: etagOf(found) };
}

/** Null: a value that is no document counts as absent. The mirror logs it. */
function readable(found: Kept): StoredDocument | null {
  try {
    return storedOf(found);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/**
 * Each PUT has a revision of its own. The text counts too: after etcd was restored from a backup, a revision may come
 * again.
 */
function etagOf({ value, modRevision }: Kept): string {
  return `"${modRevision}-${createHash('sha256').update(value).digest('base64url').slice(0, 10)}"`;
}
