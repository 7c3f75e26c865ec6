/**
 * Export and import of the fleet's state in etcd. During an import the layout is IMPORTING: no instance starts, and each write
 * holds only then.
 */
import { FieldpostError } from '../../base/errors.js';
import { objectIn } from '../../base/json.js';
import { CLOUD_DOCUMENT_BYTES_MAX, KIB } from '../../base/limits.js';
import { FLEET_DEVICES_MAX } from '../devices.js';
import { isDocument } from '../document.js';
import type { News } from '../fleet-store.js';
import { readKeys } from '../keys.js';
import { marksIn } from '../marks.js';
import {
  asTold,
  isUntold,
  marksFor,
  newsFor,
  type PresenceRecord,
  type StateRecord,
  type StateStore,
} from '../state-record.js';
import { type Etcd, type KeyValue, type Op, TXN_OPS_MAX } from './etcd.js';
import { assertLayout, atText, IMPORTING, LAYOUT, parseAt } from './layout.js';
import { newsIn, newsText } from './ledger.js';

/** The values of one transaction: etcd takes at most 1.5 MiB in one request, in base64. */
const TXN_BYTES = 512 * KIB;

/** The state in etcd. */
export class EtcdState implements StateStore {
  readonly devicesMax = FLEET_DEVICES_MAX;
  readonly #etcd: Etcd;
  /** The value of the layout during this import. */
  #importing = '';
  #ops: Op[] = [];
  #bytes = 0;

  constructor(etcd: Etcd) {
    this.#etcd = etcd;
  }

  async read(each: (record: StateRecord) => Promise<void>): Promise<void> {
    const found = await this.#etcd.get('layout');
    if (found === null)
      throw new FieldpostError('not-found', 'There is no state of a cloud below this prefix');
    assertLayout(found.value);
    const devices: PresenceRecord[] = [];
    const newsOf = new Map<string, (News & { readonly order: number })[]>();
    // The keys of etcd come by kind: at, doc, keys, news. Presence is known only with the news.
    const page = async (keys: readonly KeyValue[]) => {
      for (const { key, value, createRevision: order } of keys) {
        const [kind, id = ''] = key.split('/', 2);
        try {
          if (kind === 'at') devices.push(presenceIn(id, value));
          else if (kind === 'doc' || kind === 'keys') await each(recordIn(kind, id, value, order));
          else if (kind === 'news') {
            const { device, ...news } = newsIn(id, value);
            newsOf.set(device, [...(newsOf.get(device) ?? []), { ...news, order }]);
          }
        } catch (error) {
          if (!(error instanceof SyntaxError)) throw error;
          throw new FieldpostError('storage-damaged', `The value of ${key} in etcd cannot be read`, {
            hint: 'if the device is not needed any more, remove it',
          });
        }
      }
    };
    await this.#etcd.list('', page);
    for (const device of devices) {
      const news = newsOf.get(device.id) ?? [];
      const [first] = news.filter(isUntold).toSorted((one, other) => one.order - other.order);
      await each(asTold({ ...device, ...newsFor(news) }, first));
    }
  }

  check(record: StateRecord): void {
    if (record.kind !== 'document') return;
    if (Buffer.byteLength(JSON.stringify(record.document)) > CLOUD_DOCUMENT_BYTES_MAX)
      throw new FieldpostError(
        'too-large',
        `The document of ${record.id} has more than ${CLOUD_DOCUMENT_BYTES_MAX} bytes, which etcd does not take`,
      );
  }

  async begin(digest: string): Promise<void> {
    this.#importing = `${IMPORTING}${digest}`;
    const found = await this.#etcd.get('layout');
    await this.#assertNone('instance');
    if (found?.value === this.#importing) return;
    if (found?.value.startsWith(IMPORTING))
      throw new FieldpostError('conflict', 'An import of another file into etcd has not ended', EMPTY_IT);
    if (found !== null) assertLayout(found.value);
    for (const kind of ['at', 'doc', 'keys', 'news', 'message']) await this.#assertNone(kind);
    await this.#txn({ key: 'layout', modRevision: found?.modRevision ?? 0 }, [
      { put: 'layout', value: this.#importing },
    ]);
  }

  async put(record: StateRecord): Promise<void> {
    for (const op of opsOf(record)) {
      const bytes = Buffer.byteLength(op.value);
      if (this.#ops.length === TXN_OPS_MAX || this.#bytes + bytes > TXN_BYTES) await this.#flush();
      this.#ops.push(op);
      this.#bytes += bytes;
    }
  }

  async end(): Promise<void> {
    await this.#flush();
    await this.#assertNone('instance');
    await this.#txn({ key: 'layout', value: this.#importing }, [{ put: 'layout', value: LAYOUT }]);
  }

  async close(): Promise<void> {
    this.#etcd.close();
  }

  async #flush(): Promise<void> {
    this.#bytes = 0;
    await this.#txn({ key: 'layout', value: this.#importing }, this.#ops.splice(0));
  }

  async #txn(condition: Parameters<Etcd['txn']>[0][number], ops: readonly Op[]): Promise<void> {
    const { succeeded } = await this.#etcd.txn([condition], ops);
    if (!succeeded) throw new FieldpostError('conflict', 'Another program has changed the layout in etcd');
  }

  async #assertNone(kind: string): Promise<void> {
    const refuse = ([found]: readonly KeyValue[]) => {
      if (kind === 'instance')
        throw new FieldpostError('already-running', `The cloud runs: ${found?.key}`, {
          hint: 'stop all instances; one that was killed is gone after 10 s',
        });
      throw new FieldpostError('conflict', `etcd is not empty: it has ${found?.key}`, EMPTY_IT);
    };
    await this.#etcd.list(`${kind}/`, refuse);
  }
}

const EMPTY_IT = {
  hint: 'take another FIELDPOST_CLOUD_SERVER_STORE_PREFIX, or delete the keys of this one: etcdctl del --prefix',
};

function recordIn(kind: 'doc' | 'keys', id: string, value: string, revision: number): StateRecord {
  const read = objectIn(value);
  if (kind === 'doc' && isDocument(read)) return { kind: 'document', id, revision, document: read };
  if (kind === 'keys' && readKeys(read) !== null) return { kind, id, ...read } as StateRecord;
  throw new SyntaxError(`no ${kind}`);
}

function presenceIn(id: string, value: string): PresenceRecord {
  const { home: _, sent: __, marks, ...at } = parseAt(value);
  return { kind: 'presence', id, ...at, ...marksFor(marks) };
}

function opsOf(record: StateRecord): { put: string; value: string }[] {
  const { kind, id } = record;
  if (kind === 'document') return [{ put: `doc/${id}`, value: JSON.stringify(record.document) }];
  if (kind === 'presence') {
    const marks = marksIn(record.marks);
    const { news = [] } = record;
    return [
      { put: `at/${id}`, value: atText({ ...record, home: '', sent: null, marks }) },
      ...news.map((one) => ({ put: `news/${one.id}`, value: newsText({ ...one, device: id }) })),
    ];
  }
  const { key, next } = record;
  return [{ put: `keys/${id}`, value: JSON.stringify({ key, next }) }];
}
