/**
 * What the reference cloud needs of a store. There are two: files on one machine (documents.ts, watch.ts), and etcd, which
 * several instances share (etcd/).
 */
import type { Conditions } from '../base/http/etag.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import type { ShortDraft } from '../mail/message/message.js';
import type { KeyedContent } from '../mail/store/store.js';
import type { Document } from './document.js';
import type { NewsBatch, Telling } from './news.js';
import type { People } from './people.js';
import type { Delays, Presence } from './presence.js';
import type { DeviceStatus } from './status.js';

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

/** A device, as the watch shows it. */
export interface Sighting {
  readonly id: string;
  readonly state: 'online' | 'offline' | 'moved';
  /** Wall time of its last heartbeat; null: not known. */
  readonly heardMs: number | null;
  /** Wall time since which it is in this state; if it is offline, of its last heartbeat. Null: not known. */
  readonly sinceMs: number | null;
  readonly status: DeviceStatus;
}

/** The content of a heartbeat. */
export interface Report extends Pick<Presence, 'said' | 'everyMs' | 'sent'> {
  /** Left out: the device reports nothing of itself. */
  readonly status?: DeviceStatus;
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
  sightings(): Iterable<Sighting>;
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

/** A store of the cloud's state. */
export interface FleetStore {
  readonly documents: FleetDocuments;
  readonly watch: FleetWatch;
  readonly keys: DeviceKeys;
  /**
   * Takes a device's message once for its key. Resolves when it is stored for good: true if it is new. Rejects with invalid
   * for a key with other content, with what `admit` throws about a message that is not known, and with the errors of
   * Store.accept.
   */
  takeMessage(device: string, draft: ShortDraft, keyed: KeyedContent, admit: () => void): Promise<boolean>;
  /** False: another instance tells people now. */
  mayTell(): boolean;
  /** Throws unavailable while calls cannot be served. */
  assertServing(): void;
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
