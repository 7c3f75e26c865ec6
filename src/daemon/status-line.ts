/**
 * How the daemon is doing, in the one line that `systemctl status` shows. Pure; used by daemon.ts.
 */
import type { QueueCounts, StorageState } from '../store/store.js';

/** Why the settings that were found last are not followed; `sinceMs` on the wall clock. */
export interface SettingsFault {
  readonly reason: string;
  readonly sinceMs: number;
}

/** What the line is made of. */
export interface Doing {
  readonly queue: QueueCounts;
  readonly isFull: boolean;
  readonly relay: { readonly state: 'none' | 'unknown' | 'ok' | 'failing'; readonly reason: string | null };
  readonly link: { readonly state: string; readonly reason: string | null };
  readonly storage: Pick<StorageState, 'state' | 'reason'>;
  readonly settings: SettingsFault | null;
}

const RELAY = { none: 'no relay', unknown: 'relay not tried yet', ok: 'relay ok', failing: 'relay failing' };

/** The queue, the relay, the link, and storage and settings if they are in trouble; nothing that changes by the mere passing of time. */
export function statusLine({ queue, isFull, relay, link, storage, settings }: Doing): string {
  const waiting = queue.queued + queue.sending;
  const parts = [
    settings === null ? '' : `settings refused (${settings.reason})`,
    `${waiting} queued${queue.held ? ' (on hold)' : ''}`,
    isFull ? 'queue full' : '',
    queue.deferred > 0 ? `${queue.deferred} deferred` : '',
    queue.failed > 0 ? `${queue.failed} failed` : '',
    `${relay.state === 'unknown' && relay.reason !== null ? 'relay has taken nothing yet' : RELAY[relay.state]}${because(relay.reason)}`,
    `cloud ${link.state}${link.state === 'disabled' ? '' : because(link.reason)}`,
    storage.state === 'ok' ? '' : `storage ${storage.state}${because(storage.reason)}`,
  ];
  return parts.filter((part) => part !== '').join(', ');
}

function because(reason: string | null): string {
  return reason === null ? '' : ` (${reason})`;
}
