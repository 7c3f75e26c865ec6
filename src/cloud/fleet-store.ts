/**
 * What the reference cloud needs of a store. There are two: files on one machine (files/), and etcd, which several instances
 * share (etcd/).
 */
import { FieldpostError } from '../base/errors.js';
import type { Conditions } from '../base/http/etag.js';
import { shapeOf } from '../base/json.js';
import { MINUTE_MS } from '../base/limits.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import type { ShortDraft } from '../mail/message/message.js';
import type { KeyedContent } from '../mail/store/store.js';
import type { Document, People } from './document.js';
import type { Delays, Report, Sighting } from './presence.js';
import type { Happening } from './texts/texts.js';

/** News that come within this time may go together in a digest: a regional outage. */
export const DIGEST_WINDOW_MS = MINUTE_MS;

/** A stored document. */
export interface StoredDocument {
  readonly document: Document;
  /** Its JSON. */
  readonly text: string;
  readonly etag: string;
}

/** What memory holds of a document. */
export interface AboutDocument {
  readonly etag: string;
  /** The number of its entries. */
  readonly destinations: number;
  /** What people call the device; null: nothing. */
  readonly name: string | null;
}

/** The destinations documents of all devices. */
export interface FleetDocuments {
  /** The devices with a document. */
  readonly ids: Iterable<string>;
  /** Null: there is no document. Another instance may have changed it a moment ago. */
  about(id: string): AboutDocument | null;
  /** The present document; null: there is none. Rejects with unavailable. */
  read(id: string): Promise<StoredDocument | null>;
  /**
   * Replaces the document if the conditions hold. Resolves with the new ETag when the document is stored for good. Rejects
   * with malformed-request, precondition-required, precondition-failed, storage-full, storage-failed and unavailable.
   */
  put(id: string, body: unknown, conditions: Conditions): Promise<string>;
  /** Resolves when the removal is stored for good, or if there is no document. Rejects with storage-failed and unavailable. */
  remove(id: string): Promise<void>;
}

/** The watch over all devices: who is online, and who must be told of a change. */
export interface FleetWatch {
  /** The devices that have sent a heartbeat. */
  readonly ids: Iterable<string>;
  /** The number of devices with news that people have not been told yet. */
  readonly untold: number;
  has(id: string): boolean;
  /** Takes a heartbeat. Throws unavailable. A promise resolves when it is stored for good, and may reject with the same. */
  heard(id: string, report: Report): void | Promise<void>;
  /** Forgets a device and its news. Resolves when that is stored for good. Rejects with storage-failed and unavailable. */
  forget(id: string): Promise<void>;
  /** One device; null: it has sent no heartbeat. */
  sighting(id: string): Sighting | null;
}

/**
 * The keys of devices that the operator makes by a call. Only SHA-256 of a key is kept: it is random, so no slow hash is
 * needed. A device may have two keys, because the answer with a new one may be lost before the device gets it: the earlier
 * one opens until the new one is first used.
 */
export interface DeviceKeys {
  /** The devices that have a key. */
  readonly ids: Iterable<string>;
  has(id: string): boolean;
  /** True if this is the SHA-256 of a key of the device. Memory knows; another instance may have changed it a moment ago. */
  opens(id: string, digest: Buffer): boolean;
  /**
   * Makes a key for the device, in place of one that was not used yet. Resolves with the key, which cannot be had again, when
   * its digest is stored for good. Rejects with storage-failed, busy and unavailable.
   */
  make(id: string): Promise<string>;
  /** Removes all keys of the device. Resolves when that is stored for good. Rejects with storage-failed, busy and unavailable. */
  remove(id: string): Promise<void>;
}

/** News with an id, drawn at random. */
export type News = Happening & { readonly id: string };

/** News of one device. */
export type DeviceNews = News & { readonly device: string };

/**
 * News that came within DIGEST_WINDOW_MS. The first one opens the batch. `id` is drawn at random. After a crash the same
 * batch has the same members. The news of one device are in order.
 */
export interface NewsBatch {
  readonly id: string;
  readonly news: readonly DeviceNews[];
}

/** What came of telling a batch. */
export interface Telling {
  /** The ids of the news that everybody has been told. They leave the batch. */
  readonly told: ReadonlySet<string>;
  /** Why others are not told yet; null: nothing failed. Then they wait for the end of the batch. */
  readonly refusal: Error | null;
}

const isOutage = shapeOf({ kind: (value) => value === 'silent' || value === 'stopped', 'sinceMs|null': 1.5 });
const isReturn = shapeOf({ kind: (value) => value === 'back', 'sinceMs|null': 1.5, 'lastedMs|null': 1.5 });

/** True for what happened, as a store has written it. */
export const isHappening = (value: unknown): value is Happening => isOutage(value) || isReturn(value);

/** The keys of messages that are taken, for CLOUD_KEYS_AGE_MS. Every promise rejects with unavailable. */
export interface TakenKeys {
  /** The hash of the content that was taken with the key; null: none was. */
  hashOf(device: string, key: string): Promise<string | null>;
  /** Remembers that this content is stored for good. */
  remember(device: string, keyed: KeyedContent): Promise<void>;
}

/** What this instance may do among the others. */
export interface Office {
  /** Its name in the records; another one after its lease was lost. */
  readonly id: string;
  /** False: heartbeats are refused, because the others may believe that this instance is gone. */
  readonly isServing: boolean;
  /** False: no decision can be kept now. */
  readonly mayDecide: boolean;
  /** True: it tells people, and watches the devices whose home is gone. */
  readonly isLeader: boolean;
  /** True if it watches the devices of that home. */
  answersFor(home: string): boolean;
}

/** Throws unavailable unless the instance takes heartbeats. */
export function assertServing({ isServing }: Pick<Office, 'isServing'>): void {
  if (!isServing) throw new FieldpostError('unavailable', "The fleet's store cannot be reached");
}

/** A store of the cloud's state. */
export interface FleetStore {
  readonly office: Office;
  readonly documents: FleetDocuments;
  readonly watch: FleetWatch;
  readonly keys: DeviceKeys;
  /**
   * Takes a device's message once for its key. Resolves when it is stored for good: true if it is new. Rejects with invalid
   * for a key with other content, with what `admit` throws about a message that is not known, and with the errors of
   * Store.accept.
   */
  takeMessage(device: string, draft: ShortDraft, keyed: KeyedContent, admit: () => void): Promise<boolean>;
  /** What all instances remember of messages that one of them keeps; null: there is one instance only. */
  readonly taken: TakenKeys | null;
  /** Begins to watch and to tell. */
  start(): Promise<void>;
  /** Resolves when everything is stored for good. No call may be under way. */
  stop(): Promise<void>;
}

/** What both stores need. */
export interface FleetOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly randomBytes: (count: number) => Uint8Array;
  readonly delays: Delays;
  /** Learns whom the documents name. */
  readonly people: Pick<People, 'set'>;
  /** Tells people of news. See Teller.tell. */
  readonly tell: (batch: NewsBatch, isClosed: boolean) => Promise<Telling>;
}
