/**
 * The fleet's state in etcd, which several equal instances share: builds the parts, lets memory follow etcd, and lets etcd
 * forget old values.
 */
import { MINUTE_MS } from '../../base/limits.js';
import type { ShortDraft } from '../../mail/message/message.js';
import type { KeyedContent } from '../../mail/store/store.js';
import type { FleetOptions, FleetStore } from '../fleet-store.js';
import { NewsDesk } from '../news.js';
import { Watch, type Watched } from '../watch.js';
import { EtcdDocuments } from './documents.js';
import { type Etcd, EtcdError } from './etcd.js';
import { assertServing, Instance } from './instance.js';
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
  const { documents, watch, keys, messages, desk, ledger, instance, mirror } = partsOf(options);
  try {
    await orUnavailable(checkLayout(etcd));
    await orUnavailable(mirror.open());
    // Found dead at the start: its devices may have had nobody to call for long.
    ledger.begin();
  } catch (error) {
    etcd.close();
    throw error;
  }
  return {
    documents,
    watch,
    keys,
    takeMessage: (...message) => messages.take(...message),
    taken: messages,
    mayTell: () => instance.isLeader,
    assertServing: () => assertServing(instance),
    mayDecide: () => instance.mayDecide,
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
  const written = await etcd.txn(
    [{ key: 'layout', modRevision: 0 }],
    [{ put: 'layout', value: LAYOUT }],
    'layout',
  );
  if (!written.succeeded) assertLayout(written.current?.value ?? '');
}

/** The parts, which know each other. */
function partsOf(options: EtcdFleetOptions) {
  const { etcd, clock, log, randomBytes, hostname, delays, people, tell, accept } = options;
  const newId = () => Buffer.from(randomBytes(8)).toString('hex');
  const parts: FleetParts = {
    ...{ etcd, clock, log, randomBytes },
    isBehind: (revision) => mirror.isBehind(revision),
    reached: (...wanted) => mirror.reached(...wanted),
  };
  const documents = new EtcdDocuments(parts, people);
  const keys = new EtcdKeys(parts);
  const messages = new EtcdMessages(parts, () => desk.soon());
  const also = {
    waiting: () => messages.waiting.size,
    do: () =>
      messages.handOver(
        async ({ draft, keyed }) => void (await accept(draft, keyed)),
        () => instance.isLeader,
      ),
  };
  const desk: NewsDesk = new NewsDesk({ clock, log, newId, tell, also, ledger: () => ledger });
  const devices = new Map<string, Watched>();
  const ledger: EtcdLedger = new EtcdLedger({ ...parts, devices, desk, instance: () => instance });
  const watch = new Watch({ clock, log, delays, devices, ledger, desk, newId });
  const instance: Instance = new Instance({
    ...parts,
    hostname,
    gone(id) {
      ledger.orphaned(id);
      desk.soon();
    },
    watchIsStale: () => mirror.restart(),
  });
  const history = new History(parts, () => instance.isLeader);
  const mirror: Mirror = new Mirror({
    ...{ etcd, clock, log },
    shelves: {
      ...ledger.shelves,
      instance: instance.shelf,
      doc: documents.shelf,
      keys: keys.shelf,
      message: messages.shelf,
    },
    stepped(revision) {
      instance.stepped(revision);
      history.at(revision);
    },
  });
  return { documents, watch, keys, messages, desk, ledger, instance, mirror };
}

/** The revisions of the last minutes. Each write leaves an old value, and etcd keeps them all until it is told. */
class History {
  readonly #parts: FleetParts;
  readonly #isOurs: () => boolean;
  /** The oldest first, one a minute. */
  readonly #marks: { readonly atMs: number; readonly revision: number }[] = [];
  /** Why the last try failed; null: it did not. A new reason is logged. */
  #reason: string | null = null;

  /** `isOurs`: true on the instance that compacts for all. */
  constructor(parts: FleetParts, isOurs: () => boolean) {
    this.#parts = parts;
    this.#isOurs = isOurs;
  }

  /** Memory is at this revision. Once a minute those older than FLEET_HISTORY_MS go. */
  at(revision: number): void {
    const nowMs = this.#parts.clock.bootMs();
    const last = this.#marks.at(-1);
    if (last !== undefined && nowMs - last.atMs < MINUTE_MS) return;
    this.#marks.push({ atMs: nowMs, revision });
    const [oldest] = this.#marks;
    if (oldest === undefined || nowMs - oldest.atMs < FLEET_HISTORY_MS) return;
    this.#marks.shift();
    if (this.#isOurs()) void this.#compact(oldest.revision);
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
