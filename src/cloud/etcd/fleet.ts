/**
 * The fleet's state in etcd, which several equal instances share: builds the parts, lets memory follow etcd, and lets etcd
 * forget old values.
 */
import { MINUTE_MS } from '../../base/limits.js';
import type { ShortDraft } from '../../mail/message/message.js';
import type { KeyedContent } from '../../mail/store/store.js';
import type { FleetOptions, FleetStore, Office } from '../fleet-store.js';
import { NewsDesk } from '../news.js';
import { CLOUD_GRACE_MS } from '../presence.js';
import { Watch, type Watched } from '../watch.js';
import { EtcdDocuments } from './documents.js';
import { type Etcd, EtcdError } from './etcd.js';
import { Instance } from './instance.js';
import { EtcdKeys } from './keys.js';
import { assertLayout, LAYOUT } from './layout.js';
import { EtcdLedger } from './ledger.js';
import { EtcdMessages } from './messages.js';
import { type FleetParts, Mirror, orUnavailable } from './mirror.js';

/** Revisions of etcd are kept for this long: an instance that was away for less need not list everything. */
export const FLEET_HISTORY_MS = 5 * MINUTE_MS;

/** What the fleet's store needs. */
interface EtcdFleetOptions extends FleetOptions {
  readonly etcd: Etcd;
  readonly hostname: string;
  /** Accepts a device's message for delivery by this instance, once for its key. */
  readonly accept: (draft: ShortDraft, keyed: KeyedContent) => Promise<unknown>;
}

/**
 * Reads the fleet's state. Rejects with unavailable, and storage-failed if etcd refuses. Calls neither `tell` nor `accept`
 * before start().
 */
export async function openEtcdFleet(options: EtcdFleetOptions): Promise<FleetStore> {
  const { etcd } = options;
  const { documents, watch, keys, messages, desk, ledger, instance, mirror, shelves } = partsOf(options);
  try {
    await orUnavailable(checkLayout(etcd));
    await orUnavailable(mirror.open(shelves));
    // Found dead at the start: its devices may have had nobody to call for long.
    ledger.orphaned((home) => !instance.has(home), CLOUD_GRACE_MS);
  } catch (error) {
    etcd.close();
    throw error;
  }
  return {
    office: instance,
    documents,
    watch,
    keys,
    takeMessage: (...message) => messages.take(...message),
    taken: messages,
    async start() {
      await instance.start();
      watch.start();
      desk.start();
    },
    async stop() {
      watch.stop();
      // etcd may be back just now, after a time in which the lease has run out.
      await instance.renew();
      await ledger.stop();
      await desk.stop();
      await instance.stop();
      mirror.close();
      etcd.close();
    },
  };
}

/** Rejects with FieldpostError if another version of this program has written the keys, or an import has not ended. */
async function checkLayout(etcd: Etcd): Promise<void> {
  const written = await etcd.txn([{ key: 'layout', modRevision: 0 }], [{ put: 'layout', value: LAYOUT }]);
  if (!written.succeeded) assertLayout(written.current?.value ?? '');
}

/** The parts, which know each other. */
function partsOf(options: EtcdFleetOptions) {
  const { etcd, clock, log, randomBytes, hostname, delays, people, tell, accept } = options;
  const newId = () => Buffer.from(randomBytes(8)).toString('hex');
  const mirror = new Mirror({ etcd, clock, log });
  const parts: FleetParts = { etcd, clock, log, randomBytes, mirror };
  const instance = new Instance({
    ...{ ...parts, hostname },
    gone(id) {
      ledger.orphaned((home) => home === id, 0);
      desk.soon();
    },
    ticked: (revision) => history.at(revision),
  });
  const documents = new EtcdDocuments(parts, {
    set(id, all) {
      people.set(id, all);
      desk.changed(id);
    },
  });
  const keys = new EtcdKeys(parts);
  const messages = new EtcdMessages({ ...parts, office: instance, accept, came: () => desk.soon() });
  const desk: NewsDesk = new NewsDesk({
    ...{ clock, log, office: instance, tell },
    ledger: () => ledger,
    also: () => messages.handOver(),
  });
  const devices = new Map<string, Watched>();
  const ledger: EtcdLedger = new EtcdLedger({ ...parts, devices, desk, instance });
  const delayMsOf = (id: string) => documents.about(id)?.delayMs ?? null;
  const watch = new Watch({
    ...{ clock, log, delays, delayMsOf, devices, office: instance, ledger, desk, newId },
  });
  const history = new History(parts, instance);
  const shelves = {
    ...ledger.shelves,
    ...{ instance: instance.shelf, doc: documents.shelf, keys: keys.shelf, message: messages.shelf },
  };
  return { documents, watch, keys, messages, desk, ledger, instance, mirror, shelves };
}

/** The revisions of the last minutes. Each write leaves an old value, and etcd keeps them all until it is told. */
class History {
  readonly #parts: FleetParts;
  readonly #office: Pick<Office, 'isLeader'>;
  /** The oldest first, one a minute. */
  readonly #marks: { readonly atMs: number; readonly revision: number }[] = [];
  /** Why the last try failed; null: it did not. A new reason is logged. */
  #reason: string | null = null;

  constructor(parts: FleetParts, office: Pick<Office, 'isLeader'>) {
    this.#parts = parts;
    this.#office = office;
  }

  /** Memory is at this revision. Once a minute the leader lets those go that are older than FLEET_HISTORY_MS. */
  at(revision: number): void {
    const nowMs = this.#parts.clock.bootMs();
    const last = this.#marks.at(-1);
    if (last !== undefined && nowMs - last.atMs < MINUTE_MS) return;
    this.#marks.push({ atMs: nowMs, revision });
    const [oldest] = this.#marks;
    if (oldest === undefined || nowMs - oldest.atMs < FLEET_HISTORY_MS) return;
    this.#marks.shift();
    if (this.#office.isLeader) void this.#compact(oldest.revision);
  }

  async #compact(revision: number): Promise<void> {
    try {
      await this.#parts.etcd.compact(revision);
      this.#reason = null;
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      // The next minute compacts more.
      if (error.message !== this.#reason)
        this.#parts.log.warn('etcd not compacted', { reason: error.message });
      this.#reason = error.message;
    }
  }
}
