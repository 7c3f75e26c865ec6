/**
 * The states that the daemon shows: of its relays, its link, its address book, its settings. All times are of the wall
 * clock. Pure.
 */
import type { Verdict } from './message/message.js';

export const RELAY_STATES = ['none', 'unknown', 'ok', 'failing', 'refusing'] as const;
export const LINK_STATES = ['disabled', 'connecting', 'online', 'unsteady', 'offline'] as const;
export const STORAGE_STATES = ['ok', 'full', 'failed'] as const;

/** A state, since when, and why: a sentence a technician understands, or null. */
interface View<State> {
  readonly state: State;
  readonly sinceMs: number;
  readonly reason: string | null;
}

/**
 * All relays together. `none`: not configured. `unknown`: it has taken nothing yet, for `reason` if it was tried.
 * `refusing`: it refuses this device or its account.
 */
export interface RelayView extends View<(typeof RELAY_STATES)[number]> {
  /** When a relay that fails or refuses is tried again; null if none does, and during a try. */
  readonly nextTryMs: number | null;
}

/** True if relays are there, and none of them takes mails. */
export function isRelayDown(state: string | null): boolean {
  return state === 'failing' || state === 'refusing';
}

/** The states of a link that there is. */
export type LinkMode = Exclude<(typeof LINK_STATES)[number], 'disabled'>;

/** An earlier state of the link. */
export interface LinkPeriod extends View<LinkMode> {
  readonly durationMs: number;
}

/** The link to the cloud. */
export interface LinkView extends View<LinkMode> {
  /** The last success; null before the first. */
  readonly lastHeartbeatMs: number | null;
  /** The states before this one, the latest first. */
  readonly history: readonly LinkPeriod[];
}

/** The address book, compared with the cloud's. */
export interface SyncView {
  /** True if the cloud's last answer had all edits of this device, unchanged. */
  readonly synced: boolean;
  /** The last success; null before the first since the start. */
  readonly lastSyncMs: number | null;
  /** A sentence: why the last sync failed, or the fault of the cloud's document; null without one. */
  readonly reason: string | null;
}

/** Why the newest settings are not followed. */
export interface SettingsFault {
  readonly reason: string;
  readonly sinceMs: number;
}

/** Attempts since the start, by their outcome. */
export type Outcomes = Record<Verdict['kind'], number>;

/** One step of the trial of a relay, and what came of it in words. */
export interface TrialStep {
  readonly step: string;
  readonly words: string;
}

/** Why the trial of a relay ended. `blame`: the network or the relay, our login, our settings, or the test mail. */
export interface TrialFault extends TrialStep {
  readonly blame: 'relay' | 'login' | 'settings' | 'mail';
  /** A sentence on what to do; empty if it is not known. */
  readonly hint: string;
}
