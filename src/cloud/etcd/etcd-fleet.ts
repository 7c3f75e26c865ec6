/**
 * The fleet's state in etcd, which several equal instances share: builds the parts, and lets memory follow etcd.
 */

import { FieldpostError } from '../../base/errors.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import type { ShortDraft } from '../../mail/message/message.js';
import type { KeyedContent } from '../../mail/store/store.js';
import type { FleetStore } from '../fleet-store.js';
import type { NewsBatch, Telling } from '../news.js';
import type { People } from '../people.js';
import type { Delays } from '../presence.js';
import type { Etcd } from './etcd.js';
import { EtcdDocuments } from './etcd-documents.js';
import { EtcdKeys } from './etcd-keys.js';
import { EtcdMessages } from './etcd-messages.js';
import { EtcdNews } from './etcd-news.js';
import { EtcdWatch } from './etcd-watch.js';
import { History } from './history.js';
import { Instance } from './instance.js';
import { TELLER } from './layout.js';
import { Mirror } from './mirror.js';
import { orUnavailable } from './unavailable.js';

/** What the fleet's store needs. */
export interface EtcdFleetOptions {
  readonly etcd: Etcd;
  readonly clock: Clock;
  readonly log: Log;
  readonly randomBytes: (count: number) => Uint8Array;
  readonly hostname: string;
  readonly delays: Delays;
  /** Learns whom the documents name. */
  readonly people: People;
  /** Tells people of news. See Teller.tell. */
  readonly tell: (batch: NewsBatch, isClosed: boolean) => Promise<Telling>;
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
  const isBehind = (revision: number) => mirror.isBehind(revision);
  const documents = new EtcdDocuments({ etcd, isBehind, people });
  const keys = new EtcdKeys({ etcd, isBehind, randomBytes });
  const parts = { etcd, isBehind, clock, log, randomBytes };
  const mine = () => instance.mine(TELLER);
  const news: EtcdNews = new EtcdNews({
    ...parts,
    mine,
    messages: () => messages,
    tell,
    accept: async ({ draft, keyed }) => void (await accept(draft, keyed)),
  });
  const messages = new EtcdMessages({ etcd, clock, came: () => news.soon() });
  const watch = new EtcdWatch({ ...parts, delays, news: () => news, instance: () => instance });
  const instance: Instance = new Instance({
    ...parts,
    hostname,
    isBusy: (role) => role === TELLER && news.isBusy,
    gained: (role) => (role === TELLER ? news.soon() : watch.gained(role)),
    watchIsStale: () => mirror.restart(),
  });
  const history = new History({ etcd, clock, log, isOurs: () => mine() !== null });
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
      ...news.shelves,
    },
    stepped() {
      instance.stepped(mirror.revision);
      history.at(mirror.revision);
    },
  });
  return { documents, watch, keys, messages, news, instance, mirror };
}
