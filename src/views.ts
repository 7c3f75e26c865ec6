/**
 * What the daemon tells of itself: of its relays, its link, its address book, its settings. All moments are on the wall
 * clock. Filled in by delivery, cloud and daemon; shown by the api and by the status line. Pure.
 */
import type { Verdict } from './message/message.js';

export const RELAY_STATES = ['none', 'unknown', 'ok', 'failing'] as const;
export const LINK_STATES = ['disabled', 'connecting', 'online', 'unsteady', 'offline'] as const;
export const STORAGE_STATES = ['ok', 'full', 'failed'] as const;

/** A state, since when, and why: a sentence a technician understands, or null. */
export interface View<State> {
  readonly state: State;
  readonly sinceMs: number;
  readonly reason: string | null;
}

/** All relays together. `none`: not configured. `unknown`: it has taken nothing yet, for `reason` if it was tried. */
export type RelayView = View<(typeof RELAY_STATES)[number]>;

/** The states of a link that there is. */
export type LinkMode = Exclude<(typeof LINK_STATES)[number], 'disabled'>;

/** A state the link was in. */
export interface LinkPeriod extends View<LinkMode> {
  readonly durationMs: number;
}

/** The link to the cloud. */
export interface LinkView extends View<LinkMode> {
  /** The last good one; null before the first. */
  readonly lastHeartbeatMs: number | null;
  /** The states before this one, the latest first. */
  readonly history: readonly LinkPeriod[];
}

/** How well the address book is in step with the cloud's. */
export interface SyncView {
  /** True if the cloud had all that was edited here when it was last asked, and had it as it was given it. */
  readonly synced: boolean;
  /** The last success; null before the first since the start. */
  readonly lastSyncMs: number | null;
  /** Why the last one failed, or what is wrong with the cloud's document, as a sentence; null if nothing is. */
  readonly reason: string | null;
}

/** Why the settings that were found last are not followed. */
export interface SettingsFault {
  readonly reason: string;
  readonly sinceMs: number;
}

/** How many attempts ended in what, since the start. */
export type Outcomes = Record<Verdict['kind'], number>;
