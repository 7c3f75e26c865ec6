/**
 * The destinations documents of a fleet in etcd. A PUT is one transaction that compares the revision. Memory has only what
 * heartbeats and notifications need of each document; its text is read when it is asked for.
 */
import { createHash } from 'node:crypto';
import { FieldpostError } from '../../base/errors.js';
import { type Conditions, checkPrecondition } from '../../base/http/etag.js';
import { objectIn } from '../../base/json.js';
import { CLOUD_DOCUMENT_BYTES_MAX } from '../../base/limits.js';
import {
  type AboutDocument,
  factsOf,
  isDocument,
  type People,
  parseDocument,
  peopleOf,
} from '../document.js';
import type { FleetDocuments, StoredDocument } from '../fleet-store.js';
import type { KeyValue } from './etcd.js';
import { type FleetParts, orUnavailable, type Shelf } from './mirror.js';

interface Held extends AboutDocument {
  readonly revision: number;
}

/** Tries of a PUT that others overtake: `If-Match: *` may still hold. */
const PUT_TRIES = 3;

/** All documents of the fleet. */
export class EtcdDocuments implements FleetDocuments {
  readonly #parts: FleetParts;
  readonly #people: Pick<People, 'set'>;
  readonly #held = new Map<string, Held>();
  readonly shelf: Shelf = {
    names: () => this.#held.keys(),
    put: (id, { value, modRevision }) => this.#keep(id, value, modRevision),
    deleted: (id, revision) => this.#forget(id, revision),
  };

  /** `people` learns whom each document names. */
  constructor(parts: FleetParts, people: Pick<People, 'set'>) {
    this.#parts = parts;
    this.#people = people;
  }

  get ids(): Iterable<string> {
    return this.#held.keys();
  }

  about(id: string): AboutDocument | null {
    return this.#held.get(id) ?? null;
  }

  async read(id: string): Promise<StoredDocument | null> {
    const found = await orUnavailable(this.#parts.etcd.get(`doc/${id}`));
    return found && storedIn(found);
  }

  async put(id: string, body: unknown, conditions: Conditions): Promise<string> {
    const text = JSON.stringify(parseDocument(body));
    if (Buffer.byteLength(text) > CLOUD_DOCUMENT_BYTES_MAX) {
      throw new FieldpostError('too-large', `A document has at most ${CLOUD_DOCUMENT_BYTES_MAX} bytes`);
    }
    const key = `doc/${id}`;
    let found = await orUnavailable(this.#parts.etcd.get(key));
    for (let tries = 1; ; tries++) {
      checkPrecondition(conditions, found && (storedIn(found)?.etag ?? null), true);
      const compares = [{ key, modRevision: found?.modRevision ?? 0 }];
      const put = this.#parts.etcd.txn(compares, [{ put: key, value: text }]);
      const { succeeded, revision, current } = await orUnavailable(put);
      if (succeeded) {
        if (this.#parts.mirror.isBehind(revision)) this.#keep(id, text, revision);
        return etagOf({ value: text, modRevision: revision });
      }
      if (tries === PUT_TRIES)
        throw new FieldpostError('unavailable', 'Others change this document all the time');
      found = current;
    }
  }

  async remove(id: string): Promise<void> {
    const { revision } = await orUnavailable(this.#parts.etcd.txn([], [{ delete: `doc/${id}` }]));
    this.#forget(id, revision);
  }

  #keep(id: string, text: string, revision: number): void {
    if ((this.#held.get(id)?.revision ?? 0) >= revision) return;
    const stored = storedIn({ value: text, modRevision: revision });
    if (stored === null) throw new SyntaxError('no document');
    const { document, etag } = stored;
    this.#held.set(id, { etag, revision, ...factsOf(document) });
    this.#people.set(id, peopleOf(document));
  }

  #forget(id: string, revision: number): void {
    if ((this.#held.get(id)?.revision ?? 0) > revision) return;
    this.#held.delete(id);
    this.#people.set(id, null);
  }
}

type Kept = Pick<KeyValue, 'value' | 'modRevision'>;

/** Null: a value that is no document counts as absent. The mirror logs it. */
function storedIn(found: Kept): StoredDocument | null {
  const document = objectIn(found.value);
  return isDocument(document) ? { document, text: found.value, etag: etagOf(found) } : null;
}

/**
 * Each PUT has a revision of its own. The text counts too: after etcd was restored from a backup, a revision may come
 * again.
 */
function etagOf({ value, modRevision }: Kept): string {
  return `"${modRevision}-${createHash('sha256').update(value).digest('base64url').slice(0, 10)}"`;
}
