/**
 * What the composition root hands to the api: the other rooms are known here only by these functions.
 */
import type { Socket } from 'node:net';
import type { Config } from '../config.js';
import type { Patience } from '../http/http.js';
import type { MemoryListeners } from '../http/http-memory.js';
import type { AnsweredCode } from '../http/problem.js';
import type { EmailDraft } from '../message/message.js';
import type { Store } from '../store/store.js';
import type { Clock } from '../system/clock.js';
import type { Log } from '../system/log.js';

/** What the root hands over. */
export interface ApiParts extends MemoryListeners {
  readonly store: Store;
  readonly settings: Pick<
    Config,
    | 'cloud'
    | 'maxBodyBytes'
    | 'maxBatch'
    | 'maxAttachments'
    | 'maxMessageBytes'
    | 'allowedHosts'
    | 'apiToken'
    | 'sendToken'
  >;
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  /** Clock.bootMs() at the start of the daemon. */
  readonly startedBootMs: number;
  /** Tells delivery that there may be something to do now. */
  nudge(): void;
  /** Somebody wants it now: a relay that is failing is tried at once, too. */
  wake(): void;
  /** Somebody has edited the address book. */
  edited(): void;
  syncState(): SyncState;
  relayState(): RelayState;
  /** Octets of the largest mail that a relay takes; null where that is not known. */
  mailLimitBytes(): number | null;
  /** Octets of the mail that this draft will be. */
  mailBytes(draft: EmailDraft): number;
  /** Null: no cloud is configured. */
  linkState(): LinkState | null;
  outcomes(): Outcomes;
  /** True unless the wall clock is known to be wrong (delivery.md, Clock). */
  clockTrusted(): boolean;
  /** Why the settings found last are not followed, since when (wall clock); null where they are. */
  settingsFault(): { readonly reason: string; readonly sinceMs: number } | null;
  /** The user at the other end of a TCP connection from this device; null where that is not known. */
  peerUid(ends: Pick<Socket, 'remoteAddress' | 'remotePort' | 'localPort'>): Promise<number | null>;
  /** Bytes of memory that the process may take; left out, there is no limit. */
  readonly memoryBytes?: number | undefined;
  /** How long clients may dally; limits.ts says it, tests shorten it. */
  readonly patience?: Patience;
}

/** `none`: no relay is configured. `unknown`: it has taken nothing yet, for `reason` if it was tried. */
export interface RelayState {
  readonly state: 'none' | 'unknown' | 'ok' | 'failing';
  /** When it became so, on the wall clock. */
  readonly sinceMs: number;
  /** A sentence a technician understands, or null. */
  readonly reason: string | null;
}

/** How well the address book is in step with the cloud's. */
export interface SyncState {
  /** True if the cloud has all that was edited here, as far as is known. */
  readonly synced: boolean;
  /** When that was last so, on the wall clock; null if it was not since the start. */
  readonly lastSyncMs: number | null;
  /** Why it is not so, as a sentence; null if it is, or if nothing is wrong. */
  readonly reason: string | null;
}

/** The link to the cloud; all moments are on the wall clock. */
export interface LinkState {
  readonly state: 'connecting' | 'online' | 'unsteady' | 'offline';
  readonly sinceMs: number;
  /** The last good one, or null. */
  readonly lastHeartbeatMs: number | null;
  /** A sentence a technician understands, or null. */
  readonly reason: string | null;
  /** The states before this one, the latest first. */
  readonly history: readonly {
    readonly state: string;
    readonly sinceMs: number;
    readonly durationMs: number;
    readonly reason: string | null;
  }[];
}

/** How many attempts ended in what, since the start. */
export interface Outcomes {
  readonly sent: number;
  readonly deferred: number;
  readonly failed: number;
  readonly expired: number;
}

/** What the handlers share: the parts, and what the api itself keeps. */
export interface ApiContext extends ApiParts {
  /** Messages accepted since the start. */
  acceptedTotal: number;
  /** Refused requests to post messages since the start, by the code of the problem. */
  readonly refusedTotals: Record<AnsweredCode, number>;
  /** The Idempotency-Keys of requests that are not yet answered. */
  readonly keysUnderWay: Set<string>;
}
