/**
 * The cloud's state as an export has it, the same for both stores: one record a device and kind. A record of presence has what
 * people were told, and the news with the marks of those who know them or wait. An outage or an end of which nobody has been
 * asked yet is decided again after an import.
 */
import { type ErrorCode, FieldpostError, systemCodeOf, wordsOf } from '../base/errors.js';
import { isJsonObject, isShallow, shapeOf } from '../base/json.js';
import { DOCUMENT_DEPTH_MAX } from '../base/limits.js';
import { type Document, isDocument } from './document.js';
import type { At } from './etcd/layout.js';
import { isNews, type News } from './fleet-store.js';
import { isDeviceId, readKeys, type WrittenKeys } from './keys.js';
import { type Marks, writtenMarks } from './marks.js';
import { SAID, type Said } from './presence.js';
import { axisOf } from './rules.js';
import type { Happening } from './texts/texts.js';

/** The kinds of records, in the order of an export. Within a kind they go by id. */
export const KINDS = ['document', 'keys', 'presence'] as const;

/** A destinations document. */
export interface DocumentRecord {
  readonly kind: 'document';
  readonly id: string;
  /** A number of the store. Over files the ETag is made of it. */
  readonly revision: number;
  readonly document: Document;
}

/** The digests of a device's keys. */
interface KeysRecord extends WrittenKeys {
  readonly kind: 'keys';
  readonly id: string;
}

/** Where a device is, and what people know of it. */
export interface PresenceRecord extends Omit<At, 'home' | 'sent' | 'marks'> {
  readonly kind: 'presence';
  readonly id: string;
  /** Left out: they say nothing. */
  readonly marks?: Partial<Marks>;
  /** The oldest first. Left out: there are none. */
  readonly news?: readonly News[];
}

/** One record of the state. */
export type StateRecord = DocumentRecord | KeysRecord | PresenceRecord;

/** The state of a cloud that does not run, or is read beside a running one. Rejects with FieldpostError or the store's error. */
export interface StateStore {
  readonly devicesMax: number;
  /** Gives all records in the order of an export. */
  read(each: (record: StateRecord) => Promise<void>): Promise<void>;
  /** Throws too-large for a record that the store does not take, given all those before it. */
  check(record: StateRecord): void;
  /**
   * Begins an import, or goes on with that of the same digest. No cloud starts before its end. Rejects unless the store is
   * empty and no cloud uses it.
   */
  begin(digest: string): Promise<void>;
  /** Stores the record, at the latest with end(). Records of an earlier try are replaced. */
  put(record: StateRecord): Promise<void>;
  /** All records are stored for good: a cloud may start. */
  end(): Promise<void>;
  close(): Promise<void>;
}

const isNamed = shapeOf({ id: (id) => typeof id === 'string' && /^[0-9a-f]{1,32}$/.test(id), atMs: 1.5 });
const WALL_TIMES = { 'heardMs|null': 1.5, 'awayMs|null': 1.5, 'sinceMs|null': 1.5 };
const SHAPES = {
  document: shapeOf({
    revision: 0,
    document: (value) => isDocument(value) && isShallow(value, DOCUMENT_DEPTH_MAX),
  }),
  keys: (value: unknown) => {
    const keys = readKeys(value);
    return keys !== null && [keys.key, keys.next ?? keys.key].every(({ length }) => length === DIGEST_BYTES);
  },
  presence: shapeOf({
    told: (value) => value === 'online' || value === 'offline',
    ...WALL_TIMES,
    said: (value) => SAID.includes(value as Said),
    everyMs: 1.5,
    damping: 1.5,
    status: {},
    'marks?': {},
    'news?': [(one) => isNamed(one) && isNews(one)],
  }),
} satisfies Record<StateRecord['kind'], (value: unknown) => boolean>;

/** SHA-256. */
const DIGEST_BYTES = 32;

/** True for a record. */
export function isRecord(value: unknown): value is StateRecord {
  if (!isJsonObject(value) || typeof value.id !== 'string' || !isDeviceId(value.id)) return false;
  const kind = KINDS.find((one) => one === value.kind);
  return kind !== undefined && SHAPES[kind](value);
}

/** True for news of an outage or its end of which nobody has been asked yet. */
export function isUntold(news: Happening & { readonly waits?: readonly string[] }): boolean {
  return axisOf(news) === 'link' && news.waits === undefined;
}

/** The news for a record. */
export function newsFor(all: readonly (News & { readonly order: number })[]): Pick<PresenceRecord, 'news'> {
  const asked = all.filter((one) => !isUntold(one));
  if (asked.length === 0) return {};
  const sorted = asked.toSorted((one, other) => one.order - other.order || one.atMs - other.atMs);
  return { news: sorted.map(({ order: _, ...news }) => news) };
}

/** The marks for a record. */
export function marksFor(marks: Marks): Pick<PresenceRecord, 'marks'> {
  const written = writtenMarks(marks);
  return written === null ? {} : { marks: written };
}

/** The presence before the news that people have not been told yet; `first` is the first of them. */
export function asTold(presence: PresenceRecord, first: Happening | undefined): PresenceRecord {
  if (first === undefined) return presence;
  if (first.kind !== 'back') return { ...presence, told: 'online', awayMs: null };
  const { sinceMs, lastedMs } = first;
  return {
    ...presence,
    told: 'offline',
    awayMs: sinceMs === null || lastedMs === null ? null : sinceMs - lastedMs,
  };
}

/** Turns a failed system call into a FieldpostError. */
export async function orFailed<T>(
  what: string,
  work: () => Promise<T>,
  code: ErrorCode = 'storage-failed',
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (systemCodeOf(error) === '' || error instanceof FieldpostError) throw error;
    throw new FieldpostError(code, `${what}: ${wordsOf(error)}`, { cause: error });
  }
}
