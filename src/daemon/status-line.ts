/**
 * How the daemon is doing, in the one line that `systemctl status` shows. Pure; used by daemon.ts.
 */
import type { QueueCounts, StorageState } from '../store/store.js';

/** What the line is made of. */
export interface Doing {
  readonly queue: QueueCounts;
  readonly relay: { readonly state: 'none' | 'unknown' | 'ok' | 'failing'; readonly reason: string | null };
  readonly link: { readonly state: string; readonly reason: string | null };
  readonly storage: Pick<StorageState, 'state' | 'reason'>;
}

const RELAY = { none: 'no relay', unknown: 'relay not tried yet', ok: 'relay ok', failing: 'relay failing' };

/** The queue, the relay, the link, and the storage if it is in trouble; nothing that changes by the mere passing of time. */
export function statusLine({ queue, relay, link, storage }: Doing): string {
  const waiting = queue.queued + queue.sending;
  const parts = [
    `${waiting} queued${queue.held ? ' (on hold)' : ''}`,
    queue.deferred > 0 ? `${queue.deferred} deferred` : '',
    queue.failed > 0 ? `${queue.failed} failed` : '',
    `${RELAY[relay.state]}${because(relay.reason)}`,
    `cloud ${link.state}${link.state === 'disabled' ? '' : because(link.reason)}`,
    storage.state === 'ok' ? '' : `storage ${storage.state}${because(storage.reason)}`,
  ];
  return parts.filter((part) => part !== '').join(', ');
}

function because(reason: string | null): string {
  return reason === null ? '' : ` (${reason})`;
}
