/**
 * The fleet's state in etcd, which several equal instances share: builds the parts, lets memory follow etcd, and lets etcd
 * forget old values.
 */
import { FieldpostError } from '../../base/errors.js';
import { MINUTE_MS } from '../../base/limits.js';
import type { ShortDraft } from '../../mail/message/message.js';
import type { KeyedContent } from '../../mail/store/store.js';
import type { FleetOptions, FleetStore } from '../fleet-store.js';
import { EtcdDocuments } from './documents.js';
import { type Etcd, EtcdError } from './etcd.js';
import { Instance } from './instance.js';
import { EtcdKeys } from './keys.js';
import { TELLER } from './layout.js';
import { EtcdMessages } from './messages.js';
import { type FleetParts, Mirror, orUnavailable } from './mirror.js';
import { EtcdNews } from './news.js';
import { EtcdWatch } from './watch.js';

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
  const { documents, watch, keys, messages, news, instance, mirror } = partsOf(options);
  try {
    await orUnavailable(mirror.open());
  } catch (error) {
    etcd.close();
    throw error;
  }
  return {
    documents,
    watch,
    keys,
    takeMessage: (...message) => messages.take(...message),
    mayTell: () => instance.mine(TELLER) !== null,
    assertServing() {
      if (!instance.isSteady || watch.isStuck)
        throw new FieldpostError('unavailable', 'etcd cannot be reached');
    },
    async start() {
      await instance.start();
      watch.start();
    },
    async stop() {
      await watch.stop();
      await news.stop();
      await instance.stop();
      mirror.close();
      etcd.close();
    },
  };
}

/** The parts, which know each other. */
function partsOf(options: EtcdFleetOptions) {
  const { etcd, clock, log, randomBytes, hostname, delays, people, tell, accept } = options;
  const newId = () => Buffer.from(randomBytes(8)).toString('hex');
  const isBehind = (revision: number) => mirror.isBehind(revision);
  const parts: FleetParts = { etcd, clock, log, randomBytes, newId, isBehind };
  const mine = () => instance.mine(TELLER);
  const documents = new EtcdDocuments(parts, people);
  const keys = new EtcdKeys(parts);
  const news: EtcdNews = new EtcdNews({
    ...parts,
    mine,
    messages: () => messages.waiting,
    tell,
    accept: async ({ draft, keyed }) => void (await accept(draft, keyed)),
  });
  const messages = new EtcdMessages(parts, () => news.soon());
  const watch = new EtcdWatch({ ...parts, delays, pending: news.pending, instance: () => instance });
  const instance: Instance = new Instance({
    ...parts,
    hostname,
    isBusy: (role) => role === TELLER && news.isBusy,
    gained: (role) => (role === TELLER ? news.soon() : watch.gained(role)),
    watchIsStale: () => mirror.restart(),
  });
  const history = new History(parts, () => mine() !== null);
  const mirror: Mirror = new Mirror({
    etcd,
    clock,
    log,
    shelves: {
      ...instance.shelves,
      ...watch.shelves,
      doc: documents.shelf,
      keys: keys.shelf,
      message: messages.shelf,
      ...news.pending.shelves,
    },
    stepped(revision) {
      instance.stepped(revision);
      history.at(revision);
    },
  });
  return { documents, watch, keys, messages, news, instance, mirror };
}

/** The revisions of the last minutes. Each heartbeat leaves an old value, and etcd keeps them all until it is told. */
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
