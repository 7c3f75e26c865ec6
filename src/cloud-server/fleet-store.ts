/**
 * What the reference cloud needs of a store. There are two: files on one machine (documents.ts, watch.ts), and etcd, which
 * several instances share (etcd/).
 */
import type { Conditions } from '../http/etag.js';
import type { Document } from './document.js';
import type { Presence } from './presence.js';

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
}

/** The content of a heartbeat. */
export type Report = Pick<Presence, 'said' | 'everyMs' | 'sent'>;

/** The watch over all devices: who is online, and who must be told of a change. */
export interface FleetWatch {
  /** The devices that have sent a heartbeat. */
  readonly ids: Iterable<string>;
  has(id: string): boolean;
  /** Takes a heartbeat. Throws unavailable. */
  heard(id: string, report: Report): void;
  /** Forgets a device and its news. Resolves when that is stored for good. Rejects with storage-failed and unavailable. */
  forget(id: string): Promise<void>;
  sightings(): Iterable<Sighting>;
}
