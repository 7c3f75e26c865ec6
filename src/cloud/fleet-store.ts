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
import type { AboutDocument, Document, People } from './document.js';
import type { QuietTime } from './marks.js';
import type { Delays, Report } from './presence.js';
import type { Sighting } from './sighting.js';
import type { Happening } from './texts/texts.js';

/** News that come within this time may be told together: a site or a region falls silent. */
export const NEWS_WINDOW_MS = MINUTE_MS;

/** A stored document. */
export interface StoredDocument {
  readonly document: Document;
  /** Its JSON. */
  readonly text: string;
  readonly etag: string;
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
  /** The number of devices with news that people should have heard already, or will at the end of a window. */
  readonly untold: number;
  has(id: string): boolean;
  /** Takes a heartbeat. Throws unavailable. A promise resolves when it is stored for good, and may reject with the same. */
  heard(id: string, report: Report): void | Promise<void>;
  /** Forgets a device and its news. Resolves when that is stored for good. Rejects with storage-failed and unavailable. */
  forget(id: string): Promise<void>;
  /**
   * Nobody is told that the device is offline until then; null: from now on they are. People hear of it once. Resolves when
   * that is stored for good. Rejects with conflict for a device that has sent no heartbeat, storage-failed and unavailable.
   */
  quiet(id: string, quiet: QuietTime | null): Promise<void>;
  /** Sends each of its people, or the one with this uid, a message as an outage would. Resolves and rejects as quiet() does. */
  drill(id: string, uid: string | null): Promise<void>;
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
export type News = Happening & {
  readonly id: string;
  /** Wall time of the decision. */
  readonly atMs: number;
  /** The marks of the people who know it. */
  readonly told?: readonly string[];
  /** The marks of those who are to hear it later. Left out: nobody has been asked yet. */
  readonly waits?: readonly string[];
};

/** News of one device. */
export type DeviceNews = News & { readonly device: string };

/** News that a store has kept. */
export interface KeptNews {
  readonly news: DeviceNews;
  /** The place in the order in which they were kept. */
  readonly order: number;
  /** News up to this moment of the wall clock may be told together. */
  readonly windowEndsMs: number;
}

/** All news of one device that are kept, the oldest first. */
export interface NewsOfDevice {
  readonly device: string;
  readonly news: readonly KeptNews[];
}

/** What becomes of the news of one device. */
export interface Settled {
  /** The ids of the news that are not needed any more. */
  readonly dropped: readonly string[];
  /** News with other marks. */
  readonly marked: readonly DeviceNews[];
  /** Somebody is to hear of them then, by the wall clock; Infinity: nobody. */
  readonly dueMs: number;
  /** True: somebody is to hear of them now, or at the end of the window. */
  readonly isOwed: boolean;
}

/** What came of telling. */
export interface Telling {
  /** By device; left out: it could not be read. */
  readonly settled: ReadonlyMap<string, Settled>;
  /** Why some people are not told; null: nothing failed. */
  readonly refusal: Error | null;
}

const isNumber = (value: unknown) => value === null || typeof value === 'number';
const HAPPENINGS: Readonly<Record<string, (value: unknown) => boolean>> = {
  silent: shapeOf({ 'sinceMs|null': 1.5, 'word?': '' }),
  stopped: shapeOf({ 'sinceMs|null': 1.5, 'word?': '' }),
  back: shapeOf({
    ...{ 'sinceMs|null': 1.5, 'lastedMs|null': 1.5 },
    'why?': (value) => isRan(value) || isRestarted(value),
    'flaps?': { times: 1, sinceMs: isNumber },
  }),
  quiet: shapeOf({ untilMs: 1.5, 'why|null': '' }),
  word: shapeOf({ 'sinceMs|null': 1.5, word: '' }),
  still: shapeOf({ 'sinceMs|null': 1.5, 'lastedMs|null': 1.5 }),
  stuck: shapeOf({ 'sinceMs|null': 1.5, 'relay|null': '', failed: 1 }),
  flows: shapeOf({ 'sinceMs|null': 1.5 }),
  drill: shapeOf({ key: '', 'uid|null': '' }),
};
const isRan = shapeOf({ kind: (value) => value === 'ran' });
const isRestarted = shapeOf({ kind: (value) => value === 'restarted', upMs: 1.5 });

/** True for what happened, as a store has written it. */
export function isHappening(value: unknown): value is Happening {
  const { kind } = (value ?? {}) as { kind?: unknown };
  return typeof kind === 'string' && Object.hasOwn(HAPPENINGS, kind) && HAPPENINGS[kind]?.(value) === true;
}

/** True for news, as a store has written them. News of earlier versions have no moment: see newsAt. */
export function isNews(value: unknown): boolean {
  return isHappening(value) && hasMarks(value);
}
const hasMarks = shapeOf({ 'atMs?': 1.5, 'told?': [''], 'waits?': [''] });

/** The moment of the decision; news of earlier versions were decided soon after they happened. */
export function newsAt<N extends Happening & { readonly atMs?: number }>(
  news: N,
): N & { readonly atMs: number } {
  const atMs = news.atMs ?? ('sinceMs' in news ? news.sinceMs : null) ?? 0;
  return { ...news, atMs };
}

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
  readonly tell: (news: readonly NewsOfDevice[], isLast: boolean) => Promise<Telling>;
}
