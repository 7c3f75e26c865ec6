/**
 * The states that the daemon shows: of its relays, its link, its address book, its settings. All times are of the wall
 * clock. Pure.
 */
export const RELAY_STATES = ['none', 'unknown', 'ok', 'failing', 'refusing'] as const;
export const LINK_STATES = ['disabled', 'connecting', 'online', 'unsteady', 'offline'] as const;
export const STORAGE_STATES = ['ok', 'full', 'failed'] as const;

/** The states of a message. Only `sending` is never on disk: after a crash it is `queued` again. */
export type Status =
  | 'queued'
  | 'sending'
  | 'deferred'
  | 'sent'
  | 'failed'
  | 'expired'
  | 'cancelled'
  | 'replaced';

/** Every status there is. */
export const STATUSES: readonly Status[] = [
  'queued',
  'sending',
  'deferred',
  'sent',
  'failed',
  'expired',
  'cancelled',
  'replaced',
];

const FINAL: readonly Status[] = ['sent', 'failed', 'expired', 'cancelled', 'replaced'];

/** True when nothing more happens to the message by itself. */
export function isFinal(status: Status): boolean {
  // Not by what it is not: a newer version may have another status.
  return FINAL.includes(status);
}

/** A state, since when, and why: a sentence a technician understands, or null. */
interface View<State> {
  readonly state: State;
  readonly sinceMs: number;
  readonly reason: string | null;
}

/** At most so many mails in any time of this length. */
export interface RateWindow {
  readonly limit: number;
  readonly windowMs: number;
}

/** How many mails of such a limit only urgent ones may use. */
export function keptForUrgent(limit: number): number {
  return Math.min(limit - 1, Math.ceil(limit / 20));
}

/** How much of FIELDPOST_RELAY_RATE is used, and when the next mail may go; null: now. */
export interface RateView {
  readonly used: readonly (RateWindow & { readonly sent: number })[];
  readonly nextMs: number | null;
}

/**
 * All relays together. `none`: not configured. `unknown`: it has taken nothing yet, for `reason` if it was tried.
 * `refusing`: it refuses this device or its account.
 */
export interface RelayView extends View<(typeof RELAY_STATES)[number]> {
  /** When a relay that fails or refuses is tried again; null if none does, and during a try. */
  readonly nextTryMs: number | null;
  /** Host and port of the one that is used now, or first; left out without a relay. */
  readonly name?: string;
  /** Of the relay in use; null without a limit. */
  readonly rate: RateView | null;
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
  /** The time zone in which the cloud tells people; left out: not known. */
  readonly zone?: string;
  /** The states before this one, the latest first. */
  readonly history: readonly LinkPeriod[];
}

/** Whether this device is quiet: people are not told that it is offline. */
export interface QuietView {
  /** Null: it is not quiet. */
  readonly untilMs: number | null;
  readonly why: string | null;
  /** Who has begun it. */
  readonly by: string | null;
  /** False if the cloud has not heard yet that it began, or that somebody has ended it. */
  readonly isKnown: boolean;
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

/** How many messages there are in each state. */
export interface QueueCounts {
  queued: number;
  sending: number;
  deferred: number;
  failed: number;
  /** Those of them that wait for the cloud: SMS, calls and pushes that are not final. */
  forCloud: number;
  /** Age of the oldest message that is not final; 0 if there is none. */
  oldestAgeMs: number;
  /** Bytes that journal, spool and snapshots take on the disk. */
  bytes: number;
  held: boolean;
}

/** The used and reserved part of the queue's budget, and its limits. */
export interface QueueRoom {
  readonly used: { readonly messages: number; readonly bytes: number; readonly memoryBytes: number };
  /** `memoryBytes` is null if the service's memory is not limited. */
  readonly limits: { readonly messages: number; readonly bytes: number; readonly memoryBytes: number | null };
  /** Why no message of 1 KiB fits, as a sentence; null while one does. */
  readonly reason: string | null;
  /** The same for an urgent message. */
  readonly urgentReason: string | null;
}

/** Whether the storage works now. */
export interface StorageState {
  state: (typeof STORAGE_STATES)[number];
  /** A sentence a technician understands; null when ok. */
  reason: string | null;
  /** Infinite while unknown. */
  freeBytes: number;
  /** Pieces that recovery could not read, and files of a newer version. */
  damaged: number;
  /** The names of a newer version's files, which are put aside. */
  newer: readonly string[];
  /** Names that can be neither read nor renamed. */
  unusable: readonly string[];
}

/** Why the newest settings are not followed. */
export interface SettingsFault {
  readonly reason: string;
  readonly sinceMs: number;
}

/** Attempts since the start, by their outcome. */
export type Outcomes = Record<'sent' | 'failed' | 'expired' | 'deferred', number>;

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

/** The trial of one relay; `fault` is null for a good one. */
export interface TriedRelay {
  readonly relay: string;
  readonly steps: TrialStep[];
  fault: TrialFault | null;
}

/** A row of the history, as the API shows it. */
export interface HistoryEntry {
  /** When it begins. */
  readonly at: string;
  readonly accepted: number;
  readonly sent: number;
  /** Failed and expired. */
  readonly failed: number;
  readonly waitingMax: number;
  readonly oldestWaitMs: number;
  /** The share of its time, 0 to 1; null without a relay. */
  readonly relayUp: number | null;
  /** The same; null without a cloud. */
  readonly linkUp: number | null;
}
