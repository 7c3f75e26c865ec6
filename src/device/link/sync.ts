/**
 * Keeps the address book in step with the cloud's document: gets it, merges, puts the result. The link calls it when it
 * is online and for each ETag, the api after each edit.
 */
import { FieldpostError } from '../../base/errors.js';
import { isShallow } from '../../base/json.js';
import { DOCUMENT_DEPTH_MAX, MINUTE_MS, SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import { Backoff } from '../../base/retry/backoff.js';
import { CloudError } from '../../base/retry/call-error.js';
import { startMsOf } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import { oneLine } from '../../base/text.js';
import type { SyncView } from '../../base/views.js';
import type { Remote } from '../../mail/book/book.js';
import type { AddressBook, Alterations } from '../book/address-book.js';
import type { Estranged } from '../book/ancestry.js';
import type { CloudClient } from './client.js';
import { commonMs, type LinkSettings } from './link.js';

/** Debounce: the book is sent to the cloud after this long without an edit, */
const SYNC_QUIET_MS = SECOND_MS;
/** or this long after the first edit, whichever is sooner. */
const SYNC_EDITS_MS_MAX = 10 * SECOND_MS;
/** 412 answers in a row before the sync backs off. */
const SYNC_TRIES_MAX = 3;
/** A cloud gets a new document after it has said for this long, with the link online, that it has none. */
export const SYNC_ABSENT_MS = 10 * MINUTE_MS;

interface SyncOptions {
  readonly book: AddressBook;
  /** Which cloud it is, and which device there. */
  readonly cloud: string;
  readonly client: Pick<CloudClient, 'getDestinations' | 'putDestinations'>;
  readonly config: LinkSettings;
  /** While it is false, the sync makes no call. The link calls online() when it is true again. */
  readonly isOnline: () => boolean;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
}

/** Idle until asked; one sync at a time. */
export class Sync {
  readonly #options: SyncOptions;
  readonly #stopped = new AbortController();
  #running: Promise<void> | null = null;
  readonly #alarm: Alarm;
  readonly #backoff: Backoff;
  /** When the next sync is due, on the boot's clock, unless the back-off ends later. */
  #dueMs = Number.POSITIVE_INFINITY;
  /** When the first edit since the last sync was made, and until when the debounce waits for more. */
  #editedMs: number | null = null;
  #quietMs = Number.POSITIVE_INFINITY;
  /** The generation of the book that the cloud is known to have. */
  #confirmed = -1;
  #lastMs: number | null = null;
  #reason: string | null = null;
  /** The ETag of the document that was last merged. A document is fetched again after its PUT, to compare it. */
  #looked: string | null = null;
  readonly #absence: Absence;
  /** Why both sides were joined, and the generation of the book then. */
  #joined: { readonly generation: number; readonly reason: string } | null = null;
  /** How the cloud changes the document that it is given, as a sentence. */
  #altered: string | null = null;
  /** The ETag in the answer to the last heartbeat; null: there was none. */
  #told: string | null = null;
  /** Whether this cloud answers heartbeats without an ETag although it has a document. */
  #untold: 'never' | 'unexplained' | 'usual' = 'never';

  constructor(options: SyncOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock, () => this.#goOn());
    this.#backoff = new Backoff(options);
    this.#absence = new Absence(options.clock);
  }

  /** Syncs now, without the pause of the back-off. A Retry-After still holds. */
  request(): void {
    this.#backoff.wake();
    this.#absence.interrupt();
    this.#dueNow();
  }

  /**
   * The link is online (again). Calls nobody if the cloud answers heartbeats with ETags and both sides agree: when a
   * whole fleet comes back, no device should call twice.
   */
  online(): void {
    this.#backoff.wake();
    this.#absence.interrupt();
    const isInStep = this.#reason === null && this.#confirmed === this.#options.book.generation;
    if (this.#told !== null && isInStep) this.#goOn();
    else this.#dueIn(this.#options.random() * commonMs(this.#options));
  }

  /** The ETag of the cloud's document, from the answer to a heartbeat; null: there was none. */
  seen(etag: string | null): void {
    const { etag: known } = this.#options.book;
    this.#told = etag;
    if (etag !== null) {
      this.#untold = 'never';
      if (etag !== known) this.#dueNow();
      return;
    }
    // The cloud has lost its document, or never sends ETags: one GET shows which.
    if (known !== null && this.#untold === 'never') this.#untold = 'unexplained';
    if (this.#untold === 'unexplained' && this.#dueMs === Number.POSITIVE_INFINITY) this.#dueNow();
  }

  /** Somebody has edited the book. More edits may follow: debounce. */
  edited(): void {
    const nowMs = this.#options.clock.bootMs();
    this.#editedMs ??= nowMs;
    this.#quietMs = Math.min(nowMs + SYNC_QUIET_MS, this.#editedMs + SYNC_EDITS_MS_MAX);
    this.#goOn();
  }

  /** Aborts the sync under way. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#alarm.end();
    await this.#running;
  }

  view(): SyncView {
    const { book, clock } = this.#options;
    return {
      synced:
        this.#reason === null && this.#confirmed === book.generation && book.alterations.changed.length === 0,
      lastSyncMs: this.#lastMs === null ? null : startMsOf(clock) + this.#lastMs,
      reason: this.#reason ?? this.#altered ?? this.#joinedReason,
    };
  }

  #dueNow(): void {
    this.#dueIn(0);
  }

  #dueIn(ms: number): void {
    this.#dueMs = this.#options.clock.bootMs() + Math.floor(ms);
    this.#goOn();
  }

  #nothingDue(): void {
    this.#dueMs = Number.POSITIVE_INFINITY;
    this.#quietMs = Number.POSITIVE_INFINITY;
    this.#editedMs = null;
  }

  /** Starts the sync that is due, or sets the alarm for it. */
  #goOn(): void {
    const { clock, isOnline } = this.#options;
    this.#alarm.off();
    if (this.#stopped.signal.aborted || this.#running !== null || !isOnline()) return;
    const nextMs = Math.max(Math.min(this.#dueMs, this.#quietMs), this.#backoff.readyMs);
    if (nextMs > clock.bootMs()) this.#alarm.at(nextMs);
    else {
      this.#nothingDue();
      this.#running = this.#run().finally(() => {
        this.#running = null;
        this.#goOn();
      });
    }
  }

  async #run(): Promise<void> {
    const { book, clock, log } = this.#options;
    const { etag } = book;
    this.#backoff.begin();
    try {
      this.#confirmed = await this.#sync(this.#stopped.signal);
      if (this.#reason !== null || book.etag !== etag) log.info('destinations synced', { ...book.counts });
      this.#lastMs = clock.bootMs();
      this.#reason = null;
      this.#backoff.good();
    } catch (error) {
      // The store throws FieldpostError if the disk fails. Anything else is a bug.
      if (!(error instanceof CloudError || error instanceof FieldpostError)) throw error;
      if (!this.#stopped.signal.aborted) this.#failed(error);
    }
  }

  #failed(error: CloudError | FieldpostError): void {
    const { log } = this.#options;
    const { message: reason } = error;
    if (reason !== this.#reason) log.warn('destinations not synced', { reason });
    this.#reason = reason;
    this.#backoff.failed(error instanceof CloudError ? (error.retryAfterMs ?? 0) : 0);
    this.#dueNow();
  }

  /** Null after the next edit on this device: somebody has looked at the book then. */
  get #joinedReason(): string | null {
    return this.#joined?.generation === this.#options.book.generation ? this.#joined.reason : null;
  }

  /** Resolves with the generation of the book that the cloud then has. Throws CloudError, and what the store throws. */
  async #sync(signal: AbortSignal): Promise<number> {
    const { book, cloud, client } = this.#options;
    await book.join(cloud);
    let confirmed: number | null = null;
    for (let puts = 0; ; puts++) {
      const known = this.#looked === book.etag ? book.etag : null;
      const untold = this.#untold;
      const remote = remoteOf(await client.getDestinations(known, signal));
      if (untold === 'unexplained') this.#untold = remote === null ? 'never' : 'usual';
      this.#checkAbsent(remote === null);
      const { push, estranged, generation } = await book.pull(remote);
      if (estranged !== null) this.#tellJoined(estranged);
      this.#looked = remote === null ? null : book.etag;
      if (push === null) {
        this.#tellAltered();
        return generation;
      }
      // Later edits get a sync of their own.
      if (confirmed !== null && confirmed !== generation) return confirmed;
      if (puts === SYNC_TRIES_MAX) break;
      const answer = await client.putDestinations(push.document, push.ifMatch, signal, push.more);
      confirmed = answer.kind === 'stored' ? generation : null;
      if (answer.kind === 'stored') await book.stored(answer.etag);
    }
    throw new CloudError('somebody else changes the address book in the cloud all the time');
  }

  /** Throws CloudError if the document has been missing for a short time only. */
  #checkAbsent(isAbsent: boolean): void {
    const { book, log } = this.#options;
    if (!isAbsent || book.etag === null) {
      this.#absence.end();
      return;
    }
    const { isBelieved, isNews } = this.#absence.said();
    if (!isBelieved) throw new CloudError(ABSENT_WORDS);
    if (isNews) log.warn('destinations forgotten');
  }

  #tellJoined(estranged: Estranged): void {
    const { book, log } = this.#options;
    const reason = joinedWords(estranged);
    log.warn('destinations joined', { reason });
    this.#joined = { generation: book.generation, reason };
  }

  #tellAltered(): void {
    const { book, log } = this.#options;
    const reason = alteredWords(book.alterations);
    if (reason !== null && reason !== this.#altered) log.warn('destinations altered', { reason });
    this.#altered = reason;
  }
}

/** The document to merge with. Throws CloudError for one that cannot be stored. */
function remoteOf(answer: Awaited<ReturnType<CloudClient['getDestinations']>>): Remote | null | 'unchanged' {
  if (answer.kind === 'unchanged') return 'unchanged';
  if (answer.kind === 'none') return null;
  const { etag, entries: document, more } = answer;
  if (!isShallow([document, more], DOCUMENT_DEPTH_MAX + 1)) {
    throw new CloudError('the cloud breaks its contract: its document is nested too deep');
  }
  return { etag, document, ...(more && { more }) };
}

/**
 * For how long the cloud has answered 404 although it had a document: a gateway also answers 404 for a moment, while the
 * cloud is deployed. The time in which the link may have been down does not count.
 */
class Absence {
  readonly #clock: Pick<Clock, 'bootMs'>;
  #lastedMs = 0;
  /** When the last 404 came; null: none since the link came back. */
  #atMs: number | null = null;

  constructor(clock: Pick<Clock, 'bootMs'>) {
    this.#clock = clock;
  }

  /** Another 404 came. `isBelieved`: the cloud has answered 404 for long enough. `isNews`: for the first time. */
  said(): { readonly isBelieved: boolean; readonly isNews: boolean } {
    const nowMs = this.#clock.bootMs();
    const wasBelieved = this.#lastedMs >= SYNC_ABSENT_MS;
    this.#lastedMs += nowMs - (this.#atMs ?? nowMs);
    this.#atMs = nowMs;
    const isBelieved = this.#lastedMs >= SYNC_ABSENT_MS;
    return { isBelieved, isNews: isBelieved && !wasBelieved };
  }

  /** The link may have been down. */
  interrupt(): void {
    this.#atMs = null;
  }

  /** The cloud has a document. */
  end(): void {
    this.#lastedMs = 0;
    this.#atMs = null;
  }
}

/** Why the sync waits if the cloud had a document and has none. */
const ABSENT_WORDS =
  'the cloud has no address book of this device; if that lasts ten minutes, the device sends its own';

const NAMED_ENTRIES_MAX = 5;

const WHY: Readonly<Record<Estranged, string>> = {
  other: "the cloud's address book is another one than this device knew",
  older: "the cloud's address book has gone back in time, as from a backup",
  ahead: "the cloud's address book was put there by another device, or is from a backup",
  bare: "the cloud's address book was made anew, or has lost its member fieldpost",
};

/** Why both books were merged. */
function joinedWords(estranged: Estranged): string {
  return `${WHY[estranged]}: both books were merged and no entry was deleted; delete the entries that should not be there`;
}

/** How the cloud changes the document that it is given; null if it keeps it as it is. */
function alteredWords({ changed, dropsMark }: Alterations): string | null {
  if (changed.length > 0) {
    const named = changed.slice(0, NAMED_ENTRIES_MAX).map(({ id, members }) => {
      return `${id === null ? 'a hidden entry' : `destination ${id}`} (${members.join(', ')})`;
    });
    const rest = changed.length - named.length;
    return oneLine(
      `the cloud changes what it is given: ${named.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`,
    );
  }
  if (!dropsMark) return null;
  return 'the cloud drops unknown JSON members such as fieldpost, so an entry that is deleted in the cloud comes back';
}
